package replication

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/state"
)

// A machine may be further than the newest snapshot when raft is restarted in place, and raft then
// begins at the snapshot. A session that has come and gone in between must not come again.
func TestNothingIsAppliedTwiceWhenRaftIsRestarted(t *testing.T) {
	for _, disk := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk=%t", disk), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTrioOn(t, disk)
				c.start(1, 2, 3)
				c.sessions()
				leader := c.leader()
				v := c.others(leader)[0]
				v.write()
				v.settled()
				require.NoError(t, v.node.SnapshotNow(testContext(t)))
				const visitor = 0x7f00000000000001
				visit := createNode(1, "/visitor", nil)
				visit.Session = visitor
				for _, cmd := range []*state.Command{
					{Kind: state.KindCreateSession, Session: visitor, TimeoutMs: 30000},
					visit,
					{Kind: state.KindCloseSession, Session: visitor, Epoch: 1, Req: 2},
				} {
					require.NoError(t, leader.node.Propose(cmd))
				}
				v.write()
				v.settled()
				v.node.RLock()
				require.NotNil(t, v.node.Machine().Tree().Lookup("/visitor"))
				require.Nil(t, v.node.Machine().Session(visitor))
				v.node.RUnlock()

				before := v.node.engine.Load()
				v.node.restart(testContext(t), "the test wants it", nil)
				<-before.replaced
				v.write()
				v.settled()
				c.same()
			})
		})
	}
}

// farBehind is so many entries that the next ones are not in the log any more after a purge, also where the
// leader has a request ready from before it.
const farBehind = 200

// The answer to the entries behind a snapshot is lost, and the leader sends them again. Were they
// refused, it would go back through all of its log, and then send the snapshot again.
func TestWhatFollowsASnapshotCanBeSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrioOn(t, true)
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		lagging, other := c.others(leader)[0], c.others(leader)[1]
		lagging.stop()
		for range farBehind {
			leader.write()
			leader.settled()
		}
		require.NoError(t, other.node.waitApplied(testContext(t), leader.node.AppliedIndex()))
		for _, v := range []*voice{leader, other} {
			require.NoError(t, v.node.SnapshotNow(testContext(t)))
		}
		c.start(lagging.number)
		lagging.await("a snapshot", func() bool { return lagging.restored > 0 })
		lagging.write()
		lagging.settled()

		first, last := bounds(t, lagging)
		files := lagging.node.stores.snaps.all()
		snapshot := files[len(files)-1]
		require.Equal(t, snapshot.index+1, first, "its log begins behind the snapshot")
		require.Greater(t, last, snapshot.index)
		var entry raft.Log
		require.NoError(t, lagging.node.stores.log.GetLog(first, &entry))
		from := leader.node.stores.id.serverID()
		id := lagging.node.stores.id.serverID()
		var answer raft.AppendEntriesResponse
		require.NoError(t, leader.node.peers.AppendEntries(id, raft.ServerAddress(id), &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from), Addr: []byte(from)},
			Term:      leader.node.raft().CurrentTerm(), PrevLogEntry: snapshot.index, PrevLogTerm: snapshot.term, Entries: []*raft.Log{&entry},
		}, &answer))
		require.True(t, answer.Success)
		_, after := bounds(t, lagging)
		require.GreaterOrEqual(t, after, last)
		c.same()

		// Who leads has to see that the entry is gone: it would send it to others.
		var out raft.Log
		log := engineLog{&guardedLog{lagging.node.stores.log, lagging.node}}
		require.NoError(t, log.GetLog(snapshot.index, &out))
		require.Equal(t, snapshot.term, out.Term)
		require.ErrorIs(t, log.GetLog(snapshot.index-1, &out), raft.ErrLogNotFound)
		c.fit(lagging.number)
		_, err := leader.node.Transfer(testContext(t), lagging.number)
		require.NoError(t, err)
		awaitCondition(t, "its leadership", lagging.node.Leads)
		require.ErrorIs(t, log.GetLog(snapshot.index, &out), raft.ErrLogNotFound)
	})
}
