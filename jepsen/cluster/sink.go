package cluster

import (
	"bytes"
	"errors"
	"os"
	"sync"
)

// sinkBytes is what the pipe takes: the least that the kernel gives.
const sinkBytes = 4096

// A sink is a pipe into which a server logs. What comes out goes to its file, unless nobody
// reads: then the pipe is full, and a server that logs waits for as long as that takes.
type sink struct {
	in   *os.File // the server's end; kept open here, to fill the pipe
	out  *os.File
	file *os.File
	done chan struct{} // closed when nothing more is read

	mu      sync.Mutex
	blocked chan struct{} // guarded by mu: closed by unblock; nil while it is read
}

// sink makes one that ends in log; nil if servers log into the file itself.
func (c *Cluster) sink(log *os.File) (*sink, error) {
	if !c.o.PipeLogs {
		return nil, nil
	}
	fd, err := newPipe()
	if err != nil {
		return nil, err
	}
	s := &sink{in: os.NewFile(uintptr(fd[1]), "log in"), out: os.NewFile(uintptr(fd[0]), "log out"), done: make(chan struct{})}
	file, err := os.OpenFile(log.Name(), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.Join(err, s.in.Close(), s.out.Close())
	}
	s.file = file
	go s.run()
	return s, nil
}

func (s *sink) run() {
	defer close(s.done)
	b := make([]byte, sinkBytes)
	for {
		s.mu.Lock()
		blocked := s.blocked
		s.mu.Unlock()
		if blocked != nil {
			<-blocked
		}
		n, err := s.out.Read(b)
		// What fills the pipe while nobody reads is no line of the server's.
		_, _ = s.file.Write(bytes.ReplaceAll(b[:n], []byte{0}, nil))
		if err != nil {
			return
		}
	}
}

// block has nobody read any more, and fills the pipe, so that the next line waits.
func (s *sink) block() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocked != nil {
		return
	}
	s.blocked = make(chan struct{})
	// The reader takes one more piece at most. This ends when the pipe is read again.
	go func() { _, _ = s.in.Write(make([]byte, 2*sinkBytes)) }()
}

func (s *sink) unblock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocked != nil {
		close(s.blocked)
		s.blocked = nil
	}
}

// close ends the sink of a server that has ended, when all that it said is in its file.
func (s *sink) close() error {
	if s == nil {
		return nil
	}
	s.unblock()
	err := s.in.Close()
	<-s.done
	return errors.Join(err, s.out.Close(), s.file.Close())
}

// PipesLogs says whether BlockLog does anything.
func (c *Cluster) PipesLogs() bool { return c.o.PipeLogs }

// BlockLog has nobody read what a server logs, until UnblockLog or its end.
func (c *Cluster) BlockLog(i int) { c.withSink(i, (*sink).block) }

// UnblockLog ends BlockLog.
func (c *Cluster) UnblockLog(i int) { c.withSink(i, (*sink).unblock) }

func (c *Cluster) withSink(i int, f func(*sink)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.procs[i-1]; p != nil && p.sink != nil {
		f(p.sink)
	}
}
