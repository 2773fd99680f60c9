package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
)

// The leader sees to it that raft's configuration is what the machine's ensemble says, or the
// target of a reconfig, one step at a time: raft changes one server at a time, and each step
// must be committed before the next.
//
//	a member whose incarnation raft does not know       becomes a learner
//	a learner that is to vote and has caught up         takes the place of the old incarnation,
//	                                                    if there is one
//	a voter that is to be an observer                   loses its vote
//	a server that is no member any more                 is removed
//
// A server that has lost its disk comes back as another incarnation, so it goes the way of a
// new one: it never votes with a log that lacks what it once acknowledged. Servers come before
// others go, and the leader goes last, after it has handed over. A new leader goes on where
// the old one stopped, because what is to be done follows from machine and configuration alone.

const (
	tendPause = 100 * time.Millisecond
	// stepTimeout bounds a step: without a majority none comes to an end.
	stepTimeout = 5 * time.Second
	// caughtUpEntries may be missing at a learner that becomes a voter: the rest is on its way.
	caughtUpEntries = 64
	// joinTimeout is how long a reconfig waits for a server that is to join and makes no
	// progress, before it is given up.
	joinTimeout = 10 * time.Second
	// meetPatience is how long a reconfig waits for the servers that are to join before it
	// begins, and deadPatience if nothing listens where one of them is to be.
	meetPatience = 5 * time.Second
	deadPatience = 2 * time.Second
)

// A tender changes the membership while this server leads.
type tender struct {
	n      *Node
	target int64     // the reconfig under way
	since  time.Time // when the last step towards it was taken
	begun  bool      // all that are to join were there
	undone bool      // it is given up: who has joined for it goes again
}

// tend runs until stop.
func (n *Node) tend(stop <-chan struct{}) {
	t := time.NewTicker(tendPause)
	defer t.Stop()
	d := &tender{n: n}
	for {
		select {
		case <-t.C:
		case <-stop:
			return
		case <-n.dead:
			return
		}
		for n.Leads() && !n.InQuarantine() { // what its machine says is not what was agreed on
			more, err := d.step()
			if err != nil {
				n.o.Logger.Warn("the membership is not as it should be; it is tried again", "reason", err)
			}
			if !more || err != nil {
				break
			}
		}
	}
}

// A plan is what the membership should be.
type plan struct {
	members []ensemble.Member
	target  *state.Target // nil: members are the configuration itself
}

func (p *plan) member(number int) (ensemble.Member, bool) {
	i := slices.IndexFunc(p.members, func(m ensemble.Member) bool { return m.ID == number })
	if i < 0 {
		return ensemble.Member{}, false
	}
	return p.members[i], true
}

// plan returns the target or, without one, the configuration; false if the machine has none.
func (n *Node) plan() (plan, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	current, target, ok := n.machine.Ensemble()
	if target != nil {
		return plan{target.Config.Members, target}, true
	}
	return plan{current.Members, nil}, ok
}

// step takes one; more says that another may follow at once.
func (d *tender) step() (more bool, err error) {
	p, ok := d.n.plan()
	if !ok {
		return false, nil
	}
	d.watch(p.target)
	conf := d.n.raft().GetConfiguration().Configuration().Servers
	if p.target != nil {
		if goes, err := d.mayGoOn(&p, conf); !goes {
			return false, err
		}
		if d.undone {
			return d.undo(&p, conf)
		}
	}
	for _, want := range []func(*plan, []raft.Server) (*change, error){d.join, d.leave, d.leaveSelf} {
		c, err := want(&p, conf)
		if err != nil {
			return false, err
		}
		if c != nil {
			return d.take(&p, c)
		}
	}
	return false, d.conclude(&p, conf)
}

// watch notes when a target is new.
func (d *tender) watch(t *state.Target) {
	if t != nil && t.Zxid != d.target {
		*d = tender{n: d.n, target: t.Zxid, since: time.Now(), begun: t.Steps > 0}
	}
}

// A change is one change of raft's configuration.
type change struct {
	number int
	what   string
	begin  func() raft.IndexFuture
}

// take makes a change and records it if a reconfig wants it.
func (d *tender) take(p *plan, c *change) (bool, error) {
	n := d.n
	n.o.Logger.Info("changing the membership", "step", c.what, "server", c.number)
	e := n.engine.Load()
	f := c.begin()
	endWith(f, e.over) // of what raft has committed when it ends nobody hears
	switch err := f.Error(); {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown):
		return false, nil // whoever leads now goes on
	case err != nil:
		return false, fmt.Errorf("%s server %d: %w", c.what, c.number, err)
	}
	d.since = time.Now()
	if p.target == nil {
		return true, nil
	}
	text := n.reached(p).String()
	return true, n.proposeMembers(&state.Command{
		Kind: state.KindMembers, Members: state.MembersReached, Target: p.target.Zxid, Req: p.target.Steps + 1, Body: []byte(text),
	})
}

// reached is the membership as raft has it, in the words of plan and configuration.
func (n *Node) reached(p *plan) ensemble.Config {
	n.mu.RLock()
	current, _, _ := n.machine.Ensemble()
	n.mu.RUnlock()
	var c ensemble.Config
	for _, s := range n.raft().GetConfiguration().Configuration().Servers {
		number := peer.Number(s.ID)
		m, ok := p.member(number)
		if was := current.Member(number); !ok && was != nil {
			m, ok = *was, true
		}
		twice := slices.ContainsFunc(c.Members, func(o ensemble.Member) bool { return o.ID == number })
		if !ok || twice { // the other one is another incarnation, on its way out
			continue
		}
		m.Role = ensemble.Observer
		if s.Suffrage == raft.Voter {
			m.Role = ensemble.Participant
		}
		c.Members = append(c.Members, m)
	}
	slices.SortFunc(c.Members, func(a, b ensemble.Member) int { return a.ID - b.ID })
	return c
}

// proposeMembers puts a command of the leader into the log and waits until it is applied: the
// next step depends on it.
func (n *Node) proposeMembers(c *state.Command) error {
	if err := n.Propose(c); err != nil {
		return err
	}
	// A barrier of raft comes after what the batcher submits only by chance; so wait for the
	// machine to show it.
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	for {
		at := n.applied.Load()
		if n.membersApplied(c) {
			return nil
		}
		if err := n.waitApplied(ctx, at+1); err != nil {
			return err
		}
	}
}

func (n *Node) membersApplied(c *state.Command) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, target, ok := n.machine.Ensemble()
	switch {
	case c.Members == state.MembersInitial:
		return ok
	case target == nil || target.Zxid != c.Target:
		return true
	default:
		return c.Members == state.MembersReached && target.Steps >= c.Req
	}
}

// conclude ends a reconfig that has reached its target, or cannot.
func (d *tender) conclude(p *plan, conf []raft.Server) error {
	if p.target == nil {
		return nil
	}
	c := state.Command{Kind: state.KindMembers, Target: p.target.Zxid}
	switch {
	case d.fits(p, conf):
		c.Members = state.MembersDone
	case time.Since(d.since) > joinTimeout:
		d.n.o.Logger.Warn("a reconfig is given up: a server that is to join is not there any more, or does not catch up")
		d.undone = true
		return nil
	default:
		return nil
	}
	return d.n.proposeMembers(&c)
}

// fits says whether raft's configuration is what the plan says.
func (d *tender) fits(p *plan, conf []raft.Server) bool {
	if len(conf) != len(p.members) {
		return false
	}
	for _, s := range conf {
		m, ok := p.member(peer.Number(s.ID))
		if !ok || (s.Suffrage == raft.Voter) != (m.Role == ensemble.Participant) {
			return false
		}
	}
	return true
}

// join finds the next step for a member of the plan; nil if there is none now.
func (d *tender) join(p *plan, conf []raft.Server) (*change, error) {
	for _, m := range p.members {
		if m.ID == d.n.o.MyID {
			continue
		}
		if c := d.joining(p, m, conf); c != nil {
			return c, nil
		}
	}
	return nil, nil
}

func (d *tender) joining(p *plan, m ensemble.Member, conf []raft.Server) *change {
	n := d.n
	var known []raft.Server // all incarnations
	for _, s := range conf {
		if peer.Number(s.ID) == m.ID {
			known = append(known, s)
		}
	}
	votes := m.Role == ensemble.Participant
	if len(known) == 1 && n.inContact(known[0].ID) && (known[0].Suffrage == raft.Voter) == votes {
		return nil
	}
	id, ok := n.incarnation(m.ID)
	if !ok {
		return nil
	}
	at := slices.IndexFunc(known, func(s raft.Server) bool { return s.ID == id })
	address := raft.ServerAddress(id)
	switch {
	case at < 0:
		return &change{m.ID, "adding as a learner", func() raft.IndexFuture { return n.raft().AddNonvoter(id, address, 0, stepTimeout) }}
	case !votes && known[at].Suffrage == raft.Voter:
		return &change{m.ID, "taking the vote of", func() raft.IndexFuture { return n.raft().DemoteVoter(id, 0, stepTimeout) }}
	case votes && known[at].Suffrage != raft.Voter && !n.caughtUp(id):
		return nil
	case len(known) > 1:
		old := known[(at+1)%len(known)].ID
		return &change{m.ID, "removing the old incarnation of", func() raft.IndexFuture { return n.raft().RemoveServer(old, 0, stepTimeout) }}
	case votes && known[at].Suffrage != raft.Voter && !d.joinersReady(p, conf):
		return nil
	case votes && known[at].Suffrage != raft.Voter:
		return &change{m.ID, "giving a vote to", func() raft.IndexFuture { return n.raft().AddVoter(id, address, 0, stepTimeout) }}
	}
	return nil
}

// leave removes who is no member of a target any more, once all who join have joined. Without
// a target nobody is removed: a server line that is missing somewhere is no order.
func (d *tender) leave(p *plan, conf []raft.Server) (*change, error) {
	if p.target == nil || !d.joined(p, conf) {
		return nil, nil
	}
	for _, s := range conf {
		number := peer.Number(s.ID)
		if _, stays := p.member(number); stays || number == d.n.o.MyID {
			continue
		}
		return &change{number, "removing", func() raft.IndexFuture { return d.n.raft().RemoveServer(s.ID, 0, stepTimeout) }}, nil
	}
	return nil, nil
}

// joined says whether all members of a plan are in raft's configuration, with their roles;
// this server apart.
func (d *tender) joined(p *plan, conf []raft.Server) bool {
	for _, m := range p.members {
		if m.ID != d.n.o.MyID && !slices.ContainsFunc(conf, func(s raft.Server) bool {
			return peer.Number(s.ID) == m.ID && (s.Suffrage == raft.Voter) == (m.Role == ensemble.Participant)
		}) {
			return false
		}
	}
	return true
}

// leaveSelf hands over if this server is to leave or to lose its vote, when nothing else is
// left to do: the next leader does it.
func (d *tender) leaveSelf(p *plan, conf []raft.Server) (*change, error) {
	if p.target == nil || !d.joined(p, conf) {
		return nil, nil
	}
	if m, stays := p.member(d.n.o.MyID); stays && m.Role == ensemble.Participant {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return nil, d.n.StepDown(ctx)
}

// incarnation asks who has a number. Only a member of this cluster counts.
func (n *Node) incarnation(number int) (raft.ServerID, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), meetTimeout)
	defer cancel()
	in, err := n.peers.Meet(ctx, number)
	if err != nil || in.Cluster != n.stores.id.cluster {
		return "", false
	}
	return in.ID, true
}

// inContact says whether a member has answered raft lately.
func (n *Node) inContact(id raft.ServerID) bool {
	return slices.ContainsFunc(n.peers.Peers(), func(s peer.Status) bool {
		return s.ID == id && time.Since(s.Contact) < 2*electionTimeout
	})
}

// caughtUp says whether a member has nearly all of this server's log.
func (n *Node) caughtUp(id raft.ServerID) bool {
	last, term := n.raft().LastIndex(), n.raft().CurrentTerm()
	return slices.ContainsFunc(n.peers.Peers(), func(s peer.Status) bool {
		return s.ID == id && s.Term == term && s.Acked+caughtUpEntries >= last
	})
}

// plannedAddresses are where the ensemble of the machine says that a member is.
func (n *Node) plannedAddresses(number int) ([]string, bool) {
	p, ok := n.plan()
	if !ok {
		return nil, false
	}
	m, ok := p.member(number)
	if !ok {
		n.mu.RLock()
		current, _, _ := n.machine.Ensemble()
		n.mu.RUnlock()
		was := current.Member(number)
		if was == nil {
			return nil, false
		}
		m = *was
	}
	return addresses(&m), true
}
