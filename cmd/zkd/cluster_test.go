package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/wire"
)

// These tests run clusters of real processes.

type cluster struct {
	t       *testing.T
	dir     string
	clients []string // addresses
	lines   []string // the server lines
	procs   []*exec.Cmd
	logs    []*lockedBuffer
	command func(i int) *exec.Cmd // nil: zkd serve
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startEnsemble runs so many servers and returns when all serve.
func startEnsemble(t *testing.T, size int) *cluster {
	t.Helper()
	return startEnsembleWith(t, size, &cluster{})
}

// startEnsembleWith is startEnsemble with what e says already.
func startEnsembleWith(t *testing.T, size int, e *cluster) *cluster {
	t.Helper()
	e.prepare(t, size)
	for i := 1; i <= size; i++ {
		e.start(i)
	}
	for i := 1; i <= size; i++ {
		e.ready(i)
	}
	return e
}

// prepare chooses addresses and writes the configurations; nothing runs yet.
func (e *cluster) prepare(t *testing.T, size int) {
	t.Helper()
	e.t, e.dir = t, t.TempDir()
	for i := 1; i <= size; i++ {
		e.clients = append(e.clients, freeport.Addr(t))
		e.lines = append(e.lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i, freeport.Row(t, 1), freeport.Row(t, 1)))
		e.procs = append(e.procs, nil)
		e.logs = append(e.logs, &lockedBuffer{})
	}
	for i := 1; i <= size; i++ {
		e.configure(i, e.lines...)
	}
	t.Cleanup(func() {
		for i, p := range e.procs {
			if p != nil {
				_ = p.Process.Kill()
				_ = p.Wait()
			}
			if t.Failed() {
				t.Logf("server %d:\n%s", i+1, e.logs[i])
			}
		}
	})
}

// configure writes myid and zoo.cfg of a server, with these lines behind what all have.
func (e *cluster) configure(i int, lines ...string) {
	e.t.Helper()
	data := e.data(i)
	require.NoError(e.t, os.MkdirAll(data, 0o700))
	require.NoError(e.t, os.WriteFile(filepath.Join(data, "myid"), fmt.Appendf(nil, "%d\n", i), 0o600))
	host, port, err := net.SplitHostPort(e.clients[i-1])
	require.NoError(e.t, err)
	// With a syncLimit of half a minute a server keeps its clients while a machine stands still, and
	// then one after another, in the election and with their disks.
	cfg := fmt.Sprintf("tickTime=500\nmaxSessionTimeout=60000\ninitLimit=20\nsyncLimit=60\nmaxClientCnxns=0\n4lw.commands.whitelist=*\nadmin.enableServer=false\nDigestAuthenticationProvider.superDigest=admin:x1nq8J5GOJVPY6zgzhtTtA9izLc=\n"+
		"dataDir=%s\nclientPort=%s\nclientPortAddress=%s\n%s\n", data, port, host, strings.Join(lines, "\n"))
	require.NoError(e.t, os.WriteFile(e.config(i), []byte(cfg), 0o600))
}

func (e *cluster) data(i int) string   { return filepath.Join(e.dir, fmt.Sprint(i), "data") }
func (e *cluster) config(i int) string { return filepath.Join(e.dir, fmt.Sprint(i), "zoo.cfg") }

func (e *cluster) start(i int) {
	e.t.Helper()
	p := exec.Command(zkdBinary, "serve", "--config", e.config(i))
	if e.command != nil {
		p = e.command(i)
	}
	p.Stderr = e.logs[i-1]
	require.NoError(e.t, p.Start())
	e.procs[i-1] = p
}

// ready waits until the server has a role.
func (e *cluster) ready(i int) {
	e.t.Helper()
	e.until(fmt.Sprintf("server %d serves", i), func() bool { return e.mode(i) != "" })
}

func (e *cluster) until(what string, cond func() bool) {
	e.t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			e.t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (e *cluster) signal(i int, sig syscall.Signal) {
	e.t.Helper()
	require.NoError(e.t, e.procs[i-1].Process.Signal(sig))
}

// kill ends a server without warning.
func (e *cluster) kill(i int) {
	e.t.Helper()
	e.signal(i, syscall.SIGKILL)
	_ = e.procs[i-1].Wait()
	e.procs[i-1] = nil
}

// word asks a four-letter word; "" if the server does not answer.
func (e *cluster) word(i int, word string) string {
	c, err := net.DialTimeout("tcp", e.clients[i-1], time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	_, _ = io.WriteString(c, word)
	b, _ := io.ReadAll(c)
	return string(b)
}

// answer is what a server that runs says to a four-letter word, however long it takes.
func (e *cluster) answer(i int, word string) (out string) {
	e.t.Helper()
	e.until(fmt.Sprintf("server %d answers %s", i, word), func() bool {
		out = e.word(i, word)
		return out != ""
	})
	return out
}

// oneLeads says whether all servers serve, and one of them as the leader.
func (e *cluster) oneLeads() bool {
	leaders := 0
	for i := range e.procs {
		switch e.mode(i + 1) {
		case "":
			return false
		case "leader":
			leaders++
		}
	}
	return leaders == 1
}

// mode is what srvr says: leader, follower …, or "".
func (e *cluster) mode(i int) string {
	for line := range strings.Lines(e.word(i, "srvr")) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

func (e *cluster) leader() int {
	e.t.Helper()
	found := 0
	e.until("somebody leads", func() bool {
		for i := range e.procs {
			if e.procs[i] != nil && e.mode(i+1) == "leader" {
				found = i + 1
				return true
			}
		}
		return false
	})
	return found
}

// A pipeliner is a client that keeps many writes under way on one connection, which it never
// opens again: it fails the test if the connection ends.
type pipeliner struct {
	t    *testing.T
	conn net.Conn
	path string
	sent atomic.Int64
	done atomic.Int64
	gap  atomic.Int64 // longest time without a reply, ns
}

func dialPipeliner(t *testing.T, addr, path string) *pipeliner {
	t.Helper()
	return dialPipelinerFor(t, addr, path, 60000)
}

// dialPipelinerFor is dialPipeliner with a timeout of the session, in ms.
func dialPipelinerFor(t *testing.T, addr, path string, timeoutMs int32) *pipeliner {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	p := &pipeliner{t: t, conn: c, path: path}
	b, mark := wire.AppendFrame(nil)
	b = (&wire.ConnectRequest{TimeoutMs: timeoutMs, Password: make([]byte, 16)}).Append(b)
	wire.FinishFrame(b, mark)
	_, err = c.Write(b)
	require.NoError(t, err)
	frame, err := p.read()
	require.NoError(t, err)
	var r wire.ConnectResponse
	d := wire.NewDecoder(frame)
	r.Decode(&d)
	require.NoError(t, d.Err())
	require.NotZero(t, r.TimeoutMs, "the session was refused")
	return p
}

func (p *pipeliner) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(p.conn, frame)
	return frame, err
}

// run creates sequential nodes, window under way at a time, until stop; then it waits for
// the last reply. The replies say which numbers were drawn.
func (p *pipeliner) run(stop <-chan struct{}, window int) (names []string, err error) {
	room := make(chan struct{}, window)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for xid := int32(1); ; xid++ {
			select {
			case room <- struct{}{}:
			case <-stop:
				return
			}
			b, mark := wire.AppendFrame(nil)
			b = (&wire.RequestHeader{Xid: xid, Op: wire.OpCreate}).Append(b)
			b = (&wire.CreateRequest{
				Path: p.path + "/n-", Data: fmt.Appendf(nil, "%d", xid), Flags: 2,
				ACL: []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}},
			}).Append(b)
			wire.FinishFrame(b, mark)
			if _, err := p.conn.Write(b); err != nil {
				return
			}
			p.sent.Add(1)
		}
	}()
	last := time.Now()
	for want := int32(1); ; want++ {
		if p.done.Load() == p.sent.Load() {
			select {
			case <-over:
				if p.done.Load() == p.sent.Load() {
					return names, nil
				}
			case <-time.After(100 * time.Microsecond):
				want--
				continue
			}
		}
		frame, err := p.read()
		if err != nil {
			return names, err
		}
		p.gap.Store(max(p.gap.Load(), int64(time.Since(last))))
		last = time.Now()
		d := wire.NewDecoder(frame)
		xid := d.Int32()
		d.Int64()
		if code := wire.Code(d.Int32()); xid != want || code != wire.OK {
			return names, fmt.Errorf("reply %d with code %v, wanted reply %d", xid, code, want)
		}
		names = append(names, d.String())
		p.done.Add(1)
		<-room
	}
}

// create makes a node for a client whose server may just have been ended.
func (e *cluster) create(c *zk.Conn, path string) {
	e.t.Helper()
	e.until(path, func() bool {
		_, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	})
}

// The leader is killed again and again under load of clients that are connected to the
// others: their connections stay, no write is lost or done twice, and the order is kept.
func TestLeaderIsKilledUnderLoadAndNobodyNotices(t *testing.T) {
	e := startEnsemble(t, 3)
	admin := func() *zk.Conn {
		c, _, err := zk.Connect(e.clients, sessionTimeout, zk.WithLogInfo(false))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}()
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		dead := e.leader()
		stop := make(chan struct{})
		var running sync.WaitGroup
		var clients []*pipeliner
		for i := range e.clients {
			if i+1 == dead {
				continue
			}
			for j := range 2 {
				path := fmt.Sprintf("/r%d-%d-%d", round, i, j)
				e.create(admin, path)
				clients = append(clients, dialPipeliner(t, e.clients[i], path))
			}
		}
		results := make([][]string, len(clients))
		for i, p := range clients {
			running.Go(func() {
				names, err := p.run(stop, 64)
				results[i] = names
				if err != nil {
					t.Errorf("a client of a surviving server lost its connection, after %d replies: %v", len(names), err)
				}
			})
		}
		await := func(more int64) {
			for _, p := range clients {
				from := p.done.Load()
				e.until("writes go on", func() bool { return p.done.Load() >= from+more || t.Failed() })
			}
		}
		await(200)
		e.kill(dead)
		await(200)
		close(stop)
		running.Wait()
		var longest time.Duration
		for i, p := range clients {
			longest = max(longest, time.Duration(p.gap.Load()))
			require.Equal(t, int(p.sent.Load()), len(results[i]))
			for n, name := range results[i] {
				require.Equal(t, fmt.Sprintf("%s/n-%010d", p.path, n), name, "a write was lost, doubled or overtaken")
			}
		}
		e.start(dead)
		e.ready(dead)
		for i, p := range clients {
			var children []string
			var stat *zk.Stat
			e.until("the children of "+p.path, func() (ok bool) {
				var err error
				children, stat, err = admin.Children(p.path)
				return err == nil
			})
			require.Len(t, children, len(results[i]))
			require.Equal(t, int32(len(results[i])), stat.NumChildren)
		}
		t.Logf("round %d: leader %d killed, longest gap between replies %v", round, dead, longest)
	}
}

// A stop on purpose hands the leadership over first.
func TestRollingRestartUnderLoad(t *testing.T) {
	e := startEnsemble(t, 3)
	admin, _, err := zk.Connect(e.clients, sessionTimeout, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	for i := range e.clients {
		stop := make(chan struct{})
		var running sync.WaitGroup
		var clients []*pipeliner
		for j := range e.clients {
			if j == i {
				continue
			}
			path := fmt.Sprintf("/roll%d-%d", i, j)
			e.create(admin, path)
			clients = append(clients, dialPipeliner(t, e.clients[j], path))
		}
		for _, p := range clients {
			running.Go(func() {
				if names, err := p.run(stop, 16); err != nil {
					t.Errorf("a client of a server that was not stopped lost its connection, after %d replies: %v", len(names), err)
				}
			})
		}
		led := e.mode(i+1) == "leader"
		e.signal(i+1, syscall.SIGTERM)
		require.NoError(t, e.procs[i].Wait(), "SIGTERM must end with exit code 0")
		e.start(i + 1)
		e.ready(i + 1)
		close(stop)
		running.Wait()
		var longest time.Duration
		for _, p := range clients {
			longest = max(longest, time.Duration(p.gap.Load()))
		}
		t.Logf("server %d restarted (it led: %t), longest gap between replies %v", i+1, led, longest)
	}
}

func TestDevRunsAClusterInOneProcess(t *testing.T) {
	port := strconv.Itoa(freeport.Row(t, 3))
	cmd := exec.Command(zkdBinary, "dev", "--nodes", "3", "--client-port", port)
	var log lockedBuffer
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	e := &cluster{t: t}
	e.until("it is ready", func() bool { return strings.Contains(log.String(), "msg=ready") })
	require.Contains(t, log.String(), "clients=127.0.0.1:"+port+",127.0.0.1:")
	connect(t, "127.0.0.1:"+port)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

func TestFiveServersBearTwoDeaths(t *testing.T) {
	e := startEnsemble(t, 5)
	alive := func() []int {
		var list []int
		for i, p := range e.procs {
			if p != nil {
				list = append(list, i+1)
			}
		}
		return list
	}
	for range 2 {
		e.kill(e.leader())
		e.leader()
	}
	c := connect(t, e.clients[alive()[0]-1])
	_, err := c.Create("/three-of-five", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for i, p := range e.procs {
		if p == nil {
			e.start(i + 1)
		}
	}
	for i := range e.procs {
		e.ready(i + 1)
		c := connect(t, e.clients[i])
		_, err := c.Sync("/")
		require.NoError(t, err)
		found, _, err := c.Exists("/three-of-five")
		require.NoError(t, err)
		require.True(t, found, "server %d lacks what three of five have acknowledged", i+1)
	}
}

// A paused leader is replaced, and does no harm when it goes on.
func TestLeaderThatStandsStillIsReplaced(t *testing.T) {
	e := startEnsemble(t, 3)
	old := e.leader()
	c := connect(t, e.clients[old%3])
	_, err := c.Create("/before", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	e.signal(old, syscall.SIGSTOP)
	stat := fmt.Sprintf("/proc/%d/stat", e.procs[old-1].Process.Pid)
	e.until("the leader stands still", func() bool {
		b, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(b), ") T ") // elsewhere than on Linux: at once
	})
	start := time.Now()
	_, err = c.Create("/meanwhile", nil, 0, zk.WorldACL(zk.PermAll))
	took := time.Since(start)
	e.signal(old, syscall.SIGCONT)
	require.NoError(t, err, "the leader was not replaced") // it stood still all the time
	t.Logf("a write took %v", took)
	e.until("there is one leader", e.oneLeads)
	back := connect(t, e.clients[old-1])
	_, err = back.Sync("/")
	require.NoError(t, err)
	found, _, err := back.Exists("/meanwhile")
	require.NoError(t, err)
	require.True(t, found)
}
