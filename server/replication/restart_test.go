package replication

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/state"
)

func (v *voice) host() string { return fmt.Sprintf("host%d", v.number) }

// others are all members but one.
func (c *trio) others(not *voice) []*voice {
	var all []*voice
	for _, v := range c.members {
		if v != not {
			all = append(all, v)
		}
	}
	return all
}

// newTrioOn is a cluster of three, in memory or each member in a directory.
func newTrioOn(t *testing.T, disk bool) *trio {
	dir := t.TempDir() // goes after the members have
	c := newTrio(t, 3)
	for _, v := range c.members {
		if disk {
			v.tune = func(o *Options) {
				o.Memory, o.Stores, o.SegmentBytes = false, nil, 1<<20
				o.Dir = filepath.Join(dir, v.host())
			}
		}
	}
	return c
}

// tuned adds to what open changes.
func (v *voice) tuned(more func(*Options)) {
	before := v.tune
	v.tune = func(o *Options) {
		if before != nil {
			before(o)
		}
		more(o)
	}
}

// leaderAmong waits until one of some members leads.
func (c *trio) leaderAmong(some []*voice) *voice {
	c.t.Helper()
	for {
		l := c.leader() // one that is cut off may still think so
		for _, v := range some {
			if v == l || v.node.Leads() {
				return v
			}
		}
		time.Sleep(time.Millisecond)
	}
}

func bounds(t *testing.T, v *voice) (first, last uint64) {
	t.Helper()
	first, err := v.node.stores.log.FirstIndex()
	require.NoError(t, err)
	last, err = v.node.stores.log.LastIndex()
	require.NoError(t, err)
	return first, last
}

// diverged returns a cluster with a member, cut off, whose log ends with entries that nobody
// else has, beyond the snapshot that the others will send it.
func diverged(t *testing.T, disk bool) (c *trio, stale *voice) {
	c = newTrioOn(t, disk)
	c.start(1, 2, 3)
	c.sessions()
	for range 20 {
		for _, v := range c.members {
			v.write()
		}
	}
	for _, v := range c.members {
		v.settled()
	}
	var others []*voice
	var common, last uint64
	awaitCondition(t, "a tail that nobody else has", func() bool { // a leader that stands still leads no more
		c.net.Heal()
		stale = c.leader()
		_, common = bounds(t, stale)
		others = c.others(stale)
		for _, v := range others { // what is sent must be lost, and not come late
			c.net.Refuse(stale.host(), v.host(), true)
			c.net.Refuse(v.host(), stale.host(), true)
			c.net.Cut(stale.host(), v.host())
		}
		for range 500 { // as many batches that are never committed
			stale.node.raft().ApplyLog(raft.Log{Data: state.AppendHeader(nil, &state.BatchHeader{}, 0)}, time.Second)
		}
		_, last = bounds(t, stale)
		return last > common+100
	})

	c.leaderAmong(others)
	for range 20 {
		for _, v := range others {
			v.write()
			v.settled()
		}
	}
	for _, v := range others {
		require.NoError(t, v.node.SnapshotNow(testContext(t)))
		first, _ := bounds(t, v)
		require.Greater(t, first, common, "the entries that the other one needs must be gone")
		files := v.node.stores.snaps.all()
		require.Less(t, files[len(files)-1].index, last, "the snapshot must lie below the end of its log")
	}
	// The request that the leader has ready for it, from before the purge, would repair it. A new
	// leader begins at the end of its log.
	leader := c.leaderAmong(others)
	for _, v := range others {
		if v != leader {
			awaitCondition(t, "another leader", func() bool {
				if leader.node.Leads() && leader.node.fitToLead(v.node.stores.id.serverID()) {
					_ = leader.node.stepDown(testContext(t), v.node.stores.id.serverID())
				}
				return v.node.Leads()
			})
		}
	}
	return c, stale
}

// Without this the next test would show nothing. On a busy machine a leader may have a request ready to which
// the member says something else; hardly ever five times.
func TestADivergentTailWithoutARestartGetsTheSameSnapshotAgainAndAgain(t *testing.T) {
	again := false
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			c, stale := diverged(t, false)
			stale.node.keepRaft.Store(true)
			c.net.Heal()
			if again = stale.comes(func() bool { return stale.restored >= 3 }, 20*time.Second); !again {
				return
			}
			stale.node.keepRaft.Store(false)
			c.leaderAmong(c.others(stale)).write()
			c.same()
		})
		if again {
			return
		}
	}
	t.Fatal("it never got the same snapshot three times")
}

func TestADivergentTailIsReplacedByASnapshotAndARestart(t *testing.T) {
	for _, disk := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk=%t", disk), func(t *testing.T) {
			c, stale := diverged(t, disk)
			before := stale.node.engine.Load()
			var stops []func()
			for _, v := range c.others(stale) { // beside it all: what is applied twice, or not, will be seen
				stops = append(stops, v.pump(0))
			}
			c.net.Heal()
			stale.await("a snapshot", func() bool { return stale.restored == 1 })
			select {
			case <-before.replaced:
			case <-time.After(patience):
				t.Fatal("raft was not restarted")
			}
			for range 20 {
				stale.write()
			}
			stale.settled()
			for _, stop := range stops {
				stop()
			}
			c.same()
			require.Equal(t, 1, stale.restored, "one snapshot is enough")

			// Its log is as good as that of the others: it can lead.
			for c.leader() != stale {
				id := stale.node.stores.id.serverID()
				_ = c.leader().node.raft().LeadershipTransferToServer(id, raft.ServerAddress(id)).Error()
			}
			stale.write()
			stale.settled()
			stale.stop()
			c.start(stale.number)
			c.same()
		})
	}
}

func TestALogThatDivergesFromItsSnapshotIsRemovedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stale := diverged(t, true)
		// A crash between the installation and the restart: the snapshot is there, and the log
		// is what it was.
		leader := c.leaderAmong(c.others(stale))
		files := leader.node.stores.snaps.all()
		_, in, err := leader.node.stores.snaps.Open(files[len(files)-1].name)
		require.NoError(t, err)
		d := files[len(files)-1].snapDescription
		sink, err := stale.node.stores.snaps.Create(raft.SnapshotVersionMax, d.index, d.term, d.config, d.configIndex, nil)
		require.NoError(t, err)
		r, err := unwrapSnapshot(in)
		require.NoError(t, err)
		var container bytes.Buffer
		_, err = container.ReadFrom(r)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		_, err = sink.Write(container.Bytes())
		require.NoError(t, err)
		require.NoError(t, sink.Close())

		stale.stop()
		stale.open()
		_, last := bounds(t, stale)
		require.LessOrEqual(t, last, d.index)
		c.net.Heal()
		require.NoError(t, stale.node.WaitReady(testContext(t)))
		c.same()
		require.LessOrEqual(t, stale.restored, 1, "the snapshot was there already; the leader may have had it on its way")
	})
}

// testLog is where logs go to be read by people.
func testLog() io.Writer {
	if os.Getenv("ZKD_TEST_LOG") != "" {
		return os.Stderr
	}
	return io.Discard
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// pump has a member write one thing after the other until stop is called. Virtual time goes on only in
// its pauses.
func (v *voice) pump(pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			v.write()
			v.settled()
			time.Sleep(pause)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	v.cluster.t.Cleanup(stop)
	return stop
}

func TestALaggingFollowerGetsASnapshotWhileOthersWrite(t *testing.T) {
	for _, disk := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk=%t", disk), func(t *testing.T) {
			c := newTrioOn(t, disk)
			c.start(1, 2, 3)
			c.sessions()
			leader := c.leader()
			others := c.others(leader)
			lagging, other := others[0], others[1]
			lagging.stop()

			noise := rand.NewChaCha8([32]byte{3})
			leader.payload = make([]byte, 64<<10)
			for range 100 {
				_, _ = noise.Read(leader.payload) // never fails
				leader.write()
			}
			leader.settled()
			other.node.waitApplied(testContext(t), leader.node.AppliedIndex())
			for _, v := range []*voice{leader, other} {
				require.NoError(t, v.node.SnapshotNow(testContext(t)))
			}
			leader.payload = nil
			stopLeader, stopOther := leader.pump(0), other.pump(0)

			var log lines
			lagging.tuned(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			c.start(lagging.number)
			lagging.await("a snapshot", func() bool { return lagging.restored > 0 })
			leader.mu.Lock()
			written := len(leader.applied)
			leader.mu.Unlock()
			leader.await("more writes", func() bool { return len(leader.applied) > written+50 })
			stopLeader()
			stopOther()
			c.same()
			require.Equal(t, 1, lagging.restored)
			require.Contains(t, log.String(), "receiving a snapshot\" size=6")
			require.Contains(t, log.String(), "receiving a snapshot: done\"")
			require.NotContains(t, log.String(), "bytes=0 ")
			lagging.write()
			lagging.settled()
		})
	}
}
