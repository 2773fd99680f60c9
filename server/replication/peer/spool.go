package peer

import (
	"bytes"
	"io"
	"os"
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
func SpoolDir(dir string) func(int64) (Spool, error) {
	return func(int64) (Spool, error) {
		f, err := os.CreateTemp(dir, "incoming-snapshot-*")
		if err != nil {
			return nil, err
		}
		s := &fileSpool{f: f}
		s.named = os.Remove(f.Name()) != nil // where open files cannot be removed, Close does it
		return s, nil
	}
}

type fileSpool struct {
	f     *os.File
	named bool
}

func (s *fileSpool) Write(b []byte) (int, error) { return s.f.Write(b) }

func (s *fileSpool) Reader() (io.Reader, error) {
	_, err := s.f.Seek(0, io.SeekStart)
	return s.f, err
}

func (s *fileSpool) Close() error {
	err := s.f.Close()
	if s.named {
		err = os.Remove(s.f.Name())
	}
	return err
}

// SpoolMemory is an Options.Spool for clusters that keep everything in memory anyway.
func SpoolMemory(int64) (Spool, error) { return &memorySpool{}, nil }

type memorySpool struct{ bytes.Buffer }

func (s *memorySpool) Reader() (io.Reader, error) { return &s.Buffer, nil }
func (s *memorySpool) Close() error               { return nil }
