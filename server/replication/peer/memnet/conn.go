package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A conn is one end of a connection.
type conn struct {
	n             *Network
	in, out       *half
	local, remote addr
}

func newPair(n *Network, p pair, there, back rule, address string) (client, server *conn) {
	out, in := newHalf(p, there), newHalf(pair{p.to, p.from}, back)
	out.back, in.back = in, out
	dialer := addr(p.from + ":dialed")
	client = &conn{n: n, in: in, out: out, local: dialer, remote: addr(address)}
	server = &conn{n: n, in: out, out: in, local: addr(address), remote: dialer}
	return client, server
}

// orNil keeps a nil *conn from becoming a net.Conn that is not nil.
func (c *conn) orNil() net.Conn {
	if c == nil {
		return nil
	}
	return c
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	if err != nil && err != io.EOF {
		err = &net.OpError{Op: "read", Net: "memory", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	if err != nil {
		err = &net.OpError{Op: "write", Net: "memory", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

// Close implements net.Conn. What was written can still be read by the other end, whose
// writes fail from now on.
func (c *conn) Close() error {
	c.out.end()
	first := c.in.leave()
	if c.out.left() {
		c.n.forget(c.in, c.out)
	}
	if !first {
		return &net.OpError{Op: "close", Net: "memory", Source: c.local, Addr: c.remote, Err: net.ErrClosed}
	}
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// A half is one direction of a connection.
//
// Invariants: size is the number of bytes in queue and at most windowBytes; segments become
// readable in the order of queue; after ended nothing is queued.
type half struct {
	pair
	back    *half       // the other direction; immutable after newPair
	blocked atomic.Bool // read by the other half, too

	mu      sync.Mutex // guards the fields below
	wake    sync.Cond  // after every change of them
	delay   time.Duration
	queue   []segment
	size    int
	ended   bool      // the writer has closed: after queue comes io.EOF,
	endAt   time.Time // but not earlier than this
	gone    bool      // the reader has closed
	reset   bool
	due     *time.Timer // wakes the reader when the first segment is due
	readBy  deadline
	writeBy deadline
}

// A segment is what one Write put in, or the rest of it.
type segment struct {
	data []byte
	at   time.Time // when it may be read
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newHalf(p pair, r rule) *half {
	h := &half{pair: p, delay: r.delay}
	h.wake.L = &h.mu
	h.blocked.Store(r.blocked)
	return h
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.gone:
			return 0, net.ErrClosed
		case h.reset:
			return 0, syscall.ECONNRESET
		case h.readBy.over():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		}
		if at, ok := h.nextLocked(); ok && !h.blocked.Load() {
			wait := time.Until(at)
			switch {
			case wait > 0:
				h.wakeInLocked(wait)
			case len(h.queue) == 0:
				return 0, io.EOF
			default:
				return h.takeLocked(b), nil
			}
		}
		h.wake.Wait()
	}
}

// nextLocked returns when there is something to read, or the end; ok is false if nobody knows.
func (h *half) nextLocked() (at time.Time, ok bool) {
	if len(h.queue) > 0 {
		return h.queue[0].at, true
	}
	return h.endAt, h.ended
}

func (h *half) takeLocked(b []byte) int {
	n := 0
	for n < len(b) && len(h.queue) > 0 && time.Until(h.queue[0].at) <= 0 {
		s := &h.queue[0]
		k := copy(b[n:], s.data)
		n += k
		s.data = s.data[k:]
		if len(s.data) == 0 {
			h.queue[0] = segment{}
			h.queue = h.queue[1:]
		}
	}
	h.size -= n
	h.wake.Broadcast()
	return n
}

func (h *half) wakeInLocked(d time.Duration) {
	if h.due == nil {
		h.due = time.AfterFunc(d, h.poke)
		return
	}
	h.due.Reset(d)
}

func (h *half) poke() {
	h.mu.Lock()
	h.wake.Broadcast()
	h.mu.Unlock()
}

func (h *half) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for {
		switch {
		case h.ended:
			return n, net.ErrClosed
		case h.reset:
			return n, syscall.ECONNRESET
		case h.gone && !h.back.blocked.Load(): // else the news is held back, too
			return n, syscall.EPIPE
		case n == len(b):
			return n, nil
		case h.writeBy.over():
			return n, os.ErrDeadlineExceeded
		}
		if room := windowBytes - h.size; room > 0 {
			k := min(room, len(b)-n)
			h.queue = append(h.queue, segment{data: append([]byte(nil), b[n:n+k]...), at: time.Now().Add(h.delay)})
			h.size += k
			n += k
			h.wake.Broadcast()
			continue
		}
		h.wake.Wait()
	}
}

// end is the writer's close.
func (h *half) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended, h.endAt = true, time.Now().Add(h.delay)
		h.wake.Broadcast()
	}
}

// leave is the reader's close; false if it was closed already.
func (h *half) leave() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.gone
	h.gone = true
	h.wake.Broadcast()
	return !was
}

func (h *half) left() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone
}

// cut resets both ends.
func (h *half) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reset = true
	h.wake.Broadcast()
}

func (h *half) obey(r rule) {
	h.mu.Lock()
	h.blocked.Store(r.blocked)
	h.delay = r.delay
	h.wake.Broadcast()
	h.mu.Unlock()
	h.back.poke() // its writer looks at our blocked
}

func (h *half) setDeadline(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.at = t
	wait := time.Until(t)
	switch {
	case t.IsZero() || wait <= 0:
		if d.timer != nil {
			d.timer.Stop()
		}
	case d.timer == nil:
		d.timer = time.AfterFunc(wait, h.poke)
	default:
		d.timer.Reset(wait)
	}
	h.wake.Broadcast()
}
