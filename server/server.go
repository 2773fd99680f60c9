package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/server/watch"
)

// Options say what a Server is made of. Config is required; the rest has defaults.
type Options struct {
	Config *config.Config

	// Memory keeps everything in memory: nothing survives the process. Stores, if set, are
	// used then, so that a second Server can go on with the data of a stopped one.
	Memory bool
	Stores *replication.MemoryStores

	// Logger gets all log lines; nil means slog.Default.
	Logger *slog.Logger

	// Fatal is called once when the server can no longer keep its promises, for example
	// after a disk error: from then on it answers nothing. The program should end with exit
	// code 3. nil: the error is logged and the server closes its connections.
	Fatal func(error)

	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
}

// A Server is one zkd node: New makes it, Start serves, Close ends it.
type Server struct {
	cfg   *config.Config
	opts  Options
	log   *slog.Logger
	boot  uint64 // random: tells this boot's connections from those of others
	start time.Time
	now   func() time.Time
	tls   *tlsconf.Config // nil without a TLS port

	enforcedSchemes []string
	maxConnections  int

	node      *replication.Node // set by Start
	nodeUp    atomic.Bool       // node is set
	isServing atomic.Bool

	registry
	watches       *watch.Table
	expiry        *expiry
	flushers      *flushers
	words         *fourletter.Commands
	stats         *stats.Server
	tlsHandshakes atomic.Int64 // under way
	zxid          atomic.Int64 // of the last batch whose replies and events are queued
	traceMask     atomic.Int64
	digests       digestLog

	pendingBytes    atomic.Int64 // of the requests under way on all connections
	pendingRequests atomic.Int64 // their number

	// Owned by the apply loop.
	touched     []*conn
	deliveries  []watch.Delivery
	eventBuf    []byte
	lastApplied int64 // zxid

	listeners  []net.Listener
	closing    chan struct{} // closed by Close
	closeOnce  sync.Once
	fatalOnce  sync.Once
	lifetime   context.Context // ends with Close
	stop       context.CancelFunc
	background sync.WaitGroup // loops, acceptors, writers to slow clients
	connsDone  sync.WaitGroup
}

// New checks the options and loads certificates. It opens no port and touches no data.
func New(o Options) (*Server, error) {
	if o.Config == nil {
		return nil, errors.New("server: Options.Config is missing")
	}
	s := &Server{
		cfg: o.Config, opts: o, log: o.Logger, now: o.Now, start: time.Now(),
		registry: newRegistry(), watches: watch.New(), closing: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.lifetime, s.stop = context.WithCancel(context.Background())
	s.traceMask.Store(fourletter.DefaultTraceMask)
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, fmt.Errorf("draw a boot id: %w", err)
	}
	s.boot = binary.BigEndian.Uint64(b[:])
	if err := s.setUpAuth(); err != nil {
		return nil, err
	}
	s.maxConnections = connectionLimit(s.cfg.MaxCnxns)
	s.stats = stats.New()
	s.stats.SetGauges(s.gauges())
	s.words = s.newWords()
	s.expiry = newExpiry(s)
	return s, nil
}

// Info says what Start found.
type Info = replication.Info

// Start opens the ports and the data, and returns when the server serves. After an error,
// or when ctx ends first, everything is closed again.
func (s *Server) Start(ctx context.Context) (Info, error) {
	info, err := s.startUp(ctx)
	if err != nil {
		_ = s.Close()
	}
	return info, err
}

func (s *Server) startUp(ctx context.Context) (Info, error) {
	// Ports first: a busy one is told at once, and four-letter words are answered while the
	// data load.
	if err := s.openPorts(); err != nil {
		return Info{}, err
	}
	s.flushers = newFlushers(max(2, runtime.GOMAXPROCS(0)))
	node, info, err := replication.Open(s.replicationOptions())
	if err != nil {
		return Info{}, err
	}
	s.node = node
	s.nodeUp.Store(true)
	if err := node.WaitLeading(ctx); err != nil {
		return Info{}, fmt.Errorf("wait for leadership: %w", err)
	}
	s.expiry.restart()
	s.zxid.Store(s.machineZxid())
	s.goLoop(func() { s.expiry.run(s.lifetime) })
	s.goLoop(func() { s.reap(s.lifetime) })
	s.isServing.Store(true)
	return info, nil
}

func (s *Server) goLoop(f func()) {
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		f()
	}()
}

func (s *Server) openPorts() error {
	open := func(host string, port int, key string, secure bool) error {
		if port < 0 {
			return nil
		}
		l, err := s.listen(host, port, key)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, l)
		s.background.Add(1)
		go s.accept(l, secure)
		return nil
	}
	if err := open(s.cfg.ClientPortAddress, s.cfg.ClientPort, "clientPort", false); err != nil {
		return err
	}
	return open(s.cfg.SecureClientPortAddress, s.cfg.SecureClientPort, "secureClientPort", true)
}

// Addrs returns the addresses that clients can reach, the plain port first.
func (s *Server) Addrs() []net.Addr {
	var a []net.Addr
	for _, l := range s.listeners {
		a = append(a, l.Addr())
	}
	return a
}

// serving says whether clients are let in.
func (s *Server) serving() bool { return s.isServing.Load() }

func (s *Server) handshakeTimeout() time.Duration {
	return time.Duration(s.cfg.HandshakeTimeoutMs) * time.Millisecond
}

// currentNode returns the node, or nil while it is being opened.
func (s *Server) currentNode() *replication.Node {
	if !s.nodeUp.Load() {
		return nil
	}
	return s.node
}

func (s *Server) machineZxid() int64 {
	s.node.RLock()
	defer s.node.RUnlock()
	return s.node.Machine().Zxid()
}

// nowNs is a monotonic clock for durations: nanoseconds since New.
func (s *Server) nowNs() int64 { return int64(time.Since(s.start)) }

// ExpireSession ends a session as if its client had been silent for too long, and returns
// when its ephemeral nodes are gone.
func (s *Server) ExpireSession(ctx context.Context, id int64) error {
	return s.expiry.expireNow(ctx, id)
}

// fatal is called by the layers below when a promise can no longer be kept.
func (s *Server) fatal(err error) {
	s.fatalOnce.Do(func() {
		s.isServing.Store(false)
		s.log.Error("cannot go on", "error", err)
		for _, c := range s.connections() {
			c.abort()
		}
		if s.opts.Fatal != nil {
			s.opts.Fatal(err)
		}
	})
}

// Close ends the server. Sessions stay: their clients have the session timeout to come
// back. It returns when every goroutine has ended.
//
// Order: first no new connection and no loop that proposes, then the connections, whose
// readers may still wait for the log, then the log itself, which may still hand results to
// flushers, then the flushers.
func (s *Server) Close() error {
	var err error
	s.closeOnce.Do(func() {
		s.isServing.Store(false)
		s.mu.Lock()
		s.accepting = false
		s.mu.Unlock()
		close(s.closing)
		for _, l := range s.listeners {
			_ = l.Close()
		}
		s.stop()
		for _, c := range s.connections() {
			c.abort()
		}
		s.connsDone.Wait()
		if s.nodeUp.Load() {
			err = s.node.Close()
		}
		s.background.Wait()
		if s.flushers != nil {
			s.flushers.close()
		}
	})
	return err
}
