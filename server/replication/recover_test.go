package replication

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
)

func agree(Recovery) error { return nil }

// smallDisks is diskTrio with disks that are quickly copied.
func smallDisks(t *testing.T) (*trio, []*vfstest.Disk) {
	c, disks := diskTrio(t)
	for _, v := range c.members {
		v.tune = func(o *Options) { o.SegmentBytes = 1 << 14 }
	}
	return c, disks
}

// writeAndEnd has a cluster write something, member 1 take a snapshot in between, and all end.
// Member 1 has all that was written.
func writeAndEnd(t *testing.T, c *trio, writes int) {
	t.Helper()
	c.start(1, 2, 3)
	c.sessions()
	v := c.members[0]
	for i := range writes {
		v.write()
		if i == writes/2 {
			v.settled()
			require.NoError(t, v.node.SnapshotNow(testContext(t)))
		}
	}
	v.settled()
	for _, v := range c.members {
		v.stop()
	}
}

// missing are those of a member's first nodes that another one does not have.
func missing(at *voice, of *voice, writes int) (paths []string) {
	at.node.RLock()
	defer at.node.RUnlock()
	for i := range writes {
		if path := fmt.Sprintf("/m%d-%06d", of.number, i+1); at.node.Machine().Tree().Lookup(path) == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

func (v *voice) voters() []int {
	var list []int
	for _, s := range v.node.raft().GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			list = append(list, peer.Number(s.ID))
		}
	}
	return list
}

func TestSurvivorOfALostMajorityGoesOnAndTheOthersJoin(t *testing.T) {
	for store, logDir := range map[string]string{logStoreSegment: "", logStoreBolt: "elsewhere"} {
		t.Run(store, func(t *testing.T) { testSurvivor(t, store, logDir) })
	}
}

func testSurvivor(t *testing.T, store, logDir string) {
	const writes = 40
	c := newTrio(t, 3)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i, v := range c.members {
		v.tune = func(o *Options) {
			o.Memory, o.FS, o.Dir, o.LogDir, o.LogStore = false, nil, dirs[i], filepath.Join(dirs[i], logDir), store
		}
	}
	writeAndEnd(t, c, writes)
	old := dirs[1]
	was, err := Recover(Options{Dir: dirs[0], LogDir: filepath.Join(dirs[0], logDir), MyID: 1}, func(r Recovery) error {
		require.Equal(t, []int{1, 2, 3}, r.Voters)
		require.Equal(t, 3, r.Sessions)
		require.Contains(t, r.Ensemble, "server.3=host3:2888:3888:participant")
		require.NotZero(t, r.SnapshotIndex)
		require.Greater(t, r.Index, r.SnapshotIndex)
		return nil
	})
	require.NoError(t, err)
	_, err = Recover(Options{Dir: dirs[0], LogDir: filepath.Join(dirs[0], logDir)}, agree)
	require.ErrorIs(t, err, ErrNothingToRecover, "it is the only voter already")

	c.start(1)
	survivor := c.members[0]
	require.Empty(t, missing(survivor, survivor, writes))
	require.Equal(t, was.NewServerID, survivor.node.ServerID())
	require.Equal(t, was.NewClusterID, survivor.node.ClusterID())
	require.NotEqual(t, was.ClusterID, was.NewClusterID)
	require.Equal(t, []int{1}, survivor.voters())
	survivor.write()
	survivor.settled()
	survivor.node.RLock()
	require.Greater(t, survivor.node.Machine().Zxid(), was.Zxid+(lostEpochs-1)<<32, "the lost servers may have used what follows")
	require.NotNil(t, survivor.node.Machine().Session(c.members[2].session), "a session is gone")
	survivor.node.RUnlock()

	dirs[1], dirs[2] = t.TempDir(), t.TempDir()
	c.start(2, 3)
	for _, v := range c.members { // else the survivor alone may know of the last vote
		require.Eventually(t, func() bool { return len(v.voters()) == 3 }, patience, time.Millisecond)
	}
	c.same()
	require.Empty(t, missing(c.members[2], survivor, writes+1))

	// The majority is one again: the survivor may go.
	survivor.stop()
	c.members[1].write()
	c.members[1].settled()

	// A member that comes back with the data of the lost cluster is not heard.
	c.members[1].stop()
	dirs[1] = old
	c.start(1)
	c.members[1].open()
	require.Equal(t, was.ClusterID, c.members[1].node.ClusterID())
	for _, id := range []string{was.ServerID, was.NewServerID} {
		var vote raft.RequestVoteResponse
		ask := &raft.RequestVoteRequest{Term: 1 << 40, LastLogIndex: 1 << 40, LastLogTerm: 1 << 39}
		err := c.members[1].node.peers.RequestVote(raft.ServerID(id), raft.ServerAddress(id), ask, &vote)
		require.Error(t, err)
		require.False(t, vote.Granted)
	}
	survivor.write()
	survivor.settled()
	require.Less(t, survivor.node.raft().CurrentTerm(), uint64(1<<40))
	require.NotEmpty(t, missing(c.members[1], survivor, writes+2))
}

// The power fails at the n-th operation of a recovery, for every n. Then the directory is
// either as before, or recovers when asked again; nothing of it is lost.
func TestRecoveryMayBeCutOffAnywhere(t *testing.T) {
	const writes = 12
	c, disks := smallDisks(t)
	writeAndEnd(t, c, writes)
	survivor := c.members[0]
	o := Options{Dir: "/data", MyID: 1, SegmentBytes: 1 << 14}
	refused := 0
	for n := 1; ; n++ {
		for seed := range uint64(3) {
			disk := disks[0].Clone()
			disk.Crash(nil)
			disk.Fail(n, vfstest.ErrDown)
			o.FS = disk
			_, err := Recover(o, agree)
			if !disk.Failed() {
				require.NoError(t, err)
				require.Greater(t, n, 20, "so few operations were tried")
				t.Logf("%d operations, %d cuts left a directory that must not be started", n-1, refused)
				require.NotZero(t, refused, "no cut left a directory that must not be started")
				return
			}
			require.Error(t, err)
			var rng *rand.Rand
			if seed > 0 {
				rng = rand.New(rand.NewPCG(seed, uint64(n)))
			}
			disk.Crash(rng)
			refused += startsAsOneOf(t, c, disk)
			if _, err = Recover(o, agree); !errors.Is(err, ErrNothingToRecover) {
				require.NoError(t, err, "operation %d, seed %d", n, seed)
			}
			survivor.fs = disk
			c.start(1)
			require.Empty(t, missing(survivor, survivor, writes), "operation %d, seed %d", n, seed)
			require.Equal(t, []int{1}, survivor.voters())
			survivor.stop()
		}
	}
}

// startsAsOneOf says 1 if a directory does not start at all. If it starts, it is a member of
// the old cluster or of the new one, and not of a mixture.
func startsAsOneOf(t *testing.T, c *trio, disk *vfstest.Disk) int {
	t.Helper()
	survivor := c.members[0]
	n, _, err := Open(Options{
		Dir: "/data", FS: disk.Clone(), MyID: 1, Observer: noObserver{}, SegmentBytes: 1 << 14,
		Settings: func() state.Settings { return state.Settings{} },
		Cluster:  &Cluster{Members: c.plan, Listen: "host1:2888", Network: c.net.Host("host1")},
	})
	if err != nil {
		require.ErrorContains(t, err, "run zkd recover again")
		return 1
	}
	survivor.node = n
	voters, id := survivor.voters(), n.ServerID()
	for _, s := range n.raft().GetConfiguration().Configuration().Servers {
		if peer.Number(s.ID) == 1 {
			require.Equal(t, id, string(s.ID), "raft knows another incarnation, voters %v", voters)
		}
	}
	survivor.stop()
	return 0
}

func TestRecoveryIsRefused(t *testing.T) {
	c, disks := smallDisks(t)
	writeAndEnd(t, c, 3)
	no := errors.New("no")
	for _, tt := range []struct {
		name  string
		do    func(o *Options) (approve func(Recovery) error)
		want  error
		wants string
	}{
		{"without approval", func(*Options) func(Recovery) error { return func(Recovery) error { return no } }, no, ""},
		{"an empty directory", func(o *Options) func(Recovery) error {
			d := vfstest.New()
			require.NoError(t, d.MkdirAll("/data", 0o700))
			o.FS = d
			return agree
		}, ErrNothingToRecover, "there is no data in /data"},
		{"no directory", func(o *Options) func(Recovery) error { o.Dir = "/other"; return agree }, ErrNothingToRecover, "/other"},
		{"another server's", func(o *Options) func(Recovery) error { o.MyID = 2; return agree }, nil, "belongs to server 1"},
		{"while it is used", func(o *Options) func(Recovery) error {
			l, err := lockDir(o.FS, "/data")
			require.NoError(t, err)
			t.Cleanup(func() { l.Close() })
			return agree
		}, ErrLocked, "in use"},
		{"a server alone", func(o *Options) func(Recovery) error {
			d := vfstest.New()
			require.NoError(t, Create(Options{Dir: "/data", FS: d, SegmentBytes: 1 << 14}, state.New()))
			o.FS = d
			return agree
		}, ErrNothingToRecover, "only voter"},
		{"in memory", func(o *Options) func(Recovery) error { o.Memory = true; return agree }, nil, "in memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := disks[0].Clone()
			o := Options{Dir: "/data", FS: disk, SegmentBytes: 1 << 14}
			approve := tt.do(&o)
			_, err := Recover(o, approve)
			require.Error(t, err)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
			}
			require.ErrorContains(t, err, tt.wants)
		})
	}
	// Nothing was changed: the three are still a cluster.
	c.start(1, 2, 3)
	require.Len(t, c.members[0].voters(), 3)
	require.Empty(t, missing(c.members[2], c.members[0], 3))
}

// A snapshot that is damaged is no base to go on from: the operator must know.
func TestDamageStopsARecovery(t *testing.T) {
	c, disks := smallDisks(t)
	writeAndEnd(t, c, 6)
	disk := disks[0]
	names, _, err := listSnapshots(disk, "/data/snapshots")
	require.NoError(t, err)
	require.True(t, disk.Damage(filepath.Join("/data/snapshots", names[len(names)-1]), func(b []byte) []byte {
		b[len(b)/2] ^= 1
		return b
	}))
	var d *DamageError
	_, err = Recover(Options{Dir: "/data", FS: disk, SegmentBytes: 1 << 14}, agree)
	require.ErrorAs(t, err, &d)
}
