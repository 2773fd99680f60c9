package zkdtest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// A Direction is one of the two ways through a Proxy.
type Direction int

// The directions.
const (
	ToServer Direction = iota // requests
	ToClient                  // replies and events
)

// A Frame is a message on its way through a Proxy.
type Frame struct {
	Direction Direction
	Conn      int         // the connection's number, from 1
	Hello     bool        // of the handshake: the first frame of a connection in each direction
	Xid       int32       // the request's number; that of an event is -1
	Op        wire.OpCode // of the request, also in its reply; 0 for the handshake and for events
	Body      []byte      // without the length; not to be changed
}

// An Action is what a Proxy does with a frame.
type Action struct {
	do    verb
	wait  time.Duration
	bytes []byte
}

type verb uint8

const (
	pass verb = iota
	swallow
	cut
	cutAfter
	mute
	garbage
)

// Pass hands the frame on.
func Pass() Action { return Action{} }

// Delay hands the frame on later. Those behind it in its direction wait, too.
func Delay(d time.Duration) Action { return Action{wait: d} }

// Swallow loses the frame, and nothing else.
func Swallow() Action { return Action{do: swallow} }

// Cut loses the frame and closes its connection. With ToServer the request was never made; with
// ToClient it was carried out, and nobody knows.
func Cut() Action { return Action{do: cut} }

// CutAfter hands the frame on and then closes its connection.
func CutAfter() Action { return Action{do: cutAfter} }

// Mute loses the frame and everything that follows it in its direction of the connection: the
// other side is there and never says a word.
func Mute() Action { return Action{do: mute} }

// Garbage sends these bytes in place of the frame, as they are.
func Garbage(b []byte) Action { return Action{do: garbage, bytes: b} }

// A Proxy stands between clients and one node and does to their conversation what bad networks
// and dying servers do, frame by frame. Clients of Addr go through it, others do not. It survives
// restarts of the node. Its methods may be called from any goroutine.
//
// What is not of the protocol (a four-letter word, TLS) is handed on as it comes.
type Proxy struct {
	t      testing.TB
	l      net.Listener
	dial   func(ctx context.Context) (net.Conn, error)
	ctx    context.Context // ends with the proxy
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool     // guarded by mu
	conns  int                // guarded by mu; so far
	frames [2]int             // guarded by mu; so far, without pings
	orders []order            // guarded by mu
	rule   func(Frame) Action // guarded by mu; nil: all are handed on
	silent bool               // guarded by mu
	refuse bool               // guarded by mu
}

// An order is what happens to one frame.
type order struct {
	dir  Direction
	at   int // value of Proxy.frames
	what Action
}

// newProxy starts a proxy that ends with the test.
func newProxy(t testing.TB, l net.Listener, dial func(ctx context.Context) (net.Conn, error)) *Proxy {
	p := &Proxy{t: t, l: l, dial: dial, links: map[*link]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.ended.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where clients reach the node through the proxy, host:port.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// At does something to the n-th frame from now on, from 1, in that direction, over all
// connections. The handshake is a frame, pings and their replies are not counted and not touched.
func (p *Proxy) At(dir Direction, n int, what Action) {
	if n < 1 {
		p.t.Errorf("zkdtest: At(%d): frames are counted from 1", n)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = append(p.orders, order{dir, p.frames[dir] + n, what})
}

// On has rule say what happens to every frame that no At speaks of, pings included; nil ends that.
// It is called from many goroutines.
func (p *Proxy) On(rule func(Frame) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Frames is how many frames have come in that direction, without pings.
func (p *Proxy) Frames(dir Direction) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frames[dir]
}

// Cut closes all connections that are open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Silence swallows everything in both directions, until it is called with false. Connections
// stay open, and new ones are made.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
}

// Refuse closes every new connection at once, until it is called with false.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

func (p *Proxy) close() {
	p.cancel()
	_ = p.l.Close()
	p.Cut()
	p.ended.Wait()
}

func (p *Proxy) accept() {
	for {
		near, err := p.l.Accept()
		if err != nil {
			return
		}
		p.ended.Go(func() { p.connect(near) })
	}
}

// connect joins a client to the node. A node that is down looks like one that hangs up.
func (p *Proxy) connect(near net.Conn) {
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	if refuse {
		_ = near.Close()
		return
	}
	far, err := p.dial(p.ctx)
	if err != nil {
		_ = near.Close()
		return
	}
	l := p.join(near, far)
	if l == nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(ToServer, near, far) })
	both.Go(func() { l.pump(ToClient, far, near) })
	both.Wait()
	l.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// join makes a link, nil if the proxy has ended meanwhile.
func (p *Proxy) join(near, far net.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns++
	l := &link{p: p, number: p.conns, near: near, far: far, ops: map[int32]wire.OpCode{}}
	if p.ctx.Err() != nil {
		l.close()
		return nil
	}
	p.links[l] = true
	return l
}

// judge says what happens to a frame.
func (p *Proxy) judge(f Frame) Action {
	what, rule := p.ordered(f)
	if rule != nil {
		what = rule(f)
	}
	return what
}

// ordered returns what At or Silence say, or the rule to be asked.
func (p *Proxy) ordered(f Frame) (Action, func(Frame) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Op != wire.OpPing {
		p.frames[f.Direction]++
		for i, o := range p.orders {
			if o.dir == f.Direction && o.at == p.frames[f.Direction] {
				p.orders = append(p.orders[:i], p.orders[i+1:]...)
				return o.what, nil
			}
		}
	}
	if p.silent {
		return Swallow(), nil
	}
	return Pass(), p.rule
}

// String names the direction.
func (d Direction) String() string {
	if d == ToServer {
		return "to the server"
	}
	return "to the client"
}

// String says what a frame is.
func (f Frame) String() string {
	if f.Hello {
		return fmt.Sprintf("handshake %v", f.Direction)
	}
	return fmt.Sprintf("%v %d %v", f.Op, f.Xid, f.Direction)
}
