package recipes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/needs"
)

// T10: one path, several libraries. A holder is one program with one kind of lock.
type holder interface {
	acquire(t *testing.T, limit time.Duration) bool
	release(t *testing.T)
}

// asksFor is how long one that must not get the lock tries to.
const asksFor = 300 * time.Millisecond

// needFile skips the test unless everything is required to be there; then it fails without it.
func needFile(t *testing.T, path, pkg string) {
	t.Helper()
	if !needs.Required() {
		t.Skipf("needs %s: set ZKD_INTEROP=require (Debian: apt-get install %s)", path, pkg)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not here; on Debian: apt-get install %s", path, pkg)
	}
}

// A program is a holder that runs in a child process; see testdata/holder.py.
type program struct {
	in    io.WriteCloser
	lines *bufio.Reader
	errs  *bytes.Buffer
}

func startProgram(t *testing.T, name string, args ...string) *program {
	t.Helper()
	cmd := exec.Command(name, args...)
	p := &program{errs: &bytes.Buffer{}}
	cmd.Stderr = p.errs
	var err error
	p.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.lines = bufio.NewReader(out)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = p.in.Close() // it ends by itself
		kill := time.AfterFunc(testLimit, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, p.errs)
		}
	})
	return p
}

func (p *program) answer(t *testing.T) string {
	t.Helper()
	line, err := p.lines.ReadString('\n')
	require.NoError(t, err, "%s", p.errs)
	return strings.TrimSpace(line)
}

func (p *program) ask(t *testing.T, words string) string {
	t.Helper()
	_, err := io.WriteString(p.in, words+"\n")
	require.NoError(t, err)
	return p.answer(t)
}

func (p *program) acquire(t *testing.T, limit time.Duration) bool {
	t.Helper()
	return p.acquireAt(t, limit, "")
}

// acquireAt is acquire of another path than that which the program was started with.
func (p *program) acquireAt(t *testing.T, limit time.Duration, path string) bool {
	t.Helper()
	return p.ask(t, "acquire "+strconv.FormatInt(limit.Milliseconds(), 10)+" "+path) == "ok"
}

func (p *program) release(t *testing.T) { t.Helper(); require.Equal(t, "ok", p.ask(t, "release")) }

// Where Debian has the programs.
const (
	systemPython = "/usr/bin/python3"
	kazooFile    = "/usr/lib/python3/dist-packages/kazoo/client.py"
	javaDir      = "/usr/share/java/"
	curatorFile  = javaDir + "curator-recipes.jar"
)

func kazoo(t *testing.T, r *rig, kind, path string) *program {
	t.Helper()
	return pythonHolder(t, r.srv.Addr(), kind, path)
}

func pythonHolder(t *testing.T, addr, kind, path string) *program {
	t.Helper()
	return python(t, "testdata/holder.py", addr, kind, path)
}

func python(t *testing.T, args ...string) *program {
	t.Helper()
	needFile(t, kazooFile, "python3-kazoo")
	p := startProgram(t, systemPython, append([]string{"-B"}, args...)...)
	require.Equal(t, "ready", p.answer(t))
	return p
}

func curator(t *testing.T, r *rig, kind, path string) *program {
	t.Helper()
	return javaHolder(t, r.srv.Addr(), kind, path)
}

func javaHolder(t *testing.T, addr, kind, path string) *program {
	t.Helper()
	return java(t, "testdata/Holder.java", addr, kind, path)
}

func java(t *testing.T, args ...string) *program {
	t.Helper()
	needFile(t, curatorFile, "libcurator-recipes-java")
	needFile(t, "/usr/bin/javac", "default-jdk-headless")
	var jars []string
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "zookeeper-recipes-lock", "guava", "slf4j-api", "slf4j-nop"} {
		jars = append(jars, javaDir+jar+".jar")
	}
	p := startProgram(t, "java", append([]string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", strings.Join(jars, ":"),
	}, args...)...)
	require.Equal(t, "ready", p.answer(t))
	return p
}

// ours is a holder of this package.
type ours struct {
	lock  func(context.Context) (Lease, error)
	lease Lease
}

func (o *ours) acquire(t *testing.T, limit time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	l, err := o.lock(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	require.NoError(t, err)
	o.lease = l
	return true
}

func (o *ours) release(t *testing.T) { t.Helper(); release(t, o.lease) }

// gozk is the Lock of go-zookeeper/zk.
type gozk struct {
	c    *zk.Conn
	path string
	l    *zk.Lock
	got  chan error // of a Lock that was not waited for
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func newGozk(t *testing.T, r *rig, path string) *gozk {
	t.Helper()
	c, _, err := zk.Connect(r.srv.Each(), 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &gozk{c: c, path: path}
}

func (g *gozk) acquire(t *testing.T, limit time.Duration) bool {
	t.Helper()
	held, err := g.attempt(t, limit)
	require.NoError(t, err)
	return held
}

// attempt cannot give up: that Lock has no timeout. One that has not been waited for is left to
// get the lock later, and then gives it back.
func (g *gozk) attempt(t *testing.T, limit time.Duration) (held bool, err error) {
	g.l, g.got = zk.NewLock(g.c, g.path, zk.WorldACL(zk.PermAll)), make(chan error, 1)
	go func(l *zk.Lock, got chan error) { got <- l.Lock() }(g.l, g.got)
	select {
	case err := <-g.got:
		return err == nil, err
	case <-time.After(limit):
		l, got, done := g.l, g.got, make(chan struct{})
		t.Cleanup(func() { <-done })
		go func() {
			defer close(done)
			if err := errors.Join(<-got, l.Unlock()); err != nil {
				t.Errorf("a lock that came late: %v", err)
			}
		}()
		return false, nil
	}
}

// release tries again when its connection was cut just before.
func (g *gozk) release(t *testing.T) {
	t.Helper()
	for again := false; ; again = true {
		err := g.l.Unlock()
		switch {
		case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer):
			continue
		case !again || !errors.Is(err, zk.ErrNoNode):
			require.NoError(t, err)
		}
		return
	}
}

// exclude says that each of two respects the other.
func exclude(t *testing.T, a, b holder) {
	t.Helper()
	for range 2 {
		require.True(t, a.acquire(t, testLimit))
		require.False(t, b.acquire(t, asksFor), "the second got the lock that the first holds")
		a.release(t)
		require.True(t, b.acquire(t, testLimit), "the lock is free")
		b.release(t)
		a, b = b, a
	}
}

func TestSharesALockWithCurator(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for kind, lock := range map[string]func(context.Context) (Lease, error){
		"mutex":     NewMutex(c, "/mutex").Lock,
		"write":     NewRWMutex(c, "/write").Lock,
		"read":      NewRWMutex(c, "/read").Lock,
		"semaphore": permits(NewSemaphore(c, "/semaphore", 1), 1),
		"latch":     NewElection(c, "/latch").Campaign,
	} {
		t.Run(kind, func(t *testing.T) { exclude(t, curator(t, r, kind, "/"+kind), &ours{lock: lock}) })
	}
}

func TestSharesALockWithKazoo(t *testing.T) {
	r := newRig(t)
	r.stays("/semaphore") // it holds the number
	c := r.dial()
	for kind, lock := range map[string]func(context.Context) (Lease, error){
		"lock":      NewMutex(c, "/lock", WithFormat(Kazoo)).Lock,
		"curator":   NewMutex(c, "/curator").Lock,
		"latch":     NewElection(c, "/latch").Campaign,
		"write":     NewRWMutex(c, "/write", WithFormat(Kazoo)).Lock,
		"read":      NewRWMutex(c, "/read", WithFormat(Kazoo)).Lock,
		"semaphore": permits(NewSemaphore(c, "/semaphore", 1, WithFormat(Kazoo)), 1),
	} {
		t.Run(kind, func(t *testing.T) { exclude(t, kazoo(t, r, kind, "/"+kind), &ours{lock: lock}) })
	}
}

func TestSharesALockWithGoZookeeper(t *testing.T) {
	r := newRig(t)
	exclude(t, newGozk(t, r, "/lock"), &ours{lock: NewMutex(r.dial(), "/lock").Lock})
}

// The cells of the matrix that cannot work are errors and not two holders.
func TestForeignLocksAreDetected(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for name, tc := range map[string]struct {
		other func(t *testing.T, path string) holder
		opts  []Option
	}{
		"kazoo where Curator's names are used": {
			other: func(t *testing.T, path string) holder { return kazoo(t, r, "lock", path) },
		},
		"go-zookeeper where kazoo's names are used": {
			other: func(t *testing.T, path string) holder { return newGozk(t, r, path) },
			opts:  []Option{WithFormat(Kazoo)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/" + strings.ReplaceAll(name, " ", "-")
			h := tc.other(t, path)
			require.True(t, h.acquire(t, testLimit))
			_, err := NewMutex(c, path, tc.opts...).Lock(testContext(t))
			var foreign *ForeignContenderError
			require.ErrorAs(t, err, &foreign)
			h.release(t)
		})
	}
}

// All who share Curator's names work on one counter that nothing but the lock protects, while our
// connection is cut: no increment is lost.
func TestLibrariesWorkUnderOneLock(t *testing.T) {
	r := newRig(t)
	r.stays("/counter")
	const rounds = 30
	var p tap
	c := r.dial(p.option())
	create(t, c, "/counter", "0")
	programs := []*program{curator(t, r, "mutex", "/lock"), kazoo(t, r, "curator", "/lock")}
	m := NewMutex(c, "/lock")
	g := newGozk(t, r, "/lock")
	var wg sync.WaitGroup
	for _, prog := range programs {
		wg.Go(func() {
			if s := prog.ask(t, "work "+strconv.Itoa(rounds)); s != "ok" {
				t.Errorf("a program says %q", s)
			}
		})
	}
	wg.Go(func() {
		for range rounds {
			l := zk.NewLock(g.c, "/lock", zk.WorldACL(zk.PermAll))
			err := l.Lock()
			data, _, getErr := g.c.Get("/counter")
			n, numErr := strconv.Atoi(string(data))
			_, setErr := g.c.Set("/counter", []byte(strconv.Itoa(n+1)), -1)
			if err := errors.Join(err, getErr, numErr, setErr, l.Unlock()); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range rounds {
		if i%5 == 4 {
			p.cut()
		}
		err := m.Do(testContext(t), func(ctx context.Context, _ Lease) error {
			data, _, err := c.Get(ctx, "/counter")
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(data))
			if err != nil {
				return err
			}
			_, err = c.Set(ctx, "/counter", []byte(strconv.Itoa(n+1)), client.AnyVersion)
			return err
		})
		require.NoError(t, err)
	}
	wg.Wait()
	data, _, err := c.Get(testContext(t), "/counter", client.Fresh())
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(4*rounds), string(data))
}
