package server

import (
	"sync"
	"syscall"
	"time"
)

// An outbox is the one queue of bytes to a client: replies and events leave through it in
// the order in which they were appended.
//
// Invariants: flushing is true while exactly one goroutine writes; only it touches off, and
// buf without mu. Whoever appends must see to it that somebody flushes afterwards.
//
// Guarded by the connection's mu, except off and the results of writeFn.
type outbox struct {
	queued   []byte  // frames not yet handed to the writer
	home     *[]byte // where the pool had queued from, nil if it was not from there
	flushing bool
	weight   int // bytes of queued and buf that Server.waitingBytes has

	buf     []byte // being written, by the goroutine that set flushing
	bufHome *[]byte
	off     int // how much of buf is written

	wait    bool // what write wants, and what writeFn says
	again   bool
	err     error
	writeFn func(fd uintptr) bool
}

// busy says whether anything has not been taken by the kernel yet.
func (o *outbox) busy() bool { return o.flushing || len(o.queued) > 0 }

var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, outBufferSize); return &b }}

// grow gives the queue a pooled buffer if it has none: replies come in numbers, and one
// buffer holds many. Events to idle connections append without it and stay small.
func (o *outbox) grow() {
	if o.queued == nil {
		o.home = outBuffers.Get().(*[]byte)
		o.queued = *o.home
	}
}

// next makes what is queued the buffer to write, unless the last one is not written yet. It
// says whether there is anything to write.
func (o *outbox) next() bool {
	if o.off < len(o.buf) {
		return true
	}
	if o.bufHome != nil && cap(o.buf) <= outBufferMax {
		*o.bufHome = o.buf[:0]
		outBuffers.Put(o.bufHome)
	}
	o.buf, o.bufHome, o.off = o.queued, o.home, 0
	o.queued, o.home = nil, nil
	return len(o.buf) > 0
}

// outFull says whether the client is slow: then it gets no more replies to reads until it
// has taken some. That is so when many bytes wait for it, or any, while those that wait for
// all slow clients are too many. Called with mu held.
func (c *conn) outFull() bool {
	return len(c.out.queued) > outSoftLimit ||
		c.out.busy() && c.s.waitingBytes.Load() > c.s.cfg.MaxTotalBufferBytes
}

// weigh tells the server how much waits for this client; little is not counted. Called with
// mu held.
func (c *conn) weigh() {
	n := len(c.out.queued) + len(c.out.buf)
	if n <= outSoftLimit {
		n = 0
	}
	if n != c.out.weight {
		c.s.waitingBytes.Add(int64(n - c.out.weight))
		c.out.weight = n
	}
}

// flush writes what is queued. With wait, which is for the reader alone, it blocks while the
// client is slow, and parked stays set until waitForRoom; without, it makes one attempt and
// leaves the rest to a goroutine of its own. One caller at a time writes; the others return at
// once, since the writer looks at the queue again.
func (c *conn) flush(wait bool) {
	c.mu.Lock()
	if c.dead || c.out.flushing || len(c.out.queued) == 0 || c.hushed() {
		c.mu.Unlock()
		return
	}
	c.out.flushing = true
	c.parked = c.parked || wait
	c.flushLocked(wait)
}

// hushed says whether the client must not be told anything now: see mayAnswer. Frames that
// have left in part are completed. Called with mu held.
func (c *conn) hushed() bool {
	if c.s.frozen.Load() {
		return true
	}
	if c.session == 0 || c.readOnly || c.s.mayAnswer() || c.out.off < len(c.out.buf) {
		return false
	}
	c.s.muted.Store(true)
	return true
}

// flushLocked runs with mu held and flushing set by the caller, and releases both, unless
// it hands flushing on to a goroutine that waits for the client.
func (c *conn) flushLocked(wait bool) {
	for !c.dead && !c.hushed() && c.out.next() {
		if wait {
			_ = c.sock.SetWriteDeadline(time.Now().Add(c.patience()))
		}
		c.weigh()
		c.mu.Unlock()
		again, err := c.write(wait)
		c.mu.Lock()
		if c.dead {
			break
		}
		if err != nil {
			c.abortLocked()
			break
		}
		if again {
			// Not after Close has begun to wait: then the connection is dead.
			c.s.background.Add(1)
			go c.flushSlowly()
			c.mu.Unlock()
			return
		}
		c.hearTaking()
		c.room.Broadcast()
		if c.needDrain {
			c.s.flushers.add(c)
		}
	}
	switch {
	case c.dead:
		c.out.buf, c.out.bufHome, c.out.off = nil, nil, 0
	case wait:
		_ = c.sock.SetWriteDeadline(time.Time{})
	}
	c.weigh()
	c.out.flushing = false
	c.room.Broadcast()
	c.mu.Unlock()
}

// flushSlowly goes on with a flush for a client that does not read fast enough.
func (c *conn) flushSlowly() {
	defer c.s.background.Done()
	c.mu.Lock()
	c.flushLocked(true)
}

// write hands bytes of buf to the kernel: with wait some, as soon as there is room, else as
// many as there is room for. again means that the client is slow and wait was not set.
func (c *conn) write(wait bool) (again bool, err error) {
	if c.raw == nil {
		if !wait {
			return true, nil
		}
		o := &c.out
		n, err := c.nc.Write(o.buf[o.off:min(len(o.buf), o.off+tlsWriteStep)])
		o.off += n
		return false, err
	}
	c.out.wait, c.out.again, c.out.err = wait, false, nil
	if err := c.raw.Write(c.out.writeFn); err != nil {
		return false, err
	}
	return c.out.again, c.out.err
}

// rawWrite is the callback of the raw connection. Returning false makes the runtime wait
// until the kernel has room, and call again.
func (c *conn) rawWrite(fd uintptr) bool {
	o := &c.out
	for o.off < len(o.buf) {
		n, err := syscall.Write(int(fd), o.buf[o.off:])
		switch {
		case n > 0:
			o.off += n
			if o.wait {
				return true // progress is worth a new deadline
			}
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			o.again = !o.wait
			return !o.wait
		default:
			o.err = err
			return true
		}
	}
	return true
}
