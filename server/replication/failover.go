package replication

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// stagger is what a voter waits for those before it to be elected, when a leader has died. On a
// machine that is very busy 30 ms were not enough: the votes were split.
const stagger = 75 * time.Millisecond

// maxFruitless doublings of it are enough for the slowest disk: votes are synced before they are
// given, and where that takes longer than the stagger, those who stand one after the other split
// the votes again and again. So each who has stood in vain makes more room for those before him.
const maxFruitless = 5

// steadyLooks at a leader who is heard, of silenceLook each, end that.
const steadyLooks = 20

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
		n.spawn(func() { n.standFor(d) })
	}
}

func (n *Node) standFor(d peer.Down) {
	self := n.stores.id.serverID()
	if !n.mayStand(d, self) {
		return
	}
	whole, stop := n.until(n.halt)
	defer stop()
	ctx, cancel := context.WithTimeout(whole, electionTimeout)
	defer cancel()
	if v := n.peers.Ask(ctx, d); !v.Dead() {
		n.o.Logger.Info("the connection to the leader broke, but it is not dead for a majority", "leader", d.ID)
		return
	}
	if !n.awaitTurn(ctx, d, self) || !n.mayStand(d, self) {
		return
	}
	n.o.Logger.Info("the leader's process is gone: standing for election", "leader", d.ID)
	n.stand()
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
	timer := time.NewTimer(time.Duration(rank) * stagger << min(n.fruitless.Load(), maxFruitless))
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

// A leader that hangs, or whose cable is cut, is noticed by its silence. One follower alone may
// have itself to blame; when a majority of the voters, this one among them, has not heard of a
// leader for silenceLimit, it can do nothing any more, and the next one stands for election
// without waiting for raft's timeouts, which are random and long. So it is, too, when a cluster
// starts.
//
// Silence is counted only as long as this process runs: in a machine that stood still nobody
// could have been heard.
const (
	// silenceLimit bears one lost heartbeat: raft sends one every 100 to 200 ms.
	silenceLimit = 450 * time.Millisecond
	silenceLook  = 50 * time.Millisecond
	// hearsayLimit is less: the others have not heard the same last heartbeat.
	hearsayLimit = 300 * time.Millisecond
)

// silence is for how long this server has not heard of a leader.
func (n *Node) silence() time.Duration { return time.Duration(n.silent.Load()) }

// listen runs until stop.
func (n *Node) listen(stop <-chan struct{}) {
	ctx, cancel := n.until(stop)
	defer cancel()
	t := time.NewTicker(silenceLook)
	defer t.Stop()
	last := time.Now()
	var contact time.Time
	steady := 0
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if heard := n.raft().LastContact(); n.raft().State() == raft.Leader || heard.After(contact) {
			contact = heard
			n.silent.Store(0)
		} else {
			n.silent.Add(int64(min(now.Sub(last), 2*silenceLook)))
		}
		last = now
		if steady++; n.silence() > 2*silenceLook {
			steady = 0
		} else if steady > steadyLooks {
			n.fruitless.Store(0)
		}
		if n.silence() >= silenceLimit {
			n.considerStanding(ctx)
			last = time.Now()
		}
	}
}

// considerStanding stands for election if this server may, it is its turn, and a majority hears
// nothing either.
func (n *Node) considerStanding(ctx context.Context) {
	self := n.stores.id.serverID()
	d := peer.Down{ID: n.leadership().leader}
	if d.ID == self || !n.mayStand(d, self) || !n.othersMissToo(ctx, d.ID) || !n.awaitTurn(ctx, d, self) {
		return
	}
	if heard := n.raft().LastContact(); time.Since(heard) < silenceLimit || !n.mayStand(d, self) {
		return
	}
	n.o.Logger.Info("a majority hears of no leader: standing for election", "silent", d.ID)
	n.stand()
	n.fruitless.Add(1)
	n.silent.Store(0) // give the election its time
}

// othersMissToo asks the other voters whether they have not heard of the leader either.
func (n *Node) othersMissToo(ctx context.Context, leader raft.ServerID) bool {
	ctx, cancel := context.WithTimeout(ctx, hearsayLimit)
	defer cancel()
	voters := n.voters()
	answers := make(chan bool, len(voters))
	asked := 0
	for _, id := range voters {
		if id == leader || id == n.stores.id.serverID() {
			continue
		}
		asked++
		go func() {
			in, err := n.peers.Meet(ctx, peer.Number(id))
			answers <- err == nil && in.ID == id && time.Duration(in.SilenceMs)*time.Millisecond >= hearsayLimit
		}()
	}
	agree := 1
	for range asked {
		if <-answers {
			agree++
		}
		if 2*agree > len(voters) {
			return true
		}
	}
	return false
}

// stand has raft here stand for election at once.
func (n *Node) stand() {
	self := n.stores.id.serverID()
	var resp raft.TimeoutNowResponse
	if err := n.peers.TimeoutNow(self, raft.ServerAddress(self), &raft.TimeoutNowRequest{}, &resp); err != nil {
		n.o.Logger.Debug("no early election", "reason", err)
	}
}

// electAlone has the only voter of a cluster lead at once.
func (n *Node) electAlone() {
	self := n.stores.id.serverID()
	if v := n.voters(); len(v) != 1 || v[0] != self {
		return
	}
	n.stand()
}
