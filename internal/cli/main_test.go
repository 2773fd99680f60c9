package cli

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/zkdtest"
)

// asShell makes the test binary the shell itself, for tests that need a process and a terminal.
const asShell = "ZKD_CLI_TEST_STATE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asShell); dir != "" {
		os.Exit(Main(Process{
			Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, StateDir: dir,
			Interrupts: func(to chan<- os.Signal) func() {
				signal.Notify(to, os.Interrupt)
				return func() { signal.Stop(to) }
			},
		}))
	}
	goleak.VerifyTestMain(m)
}

// A safeBuffer may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type outcome struct {
	code     int
	out, err string
}

// runWith runs the shell with this standard input.
func runWith(stdin string, args ...string) outcome {
	var out, err safeBuffer
	code := Main(Process{Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &err})
	return outcome{code, out.String(), err.String()}
}

// A fixture is a server and a client beside the shell.
type fixture struct {
	t   *testing.T
	srv *zkdtest.Server
	c   *client.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, srv: zkdtest.Start(t)}
	var err error
	f.c, err = client.Dial(t.Context(), f.srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = f.c.Close(ctx) // a test may have stopped the server
	})
	return f
}

// run runs one command.
func (f *fixture) run(args ...string) outcome {
	f.t.Helper()
	return runWith("", append([]string{"-server", f.srv.Addr()}, args...)...)
}

// ok runs one command that must succeed, and returns its standard output.
func (f *fixture) ok(args ...string) string {
	f.t.Helper()
	o := f.run(args...)
	require.Equal(f.t, exitOK, o.code, "%v: %s", args, o.err)
	return o.out
}

// script runs lines from standard input.
func (f *fixture) script(lines ...string) outcome {
	f.t.Helper()
	return runWith(strings.Join(lines, "\n")+"\n", "-server", f.srv.Addr())
}

// create makes nodes; "path=data" gives data.
func (f *fixture) create(nodes ...string) {
	f.t.Helper()
	for _, n := range nodes {
		path, data, has := strings.Cut(n, "=")
		var b []byte
		if has {
			b = []byte(data)
		}
		_, _, err := f.c.Create(f.t.Context(), path, b, client.ModePersistent, nil)
		require.NoError(f.t, err)
	}
}

func (f *fixture) data(path string) string {
	f.t.Helper()
	b, _, err := f.c.Get(f.t.Context(), path, client.Fresh())
	require.NoError(f.t, err)
	return string(b)
}

// patience is how long a test waits for what must come. Only a failure takes that long.
const patience = 2 * time.Minute

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, patience, 5*time.Millisecond, what)
}

// comes asks until what is wanted comes. It is for what the shell gives up after a moment, so that
// nobody has to wait: so long a busy machine may stand still.
func comes[T any](t *testing.T, want T, get func() T, what string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // between two looks
		if got := get(); assert.ObjectsAreEqual(want, got) || time.Now().After(deadline) {
			require.Equal(t, want, got, what)
			return
		}
	}
}
