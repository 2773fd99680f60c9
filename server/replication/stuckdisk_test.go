package replication

import (
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A heldFS is a disk that takes no writes of the log while it is held.
type heldFS struct {
	vfs.FS
	held atomic.Pointer[chan struct{}] // closed when writes come back; nil: they do
}

func (h *heldFS) hold() (release func()) {
	back := make(chan struct{})
	h.held.Store(&back)
	return func() {
		h.held.Store(nil)
		close(back)
	}
}

func (h *heldFS) wait() {
	if back := h.held.Load(); back != nil {
		<-*back
	}
}

type heldFile struct {
	vfs.File
	fs *heldFS
}

func (h *heldFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := h.FS.OpenFile(name, flag, perm)
	if err == nil && strings.Contains(name, ".log") {
		f = &heldFile{f, h}
	}
	return f, err
}

func (f *heldFile) Write(b []byte) (int, error) {
	f.fs.wait()
	return f.File.Write(b)
}

func (f *heldFile) WriteAt(b []byte, at int64) (int, error) {
	f.fs.wait()
	return f.File.WriteAt(b, at)
}

// A write that does not come back holds raft's main loop: it cannot hand over, but its heartbeats
// would go on, and nobody else would ever lead.
func TestALeaderWhoseDiskTakesNoWritesIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := diskTrio(t)
		disks := map[*voice]*heldFS{}
		for _, v := range c.members {
			disks[v] = &heldFS{FS: v.fs}
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
