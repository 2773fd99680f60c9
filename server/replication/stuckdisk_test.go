package replication

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A heldFS is a disk that takes no writes of the log while it is held.
type heldFS struct {
	hookedFS
	held atomic.Pointer[chan struct{}] // closed when writes come back; nil: they do
}

func newHeldFS(disk vfs.FS) *heldFS {
	s := &heldFS{}
	s.hookedFS = hookedFS{FS: disk, write: s.wait}
	return s
}

func (s *heldFS) hold() (release func()) {
	back := make(chan struct{})
	s.held.Store(&back)
	return func() {
		s.held.Store(nil)
		close(back)
	}
}

func (s *heldFS) wait() error {
	if back := s.held.Load(); back != nil {
		<-*back
	}
	return nil
}

// A write that does not come back holds raft's main loop: it cannot hand over, but its heartbeats
// would go on, and nobody else would ever lead.
func TestALeaderWhoseDiskTakesNoWritesIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := diskTrio(t)
		disks := map[*voice]*heldFS{}
		for _, v := range c.members {
			disks[v] = newHeldFS(v.fs)
			v.fs = disks[v]
		}
		c.start(1, 2, 3)
		c.sessions()
		for _, v := range c.members {
			v.write()
			v.settled()
		}
		old := c.leader()
		release := disks[old].hold()
		began := time.Now()
		old.write()
		var next *voice
		awaitCondition(t, "another leader", func() bool {
			for _, v := range c.others(old) {
				if v.node.Leads() {
					next = v
				}
			}
			return next != nil
		})
		require.Less(t, time.Since(began), defaultSlowDiskFor*3/2+10*electionTimeout)
		for _, v := range c.others(old) {
			v.write()
			v.settled()
		}
		release()
		old.settled()
		c.same()
	})
}
