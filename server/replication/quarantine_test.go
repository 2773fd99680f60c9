package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/sim/disk"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

// Nobody writes: without marks the servers would not compare for days.
func TestAnIdleClusterFindsOtherDataToo(t *testing.T) {
	for _, who := range []string{"follower", "leader"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTrio(t, 3)
				for _, v := range c.members {
					v.tuned(func(o *Options) { o.DigestInterval = 100 * time.Millisecond })
				}
				c.start(1, 2, 3)
				c.sessions()
				wrong := c.leader()
				if who == "follower" {
					wrong = c.others(wrong)[0]
				}
				wrong.flip()
				wrong.healed()
				if who == "leader" {
					require.Contains(t, c.others(wrong), c.leaderAmong(c.others(wrong)))
				}
				c.same()
				for _, v := range c.others(wrong) {
					require.Zero(t, v.quarantined, "member %d", v.number)
				}
			})
		})
	}
}

// A mark costs an entry, so there are few of them; and none where somebody writes anyway.
func TestMarksAreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		for _, v := range c.members {
			v.tuned(func(o *Options) { o.DigestInterval = time.Hour })
		}
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		leader.write()
		leader.settled()
		last := leader.node.AppliedIndex()
		gen := func() uint64 { _, gen := leader.node.queue.current(); return gen }()
		j := leader.node.judgeOf(gen)
		heard := func() (all bool) {
			for _, v := range c.members {
				all = true
				if c, ok := j.conditionOf(v.node.stores.id.serverID()); !ok || time.Since(c.at) > reportInterval {
					return false
				}
			}
			return all
		}
		awaitCondition(t, "reports of all", heard)
		noted := func(v *voice) bool {
			notes, _ := v.node.notes.since(bookmark{})
			return slices.ContainsFunc(notes, func(x note) bool { return x.index > last })
		}
		require.False(t, noted(leader), "reports alone write nothing")
		leader.node.mark(gen)
		for _, v := range c.members {
			awaitCondition(t, fmt.Sprintf("the note of member %d", v.number), func() bool { return noted(v) })
		}
	})
}

// quarantined has a member find out that its data are wrong while nobody can repair it, and
// stops it.
func quarantined(t *testing.T, c *trio) (wrong *voice) {
	t.Helper()
	for _, v := range c.members {
		v.tuned(func(o *Options) { o.DigestInterval = time.Hour })
	}
	c.start(1, 2, 3)
	c.sessions()
	for _, v := range c.members {
		v.write()
		v.settled()
	}
	wrong = c.others(c.leader())[0]
	wrong.flip()
	require.NoError(t, wrong.node.SnapshotNow(testContext(t))) // so that the next start has it, too
	c.net.Crash(wrong.host())
	wrong.node.quarantine(&verdict{ruling: deviates, index: wrong.node.AppliedIndex()}, func() uint64 {
		_, at := wrong.node.notes.since(bookmark{})
		return at.epoch
	}())
	wrong.await("the quarantine", func() bool { return wrong.quarantined == 1 })
	awaitCondition(t, "the note", func() bool {
		index, err := wrong.node.stores.sick.read()
		return err == nil && index > 0
	})
	wrong.stop()
	return wrong
}

func TestAQuarantineOutlivesTheProcess(t *testing.T) {
	for _, disk := range []bool{false, true} {
		t.Run(map[bool]string{false: "in memory", true: "on disk"}[disk], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTrioOn(t, disk)
				wrong := quarantined(t, c)

				// Alone it serves nothing and shows nothing.
				for _, v := range c.others(wrong) {
					c.net.Refuse(wrong.host(), v.host(), true)
					c.net.Refuse(v.host(), wrong.host(), true)
				}
				wrong.open()
				require.True(t, wrong.node.InQuarantine())
				short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, wrong.node.WaitReady(short), context.DeadlineExceeded)
				_, err := wrong.node.Preview(testContext(t))
				require.ErrorIs(t, err, ErrQuarantined)
				require.NoError(t, wrong.node.SnapshotNow(testContext(t)))
				require.Zero(t, wrong.restored)

				// With the others it is repaired before it serves.
				c.net.Heal()
				require.NoError(t, wrong.node.WaitReady(testContext(t)))
				require.False(t, wrong.node.InQuarantine())
				wrong.mu.Lock()
				restored := wrong.restored
				wrong.mu.Unlock()
				require.Positive(t, restored)
				c.same()
				for _, v := range c.members {
					v.write()
					v.settled()
				}
				c.same()
				wrong.stop()
				wrong.open()
				require.False(t, wrong.node.InQuarantine(), "it was repaired")
				require.NoError(t, wrong.node.WaitReady(testContext(t)))
				c.same()
			})
		})
	}
}

// The snapshot that repairs a server may find no room on its disk: it is fetched again when there is.
func TestARepairWithoutRoomOnTheDiskIsTriedAgain(t *testing.T) {
	for _, op := range []disk.Op{disk.OpCreate, disk.OpWrite, disk.OpSync, disk.OpRename} {
		t.Run(op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTrio(t, 3)
				disks := map[*voice]*disk.Disk{}
				for _, v := range c.members {
					d := disk.New()
					require.NoError(t, d.MkdirAll("/", 0o700))
					disks[v], v.fs = d, d
				}
				wrong := quarantined(t, c)
				disks[wrong].Inject(disk.Fault{Op: op, Base: "*.snap*", For: 3, Err: syscall.ENOSPC})
				c.net.Heal()
				wrong.open()
				require.NoError(t, wrong.node.WaitReady(testContext(t)))
				require.False(t, wrong.node.InQuarantine())
				require.Equal(t, 3, disks[wrong].Failures())
				c.same()
			})
		})
	}
}

func TestAQuarantineIsNotedOnTheDisk(t *testing.T) {
	fsys := vfstest.New()
	require.NoError(t, fsys.MkdirAll("/data", 0o700))
	note := fileNote{fsys, "/data"}
	for _, index := range []uint64{0, 7, 9, 0, 0} {
		require.NoError(t, note.write(index))
		got, err := note.read()
		require.NoError(t, err)
		require.Equal(t, index, got)
	}
	for text, want := range map[string]uint64{"": 1, "x": 1, "0": 1, "12\n": 12} {
		require.NoError(t, vfs.WriteFileAtomic(fsys, "/data", note.path(), []byte(text), 0o600))
		got, err := note.read()
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestAServerWithoutOthersDoesNotStartInQuarantine(t *testing.T) {
	o := testOptions()
	o.Memory, o.Stores = true, NewMemoryStores()
	r := openRig(t, o)
	require.NoError(t, r.Node.Close())
	require.NoError(t, memoryNote{o.Stores}.write(3))
	_, err := tryOpenRig(t, o)
	var damage *DamageError
	require.True(t, errors.As(err, &damage), "%v", err)
	require.Contains(t, err.Error(), "differ from those of the other servers")
}

// A crash between the repair and the removal of the note: the snapshot says that it is over.
func TestARepairThatWasDoneIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		v := c.members[0]
		require.NoError(t, v.node.SnapshotNow(testContext(t)))
		index := v.node.stores.snaps.all()[0].index
		v.stop()
		require.NoError(t, memoryNote{v.stores}.write(index-1))
		c.start(1)
		require.False(t, v.node.InQuarantine())
		require.Zero(t, v.restored)
		got, err := v.node.stores.sick.read()
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

func TestAnOlderSnapshotInMemoryReplacesNoNewerOne(t *testing.T) {
	s := NewMemoryStores().snaps
	older, err := s.Create(raft.SnapshotVersionMax, 5, 1, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	newer, err := s.Create(raft.SnapshotVersionMax, 9, 1, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	require.NoError(t, newer.Close())
	require.NoError(t, older.Close())
	require.Equal(t, uint64(9), s.all()[0].index)
}

func TestASnapshotOfTheLeaderKeepsItsZxid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, disk := range []bool{false, true} {
			c := newTrioOn(t, disk)
			c.start(1, 2, 3)
			c.sessions()
			leader := c.leader()
			lagging := c.others(leader)[0]
			lagging.stop()
			for range farBehind {
				leader.write()
				leader.settled()
			}
			for _, v := range c.others(lagging) {
				require.NoError(t, v.node.waitApplied(testContext(t), leader.node.AppliedIndex()))
				require.NoError(t, v.node.SnapshotNow(testContext(t)))
			}
			want, _, _ := leader.node.LastSnapshot()
			require.Positive(t, want)
			c.start(lagging.number)
			lagging.await("a snapshot", func() bool { return lagging.restored > 0 })
			got, _, ok := lagging.node.LastSnapshot()
			require.True(t, ok)
			require.Equal(t, want, got)
			if disk {
				lagging.stop()
				c.start(lagging.number)
				files := lagging.node.stores.snaps.all()
				require.Equal(t, want, files[len(files)-1].zxid, "also in the file")
			}
		}
	})
}

// A server that has a vote is no observer, whatever its own configuration says.
func TestARoleIsThatOfTheMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		follower := c.others(c.leader())[0]
		for i := range follower.node.o.Cluster.Members {
			if m := &follower.node.o.Cluster.Members[i]; m.Number == follower.number {
				m.Observer = true
				defer func() { m.Observer = false }()
			}
		}
		require.Equal(t, Follower, follower.node.Role())
		leader := c.leader()
		require.NoError(t, leader.node.raft().DemoteVoter(follower.node.stores.id.serverID(), 0, stepTimeout).Error())
		awaitCondition(t, "the loss of its vote", func() bool { return follower.node.Role() == Observing })
	})
}

// A leader that did not hear what a member has stored sends it again, from the entry before on;
// raft there refuses for ever if that entry is only in the snapshot.
func TestAPurgeLeavesWhatALeaderMaySendAgain(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	v := c.others(c.leader())[0]
	for range 3 * v.node.trailing() {
		v.write()
		v.settled()
	}
	require.NoError(t, v.node.SnapshotNow(testContext(t)))
	index := v.node.stores.snaps.all()[0].index
	awaitCondition(t, "the purge", func() bool { first, _ := bounds(t, v); return first > 1 })
	first, _ := bounds(t, v)
	require.Equal(t, index-v.node.trailing()+1, first)
}

// As many entries as a pipeline takes are stored and applied by a member that lags, and then it takes a
// snapshot, its first, while its answers are lost. The leader goes on from the last answer.
func TestAPurgeLeavesWhatWasAnsweredInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrioOn(t, true)
		for _, v := range c.members {
			v.tuned(func(o *Options) { o.TrailingEntries = 0 }) // the default
		}
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		f := c.others(leader)[0]
		leader.write()
		leader.settled()
		time.Sleep(2 * time.Second)
		before := f.node.AppliedIndex()

		c.net.Partition([]string{leader.host()}, []string{f.host()}) // for less than anybody's patience
		for range 400 {
			leader.write()
			leader.settled()
		}
		c.net.Delay(f.host(), leader.host(), 50*time.Millisecond)
		c.net.Unblock(leader.host(), f.host())
		c.net.Unblock(f.host(), leader.host())
		time.Sleep(75 * time.Millisecond)
		c.net.Block(f.host(), leader.host()) // the answers are lost
		time.Sleep(25 * time.Millisecond)
		require.Greater(t, f.node.AppliedIndex(), before)
		require.NoError(t, f.node.SnapshotNow(testContext(t)))
		time.Sleep(300 * time.Millisecond)
		c.net.Cut(leader.host(), f.host())
		c.net.Heal()
		leader = c.leader()
		leader.write()
		leader.settled()
		awaitCondition(t, "the member", func() bool { return f.node.AppliedIndex() == leader.node.AppliedIndex() })
		c.same()
	})
}
