package server

import (
	"sync"
	"syscall"
)

// An outbox is the one queue of bytes to a client: replies and events leave through it in
// the order in which they were appended.
//
// Invariants: flushing is true while exactly one goroutine writes; only it touches buf and
// off. Whoever appends must see to it that somebody flushes afterwards.
//
// Guarded by the connection's mu, except buf and off.
type outbox struct {
	queued   []byte // frames not yet handed to the writer
	flushing bool

	buf []byte // being written, by the goroutine that set flushing
	off int    // how much of buf is written
}

// waiting is the number of bytes appended and not yet taken by the kernel, as far as mu
// shows.
func (o *outbox) waiting() int { return len(o.queued) }

var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// grow gives the queue a pooled buffer if it has none: replies come in numbers, and 4 KiB
// hold many. Events to idle connections append without it and stay small.
func (o *outbox) grow() {
	if o.queued == nil {
		o.queued = *outBuffers.Get().(*[]byte)
	}
}

func recycleOut(b []byte) {
	if cap(b) >= 4<<10 && cap(b) <= 64<<10 {
		b = b[:0]
		outBuffers.Put(&b)
	}
}

// flush writes what is queued. With wait it blocks while the client is slow; without, it
// makes one attempt and leaves the rest to a goroutine of its own. One caller at a time
// writes; the others return at once, since the writer looks at the queue again.
func (c *conn) flush(wait bool) {
	c.mu.Lock()
	if c.out.flushing || len(c.out.queued) == 0 {
		c.mu.Unlock()
		return
	}
	c.out.flushing = true
	c.flushLocked(wait)
}

// flushLocked runs with mu held and flushing set by the caller, and releases both, unless
// it hands flushing on to a goroutine that waits for the client.
func (c *conn) flushLocked(wait bool) {
	for {
		if c.out.off == len(c.out.buf) {
			recycleOut(c.out.buf)
			c.out.buf, c.out.off = c.out.queued, 0
			c.out.queued = nil
			if len(c.out.buf) == 0 {
				recycleOut(c.out.buf)
				c.out.buf = nil
				break
			}
		}
		c.mu.Unlock()
		again, err := c.write(wait)
		c.mu.Lock()
		if err != nil {
			c.dead = true
			c.out.queued, c.out.buf, c.out.off = nil, nil, 0
			c.abortLocked()
			break
		}
		if again {
			c.s.background.Add(1)
			go func() {
				defer c.s.background.Done()
				c.mu.Lock()
				c.flushLocked(true)
			}()
			c.mu.Unlock()
			return
		}
		c.room.Broadcast()
		if c.needDrain {
			c.s.flushers.add(c)
		}
	}
	c.out.flushing = false
	c.room.Broadcast()
	c.mu.Unlock()
}

// write hands buf[off:] to the kernel. again means that the client is slow and wait was
// not set.
func (c *conn) write(wait bool) (again bool, err error) {
	if c.raw == nil {
		if !wait {
			return true, nil
		}
		n, err := c.nc.Write(c.out.buf[c.out.off:])
		c.out.off += n
		return false, err
	}
	c.writeWait, c.writeAgain, c.writeErr = wait, false, nil
	if err := c.raw.Write(c.writeFn); err != nil {
		return false, err
	}
	return c.writeAgain, c.writeErr
}

// rawWrite is the callback of the raw connection: it writes until all is written or the
// kernel has no room. Returning false makes the runtime wait for room and call again.
func (c *conn) rawWrite(fd uintptr) bool {
	for c.out.off < len(c.out.buf) {
		n, err := syscall.Write(int(fd), c.out.buf[c.out.off:])
		switch {
		case n > 0:
			c.out.off += n
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			if c.writeWait {
				return false
			}
			c.writeAgain = true
			return true
		default:
			c.writeErr = err
			return true
		}
	}
	return true
}

// flushers write what the apply loop has queued, so that the loop itself never waits for a
// socket.
type flushers struct {
	mu     sync.Mutex
	wake   sync.Cond
	queue  []*conn // each connection at most once, see conn.inFlusher
	closed bool
	done   sync.WaitGroup
}

func newFlushers(n int) *flushers {
	f := &flushers{}
	f.wake.L = &f.mu
	f.done.Add(n)
	for range n {
		go f.run()
	}
	return f
}

// add queues c, whose mu is held by the caller.
func (f *flushers) add(c *conn) {
	if c.inFlusher {
		return
	}
	c.inFlusher = true
	f.mu.Lock()
	f.queue = append(f.queue, c)
	f.mu.Unlock()
	f.wake.Signal()
}

// addAll queues connections that are marked inFlusher already.
func (f *flushers) addAll(conns []*conn) {
	f.mu.Lock()
	f.queue = append(f.queue, conns...)
	f.mu.Unlock()
	f.wake.Broadcast()
}

func (f *flushers) run() {
	defer f.done.Done()
	var batch []*conn
	for {
		f.mu.Lock()
		for len(f.queue) == 0 && !f.closed {
			f.wake.Wait()
		}
		if len(f.queue) == 0 {
			f.mu.Unlock()
			return
		}
		// Half of what is there, so that several flushers share a burst.
		n := (len(f.queue) + 1) / 2
		batch = append(batch[:0], f.queue[:n]...)
		rest := copy(f.queue, f.queue[n:])
		clear(f.queue[rest:])
		f.queue = f.queue[:rest]
		f.mu.Unlock()
		for _, c := range batch {
			c.afterApply()
		}
		clear(batch)
	}
}

// close ends the flushers when their queue is empty, and waits for them.
func (f *flushers) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.wake.Broadcast()
	f.done.Wait()
}

// afterApply serves the reads that waited for a write and writes what is queued.
func (c *conn) afterApply() {
	c.mu.Lock()
	c.inFlusher = false
	drain := c.needDrain
	c.mu.Unlock()
	if drain {
		c.drain()
	}
	c.flush(false)
}
