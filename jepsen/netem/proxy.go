package netem

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// queued is how many chunks of chunkBytes may wait in one direction of a connection; then it
// is not read any more, as a full socket buffer does it.
const (
	queued     = 64
	chunkBytes = 32 << 10
)

// A Proxy carries the TCP connections that src opens to dst.
//
// A proxy accepts before it knows whether dst does. So that a dead process refuses
// connections as it should, Down closes the listener while dst does not run.
type Proxy struct {
	t        *Table
	src, dst int
	addr     string // where src finds dst; immutable after NewProxy
	target   string // where dst listens
	carried  atomic.Int64

	mu    sync.Mutex
	l     net.Listener       // guarded by mu; nil while down
	pipes map[*pipe]struct{} // guarded by mu
	wg    sync.WaitGroup
}

// pipe is a connection with both of its halves.
type pipe struct {
	in, out *net.TCPConn
	stop    chan struct{} // closed to end it
	once    sync.Once
}

// NewProxy listens on addr; port 0 takes a free one.
func NewProxy(t *Table, src, dst int, addr, target string) (*Proxy, error) {
	p := &Proxy{t: t, src: src, dst: dst, addr: addr, target: target, pipes: map[*pipe]struct{}{}}
	if err := p.Up(); err != nil {
		return nil, err
	}
	p.addr = p.l.Addr().String() // with the port that it has been given, for good
	return p, nil
}

// Addr is where src finds dst.
func (p *Proxy) Addr() string { return p.addr }

// Carried is how many bytes have passed.
func (p *Proxy) Carried() int64 { return p.carried.Load() }

// Up opens the listener, on the same port as before.
func (p *Proxy) Up() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil {
		return nil
	}
	l, err := listen(p.addr)
	if err != nil {
		return err
	}
	p.l = l
	p.wg.Go(func() { p.accept(l) })
	return nil
}

// copyPatience is for a child of this process to run its program, on a machine that may be busy, or stand
// still, for long.
const copyPatience = time.Minute

// listen opens a port that may have been closed a moment ago. Until a child that was just made runs its own
// program, it has a copy of the listener.
func listen(addr string) (net.Listener, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > copyPatience {
			return l, err
		}
	}
}

// Down closes the listener: dst does not run.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil {
		p.l.Close()
		p.l = nil
	}
}

// Cut resets all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pipes {
		c.reset()
	}
}

// Close ends everything and waits.
func (p *Proxy) Close() {
	p.Down()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(nc.(*net.TCPConn)) })
	}
}

func (c *pipe) reset() {
	c.once.Do(func() {
		close(c.stop)
		for _, nc := range []*net.TCPConn{c.in, c.out} {
			if nc != nil {
				_ = nc.SetLinger(0)
				nc.Close()
			}
		}
	})
}

// serve carries one connection to its end.
func (p *Proxy) serve(in *net.TCPConn) {
	c := &pipe{in: in, stop: make(chan struct{})}
	p.mu.Lock()
	p.pipes[c] = struct{}{}
	p.mu.Unlock()
	defer func() {
		c.reset()
		p.mu.Lock()
		delete(p.pipes, c)
		p.mu.Unlock()
	}()
	// A packet must get there and an answer back for a connection to open.
	if !p.t.pass(p.src, p.dst, c.stop) || !p.t.pass(p.dst, p.src, c.stop) {
		return
	}
	out, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		return
	}
	p.mu.Lock()
	select {
	case <-c.stop:
		out.Close()
	default:
		c.out = out.(*net.TCPConn)
	}
	p.mu.Unlock()
	if c.out == nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.carry(c, c.in, c.out, p.src, p.dst) })
	both.Go(func() { p.carry(c, c.out, c.in, p.dst, p.src) })
	both.Wait()
}

// chunk is some bytes and when they are due at the other end.
type chunk struct {
	b   []byte
	due time.Time
}

// carry moves what comes from one end to the other until that end has nothing more to say.
func (p *Proxy) carry(c *pipe, from, to *net.TCPConn, src, dst int) {
	ch := make(chan chunk, queued)
	var reading sync.WaitGroup
	var failed error // read after ch is closed
	reading.Go(func() {
		defer close(ch)
		for {
			b := make([]byte, chunkBytes)
			n, err := from.Read(b)
			if n > 0 {
				l, _ := p.t.Get(src, dst)
				due := time.Now().Add(l.Delay)
				if l.Jitter > 0 {
					due = due.Add(rand.N(l.Jitter))
				}
				select {
				case ch <- chunk{b[:n], due}:
				case <-c.stop:
					return
				}
			}
			if err != nil {
				failed = err
				return
			}
		}
	})
	defer reading.Wait()
	for k := range ch {
		if wait := time.Until(k.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-c.stop:
				return
			}
		}
		if !p.t.pass(src, dst, c.stop) || !p.t.narrow(src, dst, len(k.b), c.stop) {
			return
		}
		if _, err := to.Write(k.b); err != nil {
			c.reset()
			return
		}
		p.carried.Add(int64(len(k.b)))
	}
	// The end of a connection is a packet, too: it waits for the link.
	if !p.t.pass(src, dst, c.stop) {
		return
	}
	if failed != nil && !errors.Is(failed, io.EOF) {
		c.reset()
		return
	}
	_ = to.CloseWrite()
}
