package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"

	"github.com/zkd-project/zkd/jepsen/netem"
)

// loopback has all servers on the loopback device, and a proxy for each direction in which one of them,
// or a client, opens connections. Every server finds the others at addresses of its own, so a
// proxy knows who is behind it.
type loopback struct {
	table  *netem.Table
	net    int          // all addresses are 127.net.x.y
	port   int          // of proxies; that of servers is the next one for clients, and then that for each other
	lock   net.Listener // held while the cluster has the addresses
	client []string     // what servers bind, for clients
	peer   []string     // and for each other
	// proxies by who dials whom; clients are host 0.
	proxies map[[2]int]*netem.Proxy
}

// Loopback is a Driver that works on every machine.
func Loopback(servers int) (Driver, error) {
	l := &loopback{table: netem.NewTable(), proxies: map[[2]int]*netem.Proxy{}}
	if err := l.reserve(); err != nil {
		return nil, err
	}
	for i := 1; i <= servers; i++ {
		host := fmt.Sprintf("127.%d.100.%d", l.net, i)
		l.client = append(l.client, fmt.Sprintf("%s:%d", host, l.port+1))
		l.peer = append(l.peer, fmt.Sprintf("%s:%d", host, l.port+2))
	}
	if err := l.open(servers); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Ports lie below those that the system gives out, to clients as to listeners that want any, and below
// those that other tests look for: one that is closed while its server is down must not be given to
// somebody else, least of all to a listener on all addresses.
const lockPort, firstPort, lastPort = 10_999, 11_000, 14_999

// reserve takes addresses that no other cluster on this machine has.
func (l *loopback) reserve() (err error) {
	for range 1000 {
		l.net = 1 + rand.IntN(253)
		if l.lock, err = net.Listen("tcp", fmt.Sprintf("127.%d.0.1:%d", l.net, lockPort)); err == nil {
			return l.choosePorts()
		}
	}
	return fmt.Errorf("no free addresses on the loopback device: %w", err)
}

// choosePorts finds three in a row on which nobody listens at all addresses.
func (l *loopback) choosePorts() (err error) {
	for range 100 {
		l.port = firstPort + rand.IntN(lastPort-firstPort-1)
		if err = l.portsAreFree(); err == nil {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("no free ports between %d and %d on the loopback device: %w", firstPort, lastPort, err), l.lock.Close())
}

func (l *loopback) portsAreFree() error {
	for port := l.port; port < l.port+3; port++ {
		at, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:%d", l.net, port))
		if err != nil {
			return err
		}
		if err := at.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (l *loopback) open(servers int) error {
	for dst := 1; dst <= servers; dst++ {
		for src := 0; src <= servers; src++ {
			if src == dst {
				continue
			}
			target := l.peer[dst-1]
			if src == netem.Clients {
				target = l.client[dst-1]
			}
			p, err := netem.NewProxy(l.table, src, dst, fmt.Sprintf("127.%d.%d.%d:%d", l.net, 10+src, dst, l.port), target)
			if err != nil {
				return err
			}
			p.Down()
			l.proxies[[2]int{src, dst}] = p
		}
	}
	return nil
}

func (l *loopback) Name() string { return "loopback" }

func (l *loopback) Listen(server int) (client, peer string) {
	return l.client[server-1], l.peer[server-1]
}

func (l *loopback) PeerAddr(from, to int) string { return l.proxies[[2]int{from, to}].Addr() }

func (l *loopback) Command(_ int, args ...string) *exec.Cmd {
	return exec.Command(args[0], args[1:]...)
}

func (l *loopback) Dial(ctx context.Context, server int) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", l.proxies[[2]int{netem.Clients, server}].Addr())
}

func (l *loopback) DialPeer(ctx context.Context, server int) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", l.peer[server-1])
}

func (l *loopback) Look(ctx context.Context, server int) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", l.client[server-1])
}

func (l *loopback) Table() *netem.Table { return l.table }

func (l *loopback) Cut(a, b int) {
	for _, k := range [][2]int{{a, b}, {b, a}} {
		if p := l.proxies[k]; p != nil {
			p.Cut()
		}
	}
}

func (l *loopback) Up(server int) error {
	for k, p := range l.proxies {
		if k[1] == server {
			if err := p.Up(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loopback) Down(server int) {
	for k, p := range l.proxies {
		if k[1] == server {
			p.Down()
		}
	}
}

func (l *loopback) Carried(a, b int) bool {
	return l.proxies[[2]int{a, b}].Carried()+l.proxies[[2]int{b, a}].Carried() > 0
}

func (l *loopback) Lossy() bool { return false }

func (l *loopback) Close() error {
	for _, p := range l.proxies {
		p.Close()
	}
	return l.lock.Close()
}
