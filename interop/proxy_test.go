package interop

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
)

// startProxies lets client programs have proxies in front of a server, at target, which is one
// of its addresses: each connection to the returned address makes a new one, says where its
// clients connect, and takes its orders, one line each, answered by "ok" and the number of
// connections accepted so far. The proxy ends with that connection.
//
// Beside those of the proxy there is the order peace, for the checks that wait for the end of
// a session: until the proxy ends, the members of a disturbed cluster are left alive.
func startProxies(t testing.TB, s *server, target string) string {
	t.Helper()
	l := listenLoopback(t)
	peace := &truce{server: s}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { takeOrders(c, target, peace) })
		}
	})
	return l.Addr().String()
}

// takeOrders is the life of one proxy that a program asked for. It ends when the program
// closes its end, or is gone.
func takeOrders(c net.Conn, target string, peace *truce) {
	defer c.Close()
	p, err := newProxy(target)
	if err != nil {
		return // the program sees its connection closed
	}
	defer p.close()
	_, _ = fmt.Fprintln(c, p.addr)
	for in := bufio.NewScanner(c); in.Scan(); {
		if in.Text() == "peace" {
			peace.begin()
			defer peace.end()
		}
		_, _ = fmt.Fprintf(c, "ok %d\n", p.order(in.Text()))
	}
}

// truce is one peace for all checks of a program that want it at the same time.
type truce struct {
	server  *server
	mu      sync.Mutex
	holders int
	release func() // while there are holders
}

func (t *truce) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders == 0 {
		t.release = t.server.inPeace()
	}
	t.holders++
}

func (t *truce) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders--; t.holders == 0 {
		t.release()
	}
}

// proxy stands between clients and one server and breaks the connections on order:
//
//	cut      close all connections; new ones are let through
//	refuse   close all connections, and new ones at once
//	hold     keep back what the server says; requests still reach it
//	mute     keep back both directions: the peer seems to hang
//	pass     let everything through again, first what was kept back
//	count    nothing: the answer alone is wanted
type proxy struct {
	addr     string // for clients
	target   string
	listener net.Listener
	running  sync.WaitGroup
	mu       sync.Mutex
	changed  *sync.Cond // on mu: mode has changed, or a connection was closed
	mode     string     // pass, hold, mute or refuse
	conns    map[net.Conn]bool
	accepted int
}

// startProxy starts a proxy that the test's end stops.
func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p, err := newProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{addr: l.Addr().String(), target: target, listener: l, mode: "pass", conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.acceptClients)
	return p, nil
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.order("refuse")
	p.running.Wait()
}

func listenLoopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// order changes the mode and returns how many connections were accepted so far.
func (p *proxy) order(word string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch word {
	case "cut", "refuse":
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
		p.mode = "pass"
		if word == "refuse" {
			p.mode = word
		}
	case "hold", "mute", "pass":
		p.mode = word
	}
	p.changed.Broadcast()
	return p.accepted
}

func (p *proxy) acceptClients() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.mode == "refuse" {
			_ = c.Close()
			if err == nil {
				_ = s.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.accepted++
		p.conns[c], p.conns[s] = true, true
		p.mu.Unlock()
		p.running.Go(func() { p.copy(s, c, "mute") })
		p.running.Go(func() { p.copy(c, s, "mute", "hold") })
	}
}

// copy moves bytes from src to dst until one of them closes, then closes both. It keeps
// bytes back while the mode is one of those in pausedBy.
func (p *proxy) copy(dst, src net.Conn, pausedBy ...string) {
	defer func() {
		_, _ = dst.Close(), src.Close()
		p.mu.Lock()
		delete(p.conns, dst)
		delete(p.conns, src)
		p.changed.Broadcast()
		p.mu.Unlock()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		for slices.Contains(pausedBy, p.mode) && p.conns[src] {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if _, err := dst.Write(b[:n]); err != nil {
			return
		}
	}
}
