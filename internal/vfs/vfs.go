// Package vfs is the seam between zkd and the file system: everything that has to survive
// a crash goes through FS, so that a test or a simulation can put a disk of its own under
// it, one that loses, tears, refuses or damages what was written.
//
// What callers may rely on, and what an implementation must give, is the contract of a
// POSIX file system and no more:
//
//   - File.Sync makes the bytes and the length of that file durable, and nothing else: not
//     the directory entry that leads to it.
//   - FS.SyncDir makes durable which names are in a directory and what they lead to:
//     files created, renamed and removed there. It says nothing of the files' contents.
//   - What was not synced before a crash is afterwards there wholly, in part or not at
//     all, in any order, in units of a sector; a write is never to be taken for one piece.
//   - Rename replaces the new name in one step: after a crash one finds the old or the new
//     file under it, never neither.
//   - After a failed Sync nothing is known about what had been written since the last
//     good one, and a second Sync that succeeds does not change that.
//
// Methods of FS and File may be called from several goroutines; concurrent writes to
// overlapping ranges are the caller's mistake.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ErrLocked is returned by FS.Lock when somebody else holds the lock.
var ErrLocked = errors.New("vfs: locked by another process")

// FS is a file system. Names are paths as package os takes them (path/filepath). Errors
// of a missing or an existing file satisfy errors.Is with fs.ErrNotExist and fs.ErrExist.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Create makes a file for reading and writing, empty if there was one.
	Create(name string) (File, error)
	// OpenFile is the general form: flag is made of os.O_RDONLY, os.O_RDWR, os.O_CREATE,
	// os.O_EXCL and os.O_TRUNC; no others are used.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// Rename moves a file, in one step also over an existing one.
	Rename(oldName, newName string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// MkdirAll makes a directory and its parents. Their entries become durable with
	// SyncDir of the directory above.
	MkdirAll(name string, perm fs.FileMode) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
	// Stat describes a file or a directory.
	Stat(name string) (fs.FileInfo, error)
	// Lock creates the file if need be and locks it until the Closer is closed or the
	// process ends. ErrLocked if it is locked already, also by this process.
	Lock(name string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.Reader // at the file's own position, which starts at 0
	io.Writer // likewise; Read and Write share the position, the At methods leave it alone
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Sync makes bytes and length durable (fdatasync where the system has it: the
	// modification time may be lost).
	Sync() error
	// Truncate sets the length; what is added reads as zeros.
	Truncate(size int64) error
	// Preallocate makes the file at least size long, with space reserved where the file
	// system can, so that writing inside it fails for lack of space no more. What is
	// added reads as zeros. It never shortens. If it fails, the file may have grown part of
	// the way, as on ext4 without room for all.
	Preallocate(size int64) error
	// Size is the current length.
	Size() (int64, error)
	// Name is the name that the file was opened with.
	Name() string
}

// ReadFile reads a whole file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFileAtomic puts data under name so that, whenever a crash comes, the old file or
// the whole new one is found there, and the new one once it has returned. It writes name
// with ".tmp" appended first; a leftover of that name is overwritten. dir is the directory
// of name.
func WriteFileAtomic(fsys FS, dir, name string, data []byte, perm fs.FileMode) error {
	tmp := name + ".tmp"
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		fsys.Remove(tmp) // as good as it goes: the next write overwrites it
		return err
	}
	return fsys.SyncDir(dir)
}
