package replication

import (
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication/peer"
)

func TestALeaderClosesThoughAMajorityStoresNothing(t *testing.T) {
	c := newTrio(t, 3)
	for _, v := range c.members {
		v.tuned(func(o *Options) { o.ClosePatience = 200 * time.Millisecond })
	}
	c.start(1, 2, 3)
	c.sessions()
	leader := c.leader()
	for _, v := range c.others(leader) { // which answer, and store nothing
		c.playAs(leader, v, func(id raft.ServerID, rpc raft.RPC) { rpc.Respond(answerOf(id, rpc.Command), nil) })
	}
	// It may have lost the leadership for a moment; the others elect it again.
	var last uint64
	awaitCondition(t, "an entry that nobody stores", func() bool {
		if last == 0 {
			leader.write()
		}
		last = leader.node.raft().LastIndex()
		return leader.node.raft().State() == raft.Leader && last > leader.node.raft().CommitIndex()
	})
	node := leader.node
	leader.node = nil
	closed := make(chan error, 1)
	go func() { closed <- node.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("Close waits for ever:\n%s", buf[:runtime.Stack(buf, true)])
	}
}

// What looks after a leader that died asks the others, who may not answer; Close ends it.
func TestCloseWaitsForWhoStandsForElection(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	leader := c.leader()
	follower := c.others(leader)[0]
	for _, v := range c.others(follower) { // nobody answers
		c.net.Block(follower.host(), v.host())
		c.net.Block(v.host(), follower.host())
	}
	for range 20 {
		follower.node.peerDown(peer.Down{ID: leader.node.stores.id.serverID(), Boot: 1})
	}
	follower.stop()
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	require.NotContains(t, stacks, ".standFor(")
	node := &Node{halt: make(chan struct{})}
	close(node.halt)
	node.spawn(func() { t.Error("it runs after Close") })
	c.net.Heal()
}
