package server

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/wire"
)

// word sends a four-letter word and returns all of the answer.
func word(t *testing.T, addr, w string) string {
	t.Helper()
	c := dial(t, addr)
	c.write([]byte(w))
	b, err := io.ReadAll(c.in)
	if err != nil {
		t.Fatalf("%s: %v", w, err)
	}
	return string(b)
}

func TestWordsAreAnswered(t *testing.T) {
	srv := startServer(t)
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/e", nil, ephemeral), wire.OK)
	c.call(wire.OpGetData, readBody("/e", true), wire.OK)
	id := sessionText(c.session)
	for _, tc := range []struct{ word, want string }{
		{"ruok", "imok"},
		{"ruok\n", "imok"},
		{"isro", "rw"},
		{"srvr", "Mode: standalone\nNode count: 6\n"},
		{"stat", "Clients:\n /127.0.0.1:"},
		{"cons", "sid=" + id + ",lop=GETD"},
		{"conf", "tickTime=2000\n"},
		{"dump", "Sessions with Ephemerals (1):\n" + id + ":\n\t/e\n"},
		{"wchs", "1 connections watching 1 paths\nTotal watches:1\n"},
		{"wchc", id + "\n\t/e\n"},
		{"wchp", "/e\n\t" + id + "\n"},
		{"mntr", "zk_ephemerals_count\t1\n"},
		{"hash", ""},
		{"dirs", "datadir_size: "},
		{"envi", "Environment:\n"},
		{"gtmk", "306"},
		{"stmk\x00\x00\x00\x00\x00\x00\x01", ""},
		{"crst", "Connection stats reset.\n"},
		{"srst", "Server stats reset.\n"},
	} {
		if got := word(t, srv.addr, tc.word); !strings.Contains(got, tc.want) {
			t.Errorf("%q answered %q, want %q in it", tc.word, got, tc.want)
		}
	}
	word(t, srv.addr, "stmk\x00\x00\x00\x00\x00\x00\x00\x07")
	if got := word(t, srv.addr, "gtmk"); got != "7" {
		t.Errorf("trace mask %s", got)
	}
}

func TestWordsThatAreNotListedAreRefused(t *testing.T) {
	srv := startServer(t, set("4lw.commands.whitelist", ""))
	for _, w := range fourletter.Words() {
		got := word(t, srv.addr, w+"12345678")
		if refused := strings.HasSuffix(got, "is not executed because it is not in the whitelist.\n"); refused == (w == "srvr") {
			t.Errorf("%s answered %q", w, got)
		}
	}
}

func TestWordsAreAnsweredBeforeTheServerServes(t *testing.T) {
	srv := newServer(t)
	if err := srv.openPorts(); err != nil {
		t.Fatal(err)
	}
	addr := srv.Addrs()[0].String()
	for w, want := range map[string]string{
		"ruok": "imok", "isro": "null", "srvr": "This ZooKeeper instance is not currently serving requests\n",
		"mntr": "This ZooKeeper instance is not currently serving requests\n",
	} {
		if got := word(t, addr, w); got != want {
			t.Errorf("%s answered %q", w, got)
		}
	}
}

func TestWordInPiecesIsAnswered(t *testing.T) {
	c := dial(t, startServer(t).addr)
	for _, b := range []byte("ruok") {
		c.write([]byte{b})
	}
	if b, err := io.ReadAll(c.in); string(b) != "imok" || err != nil {
		t.Errorf("answered %q, %v", b, err)
	}
}

// A client that asks for a long answer and does not take it is cut.
func TestWordOfASlowClientEndsInTime(t *testing.T) {
	t.Parallel() // it waits, for longer than the whole answer takes where the machine stands still meanwhile
	srv := startServer(t, set("zkd.handshakeTimeoutMs", "6000"))
	c := open(t, srv.addr, 40_000)
	long := "/" + strings.Repeat("n", 500_000)
	for range 30 { // more than the socket buffers take
		c.call(wire.OpExists, readBody(long, true), wire.NoNode)
		long += "n"
	}
	slow := dial(t, srv.addr)
	if err := slow.nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	slow.write([]byte("wchp"))
	eventually(t, "it is there", func() bool { return srv.connectionCount() == 2 })
	eventually(t, "it is cut", func() bool { return srv.connectionCount() == 1 })
	if got := len(word(t, srv.addr, "wchp")); got < 30*500_000 {
		t.Errorf("a client that reads got %d bytes", got)
	}
}
