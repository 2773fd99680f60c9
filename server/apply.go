package server

import (
	"github.com/zkd-project/zkd/internal/failpoint"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/wire"
)

// Server implements replication.Observer: the methods of this file run under the write
// lock, in the order of the log, but for BatchReleased.
var _ replication.Observer = (*Server)(nil)

// Applied hands out the events of a command, and then its result to the connection that
// waits for it: a client hears of a change before it sees a reply that shows it.
func (s *Server) Applied(cmd *state.Command, r *state.Result) {
	for i := range r.Events {
		s.fire(&r.Events[i])
	}
	clear(s.heard)
	if a := s.auditor.Load(); a != nil {
		a.applied(cmd, r)
	}
	s.noteQuota(r.OverQuota)
	if r.TTLCreated|r.TTLReaped != 0 || r.Refused != "" {
		s.countChanges(r)
	}
	if r.Zxid != s.lastApplied {
		s.lastApplied = r.Zxid
		s.digests.note(s.node.Machine())
	}
	switch cmd.Kind {
	case state.KindWrite, state.KindSync, state.KindCloseSession:
		s.completeWrite(cmd, r)
	case state.KindCreateSession, state.KindAttach:
		s.sessionOpened(cmd, r)
	case state.KindMembers:
		if c := s.connOf(r.Asker.Session); c != nil && r.Outcome == state.Applied {
			c.changed(&r.Asker, r)
		}
	case state.KindRestore:
		s.restores.applied(cmd, r)
	}
	if r.Closed != 0 {
		s.sessionClosed(cmd, r)
	}
}

// BatchDone publishes the zxid of the batch. Its events and replies are queued already, so
// nothing that is answered with this zxid can overtake them.
func (s *Server) BatchDone() {
	s.zxid.Store(s.node.Machine().Zxid())
}

// BatchReleased runs after the write lock was released: it writes to the clients that the
// batch concerned. A few are served here, which saves the hand-over; more are left to the
// flushers, so that the next batch need not wait.
func (s *Server) BatchReleased() {
	const few = 2
	if len(s.touched) <= few {
		for i, c := range s.touched {
			c.afterApply()
			s.touched[i] = nil
		}
		s.touched = s.touched[:0]
		return
	}
	s.flushers.addAll(s.touched)
	clear(s.touched)
	s.touched = s.touched[:0]
}

// touch marks c as having something to send after this batch. Called with c.mu held, from
// the apply loop.
func (s *Server) touch(c *conn) {
	if !c.inFlusher {
		c.inFlusher = true
		s.touched = append(s.touched, c)
	}
}

// Restored: the machine was replaced by a snapshot, so neither the results of pending
// writes nor the events in between can be known. The clients come back and ask.
func (s *Server) Restored() {
	for _, c := range s.connections() {
		c.abort()
	}
	if a := s.auditor.Load(); a != nil {
		a.restored()
	}
	s.expiry.rebuild(s.node.Machine(), s.nowNs())
	s.zxid.Store(s.node.Machine().Zxid())
	s.quarantined.Store(s.node.InQuarantine())
}

// Quarantined: the data here are wrong. The clients go to other servers, and nobody is let in
// until Restored.
func (s *Server) Quarantined() {
	s.quarantined.Store(true)
	s.stats.DigestMismatches.Add(1)
	for _, c := range s.connections() {
		c.abort()
	}
}

// fire tells everybody who watches.
func (s *Server) fire(e *state.Event) {
	s.deliveries = s.watches.Fire(watch.Event{Type: e.Type, Path: e.Path}, s.deliveries[:0])
	if len(s.deliveries) == 0 {
		return
	}
	s.countWatchers()
	var frame []byte
	var shown watch.Delivery
	for i := range s.deliveries {
		d := &s.deliveries[i]
		c := s.connByWatch(d.ID)
		if c == nil {
			continue
		}
		list := e.ACL
		if d.OnParent {
			list = e.ParentACL
		}
		if !s.mayHear(list, c.ids.Load()) {
			continue
		}
		if frame == nil || shown.Type != d.Type || shown.Path != d.Path {
			frame = wire.AppendEvent(s.eventBuf[:0], e.Zxid, d.Type, d.Path)
			s.eventBuf, shown = frame, *d
		}
		c.sendEvent(frame)
	}
}

// A hearing is a list and the identities of a watcher.
type hearing struct {
	list *wire.ACL // the first entry: lists are shared and never change
	ids  *[]wire.ID
}

// mayHear says whether a watcher with these identities may be told of a node with that list. A
// transaction can have tens of thousands of events, and a list as many entries: a long one is
// judged once for each watcher and command.
func (s *Server) mayHear(list []wire.ACL, ids *[]wire.ID) bool {
	settings := &s.node.Machine().Settings().ACL
	if len(list) <= shortList {
		return acl.Allowed(settings, list, wire.PermRead, *ids)
	}
	h := hearing{&list[0], ids}
	may, known := s.heard[h]
	if !known {
		may = acl.Allowed(settings, list, wire.PermRead, *ids)
		s.heard[h] = may
	}
	return may
}

// countChanges notes what is counted of a few commands only, and not while the log of an earlier run
// is applied.
func (s *Server) countChanges(r *state.Result) {
	if !s.serving() {
		return
	}
	s.stats.TTLNodesCreated.Add(int64(r.TTLCreated))
	s.stats.TTLNodesDeleted.Add(int64(r.TTLReaped))
	if r.Refused != "" {
		s.stats.QuotaExceeded.Add(stats.Namespace(r.Refused), 1)
	}
}

// countWatchers notes how many watchers each event of a change had.
func (s *Server) countWatchers() {
	var n [wire.EventNodeChildrenChanged + 1]int64
	for i := range s.deliveries {
		n[s.deliveries[i].Type]++
	}
	for t, h := range [...]*stats.Histogram{
		wire.EventNodeCreated:         s.stats.WatchCreated,
		wire.EventNodeDeleted:         s.stats.WatchDeleted,
		wire.EventNodeDataChanged:     s.stats.WatchChanged,
		wire.EventNodeChildrenChanged: s.stats.WatchChildren,
	} {
		if n[t] > 0 {
			h.Record(n[t])
		}
	}
}

// sendEvent queues a notification. A client that does not read is cut off before it costs
// others their memory: when too much waits for it, or anything considerable while too much
// waits for all slow clients together.
func (c *conn) sendEvent(frame []byte) {
	failpoint.Hit(failpoint.WatchSend)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.view != nil { // what it reads does not change
		return
	}
	if int64(len(c.out.queued)+len(frame)) > c.s.cfg.MaxConnQueueBytes {
		c.cut("it does not read its watch events: zkd.maxConnQueueBytes")
		return
	}
	c.out.queued = append(c.out.queued, frame...)
	c.weigh()
	if c.out.weight > 0 && c.s.waitingBytes.Load() > c.s.cfg.MaxTotalBufferBytes {
		c.cut("it does not read its watch events while much waits for other clients: zkd.maxTotalBufferBytes")
		return
	}
	c.notified(len(frame))
	c.s.touch(c)
}

func (s *Server) completeWrite(cmd *state.Command, r *state.Result) {
	if cmd.Kind == state.KindSync && cmd.Epoch == 0 {
		if cmd.Session == s.barrierSession() {
			s.barriers.passed(cmd.Req)
		}
		return
	}
	c := s.connOf(cmd.Session)
	if c == nil {
		return
	}
	switch r.Outcome {
	case state.Applied, state.Failed:
		c.complete(cmd, r)
	case state.Gap:
		c.repeatFrom(cmd)
	case state.Moved, state.NoSession:
		// Closed without a reply: the client asks the next server and learns the truth there.
		c.abortEpoch(cmd.Epoch)
	}
}

// abortEpoch ends the connection if it is the one that the epoch stands for.
func (c *conn) abortEpoch(epoch uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch {
		c.abortLocked()
	}
}

// sessionOpened gives the session to the connection that asked for it. Whoever held it
// before is cut: a session has one connection.
func (s *Server) sessionOpened(cmd *state.Command, r *state.Result) {
	var c *conn
	if cmd.Origin.Boot == s.boot {
		c = s.connByNumber(cmd.Origin.Conn)
	}
	if r.Outcome == state.Applied {
		s.expiry.opened(cmd.Session, r.Epoch, r.TimeoutMs, cmd.Origin.Boot)
		if old := s.bindSession(cmd.Session, c); old != nil && old != c {
			old.abort()
		}
	}
	if c != nil {
		c.establish(cmd, r) // last: the answer may be with the client at once
	}
}

// sessionClosed forgets the session. The connection of a client that asked for it has its
// reply queued and ends by itself; that of an expired session is cut.
func (s *Server) sessionClosed(cmd *state.Command, r *state.Result) {
	failpoint.Hit(failpoint.SessionClose)
	c := s.bindSession(r.Closed, nil)
	if cmd.Kind == state.KindExpire {
		if s.serving() && s.node.Leads() { // not while the log of an earlier run is applied
			s.stats.SessionsExpired.Add(1)
		}
		if c != nil {
			c.abort()
		}
	}
	s.expiry.closed(r.Closed)
}
