package replication

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

// A survivor whose data were found to be wrong, at the last entry that it has, is recovered, and the
// power fails at the n-th operation, for every n. Then it must not wait for ever for somebody who repairs it.
func TestARecoveryOfWrongDataMayBeCutOffAnywhere(t *testing.T) {
	c, disks := smallDisks(t)
	writeAndEnd(t, c, 6)
	o := Options{Dir: "/data", MyID: 1, SegmentBytes: 1 << 14, FS: disks[0].Clone()}
	found, err := Recover(o, agree)
	require.NoError(t, err)
	disks[0].Crash(nil) // nobody holds its lock
	require.NoError(t, fileNote{disks[0], "/data"}.write(found.Index))
	for n := 1; ; n++ {
		disk := disks[0].Clone()
		disk.Crash(nil)
		disk.Fail(n, vfstest.ErrDown)
		o.FS = disk
		_, err := Recover(o, agree)
		if !disk.Failed() {
			require.NoError(t, err)
			require.Greater(t, n, 20, "so few operations were tried")
			return
		}
		disk.Crash(rand.New(rand.NewPCG(1, uint64(n))))
		if _, err = Recover(o, agree); !errors.Is(err, ErrNothingToRecover) {
			require.NoError(t, err, "operation %d", n)
		}
		// With the note it would start in quarantine, for ever: its snapshot reaches no further.
		index, err := fileNote{disk, "/data"}.read()
		require.NoError(t, err)
		require.Zero(t, index, "operation %d", n)
	}
}

// The file of a recovery that was done is back, after a crash. The next one must not take the same
// identity once more: those who are lost by then would be believed.
func TestEachRecoveryMakesAnotherCluster(t *testing.T) {
	c, disks := smallDisks(t)
	writeAndEnd(t, c, 3)
	o := Options{Dir: "/data", MyID: 1, SegmentBytes: 1 << 14, FS: disks[0]}
	disks[0].Crash(nil)
	before, err := Recover(o, agree)
	require.NoError(t, err)
	marker, err := vfs.ReadFile(disks[0], filepath.Join("/data", formatName))
	require.NoError(t, err)
	_, err = disks[0].Stat(filepath.Join("/data", recoveringName))
	require.Error(t, err, "it goes")
	disks[0].Crash(nil)
	_, err = disks[0].Stat(filepath.Join("/data", recoveringName))
	require.Error(t, err, "and stays away")

	for _, v := range c.members[1:] {
		d := vfstest.New()
		require.NoError(t, d.MkdirAll("/", 0o700))
		v.fs = d
	}
	c.start(1)
	c.start(2, 3)
	awaitCondition(t, "all votes", func() bool { return len(c.members[0].voters()) == 3 })
	for _, v := range c.members {
		v.stop()
	}
	require.NoError(t, vfs.WriteFileAtomic(disks[0], "/data", filepath.Join("/data", recoveringName), marker, 0o600))
	again, err := Recover(o, agree)
	require.NoError(t, err)
	require.Equal(t, before.NewClusterID, again.ClusterID)
	require.NotEqual(t, before.NewClusterID, again.NewClusterID)
	require.NotEqual(t, before.NewServerID, again.NewServerID)
}

// A snapshot of the cluster was installed over a log that tells another story, and then came a crash. What
// the log has behind the snapshot was never committed, and does not belong to it.
func TestARecoveryLeavesOutWhatDivergesFromTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stale := diverged(t, true)
		leader := c.leaderAmong(c.others(stale))
		files := leader.node.stores.snaps.all()
		newest := files[len(files)-1]
		_, in, err := leader.node.stores.snaps.Open(newest.name)
		require.NoError(t, err)
		r, err := unwrapSnapshot(in)
		require.NoError(t, err)
		var container bytes.Buffer
		_, err = container.ReadFrom(r)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		sink, err := stale.node.stores.snaps.Create(raft.SnapshotVersionMax, newest.index, newest.term, newest.config, newest.configIndex, nil)
		require.NoError(t, err)
		_, err = sink.Write(container.Bytes())
		require.NoError(t, err)
		require.NoError(t, sink.Close())
		dir := stale.node.o.Dir
		stale.stop()
		got, err := Recover(Options{Dir: dir, MyID: stale.number}, agree)
		require.NoError(t, err)
		require.Equal(t, newest.index, got.Index)
		require.Equal(t, newest.term, got.Term)
		stale.open()
		require.NoError(t, stale.node.WaitReady(testContext(t)))
		stale.node.RLock()
		defer stale.node.RUnlock()
		require.NotNil(t, stale.node.Machine().Tree().Lookup("/m1-000001"))
	})
}
