package server

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/replication"
)

// How the leader learns which sessions live, wherever their clients are connected.
//
// Every other server reports to the leader four times in a tick, or in answerWindow where that is
// shorter, also when there is nothing new: the sessions of which it has heard since, and how long
// ago. The leader acknowledges with the time on its clock, which the next report returns: so the
// leader has a time that lies before the report was made.
//
// A client may only believe what the leader knows. So a server whose last acknowledged report
// is older than answerWindow sends nothing to its clients, pings included (mayAnswer). A leader
// believes itself, and takes reports, while a majority has confirmed within surelyLed that it leads:
// one that is cut off learns late that another one does. And the leader expires a session only when
// the server that holds it has reported after the deadline, or has been silent for so long that
// nobody can have been answered there within the timeout (expiry.over). Else a server that is cut
// off would answer pings of a session that the leader expires, and two clients would hold one lock.
// Whom a report shows to have been silent for the whole timeout has no connection any more when it
// leaves: what the client sends while the leader decides gets no answer. Nor has, when the server is
// acknowledged again, who could not be answered for so long that the leader needed no report.
//
//	report  8 boot nonce of the sender
//	        8 the leader's time in the last acknowledgement; 0 if there is none, if not
//	          everything that was heard found room, or if what was sent may not be read yet
//	          (pace): such a report proves nobody's silence
//	        each: 8 session  4 milliseconds since it was heard
//	answer  8 the leader's time  1 writes are refused: there is no room on the disk
const (
	reportHead    = 16
	reportAnswer  = 9
	reportEntry   = 12
	reportEntries = 100_000 // in one message; the next one follows at once
)

// answerWindow is for how long a report that the leader has acknowledged allows a server to answer its
// clients. The leader, and the next one, have to reckon with it; so it does not follow tickTime, which
// the servers of a cluster may have differently, as halfway through a change of it.
const answerWindow = time.Second

// surelyLed is how old the proof may be that a leader leads. Heartbeats, every 140 ms at most, renew
// it.
const surelyLed = time.Second

// leadsSurely says whether nobody else led longer ago than surelyLed.
func (s *Server) leadsSurely() bool {
	age, leads := s.node.LeadAge()
	return leads && age <= surelyLed
}

// unledNs is how long clients may have been answered after a new leader began: it began after the
// proof by which the one before acknowledged a report, and with that report answers went out for
// answerWindow.
func (e *expiry) unledNs() int64 {
	if !e.s.clustered {
		return 0
	}
	return int64(answerWindow + surelyLed)
}

var errReport = errors.New("a report of sessions that cannot be decoded")

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// mayAnswer says whether clients may be told anything: the leader knew of this server at most
// answerWindow ago.
func (s *Server) mayAnswer() bool {
	return !s.clustered || s.nowNs()-s.ackedNs.Load() <= int64(answerWindow)
}

// acknowledged notes that the leader knows all that was heard here before sentNs.
func (s *Server) acknowledged(sentNs int64) {
	s.ackedNs.Store(sentNs)
	if s.muted.Swap(false) {
		s.flushers.addAll(s.wakeAll())
	}
	if s.cutOff.Swap(false) {
		s.leaveReadOnly()
		s.log.Info("clients are served again")
	}
}

// wakeAll marks the connections that have something to send.
func (s *Server) wakeAll() []*conn {
	var due []*conn
	for _, c := range s.connections() {
		c.mu.Lock()
		if !c.inFlusher && !c.dead && (len(c.out.queued) > 0 || c.needDrain) {
			c.inFlusher = true
			due = append(due, c)
		}
		c.mu.Unlock()
	}
	return due
}

// report runs on every server of a cluster until ctx ends.
func (s *Server) report(ctx context.Context) {
	quarter := min(time.Duration(s.expiry.tickNs), answerWindow) / 4
	for ctx.Err() == nil {
		if now := s.nowNs(); s.leadsSurely() {
			s.acknowledged(now)
			wait.Pause(ctx, quarter)
			continue
		}
		if s.node.Leads() {
			s.log.Debug("no majority confirms that this server leads")
		} else if err := s.reportToLeader(ctx, quarter); err != nil && ctx.Err() == nil {
			s.log.Debug("no report to the leader", "reason", err)
		}
		s.checkGrace()
		s.sweepReadOnly()
		wait.Pause(ctx, min(quarter, 20*time.Millisecond))
	}
}

// checkGrace closes the connections of clients when there has been no leader for too long:
// elsewhere they may find one. Where that is enabled the server is read-only from then on.
func (s *Server) checkGrace() {
	grace := s.expiry.tickNs * int64(s.cfg.SyncLimit)
	if s.nowNs()-s.ackedNs.Load() <= grace || s.cutOff.Swap(true) {
		return
	}
	conns := s.connections()
	s.log.Warn("no leader for longer than syncLimit: clients are sent away", "connections", len(conns))
	for _, c := range conns {
		c.mu.Lock()
		if c.session != 0 || c.handshake != nil { // not those that ask a four-letter word
			c.abortLocked()
		}
		c.mu.Unlock()
	}
	if s.cfg.ReadOnlyMode && !s.node.InQuarantine() {
		s.enterReadOnly(nil)
	}
}

// reportToLeader reports over one stream until that ends, or this server leads or knows no
// leader any more: one that was removed from the cluster still reaches the leader, but gets
// nothing of what happens, and must not go on showing its clients the past.
func (s *Server) reportToLeader(ctx context.Context, quarter time.Duration) error {
	openCtx, cancel := context.WithTimeout(ctx, 4*quarter)
	defer cancel()
	stream, err := s.node.OpenReport(openCtx)
	if err != nil {
		return err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	// An answer that takes longer than that comes too late to be of use.
	late := time.AfterFunc(4*quarter, func() { stream.Close() })
	defer late.Stop()
	var echo []byte // the leader's time
	var message []byte
	var told []farewell
	pace := newPace()
	for !s.node.Leads() && s.node.Leader() != "" {
		if s.afterEntry() > quarter { // what clients have sent meanwhile is read first
			wait.Pause(ctx, quarter)
		}
		sent := s.nowNs()
		all, proves := pace.next(sent, s.expiry.tickNs)
		if proves {
			s.endSilences(sent)
		}
		var more bool
		message, told, more = s.appendReport(message[:0], told[:0], sent, all)
		if proves && !more {
			copy(message[8:], echo)
		}
		if err := stream.Send(message); err != nil {
			return err
		}
		answer, err := stream.Receive()
		if err != nil {
			return err
		}
		if len(answer) != reportAnswer {
			return errReport
		}
		s.refusing.Store(answer[8] != 0)
		echo = append(echo[:0], answer[:8]...)
		s.expiry.acknowledged(told)
		if !more {
			s.endUnanswered()
			s.acknowledged(sent)
			wait.Pause(ctx, quarter)
		}
		late.Reset(4 * quarter)
	}
	return nil
}

// A pace is how regularly reports are made over a stream. After a break nobody knows whether this
// process stood still, and what clients have sent meanwhile is not read yet: their silence proves
// nothing before a quarter of a tick has passed.
type pace struct{ lastNs, sinceNs int64 }

func newPace() *pace { return &pace{lastNs: math.MinInt64 / 2} }

// next is called before a report. all: it is the first one, or the first after a break.
func (p *pace) next(now, tickNs int64) (all, proves bool) {
	if now-p.lastNs > tickNs {
		all, p.sinceNs = true, now
	}
	p.lastNs = now
	return all, now-p.sinceNs >= tickNs/4
}

// endSilences ends the connections whose clients have been silent for their whole timeout.
func (s *Server) endSilences(now int64) {
	s.signs = s.boundSessions(s.signs[:0])
	defer clear(s.signs)
	for _, g := range s.signs {
		g.c.endSilence(now)
	}
}

// endUnanswered comes before the clients are answered again: the leader may have ended sessions
// without a word from here (expiry.over), by entries of the log that have not come here yet. The
// clients come back, and learn by the order of the log how it is.
func (s *Server) endUnanswered() {
	now, since := s.nowNs(), s.ackedNs.Load()+int64(answerWindow)
	if now-since < atLeast(s.cfg.MinSessionTimeoutMs) {
		return
	}
	for _, c := range s.connections() {
		c.endUnanswered(since, now)
	}
}

// appendReport appends a report, but for the leader's time: first what the connections that have
// ended had left to say, which told gets as well, and then what was heard on the others since
// the last report, or with all when each of them was heard last. more: not everything found room,
// and the next report has the rest.
//
// Order: the connections come first, so one that ends in between is in both; one that had ended
// before was noted as gone first (Server.forget).
func (s *Server) appendReport(b []byte, told []farewell, now int64, all bool) (_ []byte, _ []farewell, more bool) {
	s.signs = s.signsOfLife(s.signs[:0])
	defer clear(s.signs)
	if all {
		for _, g := range s.signs {
			g.c.reported.Store(0)
		}
	}
	b = binary.BigEndian.AppendUint64(b, s.boot)
	b = binary.BigEndian.AppendUint64(b, 0)
	b, told, more = s.expiry.appendGone(b, now, told)
	for _, g := range s.signs {
		if len(b) >= reportHead+reportEntries*reportEntry {
			return b, told, true
		}
		seen := g.heardNs(now)
		if seen <= g.c.reported.Load() {
			continue
		}
		g.c.reported.Store(seen)
		b = appendSign(b, g.session, now-seen)
	}
	return b, told, more
}

// appendSign appends an entry of a report.
func appendSign(b []byte, session, agoNs int64) []byte {
	age := min(max(agoNs, 0)/int64(time.Millisecond), math.MaxUint32)
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	return binary.BigEndian.AppendUint32(b, uint32(age))
}

// takeReports serves the reports of another server while this one leads.
func (s *Server) takeReports(stream *replication.Stream) {
	for {
		message, err := stream.Receive()
		if err != nil {
			return
		}
		now := s.nowNs()
		if err := s.expiry.takeReport(message, now); err != nil {
			s.log.Warn("a report of another server is not taken", "member", stream.Peer(), "reason", err)
			return
		}
		if !s.leadsSurely() {
			return // it asks whom the members follow then
		}
		answer := append(binary.BigEndian.AppendUint64(nil, uint64(now)), boolByte(s.refusing.Load()))
		if stream.Send(answer) != nil {
			return
		}
	}
}
