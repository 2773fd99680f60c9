package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

const (
	clientPort = 2181
	peerPort   = 2888
	// maxClients is at least their number.
	maxClients = 24
	// startLimit is how long a healthy cluster may take until it serves.
	startLimit = time.Minute
)

// A World is a cluster with its clients, and what has happened so far.
type World struct {
	History *History

	o        Options
	tick     time.Duration
	snap     int           // transactions between two snapshots
	delay    time.Duration // of the healthy network, at most
	segment  int64         // length of a log file
	syncTime time.Duration // of every disk
	rand     *rng.Rand
	net      *memnet.Network
	nodes    []*node

	clients  []*Client
	risk     atomic.Int32 // that the cluster bears once at a time: noRisk, diskLost or memberOut
	settling atomic.Bool  // the faults are over: nobody stays away on purpose
	stats    Stats

	mu       sync.Mutex
	ending   bool    // guarded by mu: servers may fail now
	failures []error // guarded by mu
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
		servers = rng.Pick(shape, []int{3, 3, 3, 3, 3, 5, 5, 1})
		if observers = rng.Pick(shape, []int{0, 0, 0, 1}); servers == 1 {
			observers = 0
		}
	}
	w.tick = rng.Pick(shape, []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second})
	w.snap = rng.Pick(shape, []int{200, 1000, 100_000})
	w.delay = rng.Pick(shape, []time.Duration{0, time.Millisecond, 10 * time.Millisecond})
	w.segment = rng.Pick(shape, []int64{32 << 10, 256 << 10, 4 << 20})
	w.syncTime = rng.Pick(shape, []time.Duration{0, 100 * time.Microsecond, 2 * time.Millisecond, 15 * time.Millisecond})
	for i := range servers + observers {
		n := newNode(w, i+1)
		n.observer = i >= servers
		w.nodes = append(w.nodes, n)
	}
	w.healNetwork()
	return w
}

// canLose says whether the cluster can lose a voter.
func (w *World) canLose() bool {
	voters := 0
	for _, n := range w.nodes {
		if !n.observer {
			voters++
		}
	}
	return voters > 2
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

func (w *World) isEnding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending
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

// startAll starts what is down and waits until everybody serves. A server that gives up meanwhile,
// because of what its disk did before, is started again.
func (w *World) startAll() error {
	for limit := w.History.now() + startLimit; ; time.Sleep(10 * time.Millisecond) {
		all := w.leader() != nil
		for _, n := range w.nodes {
			if n.server() == nil {
				if err := n.start(); err != nil {
					return err
				}
			}
			all = all && (n.serves() || n.out.Load())
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
