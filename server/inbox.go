package server

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// An inbox takes what a client sends out of its socket. Small frames are read into a
// buffer that is taken from a pool when the socket is readable and returned when its
// frames are served, so an idle connection holds none. A frame that is larger gets a buffer
// of its own, which grows with what has arrived, not with what its length promises.
//
// Owner: the reader.
type inbox struct {
	held    []byte  // not served yet: the beginning of a frame, or frames that were put off
	counted int     // bytes of held that Server.heldBytes has
	buf     *[]byte // from the pool, while its frames are served
	n       int     // result of readFn
	err     error   // result of readFn
	readFn  func(fd uintptr) bool
}

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readBufferSize); return &b }}

var errTooMuchHeld = errors.New("all connections together hold too many bytes of unfinished frames: zkd.maxTotalBufferBytes")

// receive returns what is not served yet, with what has come from the client meanwhile, or,
// if a request was put off, without. The bytes are valid until keep.
func (c *conn) receive(putOff bool) ([]byte, error) {
	in := &c.in
	if putOff {
		return in.held, nil
	}
	if c.raw == nil || in.needs() > readBufferSize {
		return c.receiveLarge()
	}
	err := c.raw.Read(in.readFn)
	if err == nil {
		err = in.err
	}
	if err != nil {
		in.release()
		return nil, err
	}
	return (*in.buf)[:len(in.held)+in.n], nil
}

// needs is the length of the frame that held begins with, 0 if that is not known yet.
func (in *inbox) needs() int {
	if len(in.held) < 4 {
		return 0
	}
	return 4 + int(binary.BigEndian.Uint32(in.held)) // frames has looked at the length
}

// rawRead is the callback of the raw connection: it takes a buffer only when there is
// something to read.
func (c *conn) rawRead(fd uintptr) bool {
	in := &c.in
	if in.buf == nil {
		in.buf = readBuffers.Get().(*[]byte)
		copy(*in.buf, in.held)
	}
	for {
		n, err := syscall.Read(int(fd), (*in.buf)[len(in.held):])
		switch {
		case n > 0:
			in.n, in.err = n, nil
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			in.release()
			return false
		case err != nil:
			in.err = os.NewSyscallError("read", err)
		default:
			in.err = io.EOF
		}
		return true
	}
}

// receiveLarge reads behind what is held: for TLS, whose records need a buffer before they
// can be waited for, and for frames that are larger than the buffers of the pool.
func (c *conn) receiveLarge() ([]byte, error) {
	in := &c.in
	if len(in.held) == cap(in.held) {
		want := min(2*len(in.held)+smallReadBuffer, max(in.needs(), smallReadBuffer))
		grown := make([]byte, len(in.held), max(want, len(in.held)+1))
		copy(grown, in.held)
		in.held = grown
		if err := c.countHeld(); err != nil {
			return nil, err
		}
	}
	n, err := c.nc.Read(in.held[len(in.held):cap(in.held)])
	if n > 0 {
		in.held = in.held[:len(in.held)+n]
		return in.held, nil
	}
	if err == nil {
		err = io.EOF
	}
	return nil, err
}

// countHeld tells the server how much is held here; little is not counted.
func (c *conn) countHeld() error {
	in := &c.in
	n := cap(in.held)
	if n <= readBufferSize {
		n = 0
	}
	if n == in.counted {
		return nil
	}
	total := c.s.heldBytes.Add(int64(n - in.counted))
	more := n > in.counted
	in.counted = n
	if more && total > c.s.cfg.MaxTotalBufferBytes {
		c.s.stats.LargeRequestsRefused.Add(1)
		return errTooMuchHeld
	}
	return nil
}

// keep holds data[used:], which is not served yet, and gives the buffer back.
func (c *conn) keep(data []byte, used int) {
	in := &c.in
	rest := data[used:]
	switch {
	case len(rest) > 0 && used == 0 && in.buf == nil:
		return // it is in its place
	case len(rest) > 0 || c.raw == nil && cap(in.held) <= smallReadBuffer:
		in.held = append(in.held[:0], rest...) // rest may lie in held: append moves it down
	default:
		in.held = nil
	}
	in.release()
	_ = c.countHeld()
}

func (in *inbox) release() {
	if in.buf != nil {
		readBuffers.Put(in.buf)
		in.buf = nil
	}
}

// letGo drops everything that was read.
func (c *conn) letGo() {
	c.in.release()
	c.in.held = nil
	_ = c.countHeld()
}
