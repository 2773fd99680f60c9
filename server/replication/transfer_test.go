package replication

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// awaitCondition asks until it holds.
func awaitCondition(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// fit waits until a leader takes a member for one that could lead.
func (c *trio) fit(number int) {
	c.t.Helper()
	awaitCondition(c.t, "a member that could lead", func() bool {
		_, err := c.leader().node.heir(number)
		return err == nil || c.leader().number == number
	})
}

func TestLeadershipGoesToWhomAnybodyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		for _, from := range c.members { // the leader itself, and those that ask it
			for _, to := range c.members {
				c.fit(to.number)
				leader, err := from.node.Transfer(testContext(t), to.number)
				require.NoError(t, err)
				require.Equal(t, to.number, leader)
				awaitCondition(t, "its leadership", to.node.Leads)
				for _, v := range c.members {
					v.write()
					v.settled()
				}
			}
		}
		old := c.leader()
		for _, v := range c.others(old) {
			c.fit(v.number)
		}
		leader, err := c.others(old)[0].node.Transfer(testContext(t), anyMember)
		require.NoError(t, err)
		require.NotEqual(t, old.number, leader)
		c.same()
	})
}

func TestLeadershipStaysWhereNobodyFitIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 4)
		c.plan[3].Observer = true
		c.start(1, 2, 3, 4)
		c.sessions()
		leader := c.leader()
		dead := c.others(leader)[0]
		if dead.number == 4 {
			dead = c.others(leader)[1]
		}
		awaitCondition(t, "the observer", func() bool {
			_, err := leader.node.heir(4)
			return err == ErrNoVote
		})
		term := leader.node.raft().CurrentTerm()
		c.net.Crash(dead.host())
		dead.stop()
		awaitCondition(t, "its silence", func() bool { return !leader.node.inContact(dead.nodeID()) })
		for _, asked := range c.members {
			if asked == dead {
				continue
			}
			for number, want := range map[int]error{9: ErrNoMember, 4: ErrNoVote, dead.number: ErrLagging} {
				_, err := asked.node.Transfer(testContext(t), number)
				require.ErrorIs(t, err, want, "member %d is asked for %d", asked.number, number)
			}
		}
		require.True(t, leader.node.Leads())
		require.Equal(t, term, leader.node.raft().CurrentTerm())
		leader.write()
		leader.settled()
	})
}

// nodeID is the id of a member, also when it was stopped.
func (v *voice) nodeID() (id raft.ServerID) {
	v.stores.mu.Lock()
	defer v.stores.mu.Unlock()
	return v.stores.id.serverID()
}

func TestLeadershipOfAServerAloneGoesNowhere(t *testing.T) {
	o := testOptions()
	o.Memory = true
	_, err := openRig(t, o).Transfer(testContext(t), 1)
	require.ErrorIs(t, err, ErrAlone)
}

func TestLeadershipIsNotGivenToWhoIsInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		other := c.others(leader)[0]
		c.fit(other.number)
		gen := func() uint64 { _, gen := leader.node.queue.current(); return gen }()
		leader.node.judgeOf(gen).hear(other.node.stores.id.serverID(), &report{sick: true})
		_, err := leader.node.heir(other.number)
		require.ErrorIs(t, err, ErrLagging)
	})
}

func FuzzTransferAnswer(f *testing.F) {
	for _, err := range append(transferErrors[:len(transferErrors):len(transferErrors)], fmt.Errorf("too late: %w", context.DeadlineExceeded)) {
		f.Add(encodeTransfer(err))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := decodeTransfer(b)
		if len(b) == 1 && b[0] == 0 {
			require.NoError(t, err)
			return
		}
		if again := encodeTransfer(err); err != nil && !bytes.Equal(again[:1], b[:min(len(b), 1)]) && again[0] != transferFailed {
			t.Fatalf("%x is %v, and then %x", b, err, again)
		}
	})
}
