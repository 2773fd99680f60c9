package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// The leader sees to it that raft's configuration is what the plan says, one step at a time:
// raft changes one server at a time, and each step must be committed before the next.
//
//	a member of the plan whose incarnation raft does not know     becomes a learner
//	a learner that is to vote and has caught up with the log      takes the place of the old
//	                                                              incarnation, if there is one
//	an observer that votes                                        loses its vote
//
// A server that has lost its disk comes back as another incarnation, so it goes the way of a
// new one: it never votes with a log that lacks what it once acknowledged. A new leader goes
// on where the old one stopped, because what is to be done follows from plan and configuration
// alone.

const (
	tendPause = 250 * time.Millisecond
	// stepTimeout bounds a step: without a majority none comes to an end.
	stepTimeout = 5 * time.Second
	// caughtUpEntries may be missing at a learner that becomes a voter: the rest is on its way.
	caughtUpEntries = 64
)

// tend runs until stop.
func (n *Node) tend(stop <-chan struct{}) {
	t := time.NewTicker(tendPause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-stop:
			return
		case <-n.dead:
			return
		}
		for n.Leads() {
			done, err := n.tendOnce()
			if err != nil {
				n.o.Logger.Warn("the membership is not as it should be; it is tried again", "reason", err)
			}
			if done || err != nil {
				break
			}
		}
	}
}

// tendOnce takes one step; done says that there is none to take, or none can be taken now.
func (n *Node) tendOnce() (done bool, err error) {
	conf := n.raft.GetConfiguration().Configuration().Servers
	for _, m := range n.o.Cluster.Members {
		if m.Number == n.o.MyID {
			continue
		}
		step, what, err := n.stepFor(m, conf)
		if err != nil {
			return false, err
		}
		if step == nil {
			continue
		}
		n.o.Logger.Info("changing the membership", "step", what, "server", m.Number)
		if err := step.Error(); err != nil {
			if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, raft.ErrRaftShutdown) {
				return true, nil // whoever leads now goes on
			}
			return false, fmt.Errorf("%s server %d: %w", what, m.Number, err)
		}
		return false, nil
	}
	return true, nil
}

// stepFor begins the next step for a member; nil if there is none.
func (n *Node) stepFor(m Member, conf []raft.Server) (raft.IndexFuture, string, error) {
	var known []raft.Server // all incarnations
	for _, s := range conf {
		if peer.Number(s.ID) == m.Number {
			known = append(known, s)
		}
	}
	if len(known) == 1 && n.inContact(known[0].ID) && (known[0].Suffrage == raft.Voter) != m.Observer {
		return nil, "", nil
	}
	id, ok := n.incarnation(m.Number)
	if !ok {
		return nil, "", nil
	}
	at := slices.IndexFunc(known, func(s raft.Server) bool { return s.ID == id })
	address := raft.ServerAddress(id)
	switch {
	case at < 0:
		return n.raft.AddNonvoter(id, address, 0, stepTimeout), "adding as a learner", nil
	case m.Observer && known[at].Suffrage == raft.Voter:
		return n.raft.DemoteVoter(id, 0, stepTimeout), "taking the vote of", nil
	case !m.Observer && known[at].Suffrage != raft.Voter && !n.caughtUp(id):
		return nil, "", nil
	case len(known) > 1:
		old := known[(at+1)%len(known)].ID
		return n.raft.RemoveServer(old, 0, stepTimeout), "removing the old incarnation of", nil
	case !m.Observer && known[at].Suffrage != raft.Voter:
		return n.raft.AddVoter(id, address, 0, stepTimeout), "giving a vote to", nil
	}
	return nil, "", nil
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
	last, term := n.raft.LastIndex(), n.raft.CurrentTerm()
	return slices.ContainsFunc(n.peers.Peers(), func(s peer.Status) bool {
		return s.ID == id && s.Term == term && s.Acked+caughtUpEntries >= last
	})
}
