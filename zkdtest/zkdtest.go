package zkdtest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

// startLimit bounds a start that hangs, so that a test fails with a reason. It is long: the machine may
// be slow, and stand still for a while, again and again.
const startLimit = 2 * time.Minute

// An Option changes what Start makes.
type Option func(*options)

type options struct {
	settings []config.Override
	logger   *slog.Logger
	memory   bool
}

// Set gives the node a key of zoo.cfg, for example Set("tickTime", "500").
func Set(key, value string) Option {
	return func(o *options) {
		o.settings = append(o.settings, config.Override{Key: key, Value: value, Origin: "zkdtest.Set"})
	}
}

// Logger receives the node's log lines; without it they are dropped.
func Logger(l *slog.Logger) Option {
	return func(o *options) { o.logger = l }
}

// InMemory has clients connect over a network inside the process instead of TCP, so that a test can
// run in a bubble of testing/synctest, where an idle hour takes a moment. Clients connect with
// Dial:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv := zkdtest.Start(t, zkdtest.InMemory())
//		c, err := client.Dial(ctx, srv.Addr(), client.WithDialer(srv.Dial))
//
// Everything that talks to the node has to be started in the bubble.
func InMemory() Option {
	return func(o *options) { o.memory = true }
}

// A Server is a node inside a test. Its methods may be called from any goroutine; what
// goes wrong ends the test.
type Server struct {
	t      testing.TB
	opts   options
	stores *replication.MemoryStores
	net    *clientNet

	mu   sync.Mutex
	srv  *server.Server // nil while stopped
	addr string         // immutable after Start
}

// Start runs a node and returns when it serves. It stops when the test ends.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{t: t, stores: replication.NewMemoryStores()}
	s.opts.logger = slog.New(slog.DiscardHandler)
	for _, o := range opts {
		o(&s.opts)
	}
	port := "0"
	if s.opts.memory {
		s.net, port = &clientNet{memory: memnet.New()}, memoryPort
	} else {
		s.net = &clientNet{}
	}
	t.Cleanup(s.Stop)
	s.start(port)
	return s
}

// defaults are what tests want: sessions end quickly, and nothing is limited.
func defaults() []config.Override {
	return []config.Override{
		{Key: "tickTime", Value: "200", Origin: "zkdtest"},
		{Key: "minSessionTimeout", Value: "400", Origin: "zkdtest"},
		{Key: "maxSessionTimeout", Value: "60000", Origin: "zkdtest"},
		{Key: "maxClientCnxns", Value: "0", Origin: "zkdtest"},
		{Key: "4lw.commands.whitelist", Value: "*", Origin: "zkdtest"},
		{Key: "clientPortAddress", Value: "127.0.0.1", Origin: "zkdtest"},
	}
}

func (s *Server) start(port string) {
	s.t.Helper()
	settings := append(defaults(), s.opts.settings...)
	settings = append(settings, config.Override{Key: "clientPort", Value: port, Origin: "zkdtest"})
	cfg, _, err := config.Load(config.Sources{InMemory: true, Overrides: settings})
	if err != nil {
		s.t.Fatalf("zkdtest: configuration: %v", err)
	}
	srv, err := s.serve(cfg)
	if err != nil {
		s.t.Fatalf("zkdtest: start: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srv = srv
	s.addr = srv.Addrs()[0].String()
}

// serve returns a node that serves. The port of a node that was stopped may be taken for a
// moment: a client that tries to reconnect can be given it as its own port.
func (s *Server) serve(cfg *config.Config) (*server.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		srv, err := server.New(server.Options{
			Config: cfg, Memory: true, Stores: s.stores, Logger: s.opts.logger, Listen: s.net.listenOn(loopback),
		})
		if err != nil {
			return nil, err
		}
		_, err = srv.Start(ctx)
		var busy *server.BusyError
		switch {
		case err == nil:
			return srv, nil
		case !errors.As(err, &busy) || ctx.Err() != nil:
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Addr is the address for clients, host:port. It stays the same over a restart.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Dial connects to an address of the node or of one of its proxies. It is what clients of a node that
// runs InMemory are given as their dialer; network is not looked at there.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.net.dial(ctx, network, addr)
}

// Proxy starts a proxy in front of the node. It ends with the test.
func (s *Server) Proxy() *Proxy {
	s.t.Helper()
	return s.net.proxy(s.t, s.Addr)
}

// Stop ends the node; its connections are closed and its data kept. Stopping a stopped node
// does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	srv := s.srv
	s.srv = nil
	s.mu.Unlock()
	if srv == nil {
		return
	}
	if err := srv.Close(); err != nil {
		s.t.Errorf("zkdtest: stop: %v", err)
	}
}

// Restart starts a stopped node again, with its data and on its port; a running one is
// stopped first. Sessions are still there, with their full timeout to come back.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		s.t.Fatalf("zkdtest: %v", err)
	}
	s.start(port)
}

// ExpireSession ends a session as if its client had been silent for too long: its ephemeral
// nodes go, its connection is cut, and its client is told that it has expired when it comes
// back. It returns when all that has happened.
func (s *Server) ExpireSession(id int64) {
	s.t.Helper()
	s.mu.Lock()
	srv := s.srv
	s.mu.Unlock()
	if srv == nil {
		s.t.Fatal("zkdtest: ExpireSession on a stopped server")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := srv.ExpireSession(ctx, id); err != nil {
		s.t.Fatalf("zkdtest: expire session 0x%x: %v", uint64(id), err)
	}
}
