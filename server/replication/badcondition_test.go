package replication

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A follower comes back with an old copy of its disk, as from a backup or a snapshot of its
// virtual machine. It lacks what it has acknowledged: the leader says so, and gives it all of it.
func TestAFollowerWithAnOldCopyOfItsDiskIsNamedAndCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrioOn(t, true)
		var log lines
		var dirs []string
		for _, v := range c.members {
			v.tuned(func(o *Options) {
				o.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(&log, testLog()), nil)).With("at", v.number)
				dirs = append(dirs, o.Dir)
			})
		}
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		old := c.others(leader)[0]
		dir := dirs[old.number-1]
		for range 20 {
			leader.write()
		}
		leader.settled()
		c.same()
		old.stop()
		copied := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		c.start(old.number)
		for range 20 {
			leader.write()
			leader.settled()
		}
		c.same() // so it has acknowledged them
		awaitCondition(t, "its acknowledgement", func() bool { return leader.node.ackedBy(old.node.stores.id.serverID()) >= leader.node.AppliedIndex() })
		require.NotContains(t, log.String(), "an old copy")
		old.stop()
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.CopyFS(dir, os.DirFS(copied)))
		c.start(old.number)
		c.same()
		require.Contains(t, log.String(), "its disk is an old copy")
		for _, v := range c.members {
			v.write()
			v.settled()
			require.Len(t, v.applied, int(v.next), "member %d: nothing may be lost", v.number)
		}
		c.same()
	})
}

// Five members, and two of them, the leader among them, are cut off from the others, in one
// direction or in both: those three go on, those two answer nothing, and all are one after it.
func TestTwoOfFiveAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, both := range []bool{true, false} {
			c := newTrio(t, 5)
			c.start(1, 2, 3, 4, 5)
			c.sessions()
			old := c.leader()
			minority := []*voice{old, c.others(old)[0]}
			majority := c.others(old)[1:]
			for _, v := range minority {
				for _, w := range majority {
					c.net.Block(v.host(), w.host())
					if both {
						c.net.Block(w.host(), v.host())
					}
				}
			}
			next := c.leaderAmong(majority)
			for _, v := range majority {
				v.write()
				v.settled()
			}
			applied := next.node.AppliedIndex()
			minority[1].write() // waits
			require.Less(t, minority[1].node.AppliedIndex(), applied)
			c.net.Heal()
			for _, v := range c.members {
				v.write()
				v.settled()
				require.Len(t, v.applied, int(v.next), "member %d", v.number)
			}
			c.same()
		}
	})
}

// The power fails at two of five, and at all five.
func TestPowerLossOfTwoOfFive(t *testing.T) {
	powerLossOf(t, 5, 1, func(c *trio, rng *rand.Rand) []*voice {
		at := rng.Perm(5)[:2]
		return []*voice{c.members[at[0]], c.members[at[1]]}
	})
}

func TestPowerLossOfFive(t *testing.T) {
	powerLossOf(t, 5, 1, func(c *trio, _ *rand.Rand) []*voice { return c.members })
}

// Wall clocks that are hours apart, and jump: what is in the log comes from one leader after the
// other, and never goes back.
func TestClocksThatAreHoursApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		for i, v := range c.members {
			v.tuned(func(o *Options) {
				o.Now = func() time.Time { return time.Now().Add(time.Duration(i-1) * 7 * time.Hour) }
			})
		}
		c.start(1, 2, 3)
		c.sessions()
		var last int64
		for _, to := range []int{3, 1, 2, 3, 1} { // forward by hours, and back
			c.fit(to)
			_, err := c.leader().node.Transfer(testContext(t), to)
			require.NoError(t, err)
			awaitCondition(t, "its leadership", c.members[to-1].node.Leads)
			for _, v := range c.members {
				v.write()
				v.settled()
			}
			n := c.members[to-1].node
			n.RLock()
			now := n.Machine().TimeMs()
			n.RUnlock()
			require.GreaterOrEqual(t, now, last)
			last = now
		}
		c.same()
	})
}
