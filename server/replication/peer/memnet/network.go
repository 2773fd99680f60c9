package memnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// windowBytes may be on their way in one direction before Write waits.
	windowBytes = 256 << 10
	// backlog is how many connections may wait for Accept. Further dials wait.
	backlog = 128
)

// A Network is what hosts are connected by. The zero value is not usable, see New.
type Network struct {
	mu        sync.Mutex // guards the fields below
	listeners map[string]*listener
	halves    map[*half]struct{} // of the connections that are open
	rules     map[pair]rule
	down      map[string]bool // hosts that crashed
	changed   chan struct{}   // closed and made anew when a dial that waits should look again
}

// A pair is a direction between two hosts.
type pair struct{ from, to string }

// A rule is what is wrong with a direction.
type rule struct {
	blocked, refused bool
	delay            time.Duration
}

// New returns a network without hosts.
func New() *Network {
	return &Network{
		listeners: map[string]*listener{},
		halves:    map[*half]struct{}{},
		rules:     map[pair]rule{},
		down:      map[string]bool{},
		changed:   make(chan struct{}),
	}
}

// Host returns the machine of that name. Its addresses are "name:port".
func (n *Network) Host(name string) *Host { return &Host{n: n, name: name} }

// Block holds back what goes from one host to the other, including the news that a
// connection was closed. Dials in either direction wait.
func (n *Network) Block(from, to string) {
	n.change(pair{from, to}, func(r *rule) { r.blocked = true })
}

// Unblock lets go what Block held back.
func (n *Network) Unblock(from, to string) {
	n.change(pair{from, to}, func(r *rule) { r.blocked = false })
}

// Partition blocks both directions between each host of one side and each of the other.
func (n *Network) Partition(side, other []string) {
	for _, a := range side {
		for _, b := range other {
			n.Block(a, b)
			n.Block(b, a)
		}
	}
}

// Heal ends all that Block, Partition, Refuse and Delay have done.
func (n *Network) Heal() {
	n.mu.Lock()
	pairs := make([]pair, 0, len(n.rules))
	for p := range n.rules {
		pairs = append(pairs, p)
	}
	n.mu.Unlock()
	for _, p := range pairs {
		n.change(p, func(r *rule) { *r = rule{} })
	}
}

// Delay makes each byte from one host to the other arrive d late. Those that are on their
// way keep the delay they started with.
func (n *Network) Delay(from, to string, d time.Duration) {
	n.change(pair{from, to}, func(r *rule) { r.delay = d })
}

// Refuse makes dials from one host to the other fail as those to a closed port do.
// Connections that exist stay; see Cut.
func (n *Network) Refuse(from, to string, refused bool) {
	n.change(pair{from, to}, func(r *rule) { r.refused = refused })
}

// Cut resets the connections between two hosts.
func (n *Network) Cut(a, b string) {
	for _, h := range n.between(func(p pair) bool { return p == pair{a, b} || p == pair{b, a} }) {
		h.cut()
	}
}

// Crash ends all that a host has open, as the end of its process does. Its dials fail until
// it listens again.
func (n *Network) Crash(host string) {
	n.mu.Lock()
	n.down[host] = true
	var gone []*listener
	for _, l := range n.listeners {
		if l.host == host {
			gone = append(gone, l)
		}
	}
	n.mu.Unlock()
	for _, l := range gone {
		l.Close()
	}
	for _, h := range n.between(func(p pair) bool { return p.from == host }) {
		h.end()
		h.back.leave()
	}
}

func (n *Network) change(p pair, f func(*rule)) {
	n.mu.Lock()
	r := n.rules[p]
	f(&r)
	n.rules[p] = r
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	for _, h := range n.between(func(q pair) bool { return p == q }) {
		h.obey(r)
	}
}

func (n *Network) between(which func(pair) bool) []*half {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*half
	for h := range n.halves {
		if which(h.pair) {
			found = append(found, h)
		}
	}
	return found
}

func (n *Network) forget(halves ...*half) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range halves {
		delete(n.halves, h)
	}
}

// A Host is one machine of a Network. It has the methods that a transport needs of its
// network.
type Host struct {
	n    *Network
	name string
}

// Listen opens an address of the host, "name:port". The port may be any text; it is not
// chosen for the caller.
func (h *Host) Listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host != h.name {
		return nil, opError("listen", address, fmt.Errorf("not an address of the host %s", h.name))
	}
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.n.listeners[address] != nil {
		return nil, opError("listen", address, syscall.EADDRINUSE)
	}
	l := &listener{
		n: h.n, host: h.name, address: addr(address),
		queue: make(chan *conn, backlog), done: make(chan struct{}),
	}
	h.n.listeners[address] = l
	delete(h.n.down, h.name)
	return l, nil
}

// Dial connects to an address of any host of the network. It waits while the way is
// blocked, until ctx ends.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, opError("dial", address, err)
	}
	for late := false; ; late = true {
		c, wait, changed, err := h.n.connect(h.name, to, address, late)
		if c != nil || err != nil {
			return c.orNil(), err
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-changed:
		case <-timer:
		case <-ctx.Done():
			return nil, opError("dial", address, os.ErrDeadlineExceeded)
		}
	}
}

// connect makes one attempt: a connection, an error, or what to wait for. A dial that has
// waited for its delay is late, and need not again.
func (n *Network) connect(from, to, address string, late bool) (*conn, time.Duration, chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	there, back := n.rules[pair{from, to}], n.rules[pair{to, from}]
	if n.down[from] {
		return nil, 0, nil, opError("dial", address, syscall.ENETDOWN)
	}
	if there.blocked || back.blocked {
		return nil, 0, n.changed, nil
	}
	if rtt := there.delay + back.delay; rtt > 0 && !late {
		return nil, rtt, nil, nil
	}
	l := n.listeners[address]
	if l == nil || there.refused {
		return nil, 0, nil, opError("dial", address, syscall.ECONNREFUSED)
	}
	client, server := newPair(n, pair{from, to}, there, back, address)
	select {
	case l.queue <- server:
	default:
		return nil, time.Millisecond, n.changed, nil // as a full backlog: the SYN is lost
	}
	n.halves[client.out], n.halves[client.in] = struct{}{}, struct{}{}
	return client, 0, nil, nil
}

// A listener hands out the server's ends.
type listener struct {
	n       *Network
	host    string
	address addr
	queue   chan *conn
	once    sync.Once
	done    chan struct{} // closed by Close
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, opError("accept", string(l.address), net.ErrClosed)
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, opError("accept", string(l.address), net.ErrClosed)
	}
}

// Close implements net.Listener: connections that nobody has accepted are reset.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, string(l.address))
		l.n.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.queue:
				c.in.cut()
				c.out.cut()
				l.n.forget(c.in, c.out)
			default:
				return
			}
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.address }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

func opError(op, address string, err error) error {
	return &net.OpError{Op: op, Net: "memory", Addr: addr(address), Err: err}
}
