package audit

import (
	"bytes"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is an output that can be stopped and can fail.
type memory struct {
	mu      sync.Mutex
	free    sync.Cond
	b       bytes.Buffer
	stopped bool
	writing bool  // a write waits
	fail    error // of every write, after the first room bytes
	room    int
	reopens int
	closed  bool
}

func newMemory() *memory {
	m := &memory{}
	m.free.L = &m.mu
	return m
}

func (m *memory) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.stopped {
		m.writing = true
		m.free.Broadcast()
		m.free.Wait()
	}
	m.writing = false
	if m.fail == nil {
		return m.b.Write(b)
	}
	n := min(m.room, len(b))
	m.room -= n
	m.b.Write(b[:n])
	return n, m.fail
}

func (m *memory) Reopen() error { m.reopens++; return nil }

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.free.Broadcast()
}

// awaitWriter returns when the writer waits in Write.
func (m *memory) awaitWriter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.writing {
		m.free.Wait()
	}
}

func (m *memory) lines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Split(strings.TrimSuffix(m.b.String(), "\n"), "\n")
}

// counts are what a log says of its lines.
type counts struct {
	mu            sync.Mutex
	written, lost int64
}

func (c *counts) get() (written, lost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, c.lost
}

func (c *counts) options(m *memory) Options {
	add := func(to *int64) func(int64) {
		return func(n int64) {
			c.mu.Lock()
			defer c.mu.Unlock()
			*to += n
		}
	}
	return Options{Output: m, Written: add(&c.written), Lost: add(&c.lost)}
}

func TestLinesHaveZooKeepersForm(t *testing.T) {
	at := time.Date(2026, 11, 22, 0, 52, 38, 472e6, time.Local)
	m := newMemory()
	l := New(Options{Output: m, Now: func() time.Time { return at }})
	users := []wire.ID{{Scheme: "digest", ID: "bob:9uBXuXL6sZk="}, {Scheme: "super"}, {Scheme: "ip", ID: "127.0.0.1"}}
	ip := netip.MustParseAddr("127.0.0.1")
	for _, r := range []Record{
		{User: "root", Operation: ServerStart},
		{Session: 0x100015cf47a0001, Users: users, IP: ip, Operation: Create, Znode: "/a", ZnodeType: TypeOf(3)},
		{Session: -1, Users: users, IP: ip, Operation: SetData, Znode: "/a", Result: Failure},
		{Session: 1, Users: users[2:], IP: ip, Operation: SetACL, Znode: "/a", ACL: []wire.ACL{
			{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}},
			{Perms: wire.PermRead | wire.PermAdmin, ID: wire.ID{Scheme: "digest", ID: "bob:9uBXuXL6sZk="}},
		}},
		{Session: 1, Operation: Reconfig, Result: Failure},
		{User: "root", Operation: ServerStop, Result: Invoked},
	} {
		l.Write(&r)
	}
	require.NoError(t, l.Close())
	const time = "2026-11-22 00:52:38,472 "
	require.Equal(t, []string{
		time + "INFO audit.Log: user=root\toperation=serverStart\tresult=success",
		time + "INFO audit.Log: session=0x100015cf47a0001\tuser=bob,127.0.0.1\tip=127.0.0.1\toperation=create\tznode=/a\tznode_type=ephemeral_sequential\tresult=success",
		time + "ERROR audit.Log: session=0xffffffffffffffff\tuser=bob,127.0.0.1\tip=127.0.0.1\toperation=setData\tznode=/a\tresult=failure",
		time + "INFO audit.Log: session=0x1\tuser=127.0.0.1\tip=127.0.0.1\toperation=setAcl\tznode=/a\tacl=world:anyone:cdrwa,digest:bob:ra\tresult=success",
		time + "ERROR audit.Log: session=0x1\toperation=reconfig\tresult=failure",
		time + "INFO audit.Log: user=root\toperation=serverStop\tresult=invoked",
	}, m.lines())
	require.True(t, m.closed)
}

// Nothing that a client chooses can begin a line or a field of its own.
func TestWhatClientsChooseIsEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"/a b=c":             "/a b=c",
		"/a\n2026 INFO":      `/a\x0a2026 INFO`,
		"/a\tresult=success": `/a\x09result=success`,
		`/a\x0a`:             `/a\\x0a`,
		"/\xff\xc3":          `/\xff\xc3`,
		"/é\u0085\u2028":     `/é\u0085\u2028`,
		"/\U000e0001":        `/\U000e0001`,
		"\x1b[2J\x7f":        `\x1b[2J\x7f`,
	} {
		require.Equal(t, want, string(appendEscaped(nil, in, "")))
	}
	require.Equal(t, `CN=x\,O=y`, string(appendEscaped(nil, "CN=x,O=y", ",")))
}

func FuzzEscape(f *testing.F) {
	f.Add("/a\n\t\\x", ",")
	f.Add("\xf0\x9f", "")
	f.Fuzz(func(t *testing.T, s, also string) {
		if strings.ContainsFunc(also, func(r rune) bool { return r < ' ' || r > '~' }) {
			return // what separates the parts of a field is chosen here, not by clients
		}
		got := string(appendEscaped(nil, s, also))
		if strings.ContainsAny(got, "\n\r\t\x00\x1b\u2028\u2029\u0085") {
			t.Errorf("%q became %q", s, got)
		}
		if strings.ToValidUTF8(got, "") != got && strings.ToValidUTF8(also, "") == also {
			t.Errorf("%q became %q, which is no text", s, got)
		}
	})
}

func TestTimeNeverFalls(t *testing.T) {
	start := time.Date(2026, 11, 22, 0, 0, 59, 999e6, time.Local)
	clock := start
	m := newMemory()
	l := New(Options{Output: m, Now: func() time.Time { return clock }})
	for _, step := range []time.Duration{0, time.Millisecond, -time.Hour, time.Second, time.Second + 7*time.Millisecond} {
		clock = start.Add(step)
		l.Write(&Record{User: "x", Operation: "x"})
	}
	require.NoError(t, l.Close())
	var times []string
	for _, line := range m.lines() {
		times = append(times, line[11:23])
	}
	require.Equal(t, []string{"00:00:59,999", "00:01:00,000", "00:01:00,000", "00:01:00,999", "00:01:01,006"}, times)
}

// A disk that stands still costs lines and not the server: Write returns, the memory is bounded,
// and the log says how many are missing.
func TestDiskThatStandsStillCostsLinesAlone(t *testing.T) {
	m := newMemory()
	m.stopped = true
	var c counts
	l := New(c.options(m))
	const most = 1 << 20
	l.limit = most
	r := Record{Session: 1, Operation: Create, Znode: "/" + strings.Repeat("x", 1000)}
	l.Write(&r)
	m.awaitWriter()
	const n = 3 * most / 1000
	for range n {
		l.Write(&r)
	}
	_, lost := c.get()
	require.Greater(t, lost, int64(n/2))
	require.Less(t, len(l.queue), most+2000)
	m.change(func() { m.stopped = false })
	require.Eventually(t, func() bool { w, _ := c.get(); return w == n+1-lost }, 2*time.Minute, time.Millisecond)
	l.Write(&r)
	require.NoError(t, l.Close())
	written, after := c.get()
	require.Equal(t, lost, after)
	require.Equal(t, int64(n+2), written+lost)
	gaps := 0
	for _, line := range m.lines() {
		if strings.Contains(line, "operation=auditGap") {
			gaps++
			require.Contains(t, line, " ERROR audit.Log: operation=auditGap\tlost="+itoa(lost)+"\tresult=failure")
		}
	}
	require.Equal(t, 1, gaps)
}

// A full disk: what did not fit is counted, half a line stays alone on its line, and the log
// goes on when there is room.
func TestFullDiskIsCounted(t *testing.T) {
	m := newMemory()
	m.fail, m.room = errors.New("no space left on device"), 10
	var c counts
	l := New(c.options(m))
	lost := func(n int64) func() bool { return func() bool { _, l := c.get(); return l == n } }
	l.Write(&Record{User: "x", Operation: "one"})
	require.Eventually(t, lost(1), 2*time.Minute, time.Millisecond)
	l.Write(&Record{User: "x", Operation: "two"})
	require.Eventually(t, lost(2), 2*time.Minute, time.Millisecond)
	m.change(func() { m.fail = nil })
	l.Write(&Record{User: "x", Operation: "three"})
	require.NoError(t, l.Close())
	lines := m.lines()
	require.Len(t, lines, 3)
	require.Len(t, lines[0], 10)
	require.Contains(t, lines[1], "operation=auditGap\tlost=2\t")
	require.Contains(t, lines[2], "operation=three")
	written, _ := c.get()
	require.Equal(t, int64(1), written)
}

// The end tells of what was lost last, and does not try for ever.
func TestCloseEndsWithAFullDisk(t *testing.T) {
	m := newMemory()
	m.fail = errors.New("no space left on device")
	var c counts
	l := New(c.options(m))
	l.Write(&Record{User: "x", Operation: "one"})
	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "a second time")
	l.Write(&Record{User: "x", Operation: "late"})
	_, lost := c.get()
	require.Equal(t, int64(2), lost)
}

func TestWritersDoNotTearLines(t *testing.T) {
	m := newMemory()
	l := New(Options{Output: m})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				l.Write(&Record{Session: 1, Operation: Delete, Znode: "/a"})
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Reopen())
	require.Equal(t, 1, m.reopens)
	require.NoError(t, l.Close())
	lines := m.lines()
	require.Len(t, lines, 2000)
	for _, line := range lines {
		require.True(t, strings.HasSuffix(line, "INFO audit.Log: session=0x1\toperation=delete\tznode=/a\tresult=success"), line)
	}
}

// The path of a write must not allocate.
func TestWriteDoesNotAllocate(t *testing.T) {
	m := newMemory()
	l := New(Options{Output: m})
	r := Record{
		Session: 1, Users: []wire.ID{{Scheme: "ip", ID: "127.0.0.1"}}, IP: netip.MustParseAddr("127.0.0.1"),
		Operation: SetData, Znode: "/app/config",
	}
	l.mu.Lock()
	l.queue, l.spare = make([]byte, 0, keepBuffer), make([]byte, 0, keepBuffer)
	l.mu.Unlock()
	m.b.Grow(keepBuffer)
	require.Zero(t, testing.AllocsPerRun(200, func() { l.Write(&r) }))
	require.NoError(t, l.Close())
}

func BenchmarkWrite(b *testing.B) {
	m := newMemory()
	m.fail = errors.New("dropped") // a sink
	l := New(Options{Output: m})
	r := Record{
		Session: 1, Users: []wire.ID{{Scheme: "ip", ID: "127.0.0.1"}}, IP: netip.MustParseAddr("127.0.0.1"),
		Operation: SetData, Znode: "/app/config",
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Write(&r)
	}
	_ = l.Close()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
