package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// A core is what all views of a client share.
//
// run owns the connection: it alone dials, starts and stops one. mu guards everything that run,
// the connection's reader and writer, timers and callers share.
type core struct {
	cfg      config
	epoch    time.Time // origin of instant.mono
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{} // closed when run and all that it started are gone
	events   *eventLog
	servers  *serverList
	counts   counters
	helpers  sync.WaitGroup
	requests sync.Pool     // of *request
	moves    chan struct{} // capacity 1: the connection should be given up for a better server

	lacking atomic.Uint32 // lackBits of the present server

	mu       sync.Mutex
	state    State
	fatal    error // nothing is accepted any more; nil while the client lives
	closing  bool  // Close has begun
	session  *Session
	lapse    *time.Timer
	conn     *conn  // open for users' requests; nil: not connected
	server   string // of conn, or of the last one
	lastLoss error  // why there is no connection
	lastZxid int64
	queue    requestList // not sent yet
	budget   budget
	watches  watchTable
	auths    []*credential
	lackBy   map[string]lackings // by server address
	suspects map[suspect]int

	background int           // deletions that are not known to be done
	idle       chan struct{} // closed when background is 0; nil: nobody asks
}

// lackBits are the operations that a server does not know.
type lackBits uint32

// lackings is what one server was found not to know, and when. It is forgotten after lackMemory,
// at the next connection, because servers are upgraded.
type lackings struct {
	bits  lackBits
	since time.Time
}

const (
	lackCreate2 lackBits = 1 << iota
	lackContainer
	lackAddWatch
	lackMultiRead
	lackSetWatches2
	lackRemoveWatches
)

func lackOf(op wire.OpCode) lackBits {
	switch op {
	case wire.OpCreate2:
		return lackCreate2
	case wire.OpCreateContainer:
		return lackContainer
	case wire.OpAddWatch:
		return lackAddWatch
	case wire.OpMultiRead:
		return lackMultiRead
	case wire.OpSetWatches2:
		return lackSetWatches2
	case wire.OpRemoveWatches:
		return lackRemoveWatches
	}
	return 0
}

// A suspect is an operation after which a server cut the connection without a word: old
// versions of ClickHouse Keeper do so with one that they do not know.
type suspect struct {
	server string
	op     wire.OpCode
}

func (k *core) lacks(b lackBits) bool { return lackBits(k.lacking.Load())&b != 0 }

// lacksOp remembers that the server does not know op. Called with mu held.
func (k *core) lacksOp(server string, op wire.OpCode) {
	if b := lackOf(op); b != 0 {
		k.lackBy[server] = lackings{k.lackBy[server].bits | b, time.Now()}
		k.useLacks(server)
	}
}

// useLacks makes what is known of a server count. Called with mu held.
func (k *core) useLacks(server string) {
	l := k.lackBy[server]
	if time.Since(l.since) > lackMemory {
		delete(k.lackBy, server)
		l.bits = 0
	}
	if k.cfg.legacy {
		l.bits = ^lackBits(0)
	}
	k.lacking.Store(uint32(l.bits))
}

func (k *core) now() instant {
	t := time.Now()
	return instant{mono: int64(t.Sub(k.epoch)), wall: t.UnixNano()}
}

// margin is what the safe deadline keeps clear of the timeout.
func (k *core) margin(timeout time.Duration) time.Duration {
	return time.Duration(float64(timeout) * k.cfg.margin)
}

// reason is why the client has ended, ErrClosed while it has not.
func (k *core) reason() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fatal == nil {
		return ErrClosed
	}
	return k.fatal
}

// refusal says why a request cannot be accepted. Called with mu held.
func (k *core) refusal(pin *Session) error {
	switch {
	case k.fatal != nil:
		return k.fatal
	case k.closing:
		return ErrClosed
	case pin != nil && pin.Err() != nil:
		return pin.Err()
	case pin != nil && pin != k.session:
		return ErrSessionExpired
	}
	return nil
}

// submit gives requests away, in this order and with nothing in between. It waits while too
// much is under way, not for a connection. After an error the requests are the caller's again.
func (k *core) submit(ctx context.Context, rs ...*request) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	bytes := 0
	for _, r := range rs {
		bytes += len(r.frame)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.refusal(rs[0].pin)
	if err == nil && !k.budget.take(bytes, len(rs)) {
		err = k.awaitRoom(ctx, bytes, len(rs))
		if err == nil {
			if err = k.refusal(rs[0].pin); err != nil {
				k.budget.give(bytes, len(rs))
			}
		}
	}
	if err != nil {
		return err
	}
	for _, r := range rs {
		k.push(r)
	}
	return nil
}

// awaitRoom waits until the budget has room and takes it. Called with mu held, which it gives
// up meanwhile.
func (k *core) awaitRoom(ctx context.Context, bytes, requests int) error {
	w := k.budget.wait(bytes, requests)
	k.mu.Unlock()
	var err error
	select {
	case <-w.granted:
	case <-ctx.Done():
		err = contextError(ctx)
	}
	k.mu.Lock()
	if err != nil && !k.budget.forget(w) {
		k.budget.give(bytes, requests)
	}
	return err
}

// push queues a request for which there is room. Called with mu held.
func (k *core) push(r *request) {
	switch {
	case r.watch != nil:
		k.busy(r, r.watch.path)
	case r.sub != nil:
		k.busy(r, r.sub.path)
	}
	k.queue.push(r)
	if k.conn != nil {
		k.conn.wake()
	}
}

// enqueue queues a request of the client itself. Called with mu held.
func (k *core) enqueue(r *request) {
	k.budget.force(len(r.frame), 1)
	k.push(r)
}

// drop completes a request that was taken out of a list and will get no reply. Called with mu
// held.
func (k *core) drop(r *request, reason error) {
	k.budget.give(len(r.frame), 1)
	if r.entry != nil {
		k.unbusy(r)
	}
	r.err = reason
	switch {
	case r.onDone != nil:
		r.onDone()
		r.release()
	case !r.hand():
		r.release()
	}
}

// What abandon finds.
type fate int

const (
	fateUnsent   fate = iota // it was never sent; the request is the caller's again
	fateSent                 // it is out; the request is not the caller's any more
	fateAnswered             // its outcome is there; the request is the caller's again
)

// abandon gives a request up whose caller will not wait any longer.
func (k *core) abandon(r *request) fate {
	k.mu.Lock()
	if r.list == &k.queue {
		k.queue.remove(r)
		k.budget.give(len(r.frame), 1)
		if r.entry != nil {
			k.unbusy(r)
		}
		k.mu.Unlock()
		return fateUnsent
	}
	gone := r.state.CompareAndSwap(waiting, abandoned)
	k.mu.Unlock()
	if gone {
		return fateSent
	}
	<-r.ready
	return fateAnswered
}

// established opens a connection that is authenticated and has its watches. It says false if
// the client has been closed meanwhile. Called by run.
func (k *core) established(c *conn, hello *wire.ConnectResponse) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fatal != nil {
		return false
	}
	if !c.readOnly && k.session.Err() != nil {
		k.adopt(c, hello) // it lapsed while the connection was prepared
	}
	k.conn, k.server, k.lastLoss = c, c.server, nil
	k.useLacks(c.server)
	c.open = true
	if c.readOnly {
		k.enter(StateReadOnly, nil)
	} else {
		k.enter(StateConnected, nil)
	}
	for _, e := range k.watches.entries {
		k.settle(e)
	}
	c.wake()
	return true
}

// adopt makes the session of a new connection the client's, right after the handshake, so that
// it is resumed and not left behind should the connection not live to be used. A session that has
// not lapsed goes on as it is; otherwise a new Session begins, perhaps with the old id. Called
// with mu held.
func (k *core) adopt(c *conn, hello *wire.ConnectResponse) {
	if k.fatal != nil {
		return
	}
	if k.session.id != hello.SessionID || k.session.Err() != nil {
		k.session = &Session{id: hello.SessionID, password: hello.Password, epoch: k.epoch, done: make(chan struct{})}
	}
	c.adopted = true
	k.session.restart(c.answered, c.timeout, k.margin(c.timeout))
	k.armLapse()
}

// lost takes a connection down that has ended, and completes what was under way on it. Called
// by run when the connection's goroutines are gone.
func (k *core) lost(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	loss := &lossError{c.err}
	k.lastLoss = c.err
	wasOpen := k.conn == c
	if wasOpen {
		k.conn = nil
		if k.state.connected() {
			k.enter(StateDisconnected, c.err)
		}
	}
	c.open = false
	k.suspect(c)
	var bound requestList // first of all, since a dropped one may queue another
	for r := k.queue.head; r != nil; {
		next := r.next
		if r.bound {
			k.queue.remove(r)
			bound.push(r)
		}
		r = next
	}
	k.watches.connectionLost(k)
	for _, l := range []*requestList{&bound, &c.auths, &c.pending, &c.setup} {
		for r := l.pop(); r != nil; r = l.pop() {
			k.drop(r, loss)
		}
	}
}

// suspect looks for an operation that the server does not know and answers by hanging up. Twice
// in a row, with nothing but that operation to be blamed, is taken for an answer.
func (k *core) suspect(c *conn) {
	r := c.pending.head
	if r == nil || !errors.Is(c.err, errClosedByServer) || lackOf(r.op) == 0 {
		return
	}
	s := suspect{c.server, r.op}
	if k.suspects[s]++; k.suspects[s] >= 2 {
		k.lacksOp(c.server, r.op)
	}
}

// acquit forgets a suspicion that an answer has refuted. Called with mu held.
func (k *core) acquit(server string, op wire.OpCode) {
	if len(k.suspects) > 0 {
		delete(k.suspects, suspect{server, op})
	}
}

// failPinned fails the requests that were to be sent in a session which is over. Called with mu
// held.
func (k *core) failPinned() {
	for r := k.queue.head; r != nil; {
		next := r.next
		if r.pin != nil && r.pin.Err() != nil {
			k.queue.remove(r)
			k.drop(r, r.pin.Err())
		}
		r = next
	}
}

// expired notes that the server has ended the session. It says false if that was the end.
func (k *core) expired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closing: // what Close was about to do has been done
		k.terminate(StateClosed, ErrClosed)
		return false
	case k.cfg.policy == FailOnExpiry:
		k.terminate(StateExpired, ErrSessionExpired)
		return false
	}
	old := k.session
	old.end(ErrSessionExpired)
	k.failPinned()
	k.watches.endOneShots(k, ErrSessionExpired)
	k.enter(StateExpired, ErrSessionExpired)
	k.session = noSession(k.epoch, ErrSessionExpired)
	k.enter(StateConnecting, nil)
	return true
}

// terminate is the end of everything: no call is accepted any more, and all that waits gets
// reason. Called with mu held; later calls do nothing.
func (k *core) terminate(s State, reason error) {
	if k.fatal != nil {
		return
	}
	k.fatal, k.state = reason, s // first: nothing below may send anything
	k.session.end(reason)
	if k.lapse != nil {
		k.lapse.Stop()
	}
	for r := k.queue.pop(); r != nil; r = k.queue.pop() {
		k.drop(r, reason)
	}
	k.watches.endOneShots(k, reason)
	for _, e := range k.watches.entries {
		for _, sub := range slices.Concat(e.persistent, e.recursive) {
			k.watches.dropSubscription(sub)
			sub.end(reason)
		}
	}
	for _, w := range k.budget.waiters {
		k.budget.force(w.bytes, w.requests) // they give it back
		close(w.granted)
	}
	k.budget.waiters = nil
	k.enter(s, reason)
	k.cancel()
}

// remember keeps credentials that the server has accepted, for the next connection. Called with
// mu held.
func (k *core) remember(c *credential) {
	for _, o := range k.auths {
		if o.equal(c) {
			return
		}
	}
	k.auths = append(k.auths, c)
}

// awaitSettled waits until nothing is left to remove on the server for an entry.
func (k *core) awaitSettled(ctx context.Context, e *watchEntry, path string) error {
	k.mu.Lock()
	if e.busy == 0 && e.removing == 0 {
		k.mu.Unlock()
		return nil
	}
	ch := make(chan struct{})
	e.waiters = append(e.waiters, ch)
	k.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return &Error{Op: "removeWatches", Path: path, Err: contextError(ctx), Detail: "the removal goes on"}
	}
}
