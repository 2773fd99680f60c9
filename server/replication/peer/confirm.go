package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Errors of Confirm.
var (
	// ErrDeposed is returned when there is a newer term: this member leads no more.
	ErrDeposed = errors.New("another term has begun")
	// ErrNotConfirmed is returned when too few voters answered: the leader may be cut off.
	ErrNotConfirmed = errors.New("no majority of the voters has answered")
	// ErrTooEarly is returned before Advance was called in the term: until an entry of its own
	// term is committed, a leader does not know what is.
	ErrTooEarly = errors.New("the leader has not committed an entry of its own term yet")
)

// Confirm asks the voters whether this member leads in term, with AppendEntries without
// entries (raft's heartbeats) that are all sent after the call, and returns nil when a
// majority, itself included, has accepted one. What was committed anywhere before the call
// is then at most at the commit index that raft here had when Confirm was called: with the
// apply of that index awaited, a read is linearizable. raft's VerifyLeader is not enough: it
// counts answers to heartbeats that were on their way before.
//
// Argument. Suppose that a leader of a term T' > term was elected before the call; else nobody
// but this member and leaders of lower terms has committed anything. It had the votes of a
// majority, which shares a voter V with the majority counted here. (raft changes one server
// at a time, and majorities of two successive configurations share a voter as well.)
//
//   - V is another member: it had reached T' when it gave its vote, before the call. The
//     request was made after the call and has the lower term: V refuses it, with T'. It is not
//     counted, contradiction.
//   - V is this member: its vote left through this transport, which noted T' before sending
//     it (sendAnswer), or it was a candidate in T' itself and the transport noted that in
//     RequestVote. Confirm compares with the highest term noted after it was called, and
//     fails, contradiction.
//
// So there was none. What leaders of lower terms committed, this member has, under its commit
// index once an entry of its own term is (hence ErrTooEarly); the rest it committed itself.
//
// "Accepted" is an answer with success and the same term. The requests are copies of raft's
// own heartbeat: to a member that raft has not sent anything in term nothing is sent.
//
// Concurrent callers share rounds, but none joins a round that has begun to send.
func (t *Transport) Confirm(ctx context.Context, term uint64) error {
	if c := t.committed.Load(); c == nil || c.term < term {
		return ErrTooEarly
	}
	r := t.rounds.join(t, term)
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotConfirmed, context.Cause(ctx))
	case <-t.ctx.Done():
		return ErrClosed
	}
}

// rounds lets callers of Confirm share. At most maxRounds are on their way; who comes then
// waits for the next, which starts when one is done. Several at a time, so that one that
// waits for a member that is slow does not hold the others up.
type rounds struct {
	mu      sync.Mutex // guards the fields below
	running int
	next    []*round // have not begun, one per term
}

type round struct {
	term uint64
	done chan struct{} // closed when err is set
	err  error
}

func (rs *rounds) join(t *Transport, term uint64) *round {
	rs.mu.Lock()
	if rs.running >= maxRounds {
		defer rs.mu.Unlock()
		for _, r := range rs.next {
			if r.term == term {
				return r
			}
		}
		r := &round{term: term, done: make(chan struct{})}
		rs.next = append(rs.next, r)
		return r
	}
	rs.running++
	rs.mu.Unlock()
	r := &round{term: term, done: make(chan struct{})}
	if !t.spawn(func() { rs.run(t, r) }) {
		r.err = ErrClosed
		close(r.done)
	}
	return r
}

// run owns one place of maxRounds as long as rounds wait for it.
func (rs *rounds) run(t *Transport, r *round) {
	for r != nil {
		r.err = t.confirm(r.term)
		close(r.done)
		rs.mu.Lock()
		r = nil
		if len(rs.next) > 0 {
			r = rs.next[0]
			rs.next = slices.Delete(rs.next, 0, 1)
		} else {
			rs.running--
		}
		rs.mu.Unlock()
	}
}

// confirm is one round.
func (t *Transport) confirm(term uint64) error {
	if err := t.deposed(term); err != nil {
		return err // there is no need to ask
	}
	voters := t.o.Voters()
	if len(voters) == 0 {
		return fmt.Errorf("%w: no voters are known", ErrNotConfirmed)
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.o.Timeout)
	defer cancel()
	results := make(chan error, len(voters))
	need, asked := len(voters)/2+1, 0
	for _, id := range voters {
		if id == t.o.ID {
			need-- // checked below
			continue
		}
		p, err := t.peer(id)
		if err == nil && t.spawn(func() { results <- p.confirm(ctx, term) }) {
			asked++
		}
	}
	var last error
	for ; need > 0; asked-- {
		if asked < need {
			return errors.Join(fmt.Errorf("%w in term %d", ErrNotConfirmed, term), last)
		}
		switch err := <-results; {
		case err == nil:
			need--
		case errors.Is(err, ErrDeposed):
			return err
		default:
			last = err
		}
	}
	return t.deposed(term)
}

// deposed returns an error if a newer term is known here.
func (t *Transport) deposed(term uint64) error {
	if seen := t.seenTerm.Load(); seen > term {
		return fmt.Errorf("%w: %d, after %d", ErrDeposed, seen, term)
	}
	return nil
}

// confirm asks one voter.
func (p *peer) confirm(ctx context.Context, term uint64) error {
	p.mu.Lock()
	g := p.progress
	p.mu.Unlock()
	if g.term != term {
		return fmt.Errorf("raft has sent nothing to member %s in term %d yet", p.id, term)
	}
	piece := appendPiece{version: g.version, term: term}
	a, err := p.ask(ctx, lineRaft, frameAppend, func(b []byte, call uint64) []byte { return appendAppend(b, call, &piece) })
	if err != nil {
		return err
	}
	p.noteReply(&piece, &a.reply)
	switch {
	case a.reply.term > term:
		return fmt.Errorf("%w: %d, after %d, says member %s", ErrDeposed, a.reply.term, term, p.id)
	case !a.reply.success || a.reply.term != term:
		return fmt.Errorf("member %s did not accept term %d", p.id, term)
	}
	return nil
}
