package fourletter

import (
	"encoding/binary"
	"errors"
	"iter"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The exact bytes of answers, as Apache ZooKeeper 3.8.0 gave them for the same numbers (but
// for the version).
func TestExactAnswers(t *testing.T) {
	leader := busySource().inEnsemble(ModeLeader)
	readOnly := readOnlySource()
	tests := []struct {
		name   string
		source *fakeSource
		word   string
		want   string
	}{
		{"ruok", leader, "ruok", "imok"},
		{"isro", leader, "isro", "rw"},
		{"isro read-only", readOnly, "isro", "ro"},
		{"isro while electing", &fakeSource{}, "isro", "null"},
		{"srvr while electing", &fakeSource{}, "srvr", "This ZooKeeper instance is not currently serving requests\n"},
		{"gtmk", leader, "gtmk", "306"},
		{"dirs", leader, "dirs", "datadir_size: 597\nlogdir_size: 67109477\n"},
		{"hash", leader, "hash", "80: -9223372036854775803\n"},
		{"wchs", leader, "wchs", "2 connections watching 2 paths\nTotal watches:3\n"},
		{"wchc", leader, "wchc", "0x300000c48830000\n\t/d\n\t/d/b1\n0x300000c48830001\n\t/d\n\n"},
		{"wchp", leader, "wchp", "/d\n\t0x300000c48830000\n\t0x300000c48830001\n/d/b1\n\t0x300000c48830000\n\n"},
		{"srvr", leader, "srvr", "Zookeeper version: 3.9.5-zkd-0123abcd, built on 2026-11-21 10:00 UTC\n" +
			"Latency min/avg/max: 2/2.6452/22\nReceived: 30\nSent: 30\nConnections: 4\nOutstanding: 0\nZxid: 0x100000007\n" +
			"Mode: leader\nNode count: 9\nProposal sizes last/min/max: 60/48/186\n"},
		{"srvr read-only", readOnly, "srvr", "Zookeeper version: 3.9.5-zkd-0123abcd, built on 2026-11-21 10:00 UTC\n" +
			"READ-ONLY mode; serving only read-only clients\n" +
			"Latency min/avg/max: 2/2.6452/22\nReceived: 30\nSent: 30\nConnections: 4\nOutstanding: 0\nZxid: 0x100000007\n" +
			"Mode: read-only\nNode count: 9\n"},
		{"cons", leader, "cons", " /127.0.0.1:60642[0](queued=0,recved=1,sent=0)\n" +
			" /127.0.0.1:60592[1](queued=0,recved=0,sent=0)\n" +
			" /127.0.0.1:60578[1](queued=0,recved=10,sent=11,sid=0x300000c48830000,lop=GETC,est=1795286704106,to=10000," +
			"lcxid=0x9,lzxid=0x100000007,lresp=815058,llat=1,minlat=0,avglat=5,maxlat=22)\n" +
			" /127.0.0.1:60586[1](queued=2,recved=4,sent=5,sid=0x300000c48830001,lop=GETD,est=1795286704137,to=6000," +
			"lcxid=0x3,lzxid=0x100000007,lresp=815059,llat=0,minlat=0,avglat=1,maxlat=4)\n\n"},
		{"dump", leader, "dump", "SessionTracker dump:\nSession Sets (2)/(2):\n" +
			"1 expire at Sat Nov 21 18:45:11 UTC 2026:\n\t0x300000c48830001\n" +
			"1 expire at Sat Nov 21 18:45:15 UTC 2026:\n\t0x300000c48830000\n" +
			"ephemeral nodes dump:\nSessions with Ephemerals (2):\n" +
			"0x300000c48830000:\n\t/d/e1\n\t/d/e2\n0x300000c48830001:\n\t/d/b1\n" +
			"Connections dump:\nConnections Sets (2)/(4):\n" +
			"1 expire at Sat Nov 21 18:45:09 UTC 2026:\n\tip: /127.0.0.1:60586 sessionId: 0x300000c48830001\n" +
			"3 expire at Sat Nov 21 18:45:19 UTC 2026:\n\tip: /127.0.0.1:60642 sessionId: 0x0\n" +
			"\tip: /127.0.0.1:60592 sessionId: 0x0\n\tip: /127.0.0.1:60578 sessionId: 0x300000c48830000\n"},
		{"conf", leader, "conf", "clientPort=2181\nsecureClientPort=-1\ndataDir=/data/version-2\ndataDirSize=597\n" +
			"dataLogDir=/log/version-2\ndataLogSize=67109477\ntickTime=2000\nmaxClientCnxns=60\nminSessionTimeout=4000\n" +
			"maxSessionTimeout=40000\nclientPortListenBacklog=-1\nserverId=3\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\n" +
			"electionPort=3888\nquorumPort=2888\npeerType=0\nmembership: \n" + leader.config.Ensemble.Membership},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := run(t, commandsFor(tt.source), tt.word); got != tt.want {
				t.Errorf("\n got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestDumpNamesLocalSessions(t *testing.T) {
	f := &fakeSource{serving: true, sessions: Sessions{
		Local: []SessionBucket{{expiry, []int64{7}}}, Expiring: []SessionBucket{{expiry, []int64{8}}},
	}}
	at := "1 expire at Sat Nov 21 18:45:09 UTC 2026:\n"
	tail := "ephemeral nodes dump:\nSessions with Ephemerals (0):\nConnections dump:\nConnections Sets (0)/(0):\n"
	want := "SessionTracker dump:\nLocal Session Sets (1)/(1):\n" + at + "\t0x7\nGlobal Session Sets (1)/(1):\n" + at + "\t0x8\n" + tail
	if got := run(t, commandsFor(f), "dump"); got != want {
		t.Errorf("leader\n got:\n%s\nwant:\n%s", got, want)
	}
	f.sessions.Learner, f.sessions.Known = true, []KnownSession{{8, 4000}}
	want = "SessionTracker dump:\nLocal Session Sets (1)/(1):\n" + at + "\t0x7\nGlobal Sessions(1):\n0x8\t4000ms\n" + tail
	if got := run(t, commandsFor(f), "dump"); got != want {
		t.Errorf("learner\n got:\n%s\nwant:\n%s", got, want)
	}
}

func TestObserverNamesItsMaster(t *testing.T) {
	f := busySource().inEnsemble(ModeObserver)
	f.status.PeerState, f.status.MasterID, f.config.Ensemble.Observer = "observing - broadcast", 2, true
	c := commandsFor(f)
	if got := run(t, c, "mntr"); !strings.Contains(got, "\nzk_peer_state\tobserving - broadcast\nzk_observer_master_id\t2\n") {
		t.Errorf("mntr begins\n%.200s", got)
	}
	if got := run(t, c, "conf"); !strings.Contains(got, "\npeerType=1\n") {
		t.Errorf("conf\n%s", got)
	}
}

func TestResetsReachTheServer(t *testing.T) {
	f := busySource()
	c := commandsFor(f)
	run(t, c, "crst")
	run(t, c, "srst")
	if f.resets != 1 {
		t.Errorf("connections reset %d times", f.resets)
	}
	if got := run(t, c, "srvr"); !strings.Contains(got, "Latency min/avg/max: 0/0.0/0\nReceived: 0\nSent: 0\n") {
		t.Errorf("srvr after srst\n%s", got)
	}
}

func TestTraceMaskComesBack(t *testing.T) {
	f := busySource()
	c := commandsFor(f)
	mask := binary.BigEndian.AppendUint64(nil, 0xfffffffffffffffe)
	var out strings.Builder
	if err := c.Run(&out, "stmk", append(mask, "more"...)); err != nil || out.String() != "-2" || f.mask != -2 {
		t.Errorf("stmk: %q, mask %d, %v", out.String(), f.mask, err)
	}
	if got := run(t, c, "gtmk"); got != "-2" {
		t.Errorf("gtmk: %q", got)
	}
	out.Reset()
	if err := c.Run(&out, "stmk", mask[:7]); err == nil || out.Len() > 0 || f.mask != -2 {
		t.Errorf("short stmk: %q, mask %d, %v", out.String(), f.mask, err)
	}
}

func TestOnlyKnownWordsAreWords(t *testing.T) {
	for _, w := range Words() {
		if !Is([4]byte([]byte(w))) {
			t.Errorf("%s is not known", w)
		}
		if _, ok := commands[w]; !ok {
			t.Errorf("%s does nothing", w)
		}
	}
	if len(commands) != len(words) || !slices.IsSorted(words) {
		t.Errorf("%d words, %d commands, sorted %v", len(words), len(commands), slices.IsSorted(words))
	}
	for _, w := range []string{"RUOK", "icfg", "obsr", "\x00\x00\x00\x2d", "ruo\n", "\xff\xf4\xff\xfd"} {
		if Is([4]byte([]byte(w))) {
			t.Errorf("%q is known", w)
		}
	}
	if err := commandsFor(busySource()).Run(new(strings.Builder), "icfg", nil); err == nil {
		t.Error("an unknown word was executed")
	}
}

func TestWhitelist(t *testing.T) {
	tests := []struct {
		list     string
		readOnly bool
		want     []string
		unknown  []string
	}{
		{"", false, []string{"srvr"}, nil},
		{"", true, []string{"isro", "srvr"}, nil},
		{"ruok, stat ,,mntr", false, []string{"mntr", "ruok", "srvr", "stat"}, nil},
		{"*", false, Words(), nil},
		{"ruok,*", false, Words(), nil},
		{"RUOK,lead,ruok*", true, []string{"isro", "srvr"}, []string{"RUOK", "lead", "ruok*"}},
	}
	for _, tt := range tests {
		w := ParseWhitelist(tt.list, tt.readOnly)
		var got []string
		for _, word := range Words() {
			if w.Allows(word) {
				got = append(got, word)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q allows %v, want %v", tt.list, got, tt.want)
		}
		if got := Unknown(tt.list); !slices.Equal(got, tt.unknown) {
			t.Errorf("%q has unknown words %v, want %v", tt.list, got, tt.unknown)
		}
	}
	if (Whitelist{}).Allows("srvr") {
		t.Error("the zero whitelist allows a word")
	}
}

func TestAddressesAreJavas(t *testing.T) {
	for in, want := range map[string]string{
		"10.1.2.3:80": "/10.1.2.3:80", "[::1]:2181": "/[0:0:0:0:0:0:0:1]:2181", "[::ffff:10.1.2.3]:80": "/10.1.2.3:80",
		"[fe80::12:ab%eth0]:5": "/[fe80:0:0:0:0:0:12:ab%eth0]:5",
	} {
		if got := javaAddr(netip.MustParseAddrPort(in)); got != want {
			t.Errorf("%s is rendered as %s, want %s", in, got, want)
		}
	}
	if got := javaAddr(netip.AddrPort{}); got != "/unknown:0" {
		t.Errorf("no address is rendered as %s", got)
	}
}

func TestEnvironmentHasARealValueForWhatToolsRead(t *testing.T) {
	env := map[string]string{}
	for _, p := range Environment("v") {
		if p.Value == "" || strings.Contains(p.Value, "\n") {
			t.Errorf("%s=%q", p.Key, p.Value)
		}
		env[p.Key] = p.Value
	}
	for _, key := range []string{"zookeeper.version", "host.name", "java.version", "os.name", "os.arch", "user.dir"} {
		if env[key] == "" || env[key] == missing {
			t.Errorf("%s=%q", key, env[key])
		}
	}
	for _, key := range []string{"os.memory.free", "os.memory.max", "os.memory.total"} {
		if !regexp.MustCompile(`^\d+MB$`).MatchString(env[key]) {
			t.Errorf("%s=%q", key, env[key])
		}
	}
}

// manySource yields connections, watches and digests without end, and counts them.
type manySource struct {
	*fakeSource
	yielded int
	limit   int // 0 for no end
}

func (m *manySource) more() bool {
	m.yielded++
	return m.limit == 0 || m.yielded <= m.limit
}

func (m *manySource) Connections() iter.Seq[Connection] {
	return func(yield func(Connection) bool) {
		for m.more() && yield(conn(80, 1, 1, 0, 1)) {
		}
	}
}

func (m *manySource) WatchesBySession() iter.Seq2[int64, []string] {
	return func(yield func(int64, []string) bool) {
		for m.more() && yield(1, []string{"/a", "/b"}) {
		}
	}
}

func (m *manySource) WatchesByPath() iter.Seq2[string, []int64] {
	return func(yield func(string, []int64) bool) {
		for m.more() && yield("/a", []int64{1, 2}) {
		}
	}
}

func (m *manySource) Digests() iter.Seq[Digest] {
	return func(yield func(Digest) bool) {
		for m.more() && yield(Digest{1, 2}) {
		}
	}
}

func (m *manySource) Ephemerals() Ephemerals {
	return Ephemerals{Sessions: 1, Each: m.WatchesBySession()}
}

// A pipeWriter fails after some bytes and remembers the longest write.
type pipeWriter struct{ left, longest int }

var errGone = errors.New("the client is gone")

func (p *pipeWriter) Write(b []byte) (int, error) {
	p.longest = max(p.longest, len(b))
	if p.left -= len(b); p.left < 0 {
		return 0, errGone
	}
	return len(b), nil
}

func TestListingsStopWhenTheClientIsGone(t *testing.T) {
	for _, word := range []string{"cons", "stat", "wchc", "wchp", "hash", "dump"} {
		src := &manySource{fakeSource: busySource()}
		c := commandsFor(busySource())
		c.Source = src
		w := &pipeWriter{left: 10 * chunkBytes}
		if err := c.Run(w, word, nil); !errors.Is(err, errGone) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestListingsAreWrittenInChunks(t *testing.T) {
	for _, word := range []string{"cons", "stat", "wchc", "wchp", "hash", "dump"} {
		src := &manySource{fakeSource: busySource(), limit: 50_000}
		c := commandsFor(busySource())
		c.Source = src
		w := &pipeWriter{left: 1 << 30}
		if err := c.Run(w, word, nil); err != nil {
			t.Errorf("%s: %v", word, err)
		}
		if w.longest > chunkBytes+256 || src.yielded < src.limit {
			t.Errorf("%s: longest write %d bytes, %d yielded", word, w.longest, src.yielded)
		}
	}
}

func TestDatesAreInTheGivenZone(t *testing.T) {
	c := commandsFor(&fakeSource{serving: true, sessions: Sessions{Expiring: []SessionBucket{{expiry, nil}}}})
	c.Location = time.FixedZone("CET", 3600)
	if got := run(t, c, "dump"); !strings.Contains(got, "0 expire at Sat Nov 21 19:45:09 CET 2026:\n") {
		t.Errorf("dump\n%s", got)
	}
}

func BenchmarkMntr(b *testing.B) {
	b.ReportAllocs()
	c := commandsFor(busySource())
	for b.Loop() {
		if err := c.Run(&pipeWriter{left: 1 << 30}, "mntr", nil); err != nil {
			b.Fatal(err)
		}
	}
}
