package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

const (
	clientPort = 2181
	peerPort   = 2888
	// maxClients is at least their number.
	maxClients = 20
	// startLimit is how long a healthy cluster may take until it serves.
	startLimit = time.Minute
)

// A World is a cluster with its clients, and what has happened so far.
type World struct {
	History *History

	o     Options
	tick  time.Duration
	snap  int           // transactions between two snapshots
	delay time.Duration // of the healthy network, at most
	rand  *rng.Rand
	net   *memnet.Network
	nodes []*node

	clients []*Client
	stats   Stats

	mu       sync.Mutex
	ending   bool    // guarded by mu: servers may fail now
	failures []error // guarded by mu
}

// A node is one server: its stores stay, its process comes and goes.
type node struct {
	w        *World
	number   int  // from 1
	observer bool // has no vote
	stores   *replication.MemoryStores
	clock    atomic.Int64 // nanoseconds by which its wall clock is wrong

	mu      sync.Mutex
	srv     *server.Server // guarded by mu; nil while it is down
	started chan struct{}  // guarded by mu: closed when Start of srv has returned
	giveUp  func()         // guarded by mu: ends Start of srv
}

func name(kind string, number int) string { return kind + strconv.Itoa(number) }

// clientAddress is where clients reach the server of that index.
func clientAddress(index int) string {
	return net.JoinHostPort(name("node", index+1), strconv.Itoa(clientPort))
}

func newWorld(o Options) *World {
	w := &World{History: &History{start: time.Now()}, o: o, rand: rng.New(o.Seed), net: memnet.New()}
	shape := w.rand.Fork("shape")
	servers, observers := o.Servers, 0
	if servers == 0 {
		servers = rng.Pick(shape, []int{3, 3, 3, 5})
		observers = rng.Pick(shape, []int{0, 0, 0, 1})
	}
	w.tick = rng.Pick(shape, []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second})
	w.snap = rng.Pick(shape, []int{200, 1000, 100_000})
	w.delay = rng.Pick(shape, []time.Duration{0, time.Millisecond, 10 * time.Millisecond})
	for i := range servers + observers {
		w.nodes = append(w.nodes, &node{
			w: w, number: i + 1, observer: i >= servers, stores: replication.NewMemoryStores(),
		})
	}
	w.healNetwork()
	return w
}

// healNetwork ends all faults of the network. It has its own delays without faults, too.
func (w *World) healNetwork() {
	w.net.Heal()
	if w.delay == 0 {
		return
	}
	r := w.rand.Fork("delays")
	var hosts []string
	for _, n := range w.nodes {
		hosts = append(hosts, name("node", n.number))
	}
	for i := range maxClients {
		hosts = append(hosts, name("client", i+1))
	}
	for i, a := range hosts {
		for j, b := range hosts {
			if d := time.Duration(r.Intn(int(w.delay))); i != j && (i < len(w.nodes) || j < len(w.nodes)) {
				w.net.Delay(a, b, d)
			}
		}
	}
}

// fail notes that a promise was broken, or that something is wrong with a server.
func (w *World) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Errorf("at %.3fs: %w", w.History.now().Seconds(), fmt.Errorf(format, args...)))
}

// start starts a server that is down. It does not wait until it serves.
func (n *node) start() error {
	cfg, err := n.config()
	if err != nil {
		return err
	}
	host := n.w.net.Host(name("node", n.number))
	srv, err := server.New(server.Options{
		Config: cfg, Memory: true, Stores: n.stores, Logger: n.logger(),
		Listen: host.Listen, PeerNetwork: host, Fatal: n.fatal, Now: n.now,
	})
	if err != nil {
		return err
	}
	ctx, giveUp := context.WithCancel(context.Background())
	started := make(chan struct{})
	n.mu.Lock()
	n.srv, n.started, n.giveUp = srv, started, giveUp
	n.mu.Unlock()
	go func() { // ends with the server at the latest
		defer close(started)
		defer giveUp()
		if _, err := srv.Start(ctx); err != nil && n.server() == srv {
			n.w.fail("server %d does not start: %w", n.number, err)
		}
	}()
	return nil
}

// now is the server's wall clock, which may be wrong.
func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.clock.Load())) }

func (n *node) fatal(err error) {
	n.w.mu.Lock()
	ending := n.w.ending
	n.w.mu.Unlock()
	if !ending {
		n.w.fail("server %d cannot go on: %w", n.number, err)
	}
}

func (n *node) logger() *slog.Logger {
	if n.w.o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return n.w.o.Logger.With("server", n.number)
}

func (n *node) config() (*config.Config, error) {
	host := name("node", n.number)
	settings := [][2]string{
		{"clientPortAddress", host},
		{"clientPort", strconv.Itoa(clientPort)},
		{"admin.enableServer", "false"},
		{"initLimit", "10"},
		{"syncLimit", "10"},
		{"maxClientCnxns", "0"},
		{"zkd.peerInsecure", "true"},
		{"tickTime", strconv.FormatInt(n.w.tick.Milliseconds(), 10)},
		{"snapCount", strconv.Itoa(n.w.snap)},
		{"autopurge.snapRetainCount", "3"},
	}
	for _, other := range n.w.nodes {
		line := fmt.Sprintf("%s:%d:3888", name("node", other.number), peerPort)
		if other.observer {
			line += ":observer"
		}
		settings = append(settings, [2]string{name("server.", other.number), line})
	}
	overrides := make([]config.Override, 0, len(settings))
	for _, s := range settings {
		overrides = append(overrides, config.Override{Key: s[0], Value: s[1], Origin: "simulation"})
	}
	cfg, _, err := config.Load(config.Sources{InMemory: true, Overrides: overrides, MyID: n.number})
	return cfg, err
}

// server returns the running process, or nil.
func (n *node) server() *server.Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.srv
}

// serves says whether the server has started.
func (n *node) serves() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv == nil {
		return false
	}
	return isDone(n.started)
}

// crash ends the process as kill -9 does, and returns when all its goroutines are gone.
func (n *node) crash() { n.end(true) }

// stop ends the process in order.
func (n *node) stop() { n.end(false) }

func (n *node) end(crash bool) {
	n.mu.Lock()
	srv, started, giveUp := n.srv, n.started, n.giveUp
	n.srv = nil
	n.mu.Unlock()
	if srv == nil {
		return
	}
	end := srv.Close
	if crash {
		n.w.net.Crash(name("node", n.number))
		end = srv.Kill
	}
	// A Start under way closes the server itself. It must have done so before: whoever ends a
	// server a second time waits on a mutex, and that stops virtual time.
	if !isDone(started) {
		giveUp()
		<-started
	}
	if err := end(); err != nil {
		n.w.fail("server %d ends with an error: %w", n.number, err)
	}
}

func isDone(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leader returns the server that leads, or nil.
func (w *World) leader() *node {
	for _, n := range w.nodes {
		if srv := n.server(); srv != nil && srv.Leads() {
			return n
		}
	}
	return nil
}

// notServing says who keeps the cluster from being whole.
func (w *World) notServing() error {
	missing := ""
	for _, n := range w.nodes {
		if !n.serves() {
			missing += fmt.Sprintf("server %d has not started; ", n.number)
		}
	}
	if w.leader() == nil {
		missing += "nobody leads; "
	}
	return fmt.Errorf("%stime was %v", missing, startLimit)
}

// startAll starts what is down and waits until everybody serves.
func (w *World) startAll() error {
	for _, n := range w.nodes {
		if n.server() == nil {
			if err := n.start(); err != nil {
				return err
			}
		}
	}
	for limit := w.History.now() + startLimit; ; time.Sleep(10 * time.Millisecond) {
		all := w.leader() != nil
		for _, n := range w.nodes {
			all = all && n.serves()
		}
		if all {
			return nil
		}
		if w.History.now() > limit {
			return w.notServing()
		}
	}
}

// addClient starts a client that lives until ctx ends.
func (w *World) addClient(ctx context.Context, done *sync.WaitGroup) *Client {
	shape := w.rand.Fork("client shape " + strconv.Itoa(len(w.clients)))
	ticks := 2 + shape.Intn(10)
	c := newClient(w, len(w.clients)+1, max(time.Duration(ticks)*w.tick, 600*time.Millisecond))
	w.clients = append(w.clients, c)
	done.Go(func() { c.run(ctx) })
	return c
}
