package product

import (
	"context"
	"net"
	"sync"
)

// A gate lets the connections of one contender through, or holds all of them up. Its methods may
// be called from any goroutine.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // guarded by mu: closed when the gate opens; nil while it is open
}

// close holds everything up from now on: what was not read by now is not read until open.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// pass waits until the gate is open, or done.
func (g *gate) pass(done <-chan struct{}) error {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-done:
			return net.ErrClosed
		}
	}
}

// dial is a connection through the gate.
func (g *gate) dial(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if err := g.pass(ctx.Done()); err != nil {
		return nil, err
	}
	nc, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return &gated{Conn: nc, g: g, done: make(chan struct{})}, nil
}

type gated struct {
	net.Conn
	g    *gate
	once sync.Once
	done chan struct{} // closed by Close
}

// Read waits at the gate with what it has: bytes that were on their way when it closed are late.
func (c *gated) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if e := c.g.pass(c.done); e != nil {
		return 0, e
	}
	return n, err
}

func (c *gated) Write(b []byte) (int, error) {
	if err := c.g.pass(c.done); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *gated) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}
