package peer

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(id raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	p, err := t.peer(id)
	if err != nil {
		return err
	}
	s, err := p.appendEntries(args)
	if errors.As(err, new(absentError)) && !isHeartbeat(args) {
		p.await(args.Term)
		s, err = p.appendEntries(args)
	}
	if err != nil {
		return err
	}
	timer := time.NewTimer(t.o.Timeout)
	defer timer.Stop()
	*resp, err = s.wait(timer.C)
	return err
}

// A sending is an AppendEntries of raft that is on its way, in one piece or several.
type sending struct {
	p      *peer
	k      *link
	pieces []appendPiece
	calls  []*call
}

// appendEntries sends a request of raft. It returns when the network has taken it.
func (p *peer) appendEntries(args *raft.AppendEntriesRequest) (*sending, error) {
	t := p.t
	if err := t.checkHeader(&args.RPCHeader); err != nil {
		return nil, err
	}
	pieces, err := cut(args, t.commitLimit(), t.o.MaxEntryBytes)
	if err != nil {
		return nil, err
	}
	p.noteRequest(args)
	for {
		k, err := p.link(t.ctx, lineRaft)
		if err != nil {
			return nil, absentError{err}
		}
		s := &sending{p: p, k: k, pieces: pieces}
		if err := s.send(); err != errIdle {
			return s, err
		}
	}
}

// send begins all calls. What was sent when it fails is lost with the link.
func (s *sending) send() error {
	s.calls = make([]*call, 0, len(s.pieces))
	for i := range s.pieces {
		piece := &s.pieces[i]
		s.p.notePiece(s.k, piece)
		c, err := s.k.begin(frameAppend, func(b []byte, call uint64) []byte { return appendAppend(b, call, piece) })
		if err != nil {
			return err
		}
		s.calls = append(s.calls, c)
	}
	return nil
}

// wait collects the answers into the one that raft expects: that of the last piece, or of the
// first that was not accepted, after which those behind it cannot be either.
func (s *sending) wait(timeout <-chan time.Time) (raft.AppendEntriesResponse, error) {
	var r reply
	for i, c := range s.calls {
		a, err := s.k.wait(s.p.t.ctx, c, timeout)
		if err != nil {
			return raft.AppendEntriesResponse{}, err
		}
		r = a.reply
		s.p.noteReply(&s.pieces[i], &r)
		if !r.success {
			break
		}
	}
	return raft.AppendEntriesResponse{
		RPCHeader: header(r.version, s.p.bytes), Term: r.term, LastLog: r.lastLog,
		Success: r.success, NoRetryBackoff: r.noBackoff,
	}, nil
}

// cut makes pieces of a request: each is a request that raft could have sent itself, had it
// been set to fewer entries at a time. The follower stores a piece with one sync.
//
// Each carries a commit index that is at most limit, and at most its own last index. The
// latter is what the Raft paper has the receiver do ("min(leaderCommit, index of last new
// entry)", figure 2); hashicorp/raft takes the minimum with the last index of its log
// instead, which may be an entry of an older term that the leader has yet to replace. It
// reads its last index before its commit index, so a request that was made while an entry was
// appended and committed can have a commit index beyond its entries, and a follower would
// commit something else there. TestCommitStaysWithinWhatTheFollowerMatched shows it.
func cut(args *raft.AppendEntriesRequest, limit uint64, maxEntryBytes int) ([]appendPiece, error) {
	if args.PrevLogEntry > math.MaxInt64 {
		return nil, fmt.Errorf("log index %d cannot be", args.PrevLogEntry)
	}
	commit := min(args.LeaderCommitIndex, limit)
	piece := appendPiece{
		version: uint8(args.ProtocolVersion), term: args.Term,
		prevIndex: args.PrevLogEntry, prevTerm: args.PrevLogTerm,
	}
	var pieces []appendPiece
	start, size := 0, 0
	flush := func(end int) {
		piece.entries = args.Entries[start:end]
		piece.commit = min(commit, piece.lastIndex())
		pieces = append(pieces, piece)
		if end > start {
			piece.prevIndex, piece.prevTerm = piece.lastIndex(), args.Entries[end-1].Term
		}
		start, size = end, 0
	}
	for i, e := range args.Entries {
		n := entrySize(e)
		switch {
		case e.Index != args.PrevLogEntry+1+uint64(i):
			return nil, fmt.Errorf("log entry %d does not follow %d", e.Index, args.PrevLogEntry+uint64(i))
		case n > maxEntryBytes:
			return nil, fmt.Errorf("log entry %d has %d bytes, the limit between members is %d: raise Options.MaxEntryBytes on all of them",
				e.Index, n, maxEntryBytes)
		case i > start && (size+n > splitBytes || i-start == maxFrameEntries):
			flush(i)
		}
		size += n
	}
	flush(len(args.Entries))
	return pieces, nil
}

// commitLimit is the highest commit index that may be sent.
func (t *Transport) commitLimit() uint64 {
	if t.o.CommitLimit == nil {
		return math.MaxUint64
	}
	return t.o.CommitLimit()
}
