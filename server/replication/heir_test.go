package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// The member that is to lead hangs in that moment: it has stored everything, and does not answer that it is to
// stand for election. The leader goes on leading, and soon.
func TestAnHeirThatHangsCostsNoTimeWithoutWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		heir := c.others(leader)[0]
		id, cluster := heir.node.stores.id.serverID(), heir.node.ClusterID()
		heir.stop()
		played, err := peer.New(peer.Options{
			ID: id, Cluster: cluster, Listen: heir.host() + ":2888", Network: c.net.Host(heir.host()), Resolve: leader.node.resolve,
		})
		require.NoError(t, err)
		over, asked := make(chan struct{}), make(chan struct{}, 100)
		go func() {
			for {
				select {
				case rpc := <-played.Consumer():
					switch m := rpc.Command.(type) {
					case *raft.AppendEntriesRequest:
						answer := answerOf(id, m).(*raft.AppendEntriesResponse)
						answer.Success, answer.LastLog = true, m.PrevLogEntry+uint64(len(m.Entries))
						rpc.Respond(answer, nil)
					case *raft.TimeoutNowRequest:
						asked <- struct{}{}
					default:
						rpc.Respond(answerOf(id, m), nil)
					}
				case <-over:
					return
				}
			}
		}()
		t.Cleanup(func() { close(over); played.Close() })
		awaitCondition(t, "the heir", func() bool { return c.leader() == leader && leader.node.caughtUp(id) && leader.node.inContact(id) })

		var start time.Time // the time is virtual
		for len(asked) == 0 {
			awaitCondition(t, "its leadership", leader.node.Leads)
			start = time.Now()
			require.Error(t, leader.node.stepDown(testContext(t), id))
		}
		leader.write()
		leader.settled()
		require.True(t, leader.node.Leads())
		require.Less(t, time.Since(start), 4*electionTimeout)
	})
}
