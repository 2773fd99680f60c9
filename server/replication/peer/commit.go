package peer

import (
	"runtime"
	"time"

	"github.com/hashicorp/raft"
)

// The travelling commit.
//
// raft tells a follower that an entry is committed with its next AppendEntries: the next
// write, or CommitTimeout later. Until then the follower cannot apply it, and a client that
// writes through the follower waits. So when the commit index moves (Advance), a courier per
// member sends an AppendEntries without entries:
//
//	Term, header, leader  those of raft's last request to that member
//	PrevLogEntry          c = min(the commit index, the index the member has acknowledged)
//	PrevLogTerm           the same term, for c is an entry of the leader's own term
//	LeaderCommitIndex     c
//
// to be sent only if c has that term, the member has not been told c, and a link is up.
//
// Why it is safe. The message says three things, each a fact that stays one:
//
//	(1) the sender was elected leader of Term: raft itself has sent a request in this term,
//	    which only a leader does, and a term has one leader for ever;
//	(2) the member's log holds the entry (c, Term): in this term it has answered success to a
//	    request whose last index was c or more, thus its log was the leader's up to c. Only
//	    the leader of a newer term could make it drop that, and then its own term is newer
//	    and it refuses the message. Should it have lost the entry otherwise, it refuses too:
//	    PrevLogEntry and PrevLogTerm are compared as in any request;
//	(3) all entries up to c are committed: c is at most what Advance was told, which was
//	    committed by counting copies of an entry of the leader's own term (Raft, §5.4.2).
//
// By (2) and log matching the member's log up to c is the leader's, so by (3) what it applies
// is committed. Nothing depends on when the message arrives, in which order, or how often:
// late, repeated, overtaken by others, or sent when the sender leads no more, it says the same
// facts. Raft's own request on CommitTimeout is of the same form, with PrevLogEntry the last
// entry that was sent; what ours adds is that the follower commits not beyond PrevLogEntry.
//
// That c has the leader's term is not taken on trust: own is the lowest index that raft has
// sent to this member as an entry of Term, and terms in a log never fall.
//
// What does not follow from the message: it counts as a sign of life of the leader, as it is
// one; its answer is not reported to raft, which hears of a newer term by its own next
// message. To a member that was removed nothing is sent, since raft sends it nothing.
//
// Load. At most one such message per member is on its way; what moves meanwhile is carried by
// the next. Before each the courier lets others run for carryYields turns, so that a request
// that raft is about to send goes first and carries the commit index itself. TestCourier* and
// BenchmarkWriteThroughFollower hold this.

// A commit is what Advance was told.
type commit struct{ term, index uint64 }

// Advance tells the followers of a new commit index: raft's, or the highest that may be told
// if that is less (Options.CommitLimit). index must be an entry of the given term, and that
// the term in which this member leads; calls with what is older change nothing. It does not
// wait.
func (t *Transport) Advance(term, index uint64) {
	next := &commit{term: term, index: index}
	for {
		now := t.committed.Load()
		if now != nil && (term < now.term || term == now.term && index <= now.index) {
			break // the limit may have risen
		}
		if t.committed.CompareAndSwap(now, next) {
			break
		}
	}
	for _, p := range t.others() {
		p.consider()
	}
}

// progress is what the leader's transport knows of a member's log, in one term. Guarded by
// peer.mu.
//
// Invariants:
//
//	G1  acked is an index up to which the member's log is the leader's: it answered success in
//	    term to a request that ended there, and its process is still the same;
//	G2  entries from own on, if own is not 0, have term in the leader's log;
//	G3  told is at most the highest commit index sent over the link on.
type progress struct {
	term    uint64
	version uint8     // raft's protocol version, the only part of a header that varies
	asked   time.Time // when raft last sent a request
	own     uint64
	acked   uint64
	on      *link
	told    uint64
}

// noteRequest learns from a request of raft.
func (p *peer) noteRequest(args *raft.AppendEntriesRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.progress
	if args.Term < g.term {
		return // of a term that is over: raft is about to stop it
	}
	if args.Term > g.term {
		*g = progress{term: args.Term, on: g.on}
	}
	g.version, g.asked = uint8(args.ProtocolVersion), time.Now()
	if args.PrevLogTerm == args.Term {
		g.owns(args.PrevLogEntry)
	}
	for _, e := range args.Entries {
		if e.Term == args.Term {
			g.owns(e.Index) // the first is the lowest
			break
		}
	}
}

func (g *progress) owns(index uint64) {
	if index > 0 && (g.own == 0 || index < g.own) {
		g.own = index
	}
}

// notePiece notes what is about to be sent. If it does not arrive the link is lost.
func (p *peer) notePiece(k *link, piece *appendPiece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	piece.kept = p.kept
	if g := &p.progress; g.on == k && g.term == piece.term {
		g.told = max(g.told, piece.commit)
	}
}

// noteReply learns from an answer, and has the courier look again.
func (p *peer) noteReply(piece *appendPiece, r *reply) {
	p.mu.Lock()
	p.contact = time.Now()
	if g := &p.progress; g.term == piece.term {
		switch {
		case r.term > piece.term:
			*g = progress{on: g.on} // a newer leader: nothing more until raft leads and sends again
		case r.success && piece.lastIndex() > 0:
			g.acked = max(g.acked, piece.lastIndex())
			if c := p.t.committed.Load(); c != nil {
				p.kept = max(p.kept, min(g.acked, c.index))
			}
		case !r.success:
			g.acked, g.told = 0, 0 // it did not look at the commit index either
			p.missLocked(piece.kept, r.lastLog)
		}
	}
	p.mu.Unlock()
	p.consider()
}

// missLocked looks whether the log of a member ends before what it had acknowledged, and what was
// committed with its help, when it was asked: of several answers the goroutines that wait for
// them note the older one last at times. Then its disk is not the one that it had: an old copy
// was put back, or a disk that loses what it has synced. It gets all of it again, but until then
// it could have elected somebody who has not got it either; so somebody should know.
func (p *peer) missLocked(kept, lastLog uint64) {
	if lastLog >= kept || p.lacking == p.boot {
		return
	}
	p.lacking = p.boot
	p.t.o.Logger.Error("a member lacks log entries that it has acknowledged: its disk is an old copy, or has lost data. It gets them "+
		"again; never put back a copy of a data directory, empty it instead", "member", p.id, "has", lastLog, "had", kept)
}

// reconnect is for a link that has just come up: what the last one was told may be lost. What
// was acknowledged stays acknowledged, unless the process is another: see peer.restarted.
func (g *progress) reconnect(k *link) {
	g.on, g.told = k, 0
}

// consider starts the courier if there is something to carry.
func (p *peer) consider() {
	limit := p.t.commitLimit()
	p.mu.Lock()
	start := !p.carrying && p.dueLocked(limit) > 0
	if start {
		p.carrying = true
	}
	p.mu.Unlock()
	if start && !p.t.spawn(p.carry) {
		p.mu.Lock()
		p.carrying = false
		p.mu.Unlock()
	}
}

// dueLocked returns the commit index that the member is to be told; 0: none.
func (p *peer) dueLocked(limit uint64) uint64 {
	g := &p.progress
	c := p.t.committed.Load()
	if c == nil || c.term != g.term || g.own == 0 || g.on == nil {
		return 0
	}
	index := min(c.index, g.acked, limit)
	if index <= g.told || index < g.own || !g.on.alive() || time.Since(g.asked) > p.t.o.Timeout {
		return 0
	}
	return index
}

// carry is the courier: it runs while there is something to carry.
func (p *peer) carry() {
	for {
		for range carryYields {
			runtime.Gosched()
		}
		k, piece := p.load()
		if k == nil {
			return
		}
		c, err := k.begin(frameAppend, func(b []byte, call uint64) []byte { return appendAppend(b, call, &piece) })
		if err != nil {
			continue // the link is gone, and load sees it
		}
		timer := time.NewTimer(p.t.o.Timeout)
		a, err := k.wait(p.t.ctx, c, timer.C)
		timer.Stop()
		if err == nil {
			p.noteReply(&piece, &a.reply)
		}
	}
}

// load makes the message that is due, and takes it for sent. With nothing due the courier is
// done: both are decided under one lock, so that no Advance in between is forgotten.
func (p *peer) load() (*link, appendPiece) {
	limit := p.t.commitLimit()
	p.mu.Lock()
	defer p.mu.Unlock()
	index := p.dueLocked(limit)
	if index == 0 {
		p.carrying = false
		return nil, appendPiece{}
	}
	g := &p.progress
	g.told = index
	return g.on, appendPiece{
		version: g.version, term: g.term, prevIndex: index, prevTerm: g.term, commit: index, kept: p.kept,
	}
}
