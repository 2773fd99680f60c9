package client

import (
	"context"
	"sync/atomic"
	"time"
)

// A Session is the time for which one session is surely alive, from the answer that made or
// resumed it until its Deadline passes unanswered, it expires, or the client is closed. It is
// what a lock or a leadership hangs on.
//
// When a session lapses and is resumed later, after all, Client.Session returns a new Session
// with the same ID: what hung on the old one must not be believed any more.
type Session struct {
	id       int64
	password []byte
	epoch    time.Time // origin of the nanoseconds below, with a monotonic reading
	done     chan struct{}
	err      error // set before done is closed

	// The safe deadline, by the monotonic clock (nanoseconds since epoch) and by the wall
	// clock. Written under core.mu, read by anyone.
	deadline     atomic.Int64
	wallDeadline atomic.Int64
	timeout      atomic.Int64
}

// noSession is what Client.Session returns before there is one.
func noSession(epoch time.Time, reason error) *Session {
	s := &Session{epoch: epoch, done: make(chan struct{})}
	s.end(reason)
	return s
}

// ID is the session's id, the ephemeralOwner of its nodes. 0: there is no session.
func (s *Session) ID() int64 { return s.id }

// Timeout is what the server granted.
func (s *Session) Timeout() time.Duration { return time.Duration(s.timeout.Load()) }

// Deadline is the moment until which the server cannot have ended the session: when the newest
// answered request was sent, plus the timeout, less the margin (WithMargin). It has a
// monotonic clock reading.
func (s *Session) Deadline() time.Time { return s.epoch.Add(time.Duration(s.deadline.Load())) }

// Valid says whether the session is surely alive now. It compares clocks, both the monotonic
// and the wall clock: it is right in a process that was stopped or a machine that slept, before
// any timer has fired there. A wall clock that jumps forward makes it false until the next
// answer from the server.
//
// What Valid says may be outdated as soon as it is said; a Multi that contains a check of the
// session's own ephemeral node is not.
func (s *Session) Valid() bool {
	select {
	case <-s.done:
		return false
	default:
	}
	now := time.Now()
	return int64(now.Sub(s.epoch)) < s.deadline.Load() && now.UnixNano() < s.wallDeadline.Load()
}

// Done is closed when the session is over, or its deadline has passed.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is nil until Done is closed; then ErrSessionLapsed, ErrSessionExpired, ErrClosed or
// ErrAuthFailed.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// end closes Done. Called with core.mu held, or before the Session is known to anyone.
func (s *Session) end(reason error) {
	if s.Err() == nil {
		s.err = reason
		close(s.done)
	}
}

// An instant is one moment on both clocks: nanoseconds since core.epoch by the monotonic one,
// and since 1970 by the wall clock.
type instant struct{ mono, wall int64 }

// renew moves the deadline: a request sent at that instant was answered. It never moves the
// deadline back. Called with core.mu held.
func (s *Session) renew(sent instant, timeout, margin time.Duration) {
	if sent.mono+int64(timeout-margin) > s.deadline.Load() {
		s.restart(sent, timeout, margin)
	}
}

// restart sets the deadline, for a connection whose server may have granted less time than the
// one before. Called with core.mu held.
func (s *Session) restart(sent instant, timeout, margin time.Duration) {
	s.timeout.Store(int64(timeout))
	s.wallDeadline.Store(sent.wall + int64(timeout-margin))
	s.deadline.Store(sent.mono + int64(timeout-margin))
}

// Session returns the handle on the present session. Where there is none yet, the handle's ID
// is 0 and its Done closed.
func (c *Client) Session() *Session {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.k.session
}

// AwaitSession returns the present session if it is surely alive, or waits for one that is. It
// fails when ctx ends, and when there will be no further session.
func (c *Client) AwaitSession(ctx context.Context) (*Session, error) {
	if s := c.Session(); s.Err() == nil {
		return s, nil
	}
	for range c.Events(ctx) {
		if s := c.Session(); s.Err() == nil {
			return s, nil
		}
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	return nil, c.Session().Err()
}

// SessionID is Session().ID().
func (c *Client) SessionID() int64 { return c.Session().ID() }

// Deadline is Session().Deadline().
func (c *Client) Deadline() time.Time { return c.Session().Deadline() }

// Password returns the secret with which the present session can be resumed (WithSession).
func (c *Client) Password() []byte {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return append([]byte(nil), c.k.session.password...)
}

// armLapse starts the timer of the present session's deadline. Called with mu held.
func (k *core) armLapse() {
	wait := time.Until(k.session.Deadline())
	if k.lapse == nil {
		k.lapse = time.AfterFunc(wait, k.lapseDue)
		return
	}
	k.lapse.Reset(wait)
}

// lapseDue runs when the deadline that the timer was set to has come. Usually it has moved.
func (k *core) lapseDue() {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.session
	if s.Err() != nil || k.fatal != nil {
		return
	}
	if k.now().mono < s.deadline.Load() {
		k.armLapse()
		return
	}
	k.lapsed()
}

// lapsed takes the session for lost, without asking anybody. The connection, if there is still
// one, is cut: what hung on the session must not go on as if nothing had been. Called with mu
// held.
func (k *core) lapsed() {
	k.session.end(ErrSessionLapsed)
	k.failPinned()
	if k.conn != nil && !k.conn.readOnly {
		k.conn.fail(ErrSessionLapsed)
	}
	k.enter(StateLapsed, ErrSessionLapsed)
	if k.conn != nil && k.conn.readOnly {
		k.enter(StateReadOnly, nil)
	}
}
