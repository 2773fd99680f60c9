package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
)

// An expiry decides which sessions are over. It runs on the leader.
//
// Data flow: readers stamp conn.lastSeen with every frame; four times per tick the loop
// carries the stamps into the tracker and asks it who is due; for each it proposes an
// expiry, which names the connection epoch that it saw, so that it cannot hit a session that
// has come back meanwhile. An id stays due, and is proposed again each tick, until the
// expiry is applied.
type expiry struct {
	s      *Server
	tickNs int64

	mu      sync.Mutex
	tracker *session.Tracker  // guarded by mu
	known   map[int64]*living // guarded by mu
}

// living is what the expiry knows of a session.
type living struct {
	timeoutNs  int64
	epoch      uint32
	proposedNs int64         // when its expiry was proposed last; 0: not since it was opened
	over       chan struct{} // closed when the session is closed or attached anew; nil: nobody asks
}

func newExpiry(s *Server) *expiry {
	tick := int64(s.cfg.TickTimeMs) * int64(time.Millisecond)
	return &expiry{
		s: s, tickNs: tick, tracker: session.NewTracker(tick), known: map[int64]*living{},
	}
}

// opened notes a session that was created or attached.
func (e *expiry) opened(id int64, epoch uint32, timeoutMs int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touchNew(id, epoch, timeoutMs, e.s.nowNs())
}

func (e *expiry) touchNew(id int64, epoch uint32, timeoutMs int32, now int64) {
	e.end(id)
	l := &living{timeoutNs: int64(timeoutMs) * int64(time.Millisecond), epoch: epoch}
	e.known[id] = l
	e.tracker.Touch(id, now, l.timeoutNs)
}

// closed forgets a session.
func (e *expiry) closed(id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end(id)
	e.tracker.Remove(id)
}

// end forgets one epoch of a session. Called with mu held.
func (e *expiry) end(id int64) {
	if l := e.known[id]; l != nil && l.over != nil {
		close(l.over)
	}
	delete(e.known, id)
}

// restart gives every session of the machine its full timeout from now: nobody knows what
// the leader before had heard.
func (e *expiry) restart() {
	e.s.node.RLock()
	defer e.s.node.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.s.nowNs()
	e.tracker = session.NewTracker(e.tickNs)
	for id := range e.known {
		e.end(id)
	}
	for s := range e.s.node.Machine().Sessions() {
		e.touchNew(s.ID, s.Epoch, s.TimeoutMs, now)
	}
}

// run looks four times per tick until ctx ends.
func (e *expiry) run(ctx context.Context) {
	t := time.NewTicker(time.Duration(e.tickNs / 4))
	defer t.Stop()
	last := e.s.nowNs()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := e.s.nowNs()
		if now-last > e.tickNs {
			// This process stood still: what clients sent meanwhile is not read yet, and
			// silence that we caused proves nothing.
			e.s.log.Warn("the server stood still; all sessions get their full timeout again",
				"for", time.Duration(now-last))
			e.restart()
		}
		last = now
		e.collect()
		due := e.due(now)
		if len(due) > 0 {
			e.s.log.Info("expiring sessions", "count", len(due), "first", sessionText(due[0].Session))
		}
		for _, cmd := range due {
			if err := e.s.propose(&cmd); err != nil {
				e.s.log.Debug("expiry not proposed; it is tried again", "reason", err)
			}
		}
	}
}

// collect carries the signs of life of all connections into the tracker.
func (e *expiry) collect() {
	type sign struct {
		id   int64
		seen int64
	}
	e.s.mu.Lock()
	signs := make([]sign, 0, len(e.s.sessions))
	for id, c := range e.s.sessions {
		seen := c.lastSeen.Load()
		if c.stalled.Load() {
			seen = e.s.nowNs()
		}
		signs = append(signs, sign{id, seen})
	}
	e.s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range signs {
		if l := e.known[g.id]; l != nil {
			e.tracker.Touch(g.id, g.seen, l.timeoutNs)
		}
	}
}

// due returns the expiries to propose, less those that were proposed within the last tick.
// The epoch is the one that was silent: an attach that is applied meanwhile makes the
// expiry stale.
func (e *expiry) due(now int64) []state.Command {
	e.mu.Lock()
	defer e.mu.Unlock()
	var cmds []state.Command
	for _, id := range e.tracker.Expire(now) {
		l := e.known[id]
		if l == nil {
			e.tracker.Remove(id)
			continue
		}
		if l.proposedNs != 0 && now-l.proposedNs < e.tickNs {
			continue
		}
		l.proposedNs = now
		cmds = append(cmds, state.Command{Kind: state.KindExpire, Session: id, Epoch: l.epoch})
	}
	return cmds
}

// expireNow ends a session, alive or not, and returns when that is applied. A session that
// is not known is over already.
func (e *expiry) expireNow(ctx context.Context, id int64) error {
	for {
		e.mu.Lock()
		l := e.known[id]
		if l == nil {
			e.mu.Unlock()
			return nil
		}
		if l.over == nil {
			l.over = make(chan struct{})
		}
		over := l.over
		e.mu.Unlock()
		if err := e.s.propose(&state.Command{Kind: state.KindExpire, Session: id, Epoch: l.epoch}); err != nil {
			return fmt.Errorf("expire session %s: %w", sessionText(id), err)
		}
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.s.closing:
			return errNotServing
		}
	}
}

// buckets lists the sessions by the time at which they expire if nothing is heard of them.
func (e *expiry) buckets() []fourletter.SessionBucket {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []fourletter.SessionBucket
	for _, b := range e.tracker.Buckets() {
		out = append(out, fourletter.SessionBucket{Expires: e.s.start.Add(time.Duration(b.AtNs)), IDs: b.IDs})
	}
	return out
}
