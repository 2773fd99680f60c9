package replication

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

// A stuckFS is a disk whose log cannot be synced while it is stuck.
type stuckFS struct {
	hookedFS
	mu    sync.Mutex
	freed chan struct{} // nil: not stuck
	tried chan struct{} // a sync waits
}

func newStuckFS(disk vfs.FS) *stuckFS {
	s := &stuckFS{}
	s.hookedFS = hookedFS{FS: disk, sync: s.wait}
	return s
}

func (s *stuckFS) wait() error {
	s.mu.Lock()
	freed := s.freed
	s.mu.Unlock()
	if freed != nil {
		select {
		case s.tried <- struct{}{}:
		default:
		}
		<-freed
	}
	return nil
}

func (s *stuckFS) stick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed, s.tried = make(chan struct{}), make(chan struct{}, 1)
}

func (s *stuckFS) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// diskTrio is a cluster whose members have disks that lose what is not synced.
func diskTrio(t *testing.T) (*trio, []*vfstest.Disk) { return diskCluster(t, 3) }

func diskCluster(t *testing.T, size int) (*trio, []*vfstest.Disk) {
	c := newTrio(t, size)
	var disks []*vfstest.Disk
	for _, v := range c.members {
		d := vfstest.New()
		require.NoError(t, d.MkdirAll("/", 0o700))
		disks = append(disks, d)
		v.fs = d
	}
	return c, disks
}

// stuckTrio is a cluster on disks that can be stuck.
func stuckTrio(t *testing.T) (*trio, []*stuckFS) {
	c, _ := diskTrio(t)
	var stuck []*stuckFS
	for _, v := range c.members {
		s := newStuckFS(v.fs)
		v.fs = s
		stuck = append(stuck, s)
		t.Cleanup(s.free)
	}
	return c, stuck
}

// append has a leader write something, and returns the end of its log when that is in it. A sync that
// is under way may be of what came before.
func (v *voice) append() (last uint64) {
	v.cluster.t.Helper()
	before := v.node.raft().LastIndex()
	v.write()
	awaitCondition(v.cluster.t, "the entry in the log", func() bool {
		last = v.node.raft().LastIndex()
		return last > before
	})
	return last
}

// The followers have the entry, and the leader's disk does not: nobody may see it.
func TestNothingIsAppliedAnywhereBeforeTheLeadersDiskHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stuck := stuckTrio(t)
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		leader.write()
		leader.settled()
		disk := stuck[leader.number-1]
		disk.stick()
		last := leader.append()
		select {
		case <-disk.tried:
		case <-time.After(patience):
			t.Fatal("the entry was not written")
		}
		// Both followers store it and say so, long before the leader's disk is through.
		deadline := time.Now().Add(patience)
		for acked := 0; acked < 2; {
			acked = 0
			for _, s := range leader.node.peers.Peers() {
				if s.Acked >= last {
					acked++
				}
			}
			require.True(t, time.Now().Before(deadline), "the followers did not get the entry")
			time.Sleep(time.Millisecond)
		}
		// raft tells followers of its commit index within commitTimeout: let it, a few times.
		for after := time.Now().Add(3 * commitTimeout); ; {
			late := 0
			for _, s := range leader.node.peers.Peers() {
				if s.Contact.After(after) {
					late++
				}
			}
			if late == 2 {
				break
			}
			require.True(t, time.Now().Before(deadline), "the followers went silent")
			time.Sleep(time.Millisecond)
		}
		require.Less(t, leader.node.durability.log.Durable(), last)
		for _, s := range leader.node.peers.Peers() {
			require.Less(t, s.Told, last, "a follower was told of a commit")
		}
		for _, v := range c.members {
			require.Less(t, v.node.AppliedIndex(), last, "member %d", v.number)
		}
		disk.free()
		leader.settled()
		for _, v := range c.members {
			require.NoError(t, v.node.waitApplied(testContext(t), last))
		}
	})
}

// A server that led holds entries that are not on its disk. When its successor asks for them,
// it has nothing to store; it must not say yes all the same.
func TestWhatWasWrittenAsLeaderIsSyncedBeforeASuccessorHearsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stuck := stuckTrio(t)
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		leader.write()
		leader.settled()
		other := c.members[leader.number%3]
		played, id := c.play(leader, other)

		disk := stuck[leader.number-1]
		disk.stick()
		last := leader.append()
		<-disk.tried
		var entry, before raft.Log
		require.NoError(t, leader.node.stores.log.GetLog(last, &entry))
		require.NoError(t, leader.node.stores.log.GetLog(last-1, &before))
		require.Less(t, leader.node.durability.log.Durable(), last)

		answered := make(chan error, 1)
		var response raft.AppendEntriesResponse
		go func() {
			header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}
			to := leader.node.stores.id.serverID()
			answered <- played.AppendEntries(to, raft.ServerAddress(to), &raft.AppendEntriesRequest{
				RPCHeader: header, Term: entry.Term + 1,
				PrevLogEntry: before.Index, PrevLogTerm: before.Term, Entries: []*raft.Log{&entry},
			}, &response)
		}()
		deadline := time.Now().Add(patience)
		for leader.node.raft().State() == raft.Leader {
			require.True(t, time.Now().Before(deadline), "it did not step down")
			time.Sleep(time.Millisecond)
		}
		select {
		case err := <-answered:
			t.Fatalf("it answered (%v, %+v) with the entry not on its disk", err, response)
		case <-time.After(300 * time.Millisecond):
		}
		disk.free()
		require.NoError(t, <-answered)
		require.True(t, response.Success)
		require.GreaterOrEqual(t, leader.node.durability.log.Durable(), last)
		played.Close()
		c.start(other.number)
		c.leader()
		leader.settled()
	})
}

// powerLoss takes the power from some members under load, again and again. What was applied
// anywhere, and so may have been answered, must be there in the end, once, and in order.
func powerLoss(t *testing.T, choose func(c *trio, rng *rand.Rand) []*voice) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	powerLossOf(t, 3, rounds, choose)
}

func powerLossOf(t *testing.T, size, rounds int, choose func(c *trio, rng *rand.Rand) []*voice) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	c, disks := diskCluster(t, size)
	c.start([]int{1, 2, 3, 4, 5}[:size]...)
	c.sessions()
	for range rounds {
		victims := choose(c, rng)
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for _, v := range c.members {
			writers.Go(func() {
				for range 6000 / size / (size - 2) { // the machine has to bear them all
					select {
					case <-stop:
						return
					default:
						v.write()
					}
				}
			})
		}
		from := victims[0].count()
		victims[0].await("some writes", func() bool { return len(victims[0].order) >= from+20+rng.IntN(200) })
		answered := make([]int, len(c.members))
		for _, v := range victims {
			c.net.Crash(fmt.Sprintf("host%d", v.number))
		}
		close(stop)
		writers.Wait()
		for _, v := range victims {
			v.fatal = true
			answered[v.number-1] = v.count()
			disks[v.number-1].Crash(rng) // from here on its handles are dead
		}
		var numbers []int
		for _, v := range victims {
			_ = v.node.Close()
			v.node = nil
			numbers = append(numbers, v.number)
		}
		for _, v := range victims {
			v.fatal = false
		}
		c.start(numbers...)
		for _, v := range c.members {
			v.settled()
			require.GreaterOrEqual(t, v.count(), answered[v.number-1])
		}
	}
	for _, v := range c.members {
		require.IsIncreasing(t, v.order)
		require.Len(t, v.applied, int(v.next), "member %d: a write was lost", v.number)
		for req, times := range v.applied {
			require.Equal(t, 1, times, "member %d: request %d", v.number, req)
		}
		require.Zero(t, v.gaps)
	}
	c.same()
}

func (v *voice) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.order)
}

func TestPowerLossOfTheLeader(t *testing.T) {
	powerLoss(t, func(c *trio, _ *rand.Rand) []*voice { return []*voice{c.leader()} })
}

func TestPowerLossOfAMinority(t *testing.T) {
	powerLoss(t, func(c *trio, rng *rand.Rand) []*voice { return []*voice{c.members[rng.IntN(3)]} })
}

func TestPowerLossOfAll(t *testing.T) {
	powerLoss(t, func(c *trio, _ *rand.Rand) []*voice { return c.members })
}
