package server

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testServer is a Server on a free port of the loopback interface, in memory.
type testServer struct {
	*Server
	addr string
}

// An option changes the configuration or the options of a testServer.
type option func(*setup)

type setup struct {
	settings []config.Override
	options  Options
}

// set gives the server a key of zoo.cfg.
func set(key, value string) option {
	return func(s *setup) {
		s.settings = append(s.settings, config.Override{Key: key, Value: value, Origin: "test"})
	}
}

// startServer starts a server that the end of the test closes.
func startServer(t testing.TB, opts ...option) *testServer {
	t.Helper()
	s := newServer(t, opts...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if addrs := s.Addrs(); len(addrs) > 0 {
		s.addr = addrs[0].String()
	}
	return s
}

// newServer makes a server and does not start it.
func newServer(t testing.TB, opts ...option) *testServer {
	t.Helper()
	var st setup
	st.options = Options{Memory: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now}
	for _, o := range []option{
		set("clientPort", "0"), set("clientPortAddress", "127.0.0.1"), set("maxClientCnxns", "0"),
		set("4lw.commands.whitelist", "*"),
	} {
		o(&st)
	}
	for _, o := range opts {
		o(&st)
	}
	cfg, _, err := config.Load(config.Sources{InMemory: true, Overrides: st.settings})
	if err != nil {
		t.Fatal(err)
	}
	st.options.Config = cfg
	s, err := New(st.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &testServer{Server: s}
}

// A gate is a clock that can be stopped: while it is closed the log waits for the time of
// its next entry, and so takes none. Everything else goes on.
type gate struct {
	mu      sync.Mutex
	changed sync.Cond
	closed  bool
	waiting bool
}

// withGate gives the server's log the gate.
func withGate(g *gate) option {
	g.changed.L = &g.mu
	return func(s *setup) { s.options.Now = g.now }
}

func (g *gate) now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.closed {
		g.waiting = true
		g.changed.Broadcast()
		g.changed.Wait()
	}
	g.waiting = false
	return time.Now()
}

// close stops the log, at the latest when the test ends it is opened again.
func (g *gate) close(t testing.TB) {
	t.Cleanup(g.open)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.changed.Broadcast()
}

// block closes the gate and returns when the log stands at it, so that all that is proposed
// from now on gets into one entry.
func (g *gate) block(t testing.TB, srv *testServer) {
	t.Helper()
	g.close(t)
	if err := srv.propose(&state.Command{Kind: state.KindSync}); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.waiting {
		g.changed.Wait()
	}
}

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
