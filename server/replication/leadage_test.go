package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// A leader is cut off, and connections to it break now and then, which raft takes for contacts. It must
// know by itself that it may lead no more when another one does.
func TestALeaderThatIsCutOffKnowsSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time is virtual
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		old := c.leader()
		others := c.others(old)
		awaitCondition(t, "answers", func() bool { age, leads := old.node.LeadAge(); return leads && age < electionTimeout })
		_, leads := others[0].node.LeadAge()
		require.False(t, leads)
		time.Sleep(10 * time.Second)
		age, leads := old.node.LeadAge()
		require.True(t, leads)
		require.Less(t, age, silenceLimit, "nothing is wrong")

		cut := time.Now()
		c.net.Partition([]string{old.host()}, []string{others[0].host(), others[1].host()})
		var since time.Time // when another one began to lead
		for time.Since(cut) < 5*time.Second {
			if time.Since(cut) > silenceLimit {
				c.net.Cut(old.host(), others[0].host())
				c.net.Cut(old.host(), others[1].host())
			}
			if since.IsZero() && (others[0].node.Leads() || others[1].node.Leads()) {
				since = time.Now()
			}
			if age, leads := old.node.LeadAge(); leads {
				require.GreaterOrEqual(t, age, time.Since(cut), "nobody has answered since")
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.False(t, since.IsZero(), "nobody leads in its place")
	})
}

func TestAnswersConfirmALeaderOnlyByAMajorityAndInItsTerm(t *testing.T) {
	var c contacts
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	others := []raft.ServerID{"2", "3", "4", "5"}
	require.Zero(t, c.confirmed(1, others, 2))
	c.note("2", 1, at(5))
	c.note("9", 1, at(9)) // no voter
	require.Zero(t, c.confirmed(1, others, 2))
	c.note("3", 1, at(3))
	c.note("3", 1, at(2)) // an older one was answered later
	require.Equal(t, at(3), c.confirmed(1, others, 2))
	c.note("4", 1, at(4))
	require.Equal(t, at(4), c.confirmed(1, others, 2))
	require.Zero(t, c.confirmed(2, others, 2), "in another term nothing is known")
	c.note("2", 2, at(6))
	require.Zero(t, c.confirmed(2, others, 2))
	c.note("3", 1, at(7)) // of the term before
	require.Zero(t, c.confirmed(2, others, 2))
	c.note("5", 2, at(7))
	require.Equal(t, at(6), c.confirmed(2, others, 2))
}
