package peer

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ErrClosed is returned when the Transport, or the stream, has been closed on this side.
var ErrClosed = errors.New("the peer connection is closed")

// A conn is a connection whose handshake is done. One goroutine reads from it; any may send.
//
// The right to write goes from hand to hand through turn, which holds one token: who has it
// writes one frame. So a heartbeat waits for one frame of entries at most, in its place in
// line, and no lock is held while the network is slow. A write that is not done by its
// deadline ends the connection, for half a frame cannot be taken back.
type conn struct {
	nc   net.Conn
	raw  net.Conn // under the TLS of nc, or nc itself
	peer raft.ServerID
	boot uint64 // nonce of the process at the other end
	kind Kind
	in   *frameReader
	turn chan struct{}
	done chan struct{} // closed by end

	mu    sync.Mutex // guards the fields below
	cause error
	ours  bool // the end was our decision, or in order: it says nothing about the other side
}

func newConn(nc, raw net.Conn, id raft.ServerID, boot uint64, kind Kind) *conn {
	return &conn{
		nc: nc, raw: raw, peer: id, boot: boot, kind: kind,
		in:   newFrameReader(nc, kind.bufferBytes()),
		turn: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
}

// send writes a frame, whose body fill appends. It returns when the network has taken it.
func (c *conn) send(f frameType, timeout time.Duration, fill func([]byte) []byte) error {
	b := getBuffer()
	defer putBuffer(b)
	*b = appendFrame((*b)[:0], f, fill)
	select {
	case c.turn <- struct{}{}:
	case <-c.done:
		return c.err()
	}
	defer func() { <-c.turn }()
	err := c.nc.SetWriteDeadline(time.Now().Add(timeout))
	if err == nil {
		_, err = c.nc.Write(*b)
	}
	if err != nil {
		c.end(err, false)
		return c.err()
	}
	return nil
}

// bye says that the end is in order, unless somebody is writing, and ends the connection.
func (c *conn) bye(cause error) {
	select {
	case c.turn <- struct{}{}:
		if c.nc.SetWriteDeadline(time.Now().Add(byeTimeout)) == nil {
			_, _ = c.nc.Write(appendFrame(nil, frameBye, nil)) // if it fails, the other side looks after us
		}
		<-c.turn
	default:
	}
	c.end(cause, true)
}

// end closes the connection; the first cause stays. It does not wait, and says nothing to the
// other side: that of crypto/tls would wait for room to say goodbye.
func (c *conn) end(cause error, ours bool) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause, c.ours = cause, ours
		close(c.done)
	}
	c.mu.Unlock()
	c.raw.Close()
}

// err is why the connection ended.
func (c *conn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// broken says whether the connection ended, and neither because we wanted it nor in order.
func (c *conn) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause != nil && !c.ours
}
