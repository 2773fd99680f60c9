package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/replication/peer"
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

	// FS holds the directories of the configuration; nil means the file system of the machine.
	// For simulations, with a disk that loses, tears or refuses what was written. SegmentBytes is
	// the length of a file of the log then, 0 the usual one.
	FS           vfs.FS
	SegmentBytes int64

	// Logger gets all log lines; nil means slog.Default.
	Logger *slog.Logger

	// Fatal is called once when the server can no longer keep its promises, for example
	// after a disk error: from then on it answers nothing. The program should end with exit
	// code 3. nil: the error is logged and the server closes its connections.
	Fatal func(error)

	// Listen opens a client port; nil means TCP. For simulations, where clients connect over a
	// network inside the process.
	Listen func(address string) (net.Listener, error)

	// PeerTLS is what servers of a cluster prove themselves to each other with; nil: nothing.
	PeerTLS *tls.Config
	// PeerRoots are the authorities trusted for that at present; nil: those of PeerTLS, for ever.
	PeerRoots func() *x509.CertPool
	// PeerNetwork is how they reach each other; nil means TCP.
	PeerNetwork peer.Network
	// BootstrapMajority: see replication.Cluster.
	BootstrapMajority bool

	// Space returns the free and the total bytes of the disk that holds a directory; nil means
	// what the system says.
	Space func(dir string) (free, total uint64, err error)

	// Now is the wall clock that log entries are stamped with; nil means time.Now.
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

	clustered bool // one of several servers

	enforcedSchemes []string

	maxPerAddress  int // guarded by mu
	maxConnections int // guarded by mu

	// lifecycle is held by Start and by Close, which so wait for each other.
	lifecycle sync.Mutex
	phase     atomic.Int32
	node      *replication.Node // set by Start
	nodeUp    atomic.Bool       // node is set

	registry
	watches       *watch.Table
	expiry        *expiry
	flushers      *flushers
	throttle      *throttle
	words         atomic.Pointer[fourletter.Commands]
	stats         *stats.Server
	auditor       atomic.Pointer[auditor]     // nil: no audit log
	auditFile     string                      // guarded by lifecycle
	observers     atomic.Pointer[[]*observer] // nil: nobody looks; changed with mu held
	tlsHandshakes atomic.Int64                // under way
	zxid          atomic.Int64                // of the last batch whose replies and events are queued
	traceMask     atomic.Int64
	leadsSinceNs  atomic.Int64 // when this server began to lead; nowNs
	ackedNs       atomic.Int64 // until when the leader knows what was heard here
	muted         atomic.Bool  // a connection has something to send and must not
	frozen        atomic.Bool  // see Freeze
	diskShort     atomic.Bool  // less than the reserve is free here, see reserve.go
	refusing      atomic.Bool  // the leader takes no writes for lack of room
	cutOff        atomic.Bool  // no leader for too long: clients are not served
	quarantined   atomic.Bool  // nor with data that are known to be wrong
	shunning      atomic.Bool  // this leader takes no clients, see leaderserves.go
	signs         []sign       // owned by report
	barriers      barriers
	restores      restores
	ro            readOnlyMode
	digests       digestLog
	overQuota     chan string // paths of quotas that were exceeded

	pendingBytes    atomic.Int64 // of the requests under way on all connections
	pendingRequests atomic.Int64 // their number
	pendingSyncs    atomic.Int64 // the syncs among them
	heldBytes       atomic.Int64 // of large frames that are not complete yet
	waitingBytes    atomic.Int64 // of replies and events for clients that are slow

	// Owned by the apply loop.
	touched     []*conn
	deliveries  []watch.Delivery
	heard       map[hearing]bool // of the command that is being applied
	eventBuf    []byte
	lastApplied int64 // zxid

	closeOnce  sync.Once
	closeErr   error
	fatalOnce  sync.Once
	fatalErr   error           // why the phase is over, if it is not Close that ended it
	startup    context.Context // ends when Close is called
	giveUp     context.CancelFunc
	lifetime   context.Context // ends when Close has let the requests under way finish
	stop       context.CancelFunc
	background sync.WaitGroup // loops, acceptors, writers to slow clients
	connsDone  sync.WaitGroup
}

// The phases, each only from the one before.
const (
	phaseNew     = iota
	phaseServing // clients are let in
	phaseOver    // closing, or broken
)

// New checks the options and loads certificates. It opens no port and touches no data.
func New(o Options) (*Server, error) {
	if o.Config == nil {
		return nil, errors.New("server: Options.Config is missing")
	}
	s := &Server{
		cfg: o.Config, opts: o, log: o.Logger, now: o.Now, start: time.Now(),
		registry: newRegistry(), watches: watch.New(), overQuota: make(chan string, 64),
		heard: map[hearing]bool{},
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.ro.init()
	s.startup, s.giveUp = context.WithCancel(context.Background())
	s.lifetime, s.stop = context.WithCancel(context.Background())
	s.traceMask.Store(fourletter.DefaultTraceMask)
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	s.boot = binary.BigEndian.Uint64(b[:])
	if err := s.setUpAuth(); err != nil {
		return nil, err
	}
	s.maxPerAddress, s.maxConnections = s.cfg.MaxClientCnxns, connectionLimit(s.cfg.MaxCnxns)
	s.stats = stats.New()
	s.stats.SetGauges(s.gauges())
	s.throttle = newThrottle(s.cfg.Throttle, s.stats.Registry())
	s.words.Store(s.newWords(s.cfg))
	s.expiry = newExpiry(s)
	s.clustered = o.Config.Cluster.Ensemble
	s.ackedNs.Store(math.MinInt64 / 2) // never
	return s, nil
}

// Info says what Start found.
type Info = replication.Info

// Start opens the ports and the data, and returns when the server serves. After an error,
// or when ctx ends first, everything is closed again. A Server starts once.
func (s *Server) Start(ctx context.Context) (Info, error) {
	info, err := s.startUp(ctx)
	if err != nil && !errors.Is(err, errStarted) {
		s.auditServer(audit.ServerStart, audit.Failure)
		_ = s.Close()
	}
	return info, err
}

var errStarted = errors.New("server: it was started or closed before; make a new one")

func (s *Server) startUp(ctx context.Context) (Info, error) {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.flushers != nil || s.startup.Err() != nil {
		return Info{}, errStarted
	}
	s.flushers = newFlushers(max(2, runtime.GOMAXPROCS(0)))
	if err := s.setAudit(s.cfg.Audit, s.cfg.AuditFile); err != nil {
		return Info{}, err
	}
	// Ports first: a busy one is told at once, and four-letter words are answered while the
	// data load.
	if err := s.openPorts(); err != nil {
		return Info{}, err
	}
	node, info, err := replication.Open(s.replicationOptions())
	if err != nil {
		return Info{}, err
	}
	s.node = node
	s.nodeUp.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.startup, cancel)()
	endReadOnly := s.readOnlyUntilReady()
	err = node.WaitReady(ctx)
	endReadOnly()
	if err != nil {
		return Info{}, fmt.Errorf("wait for a leader: %w", err)
	}
	s.expiry.restart(s.nowNs())
	if s.clustered {
		s.goLoop(func() { s.report(s.lifetime) })
		if !s.cfg.Cluster.LeaderServes {
			s.goLoop(func() { s.shunClients(s.lifetime) })
		}
	}
	s.zxid.Store(s.machineZxid())
	s.goLoop(func() { s.watchDisk(s.lifetime) })
	s.goLoop(func() { s.expiry.run(s.lifetime) })
	s.goLoop(func() { s.reap(s.lifetime) })
	s.goLoop(func() { s.logQuotas(s.lifetime) })
	if !s.phase.CompareAndSwap(phaseNew, phaseServing) {
		return Info{}, s.fatalErr
	}
	s.auditServer(audit.ServerStart, audit.Success)
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
		s.mu.Lock()
		s.listeners = append(s.listeners, l)
		s.mu.Unlock()
		s.goLoop(func() { s.accept(l, secure) })
		return nil
	}
	if err := open(s.cfg.ClientPortAddress, s.cfg.ClientPort, "clientPort", false); err != nil {
		return err
	}
	return open(s.cfg.SecureClientPortAddress, s.cfg.SecureClientPort, "secureClientPort", true)
}

// Addrs returns the addresses that clients can reach, the plain port first.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a []net.Addr
	for _, l := range s.listeners {
		a = append(a, l.Addr())
	}
	return a
}

// serving says whether clients are let in.
func (s *Server) serving() bool {
	return s.phase.Load() == phaseServing && !s.cutOff.Load() && !s.quarantined.Load()
}

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
		s.fatalErr = err
		s.phase.Store(phaseOver)
		s.log.Error("cannot go on", "error", err)
		for _, c := range s.connections() {
			c.abort()
		}
		if s.opts.Fatal != nil {
			s.opts.Fatal(err)
		}
	})
}

// Close ends the server. Requests under way get zkd.drainTimeoutMs to finish. Sessions stay:
// their clients have the session timeout to come back. It returns when every goroutine has
// ended.
//
// Order: first no new connection and no new request; then no loop that proposes; then the
// connections, whose readers may still wait for the log; then the log itself, which may
// still hand results to flushers; then the flushers.
func (s *Server) Close() error { return s.end(true) }

// Kill ends the server as a crash would, for tests: nothing is handed over, and no request
// under way is waited for. What was acknowledged is kept.
func (s *Server) Kill() error { return s.end(false) }

func (s *Server) end(inOrder bool) error {
	s.closeOnce.Do(func() {
		s.giveUp()
		s.lifecycle.Lock()
		defer s.lifecycle.Unlock()
		if s.phase.Swap(phaseOver) == phaseServing {
			s.auditServer(audit.ServerStop, audit.Invoked)
		}
		s.closePorts()
		if inOrder {
			s.handOver()
			s.drainConnections()
		}
		s.stop()
		for _, c := range s.connections() {
			c.abort()
		}
		s.connsDone.Wait()
		if s.nodeUp.Load() {
			s.closeErr = s.node.Close()
		}
		s.background.Wait()
		if s.flushers != nil {
			s.flushers.close()
		}
		s.closeErr = errors.Join(s.closeErr, s.setAudit(false, ""))
	})
	return s.closeErr
}

// handOver gives the leadership to another server, so that the clients of the others notice
// nothing.
func (s *Server) handOver() {
	n := s.currentNode()
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	if err := n.StepDown(ctx); err != nil {
		s.log.Info("the others will elect a leader", "reason", err)
	}
}

// HandOver gives the leadership to another server, if this one has it.
func (s *Server) HandOver(ctx context.Context) error {
	n := s.currentNode()
	if n == nil {
		return errNotServing
	}
	return n.StepDown(ctx)
}

// Leads says whether this server leads its cluster.
func (s *Server) Leads() bool {
	n := s.currentNode()
	return n != nil && n.Leads()
}

// Freeze keeps everything from clients, as if the process stood still, until it is undone; for
// tests.
func (s *Server) Freeze(frozen bool) {
	s.frozen.Store(frozen)
	if !frozen && s.flushers != nil {
		s.flushers.addAll(s.wakeAll())
	}
}

func (s *Server) closePorts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepting = false
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// drainConnections lets requests under way finish, for as long as is configured.
func (s *Server) drainConnections() {
	limit := time.Duration(s.cfg.DrainTimeoutMs) * time.Millisecond
	if limit == 0 {
		return
	}
	for _, c := range s.connections() {
		c.finish()
	}
	done := make(chan struct{})
	go func() { // ends before Close, which waits for the same
		s.connsDone.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
