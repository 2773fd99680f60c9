package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// A Network is how a Transport reaches others and is reached: TCP, or memnet in tests and
// where all members are in one process. Its connections must be buffered, as those of TCP
// are, and must have deadlines.
type Network interface {
	// Listen opens an address of this host.
	Listen(address string) (net.Listener, error)
	// Dial connects to an address. Where nobody listens, the error must be ECONNREFUSED:
	// by that a dead process is told from a broken way.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// TCP is the Network of the machine.
type TCP struct{}

// keepAlive finds, within about half a minute, what vanished while nothing was sent.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// Listen implements Network.
func (TCP) Listen(address string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	return lc.Listen(context.Background(), "tcp", address)
}

// Dial implements Network.
func (TCP) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", address)
}

// isRefused says whether a dial failed because nobody listens there.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// isDropped says whether the other side took a connection and let it go.
func isDropped(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
