package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

// Options say what a cluster is made of. Nodes is required.
type Options struct {
	Nodes    int               // 1 to 9
	Settings []config.Override // of all servers
	Env      []string          // likewise, see config.Sources
	// FirstPort is that of server 1; the others follow. 0: free ports.
	FirstPort int
	// Listen opens the client ports of a server; nil means TCP. With it all have the same port
	// on hosts of their own, see MemoryHost.
	Listen func(number int) func(address string) (net.Listener, error)
	Logger *slog.Logger // nil: nothing is logged
	// Fatal is called when a server can no longer keep its promises.
	Fatal func(number int, err error)
}

// A Cluster is a running one. Servers are named by their numbers, from 1. Its methods may be
// called from any goroutine, but not two for one server at a time.
type Cluster struct {
	o   Options
	net *memnet.Network

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	starting sync.WaitGroup // Begin

	mu    sync.Mutex
	nodes []*node // guarded by mu; only grows
}

type node struct {
	number int
	stores *replication.MemoryStores

	mu   sync.Mutex
	srv  *server.Server // guarded by mu; nil while stopped
	port int            // guarded by mu
}

// peerPort is the same on all hosts of the inner network.
const peerPort = 2888

// Start runs a cluster and returns when all servers serve.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Nodes < 1 || o.Nodes > 9 {
		return nil, fmt.Errorf("a cluster in one process has 1 to 9 servers, not %d", o.Nodes)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{o: o, net: memnet.New()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	errs := make(chan error, o.Nodes)
	for i := range o.Nodes {
		n := &node{number: i + 1, stores: replication.NewMemoryStores()}
		switch {
		case o.Listen != nil:
			n.port = memoryPort
		case o.FirstPort > 0:
			n.port = o.FirstPort + i
		}
		c.nodes = append(c.nodes, n)
	}
	starting, stop := context.WithCancel(ctx)
	defer stop()
	for _, n := range c.all() {
		go func() { errs <- c.Start(starting, n.number) }()
	}
	var err error
	for range o.Nodes {
		if e := <-errs; err == nil && e != nil {
			err = e
			stop() // the others would wait for this one for ever
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Add makes room for one more server, which knows the others and is no member until a reconfig
// makes it one, and returns its number. Begin starts it.
func (c *Cluster) Add() (number int, err error) {
	port, err := c.freePort()
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	number = len(c.nodes) + 1
	c.nodes = append(c.nodes, &node{number: number, stores: replication.NewMemoryStores(), port: port})
	return number, nil
}

// freePort chooses a client port before its server starts: it is part of the server's line.
func (c *Cluster) freePort() (int, error) {
	if c.o.Listen != nil {
		return memoryPort, nil
	}
	return freeport.Find("127.0.0.1", 1)
}

// Line is the text of a server in a reconfig.
func (c *Cluster) Line(number int) string {
	return fmt.Sprintf("server.%d=%s:%d:3888:participant;%s", number, host(number), peerPort, c.Addr(number))
}

// memoryPort is the client port of every server where Options.Listen is set.
const memoryPort = 2181

// MemoryHost is the host of a server's client port where Options.Listen is set: a literal address,
// so that clients resolve nothing.
func MemoryHost(number int) string { return "127.0.0." + strconv.Itoa(number) }

func (c *Cluster) clientHost(number int) string {
	if c.o.Listen == nil {
		return "127.0.0.1"
	}
	return MemoryHost(number)
}

// listen returns what opens the client ports of a server; nil means TCP.
func (c *Cluster) listen(number int) func(address string) (net.Listener, error) {
	if c.o.Listen == nil {
		return nil
	}
	return c.o.Listen(number)
}

func (c *Cluster) all() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes
}

func (c *Cluster) node(number int) *node { return c.all()[number-1] }

func host(number int) string { return "node" + strconv.Itoa(number) }

// Begin starts a server in the background: one that is no member yet does not serve before it
// becomes one. failed is told if it cannot start.
func (c *Cluster) Begin(number int, failed func(error)) {
	c.starting.Go(func() {
		if err := c.Start(c.ctx, number); err != nil && c.ctx.Err() == nil {
			failed(err)
		}
	})
}

// Start starts a server that does not run, and returns when it serves.
func (c *Cluster) Start(ctx context.Context, number int) error {
	n := c.node(number)
	n.mu.Lock()
	port := n.port
	n.mu.Unlock()
	cfg, err := c.config(number, port)
	if err != nil {
		return err
	}
	for {
		srv, err := server.New(server.Options{
			Config: cfg, Memory: true, Stores: n.stores, Logger: c.o.Logger.With("server", number),
			PeerNetwork: c.net.Host(host(number)), Fatal: func(err error) { c.fatal(number, err) },
			Listen: c.listen(number),
		})
		if err != nil {
			return err
		}
		_, err = srv.Start(ctx)
		var busy *server.BusyError
		switch {
		case err == nil:
			n.mu.Lock()
			defer n.mu.Unlock()
			n.srv = srv
			if tcp, ok := srv.Addrs()[0].(*net.TCPAddr); ok {
				n.port = tcp.Port
			}
			return nil
		case !errors.As(err, &busy) || port == 0 || ctx.Err() != nil || c.o.FirstPort > 0:
			return fmt.Errorf("server %d: %w", number, err)
		}
		// A client that tries to reconnect can be given the port as its own for a moment.
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *Cluster) fatal(number int, err error) {
	if c.o.Fatal != nil {
		c.o.Fatal(number, err)
	}
}

func (c *Cluster) config(number, port int) (*config.Config, error) {
	settings := []config.Override{
		{Key: "clientPortAddress", Value: "127.0.0.1"},
		{Key: "admin.enableServer", Value: "false"},
		{Key: "initLimit", Value: "10"},
		{Key: "syncLimit", Value: "10"},
	}
	for i := range max(c.o.Nodes, number) {
		settings = append(settings, config.Override{
			Key: fmt.Sprintf("server.%d", i+1), Value: fmt.Sprintf("%s:%d:3888", host(i+1), peerPort),
		})
	}
	settings = append(settings, c.o.Settings...)
	settings = append(settings,
		config.Override{Key: "clientPort", Value: strconv.Itoa(port)},
		config.Override{Key: "zkd.peerInsecure", Value: "true"}, // nothing leaves the process
	)
	if c.o.Listen != nil {
		settings = append(settings, config.Override{Key: "clientPortAddress", Value: MemoryHost(number)})
	}
	for i := range settings {
		if settings[i].Origin == "" {
			settings[i].Origin = "cluster in one process"
		}
	}
	cfg, _, err := config.Load(config.Sources{
		InMemory: true, Env: c.o.Env, Overrides: settings, MyID: number,
	})
	return cfg, err
}

// Server returns a server, nil while it does not run.
func (c *Cluster) Server(number int) *server.Server {
	n := c.node(number)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.srv
}

// Size is the number of servers.
func (c *Cluster) Size() int { return len(c.all()) }

// Addr is where clients reach a server, host:port; it stays the same over a restart.
func (c *Cluster) Addr(number int) string {
	n := c.node(number)
	n.mu.Lock()
	defer n.mu.Unlock()
	return net.JoinHostPort(c.clientHost(number), strconv.Itoa(n.port))
}

// take ends the use of a server's running process.
func (n *node) take() *server.Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	srv := n.srv
	n.srv = nil
	return srv
}

// Stop ends a server in order: it hands over first what it leads.
func (c *Cluster) Stop(number int) error {
	if srv := c.node(number).take(); srv != nil {
		return srv.Close()
	}
	return nil
}

// Kill ends a server as a crash does: the others see its connections break, and nothing is
// handed over.
func (c *Cluster) Kill(number int) error {
	srv := c.node(number).take()
	if srv == nil {
		return nil
	}
	c.net.Crash(host(number))
	return srv.Kill()
}

// Isolate cuts a server off from the others; its clients still reach it.
func (c *Cluster) Isolate(number int) {
	var others []string
	for _, n := range c.all() {
		if n.number != number {
			others = append(others, host(n.number))
		}
	}
	c.net.Partition([]string{host(number)}, others)
}

// Cut breaks the connections between a server and the others, which may connect again.
func (c *Cluster) Cut(number int) {
	for _, n := range c.all() {
		if n.number != number {
			c.net.Cut(host(number), host(n.number))
		}
	}
}

// Heal ends all that Isolate and Pause have done.
func (c *Cluster) Heal() {
	c.net.Heal()
	for _, n := range c.all() {
		if srv := c.Server(n.number); srv != nil {
			srv.Freeze(false)
		}
	}
}

// Pause makes a server silent to everybody, as a process that was stopped, until Heal.
func (c *Cluster) Pause(number int) {
	if srv := c.Server(number); srv != nil {
		srv.Freeze(true)
	}
	c.Isolate(number)
}

// Leader is the number of the server that leads, 0 if none does at the moment.
func (c *Cluster) Leader() int {
	for _, n := range c.all() {
		if srv := c.Server(n.number); srv != nil && srv.Leads() {
			return n.number
		}
	}
	return 0
}

// HandOver has the leader give its place to another.
func (c *Cluster) HandOver(ctx context.Context) error {
	srv := c.Server(max(c.Leader(), 1))
	if srv == nil {
		return errors.New("no server leads")
	}
	return srv.HandOver(ctx)
}

// Close ends all servers.
func (c *Cluster) Close() error {
	c.cancel()
	c.starting.Wait()
	c.Heal()
	errs := make(chan error, len(c.all()))
	for _, n := range c.all() {
		go func() {
			if srv := n.take(); srv != nil {
				errs <- srv.Kill() // nobody is left to take over
				return
			}
			errs <- nil
		}()
	}
	var err error
	for range c.all() {
		err = errors.Join(err, <-errs)
	}
	return err
}
