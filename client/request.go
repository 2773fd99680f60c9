package client

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/wire"
)

// A request is one frame on its way, and later its reply.
//
// It has one owner at a time. The caller makes it and gives it away with submit; from then on
// it is in core.queue (not sent) or conn.pending (sent), guarded by core.mu. Whoever takes it
// out of there completes it: a token in ready gives it back to the caller. A caller that does
// not wait any longer moves state from waiting to abandoned, and then the completer recycles it.
// Exactly one token is sent, and whoever loses the race for state receives it.
type request struct {
	home *core

	// Set by the caller, not changed while the request is under way.
	op        wire.OpCode
	frame     []byte        // complete but for xid and the watch flag
	after     *request      // a sync: only to be sent on the connection on which that was sent
	pin       *Session      // only to be sent in this session; nil: in any
	inSession int64         // internal: only to be sent in the session with this id; 0: in any
	onDone    func()        // internal requests: called with core.mu held in place of the token
	bound     bool          // internal: dropped, not sent again, when the connection is lost
	auth      *credential   // auth: to be remembered when accepted
	watch     *Watch        // to be registered when the reply allows it
	sub       *Subscription // addWatch: to be attached when accepted
	entry     *watchEntry   // of watch or sub
	bit       watchBits     // what the reply makes the server watch

	// Guarded by core.mu while the request is in a list.
	list       *requestList
	prev, next *request
	conn       *conn // that sent it; nil: not sent
	xid        int32
	sent       instant // when the writer took it
	before     int64   // core.lastZxid when it was first sent
	flagged    bool    // the frame asked the server for a watch

	state atomic.Int32
	ready chan struct{} // capacity 1

	// The outcome, set before the token.
	code wire.Code
	zxid int64
	body []byte // of the reply, in the request's own buffer; valid until release
	err  error  // no reply: why
}

// States of a request under way.
const (
	waiting int32 = iota
	completed
	abandoned
)

// newRequest takes a request from the core's pool. There is a pool per client, not one for all:
// a channel that a synctest bubble has made cannot be used outside of it.
func (k *core) newRequest(op wire.OpCode) *request {
	r, _ := k.requests.Get().(*request)
	if r == nil {
		r = &request{home: k, ready: make(chan struct{}, 1)}
	}
	r.op = op
	return r
}

// release recycles a request that nobody else refers to.
func (r *request) release() {
	frame, body, ready, home := r.frame[:0], r.body[:0], r.ready, r.home
	if cap(frame) > keepFrameBytes {
		frame = nil
	}
	if cap(body) > keepFrameBytes {
		body = nil
	}
	*r = request{home: home, frame: frame, body: body, ready: ready}
	home.requests.Put(r)
}

// reset prepares a completed request for being sent again.
func (r *request) reset() {
	r.conn, r.err, r.code, r.flagged = nil, nil, wire.OK, false
	r.body = r.body[:0]
	r.state.Store(waiting)
}

// keep copies the body of the reply into the request.
func (r *request) keep(body []byte) { r.body = append(r.body[:0], body...) }

// A requestList is a queue with removal from the middle. Guarded by core.mu.
type requestList struct {
	head, tail *request
	n          int
}

func (l *requestList) push(r *request) {
	r.list, r.prev, r.next = l, l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
	l.n++
}

func (l *requestList) remove(r *request) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.list, r.prev, r.next = nil, nil, nil
	l.n--
}

// pop returns the oldest request, nil if there is none.
func (l *requestList) pop() *request {
	r := l.head
	if r != nil {
		l.remove(r)
	}
	return r
}

// A budget bounds the frames under way: those in core.queue and in conn.pending. Guarded by
// core.mu. Callers that do not fit wait in the order in which they came.
type budget struct {
	maxBytes, maxRequests int
	bytes, requests       int
	waiters               []*budgetWaiter
}

type budgetWaiter struct {
	bytes, requests int
	granted         chan struct{} // closed when the room is the waiter's
}

func (b *budget) fits(bytes, requests int) bool {
	if b.requests == 0 {
		return true // a single request larger than the budget passes alone
	}
	return b.bytes+bytes <= b.maxBytes && b.requests+requests <= b.maxRequests
}

// take takes the room if it is there and nobody waits for some.
func (b *budget) take(bytes, requests int) bool {
	if len(b.waiters) > 0 || !b.fits(bytes, requests) {
		return false
	}
	b.force(bytes, requests)
	return true
}

// force takes the room at once: for what the client must send by itself, which is little.
func (b *budget) force(bytes, requests int) {
	b.bytes += bytes
	b.requests += requests
}

func (b *budget) wait(bytes, requests int) *budgetWaiter {
	w := &budgetWaiter{bytes: bytes, requests: requests, granted: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	return w
}

// forget removes a waiter that gave up. It says false if the room had been granted already.
func (b *budget) forget(w *budgetWaiter) bool {
	for i, o := range b.waiters {
		if o == w {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			b.grant() // a smaller one behind it may fit
			return true
		}
	}
	return false
}

// give returns room and hands it to those who wait.
func (b *budget) give(bytes, requests int) {
	b.bytes -= bytes
	b.requests -= requests
	b.grant()
}

func (b *budget) grant() {
	for len(b.waiters) > 0 && b.fits(b.waiters[0].bytes, b.waiters[0].requests) {
		w := b.waiters[0]
		b.waiters = b.waiters[1:]
		b.force(w.bytes, w.requests)
		close(w.granted)
	}
}
