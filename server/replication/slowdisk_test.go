package replication

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A tardyFS is a disk on which syncs of the log take longer.
type tardyFS struct {
	hookedFS
	delay atomic.Int64 // ns
}

func newTardyFS(disk vfs.FS) *tardyFS {
	s := &tardyFS{}
	s.hookedFS = hookedFS{FS: disk, sync: func() error {
		time.Sleep(time.Duration(s.delay.Load()))
		return nil
	}}
	return s
}

// tardyTrio is a cluster on disks that can be made slow.
func tardyTrio(t *testing.T, d SlowDisk) (*trio, []*tardyFS) {
	c, _ := diskTrio(t)
	var disks []*tardyFS
	for _, v := range c.members {
		s := newTardyFS(v.fs)
		v.fs = s
		v.tune = func(o *Options) { o.SlowDisk = d }
		disks = append(disks, s)
	}
	return c, disks
}

func TestALeaderWithASlowDiskHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disks := tardyTrio(t, SlowDisk{Sync: 400 * time.Millisecond, For: time.Second, Pause: 2 * time.Second})
		var handed atomic.Int64
		for _, v := range c.members {
			v.tuned(func(o *Options) { o.Meters.SlowDisk = func() { handed.Add(1) } })
		}
		c.start(1, 2, 3)
		c.sessions()
		old := c.leader()
		for _, v := range c.members {
			defer v.pump(time.Millisecond)()
		}
		disks[old.number-1].delay.Store(int64(2 * time.Second))
		awaitCondition(t, "another leader", func() bool {
			for _, v := range c.others(old) {
				if v.node.Leads() {
					return true
				}
			}
			return false
		})
		require.NotZero(t, handed.Load(), "the leadership went because of the disk")
		disks[old.number-1].delay.Store(0)
		old.settled()
	})
}

// bad is so many seconds in which a sync takes 900 ms.
func bad(seconds int) []time.Duration { return slices.Repeat([]time.Duration{900}, seconds) }

func TestASlowDiskIsLeftOnlyForABetterOneAndSeldom(t *testing.T) {
	d := SlowDisk{Sync: 100 * time.Millisecond, For: 5 * time.Second, Pause: 10 * time.Second}
	for _, test := range []struct {
		name   string
		mine   []time.Duration // ms in each second; -1: no sync
		theirs time.Duration   // ms; 0: not known
		looked int             // how often it looked for another leader
		handed int
	}{
		{"fast", []time.Duration{1, 1, 1, 1, 1, 1, 1, 1}, 1, 0, 0},
		{"slow for too short a time", bad(4), 1, 0, 0},
		{"slow with a good moment", append(append(bad(4), 50), bad(4)...), 1, 0, 0},
		{"slow where nobody writes", []time.Duration{900, 900, -1, -1, -1, -1, -1, 900, 900}, 1, 0, 0},
		{"slow", bad(5), 1, 1, 1},
		{"slow with pauses", []time.Duration{900, 900, -1, 900, -1, 900, 900}, 1, 1, 1},
		{"slow again", bad(14), 1, 1, 1},
		{"slow again, after the pause", bad(16), 1, 2, 2},
		{"the pause doubles", bad(34), 1, 2, 2}, // at 5 s and at 15 s; the next is at 35 s
		{"all are slow", bad(6), 800, 1, 0},
		{"all are slow for long", bad(16), 800, 2, 0}, // one more line in the log, and no more
		{"the others are not much better", []time.Duration{300, 300, 300, 300, 300}, 90, 1, 0},
		{"the others are better and slow", bad(5), 150, 1, 0},
		{"nothing is known of the others", bad(5), 0, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			looked, handed := 0, 0
			w := slowWatch{
				d: d, pause: d.Pause, leads: func() bool { return true },
				best: func() (raft.ServerID, time.Duration) {
					if looked++; test.theirs == 0 {
						return "", 0
					}
					return "2-b", test.theirs * time.Millisecond
				},
				hand: func(to raft.ServerID, mine, theirs time.Duration) error {
					require.Equal(t, raft.ServerID("2-b"), to)
					require.GreaterOrEqual(t, mine, muchBetter*theirs)
					handed++
					return nil
				},
			}
			now := time.Now()
			for _, took := range test.mine {
				now = now.Add(time.Second)
				before := looked - handed
				message, _ := w.look(took*time.Millisecond, took >= 0, time.Second, now)
				require.Equal(t, looked-handed > before, message != "", "a line each time that nobody is better")
			}
			require.Equal(t, test.looked, looked)
			require.Equal(t, test.handed, handed)
		})
	}
	off := slowWatch{d: SlowDisk{Sync: -1}, leads: func() bool { t.Error("it is off"); return true }}
	off.look(time.Hour, true, time.Hour, time.Now())
	follower := slowWatch{d: d, leads: func() bool { return false }, best: func() (raft.ServerID, time.Duration) { t.Error("it does not lead"); return "", 0 }}
	follower.look(time.Hour, true, time.Hour, time.Now())
}

func TestASyncMeterCountsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m syncMeter
		_, some := m.look()
		require.False(t, some)
		require.Zero(t, m.typical())
		end := m.begin()
		time.Sleep(10 * time.Millisecond)
		end()
		end = m.begin()
		time.Sleep(30 * time.Millisecond)
		end()
		mean, some := m.look()
		require.True(t, some)
		require.Equal(t, 20*time.Millisecond, mean)
		_, some = m.look()
		require.False(t, some, "there was none since")
		require.Equal(t, 20*time.Millisecond, m.typical(), "what it was last is still known")

		end = m.begin() // a disk that hangs
		time.Sleep(5 * time.Millisecond)
		_, some = m.look()
		require.False(t, some, "it may yet be a quick one")
		time.Sleep(time.Second)
		mean, some = m.look()
		require.True(t, some)
		require.Equal(t, 1005*time.Millisecond, mean)
		require.Equal(t, 1005*time.Millisecond, m.typical())
		end()
	})
}
