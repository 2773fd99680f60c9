package replication

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// A reconfig whose servers do not come changes nothing. ZooKeeper asks that they are connected
// to the leader, and answers NEWCONFIGNOQUORUM at once; here they are waited for a moment, then
// the answer is the same. For that
//
//   - no step is taken before all that join have been met;
//   - none of them gets a vote before all that are to vote have caught up;
//   - when it is given up, those that have no vote yet go again.
//
// What is left is a server that dies after others have got their votes: then the configuration
// says what was reached.

// mayGoOn says whether a reconfig may take a step. If those that join do not come, it ends.
func (d *tender) mayGoOn(p *plan, conf []raft.Server) (bool, error) {
	if d.begun || d.undone {
		return true, nil
	}
	missing, dead := 0, false
	for _, m := range p.members {
		if slices.ContainsFunc(conf, func(s raft.Server) bool { return peer.Number(s.ID) == m.ID }) {
			continue
		}
		if err := d.n.meets(m.ID); err != nil {
			missing++
			dead = dead || errors.Is(err, syscall.ECONNREFUSED)
		}
	}
	if missing == 0 {
		d.begun, d.since = true, time.Now()
		return true, nil
	}
	waited := time.Since(d.since)
	if waited < deadPatience || !dead && waited < meetPatience {
		return false, nil
	}
	d.n.o.Logger.Warn("a reconfig is refused, nothing was changed: servers that are to join are not there", "missing", missing)
	return false, d.abort(p)
}

// meets asks whether a server that is to join is there, and may join.
func (n *Node) meets(number int) error {
	ctx, cancel := context.WithTimeout(context.Background(), meetTimeout)
	defer cancel()
	in, err := n.peers.Meet(ctx, number)
	if err == nil && in.Cluster != "" && in.Cluster != n.stores.id.cluster {
		err = errors.New("it belongs to another cluster")
	}
	return err
}

func (d *tender) abort(p *plan) error {
	return d.n.proposeMembers(&state.Command{
		Kind: state.KindMembers, Target: p.target.Zxid, Members: state.MembersAborted, Code: wire.NewConfigNoQuorum,
	})
}

// joinersReady says whether all that are to get a vote by a reconfig have caught up.
func (d *tender) joinersReady(p *plan, conf []raft.Server) bool {
	if p.target == nil {
		return true
	}
	for _, m := range p.members {
		if m.Role != ensemble.Participant || m.ID == d.n.o.MyID {
			continue
		}
		if !slices.ContainsFunc(conf, func(s raft.Server) bool {
			return peer.Number(s.ID) == m.ID && (s.Suffrage == raft.Voter || d.n.caughtUp(s.ID))
		}) {
			return false
		}
	}
	return true
}

// undo removes one that has joined for a reconfig that is given up, and has no vote; when there
// is none, the reconfig ends.
func (d *tender) undo(p *plan, conf []raft.Server) (more bool, err error) {
	d.n.mu.RLock()
	current, _, _ := d.n.machine.Ensemble()
	d.n.mu.RUnlock()
	for _, s := range conf {
		number := peer.Number(s.ID)
		if s.Suffrage == raft.Voter || current.Member(number) != nil {
			continue
		}
		return d.take(p, &change{number, "removing again", func() raft.IndexFuture { return d.n.raft().RemoveServer(s.ID, 0, stepTimeout) }})
	}
	return false, d.abort(p)
}
