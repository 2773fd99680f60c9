package replication

import (
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// play has a member make way for one that the test plays, with its id.
func (c *trio) play(leader, member *voice) (played *peer.Transport, id raft.ServerID) {
	c.t.Helper()
	id, cluster := member.node.stores.id.serverID(), member.node.ClusterID()
	member.stop()
	played, err := peer.New(peer.Options{
		ID: id, Cluster: cluster, Listen: member.host() + ":2888", Network: c.net.Host(member.host()), Resolve: leader.node.resolve,
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { played.Close() })
	return played, id
}

// playAs is play, and answer has what raft of that member is asked, until the test is over.
func (c *trio) playAs(leader, member *voice, answer func(raft.ServerID, raft.RPC)) raft.ServerID {
	c.t.Helper()
	played, id := c.play(leader, member)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case rpc := <-played.Consumer():
				answer(id, rpc)
			case <-over:
				return
			}
		}
	}()
	c.t.Cleanup(func() { close(over) })
	return id
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
