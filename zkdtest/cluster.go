package zkdtest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/local"
	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

// A Cluster is several nodes inside a test, with everything that can go wrong between them.
// Nodes are named by their numbers, from 1. Its methods may be called from any goroutine, but
// not two for one node at a time; what goes wrong ends the test.
type Cluster struct {
	t   testing.TB
	c   *local.Cluster
	net *clientNet
}

// StartCluster runs a cluster of so many nodes and returns when all of them serve. It stops
// when the test ends.
func StartCluster(t testing.TB, nodes int, opts ...Option) *Cluster {
	t.Helper()
	o := options{logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	clients, listen := &clientNet{}, (func(int) func(string) (net.Listener, error))(nil)
	if o.memory {
		clients.memory = memnet.New()
		listen = func(node int) func(string) (net.Listener, error) { return clients.listenOn(local.MemoryHost(node)) }
	}
	c, err := local.Start(ctx, local.Options{
		Nodes: nodes, Settings: append(defaults(), o.settings...), Logger: o.logger, Listen: listen,
		Fatal: func(number int, err error) { t.Errorf("zkdtest: node %d: %v", number, err) },
	})
	if err != nil {
		t.Fatalf("zkdtest: start a cluster of %d: %v", nodes, err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("zkdtest: stop: %v", err)
		}
	})
	return &Cluster{t, c, clients}
}

// Dial connects to an address of a node or of a proxy; see Server.Dial.
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return c.net.dial(ctx, network, addr)
}

// Proxy starts a proxy in front of a node. It ends with the test.
func (c *Cluster) Proxy(node int) *Proxy {
	c.t.Helper()
	return c.net.proxy(c.t, func() string { return c.Addr(node) })
}

// Addr is the address of a node for clients, host:port. It stays the same over a restart.
func (c *Cluster) Addr(node int) string { return c.c.Addr(node) }

// Addrs is the address list of all nodes, as clients take it.
func (c *Cluster) Addrs() string {
	var all []string
	for i := range c.c.Size() {
		all = append(all, c.c.Addr(i+1))
	}
	return strings.Join(all, ",")
}

// Leader is the node that leads, 0 if none does at the moment.
func (c *Cluster) Leader() int { return c.c.Leader() }

// Stop ends a node in order: if it leads, it hands over first.
func (c *Cluster) Stop(node int) {
	c.t.Helper()
	if err := c.c.Stop(node); err != nil {
		c.t.Errorf("zkdtest: stop node %d: %v", node, err)
	}
}

// Kill ends a node without warning, as a crash does. What it has acknowledged it keeps.
func (c *Cluster) Kill(node int) {
	c.t.Helper()
	if err := c.c.Kill(node); err != nil {
		c.t.Errorf("zkdtest: kill node %d: %v", node, err)
	}
}

// Restart starts a stopped or killed node again, with its data and on its port, and returns
// when it serves, for which a majority must be there. A running one is stopped first.
func (c *Cluster) Restart(node int) {
	c.t.Helper()
	c.Stop(node)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := c.c.Start(ctx, node); err != nil {
		c.t.Fatalf("zkdtest: restart node %d: %v", node, err)
	}
}

// Isolate cuts a node off from the others, as a broken cable does; its clients still reach
// it. Heal ends it.
func (c *Cluster) Isolate(node int) { c.c.Isolate(node) }

// Add starts one more node, which is no member until a reconfig names it: see Line. It serves
// when it has become one.
func (c *Cluster) Add() (node int) {
	c.t.Helper()
	node, err := c.c.Add()
	if err != nil {
		c.t.Fatalf("zkdtest: add a node: %v", err)
	}
	c.c.Begin(node, func(err error) { c.t.Errorf("zkdtest: start node %d: %v", node, err) })
	return node
}

// Line is the text of a node for the list of joining servers in a reconfig.
func (c *Cluster) Line(node int) string { return c.c.Line(node) }

// Pause makes a node silent to everybody, as a process that stands still. Heal ends it.
func (c *Cluster) Pause(node int) { c.c.Pause(node) }

// Heal ends what Isolate and Pause have done.
func (c *Cluster) Heal() { c.c.Heal() }

// HandOver has the leader give its place to another node.
func (c *Cluster) HandOver() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := c.c.HandOver(ctx); err != nil {
		c.t.Errorf("zkdtest: hand over: %v", err)
	}
}

// ExpireSession ends a session as if its client had been silent for too long, and returns when
// its ephemeral nodes are gone at the leader.
func (c *Cluster) ExpireSession(id int64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	err := errors.New("no leader")
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // between two tries
		leader := c.c.Leader()
		if leader == 0 {
			continue
		}
		srv := c.c.Server(leader)
		if srv == nil {
			continue // it was killed just now
		}
		if err = srv.ExpireSession(ctx, id); err == nil {
			return
		}
	}
	c.t.Fatalf("zkdtest: expire session 0x%x: %v", uint64(id), err)
}
