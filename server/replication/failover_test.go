package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// otherHosts are those of all members but one.
func (c *trio) otherHosts(but *voice) []string {
	var hosts []string
	for _, v := range c.members {
		if v != but {
			hosts = append(hosts, v.host())
		}
	}
	return hosts
}

func TestLeaderThatIsCutOffIsReplaced(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	for range 3 {
		old := c.leader()
		start := time.Now()
		c.net.Partition([]string{old.host()}, c.otherHosts(old))
		var next *voice
		for next == nil {
			require.Less(t, time.Since(start), patience)
			for _, v := range c.members {
				if v != old && v.node.Leads() {
					next = v
				}
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("a new leader after %v", time.Since(start))
		next.write()
		next.settled()
		old.write() // waits
		c.net.Heal()
		old.settled()
	}
	c.same()
}

// One follower that does not hear the leader, while all others do, changes nothing.
func TestOneDeafFollowerDeposesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		term := leader.node.raft().CurrentTerm()
		deaf := c.members[leader.number%3]
		c.net.Block(leader.host(), deaf.host())
		// Long enough for the deaf one to have wanted an election, by its own timeouts too.
		deadline := time.Now().Add(patience)
		for deaf.node.raft().State() == raft.Follower && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		require.NotEqual(t, raft.Follower, deaf.node.raft().State(), "it did not notice")
		leader.write()
		leader.settled()
		require.True(t, leader.node.Leads())
		c.net.Unblock(leader.host(), deaf.host())
		deaf.write()
		deaf.settled()
		require.Equal(t, term, leader.node.raft().CurrentTerm(), "it has forced an election")
		require.True(t, leader.node.Leads())
		c.same()
	})
}
