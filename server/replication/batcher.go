package replication

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/state"
)

// enqueueTimeout bounds the wait for raft's main loop, which may be busy with the disk, or
// gone after an error; then the batcher looks whether the node still lives.
const enqueueTimeout = 100 * time.Millisecond

// leadPause is between two attempts of a leader to begin its time of leadership.
const leadPause = 10 * time.Millisecond

// A batcher turns commands into log entries while this server leads: all that wait while an
// entry is on its way become the next one (group commit).
//
// One goroutine, run, owns the entries under way and gives them to raft; it does not wait for
// their results, which the Observer gets, but for room for the next entry. An entry that
// is not durable here yet keeps the next one open: it would wait, too, and meanwhile more
// commands come that need no entry of their own.
type batcher struct {
	n      *Node
	q      *queue
	stop   chan struct{} // closed by close
	done   chan struct{} // closed by run
	again  chan struct{} // leadership was to be handed over, and was not
	stored chan struct{} // unstored has become 0

	unstored atomic.Int64 // entries given to raft that are not durable here

	// Owned by run.
	gen      uint64             // of the entries under way
	inflight []raft.ApplyFuture // oldest first
}

func newBatcher(n *Node) *batcher {
	return &batcher{
		n: n, q: n.queue, stop: make(chan struct{}), done: make(chan struct{}),
		again: make(chan struct{}, 1), stored: make(chan struct{}, 1),
	}
}

// run submits entries until the node is closed or has failed.
func (b *batcher) run() {
	defer close(b.done)
	for !b.n.halted() {
		select {
		case leads := <-b.n.raft().LeaderCh():
			b.led(leads)
		case <-b.again:
			b.led(b.n.raft().State() == raft.Leader)
		case <-b.q.wake:
			b.submitQueue()
		case <-b.n.dead:
		case <-b.stop:
			b.submitQueue() // what was accepted is not dropped
			b.settle()
			return
		}
	}
}

// led begins or ends a time of leadership. Leadership that was lost and won again is a new
// one: entries may have been lost in between.
func (b *batcher) led(leads bool) {
	b.lost()
	if leads && b.lead() {
		b.gen = b.q.setRoute(routeLog)
		b.submitQueue()
	} else if leads {
		// raft takes nothing while it hands over, and for a moment after that has failed.
		time.AfterFunc(leadPause, b.relead)
	}
}

// lost forgets the entries under way: whoever proposed their commands asks again.
func (b *batcher) lost() {
	if b.gen != 0 {
		b.q.unroute(b.gen)
	}
	b.gen, b.inflight = 0, nil
	b.unstored.Store(0)
}

// lead begins a term of leadership: its first entry raises the epoch of the zxid, and when
// it has been applied, so has everything before it.
func (b *batcher) lead() bool {
	if !b.submit(chunk{}) || !b.settle() {
		return false
	}
	b.n.mu.RLock()
	_, _, known := b.n.machine.Ensemble()
	b.n.mu.RUnlock()
	var first chunk
	if !known && b.n.o.Ensemble != "" {
		first.b = state.AppendCommand(first.b, &state.Command{Kind: state.KindMembers, Members: state.MembersInitial, Body: []byte(b.n.firstEnsemble())})
		first.count++
	}
	return first.count == 0 || b.submit(first) && b.settle()
}

// submitQueue submits all that waits. Commands that arrive while it waits for an older
// entry join the next one.
func (b *batcher) submitQueue() {
	for b.gen != 0 && !b.q.empty() {
		if len(b.inflight) >= b.n.o.MaxInflight && !b.reap() {
			return
		}
		if !b.waitStored() {
			return
		}
		c, ok := b.q.take(b.gen)
		if !ok || !b.submit(c) {
			return
		}
		b.q.giveBack(c.b)
	}
}

// waitStored waits until the log store has all entries under way. If leadership is lost it
// never gets some.
func (b *batcher) waitStored() bool {
	for b.unstored.Load() > 0 {
		select {
		case <-b.stored:
		case leads := <-b.n.raft().LeaderCh():
			b.led(leads)
			return false
		case <-b.again: // while leadership is handed over, raft takes nothing
			b.led(b.n.raft().State() == raft.Leader)
			return false
		case <-b.n.dead:
			return false
		}
	}
	return true
}

// noteStored is told how many entries have become durable here.
func (b *batcher) noteStored(n int) {
	for {
		was := b.unstored.Load()
		left := max(was-int64(n), 0) // some may be another leader's
		if was == 0 || !b.unstored.CompareAndSwap(was, left) {
			if was == 0 {
				return
			}
			continue
		}
		if left == 0 {
			select {
			case b.stored <- struct{}{}:
			default:
			}
		}
		return
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
	b.unstored.Add(1)
	for !b.n.halted() {
		e := b.n.engine.Load()
		f := e.ApplyLog(raft.Log{Data: data}, enqueueTimeout)
		if !refused(f) {
			endWith(f, e.over) // of what raft has committed and not applied when it ends nobody hears
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
	if err == nil || b.n.halted() {
		return !b.n.halted()
	}
	if b.n.peers == nil {
		// A lone server loses its leadership or an entry for one reason only: its disk.
		b.n.fail(fmt.Errorf("a log entry was lost: %w", err))
		return false
	}
	b.n.o.Logger.Debug("a log entry was not committed here", "reason", err)
	b.lost()
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

// relead has run look again whether this server leads.
func (b *batcher) relead() {
	select {
	case b.again <- struct{}{}:
	default:
	}
}

// close refuses further commands, submits those that wait and returns when all are applied,
// or lost with the leadership, or patience is over. Then their clients do not know what
// became of them, as after a crash.
func (b *batcher) close(patience time.Duration) {
	b.q.close()
	close(b.stop)
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-b.done:
		return
	case <-t.C:
	}
	b.n.o.Logger.Warn("the other servers do not store what was proposed last: stopping without", "waited", patience)
	b.n.deadOnce.Do(func() { close(b.n.dead) })
	b.n.engineMu.Lock()
	b.n.engine.Load().down() // which ends the wait for the entries under way
	b.n.engineMu.Unlock()
	<-b.done
}
