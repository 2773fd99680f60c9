package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"
)

// State is where the client stands with its session.
type State int

// The states. Closed and AuthFailed are final, Expired is under FailOnExpiry.
const (
	StateConnecting   State = iota // no session yet, or a new one is being asked for
	StateConnected                 // everything works
	StateReadOnly                  // connected to a server without a quorum: reads work, and may be old
	StateDisconnected              // the session is being resumed; calls wait
	StateLapsed                    // as Disconnected, but for so long that the session must be taken for lost
	StateExpired                   // the server has ended the session
	StateAuthFailed                // the credentials were refused
	StateClosed                    // after Close
)

// String returns the name of the state.
func (s State) String() string {
	names := [...]string{"Connecting", "Connected", "ReadOnly", "Disconnected", "Lapsed", "Expired", "AuthFailed", "Closed"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return names[s]
}

func (s State) connected() bool { return s == StateConnected || s == StateReadOnly }

// A SessionEvent is one change of state.
type SessionEvent struct {
	State     State
	SessionID int64  // of the session that the event is about; 0: there is none
	Server    string // connected: the address; otherwise the last one
	Err       error  // what led to the state, if it is not a good one
	Time      time.Time
}

// An eventLog is a list of all events to which readers hold on at their own place, so that none
// is lost and what all have read is garbage. Its memory is what the slowest reader has not read;
// the rate is bounded by the delays between attempts to connect.
type eventLog struct {
	mu   sync.Mutex
	last *eventNode // has no event yet
	tail *eventNode // the newest event; nil: none
}

type eventNode struct {
	ev   SessionEvent
	set  chan struct{} // closed when ev and next are there
	next *eventNode
}

func newEventLog() *eventLog { return &eventLog{last: &eventNode{set: make(chan struct{})}} }

func (l *eventLog) add(ev SessionEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.last
	n.ev, n.next = ev, &eventNode{set: make(chan struct{})}
	l.tail, l.last = n, n.next
	close(n.set)
}

// from returns the newest event, or the place where the first will be.
func (l *eventLog) from() *eventNode {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail != nil {
		return l.tail
	}
	return l.last
}

// Events yields the present state and then every change, in order and without loss however
// slow the loop is. It ends with ctx, or after a final state.
func (c *Client) Events(ctx context.Context) iter.Seq[SessionEvent] {
	return func(yield func(SessionEvent) bool) {
		for n := c.k.events.from(); ; n = n.next {
			select {
			case <-n.set:
			case <-ctx.Done():
				return
			}
			if !yield(n.ev) || c.k.final(n.ev.State) {
				return
			}
		}
	}
}

// State is the present state.
func (c *Client) State() State {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.k.state
}

// final says that no state follows.
func (k *core) final(s State) bool {
	return s == StateClosed || s == StateAuthFailed || s == StateExpired && k.cfg.policy == FailOnExpiry
}

// enter changes the state and tells it. Called with mu held, which keeps the order.
func (k *core) enter(s State, err error) {
	k.state = s
	ev := SessionEvent{State: s, SessionID: k.session.id, Server: k.server, Err: err, Time: time.Now()}
	k.events.add(ev)
}
