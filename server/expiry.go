package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/failpoint"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
)

// An expiry decides which sessions are over. Every server keeps one up to date with the log;
// only the leader's acts.
//
// Data flow: readers stamp conn.lastSeen with all that they read, and conn.told with what a client
// takes that is not read meanwhile; four times per tick the loop carries the stamps into the
// tracker, beside those that other servers report (report.go), and asks it who is due; for each
// it proposes an expiry, which names the connection epoch that it saw, so that it cannot hit a
// session that has come back meanwhile. An id stays due, and is proposed again each tick, until the
// expiry is applied. A client that waits for the log counts as alive: our delay must not
// cost it its session.
//
// Invariant: a client that was answered keeps its session for the whole timeout after its
// request. So whoever finds that one has been silent for that long cuts its connection first
// (conn.endSilence), and only then proposes the expiry, or tells the leader of the silence. And a
// server of which the leader has heard nothing for so long cuts such connections before it answers
// again (conn.endUnanswered).
type expiry struct {
	s      *Server
	tickNs int64

	signs []sign // owned by run
	gen   uint64 // owned by run: the generation in which this server led at the last look

	mu      sync.Mutex
	tracker *session.Tracker   // guarded by mu
	known   map[int64]*living  // guarded by mu
	led     bool               // guarded by mu: this server has led at the last look …
	ledTerm uint64             // guarded by mu: … or at one before, in this term …
	ledNs   int64              // guarded by mu: … and when that was
	sinceNs int64              // guarded by mu: since when this server leads
	gone    map[int64]int64    // guarded by mu: sessions whose connection here has ended, and when it was heard last; no leader knows yet
	holders map[uint64]*holder // guarded by mu: the servers that report, by the nonce of their process
}

// A holder is another server, with its clients' connections.
type holder struct {
	heardNs int64 // when its last report came; later by the time for which none could come
	coverNs int64 // a time before its last report was made; 0: not known yet
}

// A sign is where to look for signs of life of a session.
type sign struct {
	session int64
	c       *conn
	opens   bool // the client waits for its create or attach
}

// heardNs is as conn.heardNs.
func (g *sign) heardNs(now int64) int64 {
	if g.opens {
		return now
	}
	return g.c.heardNs(now)
}

// living is what the expiry knows of a session.
type living struct {
	timeoutNs  int64
	epoch      uint32        // immutable
	boot       uint64        // immutable: which process has its connection, or had it last
	seenNs     int64         // the newest sign of life; older ones come late, and do not count
	proposedNs int64         // when its expiry was proposed last; 0: not since it was opened
	demanded   bool          // somebody has asked for its end, see expireNow
	over       chan struct{} // closed when the session is closed or attached anew; nil: nobody asks
}

func newExpiry(s *Server) *expiry {
	tick := int64(s.cfg.TickTimeMs) * int64(time.Millisecond)
	return &expiry{
		s: s, tickNs: tick, tracker: session.NewTracker(tick), known: map[int64]*living{},
		holders: map[uint64]*holder{}, gone: map[int64]int64{},
	}
}

// opened notes a session that was created or attached.
func (e *expiry) opened(id int64, epoch uint32, timeoutMs int32, boot uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touchNew(id, epoch, timeoutMs, boot, e.s.nowNs())
}

func (e *expiry) touchNew(id int64, epoch uint32, timeoutMs int32, boot uint64, now int64) {
	e.end(id)
	l := &living{timeoutNs: int64(timeoutMs) * int64(time.Millisecond), epoch: epoch, boot: boot, seenNs: now}
	e.known[id] = l
	e.tracker.Touch(id, now, l.timeoutNs)
}

// parted notes when a connection that has ended was heard last: what came since the last look
// counts as well. What is a new sign of life for the leader only the leader knows.
func (e *expiry) parted(id, seenNs int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touch(id, seenNs)
	if e.known[id] != nil && e.s.clustered { // also where this server leads: it may not at the next look
		e.gone[id] = max(e.gone[id], seenNs)
	}
}

// appendGone appends to a report the sessions whose connection has ended, and to told what told
// wants to know when the leader has acknowledged it. more: the next report has the rest.
func (e *expiry) appendGone(b []byte, now int64, told []farewell) (_ []byte, _ []farewell, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, seen := range e.gone {
		if len(b) >= reportHead+reportEntries*reportEntry/2 {
			return b, told, true
		}
		b = appendSign(b, id, now-seen)
		told = append(told, farewell{id, seen})
	}
	return b, told, false
}

// A farewell is the last sign of life on a connection.
type farewell struct{ session, seenNs int64 }

// acknowledged forgets what the leader knows now.
func (e *expiry) acknowledged(told []farewell) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range told {
		if e.gone[f.session] == f.seenNs {
			delete(e.gone, f.session)
		}
	}
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
// was heard of them before.
func (e *expiry) restart(now int64) {
	e.s.node.RLock()
	defer e.s.node.RUnlock()
	e.rebuild(e.s.node.Machine(), now)
}

// rebuild is restart under a lock of the node.
func (e *expiry) rebuild(m *state.Machine, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tracker = session.NewTracker(e.tickNs)
	for id := range e.known {
		e.end(id)
	}
	for s := range m.Sessions() {
		e.touchNew(s.ID, s.Epoch, s.TimeoutMs, s.Origin.Boot, now)
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
		e.s.afterEntry()
		now := e.s.nowNs()
		if e.leads(now) {
			e.look(last, now)
		}
		last = now
	}
}

// leads says whether this server decides. When it begins to, every session gets its full
// timeout from then on, and unledNs more; also when another one has led since the last look.
func (e *expiry) leads(now int64) bool {
	term, gen, leads := e.s.node.Leading()
	e.gen = gen
	e.mu.Lock()
	begins := leads && term != e.ledTerm
	if begins {
		e.ledTerm, e.sinceNs = term, now
		clear(e.holders)
	} else if leads && !e.led { // a hand-over came to nothing: while it went on nobody could report
		for _, h := range e.holders {
			h.heardNs += now - e.ledNs
		}
	}
	e.led = leads
	if leads {
		e.ledNs = now
		clear(e.gone)
	}
	e.mu.Unlock()
	if begins {
		e.restart(now + e.unledNs())
	}
	return leads
}

// takeReport notes what another server has heard of its clients.
func (e *expiry) takeReport(message []byte, now int64) error {
	if len(message) < reportHead || (len(message)-reportHead)%reportEntry != 0 {
		return errReport
	}
	boot, cover := binary.BigEndian.Uint64(message), int64(binary.BigEndian.Uint64(message[8:]))
	e.mu.Lock()
	defer e.mu.Unlock()
	for b := message[reportHead:]; len(b) > 0; b = b[reportEntry:] {
		seen := now - int64(binary.BigEndian.Uint32(b[8:]))*int64(time.Millisecond)
		e.touch(int64(binary.BigEndian.Uint64(b)), seen)
	}
	h := e.holders[boot]
	if h == nil {
		h = &holder{}
		e.holders[boot] = h
	}
	h.heardNs, h.coverNs = now, max(cover, 0)
	return nil
}

// over says whether a session whose timeout has passed here can be expired: its client must
// not have been answered within the timeout, wherever it is connected. Called with mu held.
func (e *expiry) over(l *living, now int64) bool {
	if l.boot == e.s.boot || !e.s.clustered {
		return true
	}
	h := e.holders[l.boot]
	if h == nil { // it has not reported since this server leads
		return now >= e.sinceNs+e.unledNs()+l.timeoutNs
	}
	// Either a report was made after the deadline; or none came, and that server has been
	// silent to its clients since answerWindow after the last one. (What the leader before may have
	// acknowledged there is in seenNs of every session, see leads.)
	return h.coverNs >= l.seenNs+l.timeoutNs || now >= h.heardNs+int64(answerWindow)+l.timeoutNs
}

// look is one round; the last one was at last.
func (e *expiry) look(last, now int64) {
	if now-last > e.tickNs {
		// This process stood still: what clients sent meanwhile is not read yet, and silence
		// that we caused proves nothing.
		e.s.log.Warn("the server stood still; all sessions get their full timeout again", "for", time.Duration(now-last))
		e.restart(now)
	}
	e.collect(now)
	due := e.due(now)
	if len(due) > 0 {
		e.s.log.Info("expiring sessions", "count", len(due), "first", sessionText(due[0].Session))
	}
	for i := range due {
		if e.heardMeanwhile(due[i].Session, now) {
			continue
		}
		if failpoint.Err(failpoint.SessionExpire) != nil {
			continue
		}
		// In the generation of the judgement: the next leader may have heard of the session, and what
		// this one judged must not come to it by the way of a follower.
		if err := e.s.node.ProposeIn(e.gen, state.AppendCommand(nil, &due[i])); err != nil {
			e.s.log.Debug("expiry not proposed; it is tried again", "reason", err)
			if errors.Is(err, replication.ErrStale) || errors.Is(err, replication.ErrNotLeader) {
				return
			}
		}
	}
}

// heardMeanwhile says whether something has come of a session since it was judged to be due. If
// not, its connection here is ended. One that has ended by itself was noted before (parted).
func (e *expiry) heardMeanwhile(id, now int64) bool {
	var seen int64
	if c := e.s.connOf(id); c != nil && !c.endSilence(now) {
		seen = c.heardNs(now)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touch(id, seen)
	l := e.known[id]
	return l == nil || now < l.seenNs+l.timeoutNs
}

// collect carries the signs of life of all connections into the tracker.
func (e *expiry) collect(now int64) {
	e.signs = e.s.signsOfLife(e.signs[:0])
	defer clear(e.signs)
	for _, g := range e.signs {
		seen := g.heardNs(now)
		e.mu.Lock()
		e.touch(g.session, seen)
		e.mu.Unlock()
	}
}

// touch notes a sign of life, and says whether it is a new one. Called with mu held.
func (e *expiry) touch(id, seenNs int64) bool {
	l := e.known[id]
	if l == nil || seenNs <= l.seenNs {
		return false
	}
	l.seenNs = seenNs
	e.tracker.Touch(id, seenNs, l.timeoutNs)
	return true
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
		if !e.over(l, now) {
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
// is not known is over already. What it proposes may be lost with the way to the log: so it does that
// again and again. The epoch that it names keeps a later life of the session from harm.
func (e *expiry) expireNow(ctx context.Context, id int64) error {
	again := time.NewTicker(max(time.Duration(e.tickNs), time.Second))
	defer again.Stop()
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
		l.demanded = true
		over := l.over
		e.mu.Unlock()
		if err := e.s.propose(&state.Command{Kind: state.KindExpire, Session: id, Epoch: l.epoch}); err != nil {
			return fmt.Errorf("expire session %s: %w", sessionText(id), err)
		}
		select {
		case <-over:
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.s.lifetime.Done():
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
