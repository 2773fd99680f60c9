package crash

import (
	"io/fs"
	"testing"

	"github.com/zkd-project/zkd/internal/sim/disk"
	"github.com/zkd-project/zkd/internal/vfs"
)

// lyingFS leaves out what makes things durable, as a store would that forgets it: for the
// proof that these tests can fail.
type lyingFS struct {
	*disk.Disk
	lie disk.Op
}

type lyingFile struct {
	vfs.File
}

func (lyingFile) Sync() error { return nil }

func (l lyingFS) SyncDir(name string) error {
	if l.lie == disk.OpSyncDir {
		return nil
	}
	return l.Disk.SyncDir(name)
}

func (l lyingFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err == nil && l.lie == disk.OpSync {
		return lyingFile{f}, nil
	}
	return f, err
}

func (l lyingFS) Open(name string) (vfs.File, error)   { return l.wrap(l.Disk.Open(name)) }
func (l lyingFS) Create(name string) (vfs.File, error) { return l.wrap(l.Disk.Create(name)) }

func (l lyingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return l.wrap(l.Disk.OpenFile(name, flag, perm))
}

// Were the log to forget its syncs, a crash would lose acknowledged entries, and these
// tests have to see it.
func TestForgottenSyncIsFound(t *testing.T) {
	for name, lie := range map[string]disk.Op{"file": disk.OpSync, "directory": disk.OpSyncDir} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				l := newLyingLife(t, seed, lie)
				for range 10 {
					if err := l.step(); err != nil {
						t.Fatal(err)
					}
					if err := l.recovered(l.d.AfterCrash(seed), l.acked, l.tried); err != nil {
						t.Logf("seed %d: %v", seed, err)
						return
					}
				}
			}
			t.Errorf("no crash has lost anything although %v does nothing", lie)
		})
	}
}
