package replication

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Where larger requests are allowed than the members take from each other by default, one that is as
// large must get through to the leader: else all that its follower forwards would wait behind it for ever.
func TestTheLargestCommandGetsThrough(t *testing.T) {
	c := newTrio(t, 3)
	const largest = 5 << 20
	for _, v := range c.members {
		v.tuned(func(o *Options) { o.MaxCommandBytes = largest + 1<<10 })
	}
	c.start(1, 2, 3)
	c.sessions()
	follower := c.others(c.leader())[0]
	follower.payload = make([]byte, largest)
	follower.write()
	follower.settled()
	c.same()
}

func TestLimitsBetweenMembersFollowTheLargestCommand(t *testing.T) {
	for command, want := range map[int][2]int{
		1 << 20:   {minMessageBytes, minEntryBytes},
		8 << 20:   {1<<20 + 8<<20 + entryHead, minEntryBytes},
		1<<31 - 1: {maxFrameBytes, maxFrameBytes},
	} {
		o := Options{MaxBatchBytes: 1 << 20, MaxCommandBytes: command}
		require.Equal(t, want, [2]int{o.messageBytes(), o.entryBytes()}, "%d", command)
		require.LessOrEqual(t, o.messageBytes(), o.entryBytes())
	}
}
