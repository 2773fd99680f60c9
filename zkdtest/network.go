package zkdtest

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

// Addresses of the network inside the process are literal ones, so that clients resolve nothing.
const (
	loopback   = "127.0.0.1"
	proxyHost  = "127.0.0.100"
	memoryPort = "2181"
)

// A clientNet is what clients reach nodes by: TCP, or a network inside the process.
type clientNet struct {
	memory *memnet.Network // nil: TCP

	mu      sync.Mutex
	proxies int // guarded by mu; those of memory
}

// listenOn opens the ports of a host, as server.Options.Listen; nil for TCP.
func (n *clientNet) listenOn(host string) func(address string) (net.Listener, error) {
	if n.memory == nil {
		return nil
	}
	return n.memory.Host(host).Listen
}

func (n *clientNet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if n.memory == nil {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	return n.memory.Host("client").Dial(ctx, addr)
}

// proxy starts a proxy in front of an address, which is asked for at every connection.
func (n *clientNet) proxy(t testing.TB, target func() string) *Proxy {
	t.Helper()
	l, err := n.listenProxy()
	if err != nil {
		t.Fatalf("zkdtest: proxy: %v", err)
	}
	return newProxy(t, l, func(ctx context.Context) (net.Conn, error) { return n.dial(ctx, "tcp", target()) })
}

func (n *clientNet) listenProxy() (net.Listener, error) {
	if n.memory == nil {
		return net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	}
	n.mu.Lock()
	n.proxies++
	port := strconv.Itoa(n.proxies)
	n.mu.Unlock()
	return n.memory.Host(proxyHost).Listen(net.JoinHostPort(proxyHost, port))
}
