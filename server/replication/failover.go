package replication

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// stagger is what a voter waits for those before it to be elected, when a leader has died.
const stagger = 30 * time.Millisecond

// peerDown is called when the process of a member is gone. If it led, a new leader is elected
// at once instead of after a timeout.
//
// TimeoutNow to oneself skips the question whether an election would succeed, and makes peers
// vote although they have a leader, so it is taken only when a majority sees the leader's
// process dead (peer.Ask): a member whose own way is broken must not depose a healthy leader
// again and again. Voters only: who has no vote would raise the term for nothing. Of those
// who are left the one with the lowest number goes first, so that votes are not split; should
// its log be too short to be elected, the next follows.
func (n *Node) peerDown(d peer.Down) {
	if n.up.Load() {
		go n.standFor(d)
	}
}

func (n *Node) standFor(d peer.Down) {
	self := n.stores.id.serverID()
	if !n.mayStand(d, self) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), electionTimeout)
	defer cancel()
	if v := n.peers.Ask(ctx, d); !v.Dead() {
		n.o.Logger.Info("the connection to the leader broke, but it is not dead for a majority", "leader", d.ID)
		return
	}
	if !n.awaitTurn(ctx, d, self) || !n.mayStand(d, self) {
		return
	}
	n.o.Logger.Info("the leader's process is gone: standing for election", "leader", d.ID)
	var resp raft.TimeoutNowResponse
	if err := n.peers.TimeoutNow(self, raft.ServerAddress(self), &raft.TimeoutNowRequest{}, &resp); err != nil {
		n.o.Logger.Debug("no early election", "reason", err)
	}
}

// mayStand says whether this server is a voter that follows the member in question, or
// nobody.
func (n *Node) mayStand(d peer.Down, self raft.ServerID) bool {
	_, leader := n.raft().LeaderWithID()
	return (leader == d.ID || leader == "") && n.raft().State() == raft.Follower && slices.Contains(n.voters(), self)
}

// awaitTurn waits for those before this server; false if there is a leader meanwhile.
func (n *Node) awaitTurn(ctx context.Context, d peer.Down, self raft.ServerID) bool {
	rank := 0
	for _, id := range n.voters() {
		if id != d.ID && id != self && peer.Number(id) < peer.Number(self) {
			rank++
		}
	}
	timer := time.NewTimer(time.Duration(rank) * stagger)
	defer timer.Stop()
	for {
		l := n.leadership()
		if l.leader != "" && l.leader != d.ID {
			return false
		}
		select {
		case <-timer.C:
			return true
		case <-l.changed:
		case <-ctx.Done():
			return false
		}
	}
}

// electAlone has the only voter of a cluster lead at once.
func (n *Node) electAlone() {
	self := n.stores.id.serverID()
	if v := n.voters(); len(v) != 1 || v[0] != self {
		return
	}
	var resp raft.TimeoutNowResponse
	if err := n.peers.TimeoutNow(self, raft.ServerAddress(self), &raft.TimeoutNowRequest{}, &resp); err != nil {
		n.o.Logger.Debug("no early election", "reason", err)
	}
}
