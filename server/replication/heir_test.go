package replication

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// A hungHeir is a member whose raft the test plays: it answers until it hangs, with its connections open.
type hungHeir struct {
	id    raft.ServerID
	hangs atomic.Bool
	asked chan struct{} // a TimeoutNow has come, and gets no answer
}

// playHeir has one of the followers of a new cluster be such a member, one that could lead.
func playHeir(t *testing.T) (c *trio, leader, third *voice, h *hungHeir) {
	t.Helper()
	c = newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	leader = c.leader()
	heir := c.others(leader)[0]
	third = c.others(leader)[1]
	h = &hungHeir{asked: make(chan struct{}, 100)}
	h.id = c.playAs(leader, heir, h.answer)
	awaitCondition(t, "the heir", func() bool { return c.leader() == leader && leader.node.caughtUp(h.id) && leader.node.inContact(h.id) })
	leader.write()
	leader.settled()
	return c, leader, third, h
}

func (h *hungHeir) answer(id raft.ServerID, rpc raft.RPC) {
	if h.hangs.Load() {
		return
	}
	switch m := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		answer := answerOf(id, m).(*raft.AppendEntriesResponse)
		answer.Success, answer.LastLog = true, m.PrevLogEntry+uint64(len(m.Entries))
		rpc.Respond(answer, nil)
	case *raft.TimeoutNowRequest:
		h.asked <- struct{}{}
	default:
		rpc.Respond(answerOf(id, m), nil)
	}
}

// handOverTwice has the leader try to give its leadership to the heir, who has just begun to hang.
func (h *hungHeir) handOverTwice(t *testing.T, leader *voice) {
	t.Helper()
	time.Sleep(2 * time.Second)
	h.hangs.Store(true)
	time.Sleep(450 * time.Millisecond)
	leader.write()
	leader.settled()
	for range 2 {
		awaitCondition(t, "the leadership", leader.node.Leads)
		require.True(t, leader.node.fitToLead(h.id), "nobody can know yet that it hangs")
		require.Error(t, leader.node.stepDown(testContext(t), h.id))
	}
}

// The member that is to lead hangs in that moment: it has stored everything, and does not answer that it is to
// stand for election. The leader goes on leading, and soon.
func TestAnHeirThatHangsCostsNoTimeWithoutWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, leader, _, h := playHeir(t)
		var start time.Time // the time is virtual
		for len(h.asked) == 0 {
			awaitCondition(t, "its leadership", leader.node.Leads)
			start = time.Now()
			require.Error(t, leader.node.stepDown(testContext(t), h.id))
		}
		leader.write()
		leader.settled()
		require.True(t, leader.node.Leads())
		require.Less(t, time.Since(start), 4*electionTimeout)
	})
}

func TestALeaderTakesEntriesAfterHandOversToAMemberThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, leader, _, h := playHeir(t)
		h.handOverTwice(t, leader)
		start := time.Now()
		leader.write()
		leader.settled()
		require.Less(t, time.Since(start), 4*electionTimeout)
	})
}

// Raft may not go on with a hand-over for which it had no time: it would lead and take nothing.
func TestALeaderThatWasLostDuringAHandOverLeadsAgain(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			c, leader, third, h := playHeir(t)
			h.handOverTwice(t, leader)
			c.net.Partition([]string{leader.host()}, []string{third.host()})
			awaitCondition(t, "the end of its leadership", func() bool { return leader.node.raft().State() != raft.Leader })
			time.Sleep(20 * time.Second)
			h.hangs.Store(false)
			c.net.Heal()
			awaitCondition(t, "its leadership again", func() bool {
				if third.node.Leads() {
					_, _ = third.node.Transfer(testContext(t), leader.number)
				}
				time.Sleep(100 * time.Millisecond)
				return leader.node.raft().State() == raft.Leader
			})
			awaitCondition(t, "that it takes entries", leader.node.Leads)
		})
	}
}

// A hand-over fails while the command of a follower waits at the leader for the leader's disk: it is not
// forgotten there.
func TestACommandOfAFollowerOutlivesAHandOverThatCameToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, leader, third, h := playHeir(t)
		third.write()
		third.settled()
		for len(h.asked) == 0 {
			awaitCondition(t, "its leadership", leader.node.Leads)
			awaitCondition(t, "the way of the follower", func() bool { r, _ := third.node.queue.current(); return r == routeLeader })
			time.Sleep(time.Second)
			require.True(t, leader.node.Leads())
			leader.node.batcher.unstored.Add(1) // an entry whose sync takes its time
			third.write()
			awaitCondition(t, "the command at the leader", func() bool { return !leader.node.queue.empty() })
			require.Error(t, leader.node.stepDown(testContext(t), h.id))
		}
		awaitCondition(t, "its leadership again", leader.node.Leads)
		leader.write() // others go on
		leader.settled()
		third.settled()
	})
}
