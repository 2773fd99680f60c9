package replication

import (
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// play puts members in the place of others that answer their leader and store nothing.
func play(t *testing.T, c *trio, leader *voice, parts []*voice) {
	t.Helper()
	type part struct {
		host, cluster string
		id            raft.ServerID
	}
	var list []part
	for _, v := range parts {
		list = append(list, part{v.host(), v.node.ClusterID(), v.node.stores.id.serverID()})
	}
	for i, v := range parts {
		p := list[i]
		v.stop()
		played, err := peer.New(peer.Options{
			ID: p.id, Cluster: p.cluster, Listen: p.host + ":2888", Network: c.net.Host(p.host), Resolve: leader.node.resolve,
		})
		require.NoError(t, err)
		over := make(chan struct{})
		go func() {
			for {
				select {
				case rpc := <-played.Consumer():
					rpc.Respond(answerOf(p.id, rpc.Command), nil)
				case <-over:
					return
				}
			}
		}()
		t.Cleanup(func() { close(over); played.Close() })
	}
}

// answerOf accepts a leader, and none of its entries.
func answerOf(id raft.ServerID, command any) any {
	h := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}
	switch m := command.(type) {
	case *raft.AppendEntriesRequest:
		return &raft.AppendEntriesResponse{RPCHeader: h, Term: m.Term, LastLog: m.PrevLogEntry, Success: len(m.Entries) == 0}
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{RPCHeader: h, Term: m.Term, Granted: true}
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{RPCHeader: h, Term: m.Term, Granted: true}
	case *raft.TimeoutNowRequest:
		return &raft.TimeoutNowResponse{RPCHeader: h}
	}
	return nil
}

func TestALeaderClosesThoughAMajorityStoresNothing(t *testing.T) {
	c := newTrio(t, 3)
	for _, v := range c.members {
		v.tuned(func(o *Options) { o.ClosePatience = 200 * time.Millisecond })
	}
	c.start(1, 2, 3)
	c.sessions()
	leader := c.leader()
	play(t, c, leader, c.others(leader))
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
