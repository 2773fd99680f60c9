package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// How the death of a process is noticed.
//
// A process that ends, however it ends, has its sockets closed by the kernel. So when a
// connection from or to a member breaks, the transport dials that member again (KindProbe):
//
//	the dial is refused          nobody listens there: the process is gone
//	another boot nonce answers   it is gone, and its successor was quick
//	the same nonce answers       it lives, only that connection broke
//	anything else                unknown: a broken way, a frozen process, a firewall that drops
//
// The first two are reported (PeerDown), once per process. A follower whose leader is down may
// stand for election at once (TimeoutNow to itself), instead of waiting for its timeout. That
// skips pre-vote and has others vote although they know a leader, so one follower whose own
// path is broken, by a firewall that refuses, could depose a healthy leader again and again.
// Therefore it first asks the other members how they see that process (Ask); each dials it
// anew to answer. Only when a majority sees it dead is it.

// What a Down is caused by.
var (
	// ErrGone is the cause where a dial was refused.
	ErrGone = errors.New("nobody listens at its address")
	// ErrRestarted is the cause where another process answers for the member.
	ErrRestarted = errors.New("another process has taken its place")
)

// A Down says that the process of a member is gone, as far as this member can see.
type Down struct {
	ID    raft.ServerID
	Boot  uint64 // nonce of the process that is gone
	Cause error  // ErrGone or ErrRestarted
}

// A Sight is how a member sees the process of another.
type Sight uint8

// The sights. Their numbers are part of the protocol.
const (
	Unknown Sight = 0 // it did not answer in time, or could not be asked
	Alive   Sight = 1
	Dead    Sight = 2
)

// String implements fmt.Stringer.
func (s Sight) String() string {
	switch s {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	default:
		return "unknown"
	}
}

// looking is the state of looking after a member. Guarded by peer.mu.
type looking struct {
	running  bool
	next     uint64 // another connection with this process broke meanwhile: look again
	reported uint64 // the process that PeerDown was told of
}

// lost is called when a connection with a process of the member broke.
func (p *peer) lost(boot uint64, cause error) {
	p.mu.Lock()
	l := &p.looking
	start := !l.running
	l.running = true
	if !start {
		l.next = boot
	}
	p.mu.Unlock()
	if start && !p.t.spawn(func() { p.lookAfter(boot, cause) }) {
		p.mu.Lock()
		l.running = false
		p.mu.Unlock()
	}
}

// lookAfter owns looking.running: there is one at a time.
func (p *peer) lookAfter(boot uint64, cause error) {
	for boot != 0 {
		sight, err := p.t.look(p.t.ctx, p.id, boot)
		p.t.o.Logger.Debug("looked after a member whose connection broke",
			"member", p.id, "connection", cause, "process", sight, "error", err)
		if sight == Dead {
			p.report(boot, err)
		}
		p.mu.Lock()
		boot, p.looking.next = p.looking.next, 0
		p.looking.running = boot != 0
		p.mu.Unlock()
	}
}

// report tells the caller that a process is gone, once.
func (p *peer) report(boot uint64, cause error) {
	p.mu.Lock()
	known := p.looking.reported == boot
	p.looking.reported = boot
	p.mu.Unlock()
	if !known && p.t.ctx.Err() == nil {
		p.t.o.Logger.Info("the process of a member is gone", "member", p.id, "cause", cause)
		p.t.o.PeerDown(Down{ID: p.id, Boot: boot, Cause: cause})
	}
}

// look dials a member to see whether a process of it lives; 0 stands for any. The error says
// what was met.
func (t *Transport) look(ctx context.Context, id raft.ServerID, boot uint64) (Sight, error) {
	pause := probePause
	for attempt := 1; ; attempt++ {
		c, err := t.dial(ctx, id, KindProbe)
		var refusal *RefusedError
		switch {
		case err == nil:
			met := c.boot
			t.drop(c)
			c.end(errBye, true)
			return sightOf(boot, met)
		case isRefused(err):
			return Dead, ErrGone
		case errors.As(err, &refusal) && refusal.Boot != 0:
			return sightOf(boot, refusal.Boot)
		case !isDropped(err) || attempt == probeAttempts:
			return Unknown, err
		}
		// Taken and dropped: a process in its last moments, whose listener the kernel has not
		// closed yet.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Unknown, context.Cause(ctx)
		}
		pause *= 2
	}
}

func sightOf(boot, met uint64) (Sight, error) {
	if boot == 0 || boot == met {
		return Alive, nil
	}
	return Dead, ErrRestarted
}

// met learns which process answers for a member. Unlike a hello, which may have waited, an
// answer was given just now: connections with another process are over.
func (t *Transport) met(c *conn) {
	if p, err := t.peer(c.peer); err == nil {
		p.met(c.boot)
	}
}

func (p *peer) met(boot uint64) {
	p.mu.Lock()
	before := p.boot
	p.boot = boot
	if p.looking.reported == boot {
		p.looking.reported = 0
	}
	if before == 0 || before == boot {
		p.mu.Unlock()
		return
	}
	p.progress.acked, p.progress.told = 0, 0
	var over []*conn
	for c := range p.inbound {
		if c.boot == before {
			over = append(over, c)
		}
	}
	for _, k := range p.links {
		if k != nil && k.c.boot == before {
			over = append(over, k.c)
		}
	}
	p.mu.Unlock()
	for _, c := range over {
		c.end(ErrRestarted, true)
	}
	p.t.spawn(func() { p.report(before, ErrRestarted) })
}

// An Answer is how one member sees the process in question.
type Answer struct {
	Member raft.ServerID
	Sight  Sight
	Err    error // why it is Unknown, or what this member met
}

// A Verdict is what the voters see, without the member in question.
type Verdict struct {
	Voters  int // with the member in question
	Answers []Answer
}

// Dead says whether a majority of all voters sees the process dead.
func (v Verdict) Dead() bool { return 2*v.count(Dead) > v.Voters }

func (v Verdict) count(s Sight) int {
	n := 0
	for _, a := range v.Answers {
		if a.Sight == s {
			n++
		}
	}
	return n
}

// Ask asks the voters, this member included, whether they see the process of a member dead,
// and returns when a majority does, or none can any more; who has not answered by then has
// the sight Unknown. It takes a round trip and a dial where processes answer or refuse, and
// as long as ctx, or probeTimeout, where they do not.
func (t *Transport) Ask(ctx context.Context, d Down) Verdict {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	voters := t.o.Voters()
	v := Verdict{Voters: len(voters)}
	type indexed struct {
		at int
		Answer
	}
	results := make(chan indexed, len(voters))
	asked := 0
	for _, id := range voters {
		if id == d.ID {
			continue
		}
		at := len(v.Answers)
		v.Answers = append(v.Answers, Answer{Member: id})
		if t.spawn(func() {
			a := Answer{Member: id}
			a.Sight, a.Err = t.askOne(ctx, id, d)
			results <- indexed{at, a}
		}) {
			asked++
		}
	}
	for ; asked > 0; asked-- {
		select {
		case r := <-results:
			v.Answers[r.at] = r.Answer
		case <-ctx.Done():
			return v
		}
		if v.Dead() || 2*(v.count(Dead)+asked-1) <= v.Voters {
			break
		}
	}
	return v
}

func (t *Transport) askOne(ctx context.Context, id raft.ServerID, d Down) (Sight, error) {
	if id == t.o.ID {
		return t.look(ctx, d.ID, d.Boot)
	}
	p, err := t.peer(id)
	if err != nil {
		return Unknown, err
	}
	wait := probeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	q := question{boot: d.Boot, about: d.ID, waitMs: uint32(max(wait.Milliseconds(), 1))}
	a, err := p.ask(ctx, lineControl, frameAsk, func(b []byte, call uint64) []byte {
		q.call = call
		return appendAsk(b, &q)
	})
	return a.sight, err
}

// serveControl answers questions, one at a time: a member cannot make this one dial faster
// than dials end.
func (t *Transport) serveControl(c *conn) error {
	var buf [askBytes]byte
	for {
		f, body, err := c.in.next(acceptQuestion, buf[:])
		if err != nil {
			return err
		}
		if f == frameBye {
			c.end(errBye, true)
			return nil
		}
		q, err := decodeAsk(body)
		if err != nil {
			return fmt.Errorf("type %d: %w", f, err)
		}
		sight := t.answer(&q)
		if err := c.send(frameSight, t.o.Timeout, func(b []byte) []byte { return appendSight(b, q.call, sight) }); err != nil {
			return err
		}
	}
}

func (t *Transport) answer(q *question) Sight {
	if q.about == t.o.ID {
		s, _ := sightOf(q.boot, t.o.Boot)
		return s
	}
	ctx, cancel := context.WithTimeout(t.ctx, min(time.Duration(q.waitMs)*time.Millisecond, probeTimeout))
	defer cancel()
	s, _ := t.look(ctx, q.about, q.boot)
	return s
}
