package replication

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/state"
)

// enqueueTimeout bounds the wait for raft's main loop, which may be busy with the disk, or
// gone after an error; then the batcher looks whether the node still lives.
const enqueueTimeout = 100 * time.Millisecond

// A batcher turns commands into log entries: all that wait while an entry is on its way
// become the next one (group commit).
//
// Propose encodes a command at once, so that nothing of the caller is kept. One goroutine,
// run, owns the entries under way and gives them to raft; it does not wait for their
// results, which the Observer gets, but for room for the next entry.
type batcher struct {
	n    *Node
	wake chan struct{} // the queue is no longer empty
	stop chan struct{} // closed by close
	done chan struct{} // closed by run

	// Owned by run.
	inflight []raft.ApplyFuture // oldest first

	mu      sync.Mutex // guards what follows
	queue   []chunk    // oldest first
	bytes   int        // in the queue
	spare   []byte     // a buffer for the next chunk
	leading bool       // commands are accepted
	closed  bool
	changed chan struct{} // closed when leading or closed change
	room    chan struct{} // closed when the queue is no longer full; nil if nobody waits
}

// A chunk is the commands of one entry to be.
type chunk struct {
	b     []byte
	count int
}

func newBatcher(n *Node) *batcher {
	return &batcher{
		n: n, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}),
	}
}

// propose queues a command.
func (b *batcher) propose(c *state.Command) error {
	b.mu.Lock()
	switch {
	case b.closed || b.n.halted():
		b.mu.Unlock()
		return ErrClosed
	case !b.leading:
		b.mu.Unlock()
		return ErrNotLeader
	case b.bytes >= b.n.o.MaxQueueBytes:
		b.mu.Unlock()
		return ErrQueueFull
	}
	first := len(b.queue) == 0
	if first || len(b.queue[len(b.queue)-1].b) >= b.n.o.MaxBatchBytes {
		b.queue = append(b.queue, chunk{b: b.spare})
		b.spare = nil
	}
	last := &b.queue[len(b.queue)-1]
	before := len(last.b)
	last.b = state.AppendCommand(last.b, c)
	last.count++
	b.bytes += len(last.b) - before
	b.mu.Unlock()
	if first {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// waitQueue returns when there is room in the queue.
func (b *batcher) waitQueue(ctx context.Context) error {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return ErrClosed
		}
		if b.bytes < b.n.o.MaxQueueBytes {
			b.mu.Unlock()
			return nil
		}
		if b.room == nil {
			b.room = make(chan struct{})
		}
		room := b.room
		b.mu.Unlock()
		select {
		case <-room:
		case <-b.n.dead:
			return ErrClosed
		case <-ctx.Done():
			return contextError(ctx, "room in the queue of proposals")
		}
	}
}

// take returns the next chunk; ok is false if the queue is empty.
func (b *batcher) take() (c chunk, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return chunk{}, false
	}
	c = b.queue[0]
	b.queue[0] = chunk{}
	b.queue = b.queue[1:]
	if len(b.queue) == 0 {
		b.queue = nil
	}
	b.bytes -= len(c.b)
	if b.room != nil && b.bytes < b.n.o.MaxQueueBytes {
		close(b.room)
		b.room = nil
	}
	return c, true
}

// giveBack keeps a chunk's buffer for a later one.
func (b *batcher) giveBack(buf []byte) {
	if cap(buf) > 2*b.n.o.MaxBatchBytes {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = buf[:0]
}

// run submits entries until the node is closed or has failed.
func (b *batcher) run() {
	defer close(b.done)
	for !b.n.halted() {
		select {
		case lead := <-b.n.raft.LeaderCh():
			b.setLeading(lead && b.lead())
		case <-b.wake:
		case <-b.n.dead:
		case <-b.stop:
			b.submitQueue() // what was accepted is not dropped
			b.settle()
			return
		}
		b.submitQueue()
	}
}

// lead begins a term of leadership: its first entry raises the epoch of the zxid, and when
// it has been applied, so has everything before it.
func (b *batcher) lead() bool {
	if !b.submit(chunk{}) || !b.settle() {
		return false
	}
	// Applying runs in this process's FSM goroutine, so the level is that of the whole log.
	b.n.mu.RLock()
	level := b.n.machine.Level()
	b.n.mu.RUnlock()
	if level >= state.CurrentLevel {
		return true
	}
	// All members, this one, know the current level.
	raise := state.AppendCommand(nil, &state.Command{Kind: state.KindLevel, Level: state.CurrentLevel})
	return b.submit(chunk{raise, 1}) && b.settle()
}

func (b *batcher) setLeading(leading bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = leading
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *batcher) isLeading() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leading
}

// waitLeading returns when commands are accepted.
func (b *batcher) waitLeading(ctx context.Context) error {
	for {
		b.mu.Lock()
		leading, closed, changed := b.leading, b.closed, b.changed
		b.mu.Unlock()
		if closed {
			return ErrClosed
		}
		if leading {
			return nil
		}
		select {
		case <-changed:
		case <-b.n.dead:
			return b.n.deadError()
		case <-ctx.Done():
			return contextError(ctx, "leadership")
		}
	}
}

// submitQueue submits all that waits. Commands that arrive while it waits for an older
// entry join the next one.
func (b *batcher) submitQueue() {
	for {
		b.mu.Lock()
		empty := len(b.queue) == 0
		b.mu.Unlock()
		if empty {
			return
		}
		if len(b.inflight) >= b.n.o.MaxInflight && !b.reap() {
			return
		}
		c, ok := b.take()
		if !ok || !b.submit(c) {
			return
		}
		b.giveBack(c.b)
	}
}

// submit gives a batch to raft. The entry's bytes are never used again here: log store and
// followers keep them.
func (b *batcher) submit(c chunk) bool {
	h := state.BatchHeader{TimeMs: b.n.o.Now().UnixMilli(), Settings: b.n.o.Settings()}
	var head [256]byte
	start := state.AppendHeader(head[:0], &h, c.count)
	data := make([]byte, 0, len(start)+len(c.b))
	data = append(append(data, start...), c.b...)
	for !b.n.halted() {
		f := b.n.raft.ApplyLog(raft.Log{Data: data}, enqueueTimeout)
		if !refused(f) {
			b.n.o.Meters.Proposed(c.count, len(data))
			b.inflight = append(b.inflight, f)
			return true
		}
		if err := f.Error(); !errors.Is(err, raft.ErrEnqueueTimeout) {
			return false // raft is shut down
		}
	}
	return false
}

// refused says whether raft has not taken an entry, and never will. Asking the future of an
// entry that it has taken would wait for the result; but that one is a pointer, and a
// refusal is a plain value. TestRefusedEntriesAreTold holds it.
func refused(f raft.ApplyFuture) bool { return reflect.TypeOf(f).Kind() == reflect.Struct }

// reap waits for the oldest entry under way.
func (b *batcher) reap() bool {
	f := b.inflight[0]
	b.inflight = b.inflight[1:]
	err := f.Error()
	if err == nil || errors.Is(err, raft.ErrRaftShutdown) {
		return !b.n.halted()
	}
	// A lone server loses its leadership or an entry for one reason only: its disk.
	b.n.fail(fmt.Errorf("a log entry was lost: %w", err))
	return false
}

// settle waits for all entries under way.
func (b *batcher) settle() bool {
	ok := true
	for len(b.inflight) > 0 {
		ok = b.reap() && ok
	}
	return ok && !b.n.halted()
}

// close refuses further commands, submits those that wait and returns when all are applied.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
	close(b.stop)
	<-b.done
}
