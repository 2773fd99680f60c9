package peer

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A Spool holds a snapshot between its arrival and its installation.
type Spool interface {
	io.Writer
	// Reader returns what was written, from its beginning. Nothing is written afterwards.
	Reader() (io.Reader, error)
	// Close gives the space back.
	Close() error
}

// SpoolDir returns an Options.Spool that keeps snapshots in files of a directory. They have no
// name, so that nothing is left of them after a crash, and are not synced: raft stores what
// it installs itself.
func SpoolDir(fsys vfs.FS, dir string) func(int64) (Spool, error) {
	var count atomic.Int64
	return func(int64) (Spool, error) {
		name := filepath.Join(dir, fmt.Sprintf("incoming-snapshot-%d", count.Add(1)))
		// One that a crash has left there is overwritten.
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, err
		}
		s := &fileSpool{fs: fsys, f: f}
		s.named = fsys.Remove(name) != nil // where open files cannot be removed, Close does it
		return s, nil
	}
}

type fileSpool struct {
	fs    vfs.FS
	f     vfs.File
	named bool
}

func (s *fileSpool) Write(b []byte) (int, error) { return s.f.Write(b) }

func (s *fileSpool) Reader() (io.Reader, error) {
	size, err := s.f.Size()
	return io.NewSectionReader(s.f, 0, size), err
}

func (s *fileSpool) Close() error {
	err := s.f.Close()
	if s.named {
		err = s.fs.Remove(s.f.Name())
	}
	return err
}

// SpoolMemory is an Options.Spool for clusters that keep everything in memory anyway.
func SpoolMemory(int64) (Spool, error) { return &memorySpool{}, nil }

type memorySpool struct{ bytes.Buffer }

func (s *memorySpool) Reader() (io.Reader, error) { return &s.Buffer, nil }
func (s *memorySpool) Close() error               { return nil }
