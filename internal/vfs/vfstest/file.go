package vfstest

import (
	"errors"
	"io"
	"io/fs"
)

// file is an open file of a Disk.
type file struct {
	d      *Disk
	ino    *inode
	name   string
	boot   int
	pos    int64 // guarded by d.mu, as everything
	closed bool
}

func (f *file) Name() string { return f.name }

// alive is called with d.mu held.
func (f *file) alive() error {
	if f.closed {
		return fs.ErrClosed
	}
	if f.boot != f.d.boot {
		return ErrDown
	}
	return nil
}

func (ino *inode) truncate(size int64) {
	ino.now = append([]byte(nil), resize(ino.now, size)...)
	ino.pending = append(ino.pending, change{off: size})
}

func (ino *inode) write(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	ino.now = write(ino.now, p, off)
	ino.pending = append(ino.pending, change{off: off, data: append([]byte(nil), p...)})
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, pathErr("read", f.name, err)
	}
	if off >= int64(len(f.ino.now)) {
		return 0, io.EOF
	}
	n := copy(p, f.ino.now[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, pathErr("write", f.name, err)
	}
	if err := f.d.step(); err != nil {
		half := p[:len(p)/2]
		if f.d.down {
			half = p // the power may fail when all of it is under way
		}
		f.ino.write(half, off)
		return len(half), pathErr("write", f.name, err)
	}
	f.ino.write(p, off)
	return len(p), nil
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.alive(); err != nil {
		return pathErr("truncate", f.name, err)
	}
	if err := f.d.step(); err != nil {
		return pathErr("truncate", f.name, err)
	}
	f.ino.truncate(size)
	return nil
}

func (f *file) Preallocate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.alive(); err != nil {
		return pathErr("preallocate", f.name, err)
	}
	if size <= int64(len(f.ino.now)) {
		return nil
	}
	if err := f.d.step(); err != nil {
		f.ino.truncate((int64(len(f.ino.now)) + size) / 2)
		return pathErr("preallocate", f.name, err)
	}
	f.ino.truncate(size)
	return nil
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.alive(); err != nil {
		return pathErr("sync", f.name, err)
	}
	if err := f.d.step(); err != nil {
		if !f.d.down {
			f.ino.pending = nil // as Linux: later syncs do not write it either
		}
		return pathErr("sync", f.name, err)
	}
	f.ino.sync()
	return nil
}

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, pathErr("stat", f.name, err)
	}
	return int64(len(f.ino.now)), nil
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return pathErr("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return nil
}
