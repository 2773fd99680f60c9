package server

import "sync"

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
