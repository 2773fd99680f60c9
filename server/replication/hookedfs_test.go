package replication

import (
	"io/fs"
	"strings"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A hookedFS is a disk on which writes and syncs of the log begin with a hook, which may take its
// time and fail them.
type hookedFS struct {
	vfs.FS
	write, sync func() error // nil: nothing
}

type hookedFile struct {
	vfs.File
	fs *hookedFS
}

func (h *hookedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := h.FS.OpenFile(name, flag, perm)
	if err == nil && strings.Contains(name, ".log") {
		f = &hookedFile{f, h}
	}
	return f, err
}

func (f *hookedFile) Write(b []byte) (int, error) {
	if err := f.fs.before(f.fs.write); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *hookedFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.fs.before(f.fs.write); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

func (f *hookedFile) Sync() error {
	if err := f.fs.before(f.fs.sync); err != nil {
		return err
	}
	return f.File.Sync()
}

func (h *hookedFS) before(hook func() error) error {
	if hook == nil {
		return nil
	}
	return hook()
}
