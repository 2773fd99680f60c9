// Package logfile keeps a file open that lines are appended to, until somebody has moved it
// away and asks for a new one: what logrotate does with a program that it sends a signal.
//
// A File may be used from any goroutine. A write is never torn by another, nor by Reopen:
// each goes as a whole into the old file or into the new one.
package logfile

import (
	"fmt"
	"os"
	"sync"
)

// A File is a file that is appended to. Open makes it.
type File struct {
	name string
	perm os.FileMode

	mu sync.Mutex // held across a write: two at once would tear lines
	f  *os.File   // guarded by mu; nil once closed
}

// Open opens the file, or makes it with these permissions.
func Open(name string, perm os.FileMode) (*File, error) {
	f, err := open(name, perm)
	if err != nil {
		return nil, err
	}
	return &File{name: name, perm: perm, f: f}, nil
}

func open(name string, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm)
	if err != nil {
		return nil, fmt.Errorf("cannot open a log file: %w", err)
	}
	return f, nil
}

// Write implements io.Writer.
func (l *File) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return 0, os.ErrClosed
	}
	return l.f.Write(b)
}

// Reopen goes on in the file that has the name now, or a new one. After an error the old one
// is still written to.
func (l *File) Reopen() error {
	f, err := open(l.name, l.perm)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		_ = f.Close()
		return os.ErrClosed
	}
	old := l.f
	l.f = f
	_ = old.Close() // every write to it has been reported already
	return nil
}

// Close closes the file; writes fail from then on.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return f.Close()
}
