package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBetter shows, a row for each known misbehaviour of ZooKeeper, that zkd does better.
// ZooKeeper's side runs too where it is cheap, and has to misbehave: else the row, and what
// zkd promises by it, is out of date.
func TestBetter(t *testing.T) {
	for _, row := range []struct {
		name      string
		want      settings
		misbehave func(t *testing.T, s *server) string // what went wrong; empty: nothing
		zkdOnly   string                               // why ZooKeeper is not asked
	}{
		{name: "create-ttl-without-a-ttl-mode", want: settings{alone: restartsIt}, misbehave: createTTLWithoutMode},
		{name: "bare-check", want: settings{alone: restartsIt}, misbehave: bareCheck},
		{name: "wrong-password-cuts-nobody", misbehave: wrongPasswordCuts},
		{name: "password-is-a-secret", misbehave: computablePassword},
		{name: "create-session-as-a-request", misbehave: createSessionAsRequest},
		{name: "delete-container-from-a-client", misbehave: deleteContainerFromClient, zkdOnly: "the hole is in 3.9; 3.8 answers -8 whatever is asked"},
		{name: "malformed-quota", want: settings{config: map[string]string{"enforceQuota": "true"}}, misbehave: malformedQuota},
		{name: "auth-in-its-turn", misbehave: authOutOfTurn},
		{name: "unknown-opcode-in-its-turn", misbehave: unknownOpcodeOutOfTurn, zkdOnly: "ZooKeeper answers it at once, now and then before earlier requests"},
		{name: "multi-read-with-a-write", misbehave: multiReadWithWrite},
		{name: "add-watch-checks-the-path", misbehave: addWatchAnywhere},
		{name: "unread-multi-reads", misbehave: unreadMultiReads, zkdOnly: "ZooKeeper keeps every reply in memory, until it has none left"},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := row.want
			want.zkdOnly, want.byRequest = row.zkdOnly, true
			forEachServer(t, want, func(t *testing.T, s *server) {
				wrong := row.misbehave(t, s)
				switch {
				case s.kind == zkd && wrong != "":
					t.Error(wrong)
				case s.kind == zookeeper && wrong == "":
					t.Error("ZooKeeper behaves here: this row is out of date")
				case s.kind == zookeeper:
					t.Log("as known of ZooKeeper: " + wrong)
				}
			})
		})
	}
}

const restartsIt = "ends the one server, to see that it starts again"

// survives says whether the server still serves, and again after a restart.
func survives(t *testing.T, s *server) string {
	t.Helper()
	// The harm may come after the reply: give it the time of a write of somebody else.
	limit := patience
	if s.kind == zookeeper {
		limit = time.Second // one that is harmed may never answer
	}
	if _, err := fourLetter(s.addr, "ruok", limit); err != nil {
		return fmt.Sprintf("the server serves no more: %v", err)
	}
	s.signal(syscall.SIGKILL)
	s.launch()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) && s.running() {
		if out, err := fourLetter(s.addr, "srvr", 300*time.Millisecond); err == nil && strings.Contains(out, "Mode: ") {
			return ""
		}
	}
	return "the server does not start again"
}

// createTTLWithoutMode sends createTTL with a mode that has no TTL and a TTL of -1, which
// passes ZooKeeper's checks and ends it while the transaction is applied.
func createTTLWithoutMode(t *testing.T, s *server) string {
	for _, ttl := range []int64{-1, -5} {
		for flags := range int32(5) {
			c := openSession(t, s.addr, 10000)
			r, err := c.try(opCreateTTL, createBody(fmt.Sprintf("/flags%d", flags), nil, flags).i64(ttl))
			if err != nil {
				return survives(t, s) // closed: the question is whether the server lives
			}
			if s.kind == zkd && r.err != -8 {
				return fmt.Sprintf("flags %d and ttl %d: error %d, want -8", flags, ttl, r.err)
			}
		}
	}
	return survives(t, s)
}

// bareCheck sends a check outside of a multi, which ZooKeeper writes to its log in a form
// that it cannot read.
func bareCheck(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	if err := c.sendFrame(append(body{}.i32(1).i32(opCheck), body{}.str("/").i32(-1)...)); err != nil {
		t.Fatal(err)
	}
	if s.kind == zkd {
		if r, err := c.readReply(); err != nil || r.err != -6 || !c.closedWithin(patience) {
			return fmt.Sprintf("reply %+v, %v; want -6 and a closed connection", r, err)
		}
	} else {
		other := openSession(t, s.addr, 10000) // written behind the check
		other.must(opCreate, createBody("/behind", nil, 0))
	}
	return survives(t, s)
}

func wrongPasswordCuts(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 60000)
	c.must(opCreate, createBody("/mine", nil, 1))
	for _, password := range [][]byte{make([]byte, 16), nil, bytes.Repeat([]byte{0xff}, 16), c.info.password[:15]} {
		if _, err := resume(t, s.addr, 60000, connectReply{session: c.info.session, password: password}); err == nil {
			return fmt.Sprintf("the password %x opens the session", password)
		}
		if _, err := c.try(opPing, nil); err != nil {
			return "a stranger without the password cuts the connection of the session"
		}
	}
	return ""
}

// computablePassword compares the password with what ZooKeeper computes from the id.
func computablePassword(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	seed := (uint64(c.info.session) ^ 0xB3415C00 ^ 0x5DEECE66D) & (1<<48 - 1)
	var guess []byte
	for range 4 {
		seed = (seed*0x5DEECE66D + 0xB) & (1<<48 - 1)
		guess = binary.LittleEndian.AppendUint32(guess, uint32(seed>>16))
	}
	if bytes.Equal(guess, c.info.password) {
		return "the session's password follows from its id"
	}
	d := openSession(t, s.addr, 10000)
	if bytes.Equal(d.info.password[:8], c.info.password[:8]) {
		return "two sessions have passwords that begin alike"
	}
	return ""
}

// createSessionAsRequest sends opcode -10 on a live connection.
func createSessionAsRequest(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	r, err := c.try(opCreateSession, body{}.i32(10000))
	if err != nil || r.err != -6 || len(r.rest) > 0 {
		return fmt.Sprintf("the reply is %+v, %v", r, err)
	}
	if !c.closedWithin(patience) {
		return "the connection stays open"
	}
	return ""
}

func deleteContainerFromClient(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	c.must(opContainer, createBody("/container", nil, 4))
	for _, b := range []body{body{}.str("/container"), body("/container")} {
		d := openSession(t, s.addr, 10000)
		if r, err := d.try(opDelContainer, b); err != nil || r.err != -6 || !d.closedWithin(patience) {
			return fmt.Sprintf("reply %+v, %v; want -6 and a closed connection", r, err)
		}
	}
	c.must(opExists, readBody("/container", false))
	return ""
}

// malformedQuota writes nonsense into a limits node; below it, writes have to go on.
func malformedQuota(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	c.must(opCreate, createBody("/q", nil, 0))
	c.must(opCreate, createBody("/zookeeper/quota/q", nil, 0))
	c.must(opCreate, createBody("/zookeeper/quota/q/zookeeper_limits", []byte("count=1,bytes=1"), 0))
	c.must(opCreate, createBody("/zookeeper/quota/q/zookeeper_stats", nil, 0))
	for _, v := range []string{"nonsense", "", "count=x,bytes=y", "count=99999999999999999999,bytes=-1", "=,=;;=", "\xff\xfe"} {
		c.must(opSetData, setBody("/zookeeper/quota/q/zookeeper_limits", []byte(v), -1))
		for what, r := range map[string]reply{
			"create":  c.call(opCreate, createBody("/q/n-", []byte("data"), 2)),
			"setData": c.call(opSetData, setBody("/q", []byte("data"), -1)),
		} {
			if r.err != 0 {
				return fmt.Sprintf("with the limits %q, %s below fails with %d", v, what, r.err)
			}
		}
	}
	return ""
}

// authOutOfTurn pipelines auth behind other requests.
func authOutOfTurn(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	c.must(opCreate, createBody("/n", nil, 0))
	tries := 20
	if s.kind == zookeeper {
		tries = 1000 // it does so by chance: when the write takes longer than the way of the answer
	}
	for range tries {
		if wrong := authBehindAWrite(t, openSession(t, s.addr, 10000)); wrong != "" {
			return wrong
		}
	}
	return ""
}

func authBehindAWrite(t *testing.T, c *rawConn) string {
	defer c.conn.Close()
	var out body
	for xid, op := range []int32{opSetData, opExists, opAuth, opGetData} {
		b := readBody("/n", false)
		switch op {
		case opSetData:
			b = setBody("/n", make([]byte, 200000), -1)
		case opAuth:
			b = body{}.i32(0).str("digest").buf([]byte("bob:pw"))
		}
		out = out.buf(append(body{}.i32(int32(xid)+100).i32(op), b...))
	}
	if err := c.sendBytes(out); err != nil {
		t.Fatal(err)
	}
	for want := range int32(4) {
		r, err := c.readReply()
		if err != nil || r.err != 0 {
			t.Fatalf("reply %d: %+v, %v", want, r.err, err)
		}
		if r.xid != want+100 {
			return fmt.Sprintf("reply number %d is the one to request %d", want, r.xid-100)
		}
	}
	return ""
}

// unknownOpcodeOutOfTurn pipelines an unknown opcode between requests: what came before is
// answered first, what comes behind is not answered.
func unknownOpcodeOutOfTurn(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	var out body
	for xid, op := range []int32{opSetData, opGetData, 99, opGetData} {
		b := readBody("/", false)
		if op == opSetData {
			b = setBody("/", []byte("x"), -1)
		}
		out = out.buf(append(body{}.i32(int32(xid)).i32(op), b...))
	}
	if err := c.sendBytes(out); err != nil {
		t.Fatal(err)
	}
	for want, code := range []int32{0, 0, -6} {
		if r, err := c.readReply(); err != nil || r.xid != int32(want) || r.err != code {
			return fmt.Sprintf("reply number %d: xid %d, error %d, %v", want, r.xid, r.err, err)
		}
	}
	if r, err := c.readReply(); err == nil {
		return fmt.Sprintf("a request behind it is answered: xid %d", r.xid)
	}
	return ""
}

func multiReadWithWrite(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	k := &talk{t: t}
	for _, write := range []request{k.set("/", []byte("x"), -1), k.create("/x", nil, 0), k.del("/x", -1), k.check("/", -1)} {
		for _, b := range []body{k.multiRead(k.get("/", false), write).body, k.multiRead(write).body} {
			r := c.call(opMultiRead, b)
			if r.err != -5 {
				return fmt.Sprintf("%s: error %d, want -5", write.label, r.err)
			}
			if len(r.rest) > 0 {
				return fmt.Sprintf("%s: %d bytes behind the error", write.label, len(r.rest))
			}
		}
	}
	return ""
}

// addWatchAnywhere watches paths that no node can ever have: such a watch would only leak.
func addWatchAnywhere(t *testing.T, s *server) string {
	c := openSession(t, s.addr, 10000)
	for _, path := range []string{"r/", "/r/", "//", "/a//b", "/a/..", "r", "/a\x00b", "/a\x01", "/\ue000"} {
		for mode := range int32(2) {
			if r := c.call(opAddWatch, body{}.str(path).i32(mode)); r.err != -8 {
				return fmt.Sprintf("a watch on %q: error %d, want -8", path, r.err)
			}
		}
	}
	c.must(opAddWatch, body{}.str("/not/there/yet").i32(0))
	return ""
}

// unreadMultiReads asks 1,500 times for a megabyte and reads nothing. The server may stop
// reading from this connection or cut it; its memory stays bounded and others are served.
func unreadMultiReads(t *testing.T, s *server) string {
	other := openSession(t, s.addr, 60000)
	other.must(opCreate, createBody("/half", make([]byte, 500_000), 0))
	before := s.rss()
	c := openSession(t, s.addr, 60000)
	k := &talk{t: t}
	one := k.multiRead(k.get("/half", false), k.get("/half", false))
	_ = c.conn.SetWriteDeadline(time.Now().Add(5 * time.Second)) // the server may stop reading before all is sent
	for xid := range int32(1500) {
		if _, err := c.conn.Write(body{}.buf(append(body{}.i32(xid).i32(opMultiRead), one.body...))); err != nil {
			break
		}
	}
	var most int64
	var waits []time.Duration
	for range 200 {
		start := time.Now()
		other.must(opSetData, setBody("/half", make([]byte, 500_000), -1))
		waits = append(waits, time.Since(start))
		most = max(most, s.rss()-before)
	}
	if most > 256<<20 {
		return fmt.Sprintf("1,500 requests whose replies nobody reads cost %d MiB", most>>20)
	}
	if slow := tooSlow(waits); slow != "" {
		return "another client " + slow
	}
	return ""
}
