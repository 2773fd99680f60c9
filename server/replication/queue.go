package replication

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/server/state"
)

// A route is where proposals go.
type route uint8

const (
	routeNone   route = iota // nowhere: there is no leader to take them
	routeLog                 // this server leads: into the log
	routeLeader              // over a stream to the leader
)

// A queue holds the commands that wait for the next log entry, or for the stream to the
// leader.
//
// Where commands go is a matter of luck at times: leadership changes hands with entries under
// way. So every change of the route begins a new generation. What was proposed in an earlier
// one may have reached the log or not, and what of it still waits here is dropped; who
// proposed keeps it until it is applied, and proposes it again, in order, when
// Observer.Routed names a new generation. The machine skips what it has applied already.
//
// Invariant: the commands that were accepted in one generation reach the log in the order in
// which they were accepted, without a gap: some first part of them does.
type queue struct {
	n     *Node
	limit int           // of bytes
	wake  chan struct{} // routeLog: the queue is no longer empty
	sends chan struct{} // routeLeader: likewise

	mu      sync.Mutex // guards what follows
	chunks  []chunk    // oldest first
	bytes   int        // in chunks
	spare   []byte     // a buffer for the next chunk
	route   route
	gen     uint64
	closed  bool
	changed chan struct{} // closed when route or closed change
	room    chan struct{} // closed when the queue is no longer full; nil if nobody waits
	search  search

	routed atomic.Bool // there is a route; changed with mu held
}

// A chunk is the commands of one entry to be.
type chunk struct {
	b     []byte
	count int
}

func newQueue(n *Node) *queue {
	q := &queue{
		n: n, limit: n.o.MaxQueueBytes, changed: make(chan struct{}),
		wake: make(chan struct{}, 1), sends: make(chan struct{}, 1),
	}
	q.lost() // nobody else has it yet
	return q
}

// anyGeneration proposes in whichever generation it is.
const anyGeneration = 0

// push queues commands that add appends to a buffer. Without bound a full queue takes them,
// too.
func (q *queue) push(gen uint64, count int, bound bool, add func(b []byte) []byte) error {
	q.mu.Lock()
	switch {
	case q.closed || q.n.halted():
		q.mu.Unlock()
		return ErrClosed
	case q.route == routeNone:
		q.mu.Unlock()
		return ErrNotLeader
	case gen != anyGeneration && gen != q.gen:
		q.mu.Unlock()
		return ErrStale
	case bound && q.bytes >= q.limit:
		q.mu.Unlock()
		return ErrQueueFull
	}
	first := len(q.chunks) == 0
	if first || len(q.chunks[len(q.chunks)-1].b) >= q.n.o.MaxBatchBytes {
		q.chunks = append(q.chunks, chunk{b: q.spare})
		q.spare = nil
	}
	last := &q.chunks[len(q.chunks)-1]
	before := len(last.b)
	last.b = add(last.b)
	last.count += count
	q.bytes += len(last.b) - before
	wake := q.wake
	if q.route == routeLeader {
		wake = q.sends
	}
	q.mu.Unlock()
	if first {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return nil
}

func (q *queue) propose(c *state.Command) error {
	return q.push(anyGeneration, 1, true, func(b []byte) []byte { return state.AppendCommand(b, c) })
}

// waitRoom returns when there is room in the queue.
func (q *queue) waitRoom(ctx context.Context) error {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return ErrClosed
		}
		if q.bytes < q.limit {
			q.mu.Unlock()
			return nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-q.n.dead:
			return ErrClosed
		case <-ctx.Done():
			return contextError(ctx, "room in the queue of proposals")
		}
	}
}

// take returns the next chunk of a generation; ok is false if there is none, or the
// generation is over.
func (q *queue) take(gen uint64) (c chunk, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 || gen != q.gen {
		return chunk{}, false
	}
	c = q.chunks[0]
	q.chunks[0] = chunk{}
	q.chunks = q.chunks[1:]
	if len(q.chunks) == 0 {
		q.chunks = nil
	}
	q.shrink(len(c.b))
	return c, true
}

// shrink counts bytes that have left the queue. Called with mu held.
func (q *queue) shrink(bytes int) {
	q.bytes -= bytes
	if q.room != nil && q.bytes < q.limit {
		close(q.room)
		q.room = nil
	}
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.chunks) == 0
}

// giveBack keeps a chunk's buffer for a later one.
func (q *queue) giveBack(buf []byte) {
	if cap(buf) > 2*q.n.o.MaxBatchBytes {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = buf[:0]
}

// setRoute begins a new generation, and drops what waits. While this server leads no route to
// another leader is taken, and 0 returned: that one led before.
func (q *queue) setRoute(r route) uint64 {
	q.mu.Lock()
	if r == routeLeader && q.route == routeLog {
		q.mu.Unlock()
		return anyGeneration
	}
	if q.route != routeNone || r == routeNone {
		q.lost()
	}
	if r != routeNone {
		q.found(r == routeLog)
	}
	q.gen++
	gen := q.gen
	q.route = r
	q.drop()
	close(q.changed)
	q.changed = make(chan struct{})
	q.mu.Unlock()
	if r != routeNone {
		q.n.o.Observer.Routed(gen)
	}
	return gen
}

// drop is called with mu held.
func (q *queue) drop() {
	q.chunks = nil
	q.shrink(q.bytes)
}

// unroute ends a generation; a later one stays.
func (q *queue) unroute(gen uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gen != gen {
		return
	}
	q.lost()
	q.gen++
	q.route = routeNone
	q.drop()
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) current() (route, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.route, q.gen
}

// wait returns the route and its generation when ok accepts the route.
func (q *queue) wait(ctx context.Context, what string, ok func(route) bool) (uint64, error) {
	for {
		q.mu.Lock()
		r, gen, closed, changed := q.route, q.gen, q.closed, q.changed
		q.mu.Unlock()
		if closed {
			return 0, ErrClosed
		}
		if ok(r) {
			return gen, nil
		}
		select {
		case <-changed:
		case <-q.n.dead:
			return 0, q.n.deadError()
		case <-ctx.Done():
			return 0, contextError(ctx, what)
		}
	}
}

// close refuses further commands.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	close(q.changed)
	q.changed = make(chan struct{})
}
