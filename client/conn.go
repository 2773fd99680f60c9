package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// A conn is one connection to one server, from the handshake to its loss. Its reader and writer
// are goroutines of their own; whoever started them calls stop, which waits for both.
type conn struct {
	k        *core
	nc       net.Conn // what is read and written: the socket, or TLS over it
	sock     net.Conn // the socket: closing TLS would wait for the peer
	in       *frameReader
	server   string
	readOnly bool
	timeout  time.Duration // as granted
	opened   instant       // when the connect request was sent
	kick     chan struct{} // capacity 1: there may be something to send
	running  sync.WaitGroup

	dead     chan struct{} // closed by the first fail
	failOnce sync.Once
	err      error // set before dead is closed

	heard  atomic.Int64 // core.now().mono of the last bytes that came
	tendAt int64        // when tend is due, by the same clock; run's

	preparing bool // see core.prepare; run's

	// Guarded by core.mu.
	open     bool        // users' requests may be sent
	adopted  bool        // core.session is the session of this connection
	crowded  bool        // several requests were under way after the last take
	draining bool        // nothing more is sent; the connection ends when all is answered
	setup    requestList // to be sent before any of core.queue
	pending  requestList // sent, in the order in which the replies will come
	auths    requestList // sent with XidAuth: ZooKeeper answers them ahead of the others
	xid      int32       // of the newest request
	pingDue  bool
	pinged   bool    // a ping is unanswered
	pingSent instant // of the newest ping
	answered instant // when the newest answered request was sent
}

// Why connections end.
var (
	errClosedByServer = errors.New("the server closed the connection")
	errSilent         = errors.New("nothing was heard for two thirds of the session timeout")
	errWatchRefused   = errors.New("the server refused a watch that others relied on; all are set again")
	errUnknownOp      = errors.New("the server does not know an operation, and closes the connection after saying so")
	errSessionOver    = errors.New("the server says that the session is over or elsewhere")
	errSeparated      = errors.New("the connection ended between a sync and the read that goes with it")
	errMoving         = errors.New("moving to another server")
)

// fail ends the connection. The first reason counts. It does no I/O: it may be called with
// core.mu held.
func (c *conn) fail(reason error) {
	c.failOnce.Do(func() {
		if errors.Is(reason, io.EOF) {
			reason = errClosedByServer
		}
		c.err = reason
		close(c.dead)
	})
}

// start runs the reader and the writer.
func (c *conn) start() {
	c.running.Add(2)
	go c.readLoop()
	go c.writeLoop()
}

// stop ends the connection and returns when its goroutines are gone.
func (c *conn) stop(reason error) {
	c.fail(reason)
	_ = c.sock.Close()
	c.running.Wait()
}

func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *conn) writeLoop() {
	defer c.running.Done()
	var b []byte
	for {
		c.k.mu.Lock()
		b = c.take(b[:0])
		crowded := c.crowded
		c.k.mu.Unlock()
		if len(b) == 0 {
			select {
			case <-c.kick:
			case <-c.dead:
				return
			}
			if crowded {
				// Let the callers that were woken by the last replies queue what comes next: one
				// write for many requests costs a fraction of many writes. Whoever is alone does
				// not wait.
				runtime.Gosched()
			}
			continue
		}
		if _, err := c.nc.Write(b); err != nil {
			c.fail(err)
			return
		}
		if cap(b) > 4*writeBatchBytes {
			b = nil // one large request must not hold its room for ever
		}
	}
}

// take moves requests from the queues to pending and appends their frames to b, about
// writeBatchBytes at once. Called by the writer with core.mu held.
func (c *conn) take(b []byte) []byte {
	k := c.k
	select {
	case <-c.dead:
		return b
	default:
	}
	if !c.pingDue && c.setup.n == 0 && (!c.open || k.queue.n == 0) {
		return b
	}
	now := k.now()
	if c.pingDue {
		c.pingDue, c.pinged, c.pingSent = false, true, now
		b = append(b, pingFrame...)
	}
	for len(b) < writeBatchBytes {
		r := c.setup.pop()
		if r == nil && c.open && !c.draining {
			r = k.queue.pop()
		}
		if r == nil {
			break
		}
		switch {
		case r.pin != nil && c.readOnly:
			k.drop(r, ErrNotReadOnly)
			continue
		case r.inSession != 0 && r.inSession != k.session.id:
			k.drop(r, ErrSessionExpired)
			continue
		case r.after != nil && r.after.conn != c:
			k.drop(r, &lossError{errSeparated})
			continue
		}
		c.number(r)
		r.flag()
		r.conn, r.sent = c, now
		if r.before == 0 {
			r.before = k.lastZxid
		}
		b = append(b, r.frame...)
	}
	c.crowded = c.pending.n > 1
	return b
}

// number gives a request its xid and puts it where its reply will find it.
func (c *conn) number(r *request) {
	if r.op == wire.OpAuth {
		r.xid = wire.XidAuth
		c.auths.push(r)
	} else {
		if c.xid == maxXid {
			c.xid = 0
		}
		c.xid++
		r.xid = c.xid
		c.pending.push(r)
	}
	setXid(r.frame, r.xid)
}

func (c *conn) readLoop() {
	defer c.running.Done()
	for {
		body, err := c.in.next()
		if err == nil {
			err = c.frame(body)
		} else if long, ok := errors.AsType[*frameLengthError](err); ok {
			err = c.oversized(long)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// frame takes one frame of the server: an event, the answer to a ping, or a reply.
func (c *conn) frame(body []byte) error {
	d := wire.NewDecoder(body)
	d.SetMaxLen(c.in.max)
	var h wire.ReplyHeader
	h.Decode(&d)
	if err := d.Err(); err != nil {
		return fmt.Errorf("reply header: %w", err)
	}
	switch h.Xid {
	case wire.XidNotification:
		return c.event(&h, &d)
	case wire.XidPing:
		return c.pong(&h)
	}
	return c.reply(&h, &d, nil)
}

// oversized takes a reply that is longer than what is accepted: its request fails, for it would
// be answered like this again and again, and the reply is left out. What does not look like the
// reply that is due is an error.
func (c *conn) oversized(long *frameLengthError) error {
	if long.bytes <= long.max {
		return long
	}
	head, err := c.in.beginning(4)
	if err != nil || !c.due(int32(binary.BigEndian.Uint32(head))) {
		return long
	}
	if head, err = c.in.beginning(replyHeaderBytes); err != nil {
		return err
	}
	d := wire.NewDecoder(head)
	var h wire.ReplyHeader
	h.Decode(&d)
	if err := c.reply(&h, &d, &oversizedError{bytes: long.bytes, max: long.max}); err != nil {
		return err
	}
	return c.in.skip()
}

// due says whether a reply with this number is what comes next.
func (c *conn) due(xid int32) bool {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	next := c.pending.head
	if xid == wire.XidAuth {
		next = c.auths.head
	}
	return next != nil && next.xid == xid
}

func (c *conn) event(h *wire.ReplyHeader, d *wire.Decoder) error {
	var we wire.WatcherEvent
	we.Decode(d)
	if err := d.Err(); err != nil {
		return fmt.Errorf("watch event: %w", err)
	}
	ev := Event{Type: EventType(we.Type), Path: we.Path, Zxid: max(h.Zxid, 0)}
	if ev.Type < EventCreated || ev.Type > EventChildrenChanged {
		return fmt.Errorf("watch event of the unknown type %d for %q", we.Type, we.Path)
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	c.k.watches.dispatch(c.k, ev)
	return nil
}

func (c *conn) pong(h *wire.ReplyHeader) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if !c.pinged {
		return errors.New("the answer to a ping that was not sent")
	}
	c.pinged = false
	c.seen(h, wire.OpPing, c.pingSent)
	return nil
}

// reply completes the request that the frame answers. With bad the reply is there and cannot be
// handed out.
func (c *conn) reply(h *wire.ReplyHeader, d *wire.Decoder, bad error) error {
	k := c.k
	k.mu.Lock()
	r, err := c.match(h)
	if err != nil {
		k.mu.Unlock()
		return err
	}
	c.seen(h, r.op, r.sent)
	k.budget.give(len(r.frame), 1)
	if r.entry != nil {
		k.watches.replied(k, r, h.Err)
	}
	if bad != nil {
		k.watches.unregister(k, r)
	}
	if r.auth != nil && h.Err == wire.OK {
		k.remember(r.auth)
	}
	c.conclude(r.op, h.Err)
	if c.draining && c.pending.n == 0 && c.auths.n == 0 {
		c.fail(errMoving)
	}
	k.mu.Unlock()
	r.code, r.zxid, r.err = h.Err, h.Zxid, bad
	if h.Err == wire.OK && bad == nil {
		r.keep(d.Rest())
	}
	if r.onDone != nil {
		k.mu.Lock()
		r.onDone()
		k.mu.Unlock()
		r.release()
		return nil
	}
	if !r.hand() {
		k.mu.Lock()
		k.watches.unregister(k, r)
		k.mu.Unlock()
		r.release()
	}
	return nil
}

// conclude draws conclusions from the code of a reply. Called with core.mu held.
func (c *conn) conclude(op wire.OpCode, code wire.Code) {
	switch {
	case code == wire.OK:
		c.k.acquit(c.server, op)
	case code == wire.Unimplemented && lackOf(op) != 0:
		// The server is about to hang up. Nothing more must go there: what was sent in its
		// place would be lost with the connection.
		c.k.lacksOp(c.server, op)
		c.fail(errUnknownOp)
	case code == wire.SessionExpired, code == wire.UnknownSession, code == wire.SessionMoved:
		c.fail(errSessionOver) // reconnecting finds out what has become of it
	}
}

// match finds the request of a reply. Replies come in the order of the requests; whatever else
// comes, nothing on this connection can be believed any more.
func (c *conn) match(h *wire.ReplyHeader) (*request, error) {
	if h.Xid == wire.XidAuth {
		if r := c.auths.pop(); r != nil {
			return r, nil
		}
		return nil, errors.New("a reply to auth that was not sent")
	}
	r := c.pending.head
	if r == nil {
		return nil, fmt.Errorf("a reply with xid %d, and no request is waiting", h.Xid)
	}
	if r.xid != h.Xid {
		return nil, fmt.Errorf("a reply with xid %d where %d (%v) is due", h.Xid, r.xid, r.op)
	}
	c.pending.remove(r)
	return r, nil
}

// seen draws conclusions from any reply: how new the server is, and how long the session lives.
// Called with core.mu held.
func (c *conn) seen(h *wire.ReplyHeader, op wire.OpCode, sent instant) {
	if h.Zxid > c.k.lastZxid {
		c.k.lastZxid = h.Zxid
	}
	if !touches(op, h.Err) {
		return
	}
	if sent.mono > c.answered.mono {
		c.answered = sent
	}
	if c.adopted && c.k.session.Err() == nil {
		c.k.session.renew(sent, c.timeout, c.k.margin(c.timeout))
	}
}

// touches says whether a reply proves that the server has renewed the session. ZooKeeper answers
// auth and sasl, what it refuses for want of them, and unknown opcodes without touching it.
func touches(op wire.OpCode, code wire.Code) bool {
	switch code {
	case wire.SessionExpired, wire.UnknownSession, wire.SessionMoved, wire.SessionClosedRequireSASLAuth, wire.Unimplemented:
		return false
	}
	return op != wire.OpAuth && op != wire.OpSASL
}

// hand gives a completed request back to its caller, unless the caller has gone.
func (r *request) hand() bool {
	if !r.state.CompareAndSwap(waiting, completed) {
		return false
	}
	r.ready <- struct{}{}
	return true
}
