//go:build faults

package failpoint

import (
	"bytes"
	"io/fs"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/vfs"
)

func init() { vfs.OS = disk{vfs.OS} }

// disk is the file system of the machine with points before and after all that is done to it.
type disk struct{ vfs.FS }

// classOf names what a file is part of: the folder that it is in.
func classOf(name string) string {
	switch dir := filepath.Base(filepath.Dir(name)); dir {
	case "log", "snapshots":
		return dir
	}
	return "other"
}

func point(class, op string) Point { return Point("disk." + class + "." + op) }

// do passes the points around f.
func do(class, op string, f func() error) error {
	if reach(point(class, op)) != "" {
		return errInjected
	}
	err := f()
	Hit(point(class, op+".done"))
	return err
}

func wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{f, classOf(name)}, nil
}

func (d disk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return wrap(name, f, err)
}

func (d disk) Create(name string) (f vfs.File, err error) {
	err = do(classOf(name), "create", func() (err error) {
		f, err = d.FS.Create(name)
		return err
	})
	return wrap(name, f, err)
}

func (d disk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	return wrap(name, f, err)
}

func (d disk) Rename(oldName, newName string) error {
	return do(classOf(newName), "rename", func() error { return d.FS.Rename(oldName, newName) })
}

func (d disk) Remove(name string) error {
	return do(classOf(name), "remove", func() error { return d.FS.Remove(name) })
}

func (d disk) SyncDir(name string) error {
	return do(classOf(filepath.Join(name, "x")), "syncdir", func() error { return d.FS.SyncDir(name) })
}

type file struct {
	vfs.File
	class string
}

func (f *file) Sync() error { return do(f.class, "sync", f.File.Sync) }

func (f *file) Preallocate(size int64) error {
	return do(f.class, "write", func() error { return f.File.Preallocate(size) })
}

func (f *file) Truncate(size int64) error {
	return do(f.class, "truncate", func() error { return f.File.Truncate(size) })
}

func (f *file) Read(b []byte) (n int, err error) {
	err = do(f.class, "read", func() (err error) {
		n, err = f.File.Read(b)
		return err
	})
	return n, err
}

func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	err = do(f.class, "read", func() (err error) {
		n, err = f.File.ReadAt(b, off)
		return err
	})
	return n, err
}

func (f *file) Write(b []byte) (int, error) {
	return f.write(b, f.File.Write)
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	return f.write(b, func(b []byte) (int, error) { return f.File.WriteAt(b, off) })
}

func (f *file) write(b []byte, write func([]byte) (int, error)) (n int, err error) {
	switch reach(point(f.class, "write")) {
	case doFlip:
		if len(b) > 0 {
			b = bytes.Clone(b) // it is the caller's
			b[len(b)/2] ^= 1 << (len(b) % 8)
		}
	case doShort:
		n, _ = write(b[:len(b)/2])
		return n, errInjected
	case doError:
		return 0, errInjected
	}
	n, err = write(b)
	Hit(point(f.class, "write.done"))
	return n, err
}
