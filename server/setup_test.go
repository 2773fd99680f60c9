package server

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/config"
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
