package cli

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// A live is a shell that runs while the test goes on.
type live struct {
	f        *fixture
	in       io.WriteCloser
	out, err safeBuffer
	keys     ctrlC
	done     chan int
}

// A ctrlC stands for the key.
type ctrlC struct {
	mu sync.Mutex
	to chan<- os.Signal // of the command that runs; nil: none
}

func (k *ctrlC) notify(to chan<- os.Signal) func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.to = to
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.to = nil
	}
}

func (k *ctrlC) press() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.to != nil {
		k.to <- os.Interrupt
	}
}

// start runs the shell in a goroutine of its own; its standard input is in.
func (f *fixture) start(args ...string) *live {
	r, w := io.Pipe()
	l := &live{f: f, in: w, done: make(chan int, 1)}
	f.t.Cleanup(func() { _ = w.Close() }) // a failed test leaves no shell behind
	go func() {
		l.done <- Main(Process{
			Args:  append([]string{"-server", f.srv.Addr()}, args...),
			Stdin: r, Stdout: &l.out, Stderr: &l.err, Interrupts: l.keys.notify,
		})
	}()
	return l
}

// type sends a line.
func (l *live) send(line string) {
	l.f.t.Helper()
	_, err := io.WriteString(l.in, line+"\n")
	require.NoError(l.f.t, err)
}

func (l *live) await(text string) {
	l.f.t.Helper()
	eventually(l.f.t, text, func() bool { return strings.Contains(l.out.String()+l.err.String(), text) })
}

func TestWatchTellsWhatHappensBelow(t *testing.T) {
	f := newFixture(t)
	f.create("/w")
	l := f.start("-o", "raw", "watch", "--recursive", "-n", "3", "/w")
	l.await("watching /w and what is below it")
	f.create("/w/a=1")
	_, err := f.c.Set(t.Context(), "/w/a", nil, -1)
	require.NoError(t, err)
	require.NoError(t, f.c.Delete(t.Context(), "/w/a", -1))
	require.Equal(t, exitOK, <-l.done)
	require.Equal(t, "NodeCreated /w/a\nNodeDataChanged /w/a\nNodeDeleted /w/a\n", l.out.String())
}

// Ctrl-C ends the command that runs and not the shell around it.
func TestCtrlCEndsTheCommand(t *testing.T) {
	f := newFixture(t)
	f.create("/w")
	l := f.start("watch", "/w")
	l.await("watching /w")
	l.keys.press()
	require.Equal(t, exitInterrupted, <-l.done)
	require.Contains(t, l.err.String(), "interrupted\n")

	sh := &shell{Process: Process{Interrupts: l.keys.notify}, table: newTable(), session: true}
	var out, errOut safeBuffer
	sh.out, sh.err = newPrinter(&out), &errOut
	var err error
	sh.settings, err = parseSettings([]string{"-server", f.srv.Addr()})
	require.NoError(t, err)
	require.NoError(t, sh.connect(t.Context(), f.srv.Addr()))
	defer sh.disconnect(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sh.runLine(t.Context(), "watch /w")
	}()
	eventually(t, "the watch", func() bool { return strings.Contains(errOut.String(), "watching") })
	l.keys.press()
	<-done
	require.Equal(t, exitInterrupted, sh.code)
	sh.runLine(t.Context(), "ls /")
	require.Equal(t, exitOK, sh.code, "the shell goes on")
	require.Contains(t, out.String(), "[w, zookeeper]")
}

// One event is printed once, however many watches it reaches, as with zkCli's one watcher.
func TestEventsArePrintedOnce(t *testing.T) {
	f := newFixture(t)
	f.create("/w")
	l := f.start()
	for _, line := range []string{"get -w /w", "get -w /w", "stat -w /w", "addWatch /w", "addWatch -m PERSISTENT /w", "sync /w"} {
		l.send(line)
	}
	l.await("Sync is OK")
	f.ok("set", "/w", "x")
	f.ok("create", "/w/end")
	l.await("NodeChildrenChanged path:/w ")
	l.await("NodeCreated path:/w/end ")
	require.Equal(t, 1, strings.Count(l.out.String(), "NodeDataChanged"), l.out.String())
	require.Regexp(t, `\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/w zxid: \d+\n`, l.out.String())

	l.send("removewatches /w -r")
	l.await("PersistentWatchRemoved")
	l.send("removewatches /w -r")
	l.await("No such watcher for /w")
	l.send("printwatches off")
	l.send("get -w /w")
	l.send("set /w y")
	l.send("quit")
	require.Equal(t, exitOK, <-l.done)
	require.Equal(t, 1, strings.Count(l.out.String(), "NodeDataChanged"), "printwatches is off")
}

func TestEventsInJSON(t *testing.T) {
	f := newFixture(t)
	f.create("/w")
	l := f.start("-o", "json")
	l.send("get -w /w")
	l.send("set /w x")
	l.await(`"type":"NodeDataChanged","path":"/w","zxid":`)
	require.NoError(t, l.in.Close())
	require.Equal(t, exitOK, <-l.done)
}

// A lost connection is told, waited for, and in the end an exit code.
func TestLostConnection(t *testing.T) {
	f := newFixture(t)
	f.create("/a")
	l := f.start("-timeout", "8000")
	l.send("ls /")
	l.await("[a, zookeeper]")
	f.srv.Stop()
	l.await("WatchedEvent state:Disconnected type:None path:null")
	l.send("get -s /a") // waits
	f.srv.Restart()
	l.await("dataLength = 0")
	f.srv.Stop()
	l.send("ls /")
	require.NoError(t, l.in.Close())
	require.Equal(t, exitNoConnection, <-l.done)
	require.Contains(t, l.err.String(), "no connection to "+f.srv.Addr()+" for 8s")
}

// A write whose reply is lost is not called a failure.
func TestUncertainWrite(t *testing.T) {
	msg, code := explain(&client.UncertainError{Op: "setData", Path: "/a", Cause: client.ErrConnectionLoss})
	require.Equal(t, exitUncertain, code)
	require.Contains(t, msg, "setData /a: the request was sent and its outcome is unknown")
	_, code = explain(&client.UncertainError{Op: "setData", Path: "/a", Cause: errInterrupted})
	require.Equal(t, exitUncertain, code, "also after Ctrl-C: it may have happened")
}

func TestGreetingIsZkClis(t *testing.T) {
	f := newFixture(t)
	f.create("/a=x")
	require.Equal(t, "Connecting to "+f.srv.Addr()+"\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null zxid: -1\nx\n",
		f.ok("-greeting", "get", "/a"))
}
