package server

import (
	"sync"

	"github.com/zkd-project/zkd/internal/failpoint"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// A pendingKind says what an entry of the queue waits for.
type pendingKind uint8

const (
	pendingWrite    pendingKind = iota // the log: a numbered write or closeSession
	pendingSync                        // the log: a sync mark
	pendingRead                        // its turn: then it is served from the machine
	pendingReply                       // its turn: the reply is known
	pendingChange                      // a change of the membership, which began when it was applied
	pendingTransfer                    // the leadership to be handed over, see transfer.go
)

// logged says whether an entry waits for the log.
func (k pendingKind) logged() bool { return k == pendingWrite || k == pendingSync }

// awaited says whether only the log can give what an entry waits for, sooner or later.
func (k pendingKind) awaited() bool { return k.logged() || k == pendingChange || k == pendingTransfer }

// A pendingRequest is a request that has no reply in the output queue yet.
type pendingRequest struct {
	kind    pendingKind
	done    bool // the log has answered, or the reply was known from the start
	op      wire.OpCode
	xid     int32
	size    int32  // bytes that count against the limits
	number  uint64 // of the write, or the tag of the sync
	startNs int64
	ids     *[]wire.ID // pendingRead: the identities when it was received

	// data is the request record of a read, the path of a sync, or, once it is known and
	// must wait for its turn, the complete frame of the reply.
	data []byte
	// encoded is the command that the entry waits for, kept to be proposed again if a leader is
	// lost; nil where that cannot be. See repeat.go.
	encoded []byte
}

// A pendingQueue holds the requests of one connection that are under way, oldest first.
// Guarded by the connection's mu.
type pendingQueue struct {
	q      []pendingRequest  // q[head:] is the queue
	home   *[]pendingRequest // where the pool had q from; nil while the queue is empty
	head   int
	await  int // index of the first entry from head on that may still wait for the log
	writes int // entries of kind pendingWrite that are not done
	bytes  int
}

func (p *pendingQueue) len() int { return len(p.q) - p.head }

// queues holds the memory of queues that are empty: an idle connection has none.
var queues = sync.Pool{New: func() any { q := make([]pendingRequest, 0, 16); return &q }}

func (p *pendingQueue) push(r pendingRequest) {
	if p.home == nil {
		p.home = queues.Get().(*[]pendingRequest)
		p.q = *p.home
	}
	if len(p.q) == cap(p.q) && p.head > len(p.q)/2 {
		n := copy(p.q, p.q[p.head:])
		clear(p.q[n:])
		p.q = p.q[:n]
		p.await = max(p.await-p.head, 0)
		p.head = 0
	}
	p.q = append(p.q, r)
	p.bytes += int(r.size)
	if r.kind == pendingWrite {
		p.writes++
	}
}

func (p *pendingQueue) front() *pendingRequest { return &p.q[p.head] }

func (p *pendingQueue) pop() {
	p.bytes -= int(p.q[p.head].size)
	p.q[p.head] = pendingRequest{}
	p.head++
	if p.head < len(p.q) {
		return
	}
	if cap(p.q) <= maxPooledQueue {
		*p.home = p.q[:0]
		queues.Put(p.home)
	}
	p.q, p.home, p.head, p.await = nil, nil, 0, 0
}

// answered returns the first entry that waits for the log, if it is the one that cmd is
// about. Commands are applied in the order in which they were proposed, so it is the only
// one that can be meant; anything else is a repeat.
func (p *pendingQueue) answered(cmd *state.Command) *pendingRequest {
	kind := pendingWrite
	if cmd.Kind == state.KindSync {
		kind = pendingSync
	}
	for p.await = max(p.await, p.head); p.await < len(p.q); p.await++ {
		r := &p.q[p.await]
		if r.done || !r.kind.logged() {
			continue
		}
		if r.kind != kind || r.number != cmd.Req {
			return nil
		}
		r.done, r.encoded = true, nil
		if kind == pendingWrite {
			p.writes--
		}
		return r
	}
	return nil
}

// syncs counts the syncs.
func (p *pendingQueue) syncs() (n int64) {
	for i := p.head; i < len(p.q); i++ {
		if p.q[i].kind == pendingSync {
			n++
		}
	}
	return n
}

// firstWrite is the number of the oldest write that is not applied, 0 if there is none.
func (p *pendingQueue) firstWrite() uint64 {
	for i := p.head; i < len(p.q); i++ {
		if r := &p.q[i]; r.kind == pendingWrite && !r.done {
			return r.number
		}
	}
	return 0
}

// push appends to the pending queue. Called with mu held, by the reader.
func (c *conn) push(p pendingRequest) {
	c.s.pendingBytes.Add(int64(p.size))
	c.s.pendingRequests.Add(1)
	if p.kind == pendingSync {
		c.s.pendingSyncs.Add(1)
	}
	c.stats.Begin()
	c.pending.push(p)
}

func (c *conn) pop() {
	if c.pending.front().kind.awaited() {
		c.told.Store(c.s.nowNs())
	}
	c.s.pendingBytes.Add(-int64(c.pending.front().size))
	c.s.pendingRequests.Add(-1)
	if c.pending.front().kind == pendingSync {
		c.s.pendingSyncs.Add(-1)
	}
	c.stats.End()
	c.pending.pop()
	c.room.Broadcast()
}

// complete runs under the write lock when the log has handed back a write or sync of this
// connection.
func (c *conn) complete(cmd *state.Command, r *state.Result) {
	failpoint.Hit(failpoint.ReplyBefore)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.epoch != cmd.Epoch {
		return
	}
	p := c.pending.answered(cmd)
	if p == nil {
		return
	}
	if r.Deferred {
		p.kind, p.done = pendingChange, false // until changed
		return
	}
	if cmd.Kind == state.KindCloseSession {
		c.giveUpChange(r)
	}
	if p == c.pending.front() {
		c.emitResult(p, r)
		c.pop()
	} else {
		p.data = appendResult(nil, p, r)
	}
	c.advanceApplied()
	c.s.touch(c)
}

// changed runs under the write lock when a change of the membership has ended that a client of
// this connection has asked for.
func (c *conn) changed(a *state.Asker, r *state.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.epoch != a.Epoch {
		return
	}
	for i := c.pending.head; i < len(c.pending.q); i++ {
		if p := &c.pending.q[i]; p.kind == pendingChange && !p.done && p.number == a.Req {
			p.data, p.done = appendResult(nil, p, r), true
			c.advanceApplied()
			c.s.touch(c)
			return
		}
	}
}

// giveUpChange answers a change of the membership that is still under way when its session
// ends: it goes on, but nobody can be told how it ends. Called with mu held.
func (c *conn) giveUpChange(r *state.Result) {
	for i := c.pending.head; i < len(c.pending.q); i++ {
		if p := &c.pending.q[i]; p.kind == pendingChange && !p.done {
			p.data, p.done = appendResult(nil, p, &state.Result{Zxid: r.Zxid, Code: wire.ReconfigInProgress}), true
		}
	}
}

// advanceApplied is advance for the apply loop. Reads are left to a flusher, as a rule: they
// do not hold up the log. But if the session has a write under way, it may be the next that
// is applied, and a read that was sent before it must not see it.
func (c *conn) advanceApplied() {
	if c.pending.writes == 0 {
		c.advance(nil, 0)
		return
	}
	c.advance(c.s.node.Machine(), int(c.s.cfg.MaxConnQueueBytes))
	if c.needDrain {
		c.cut("it sends more reads between writes than zkd.maxConnQueueBytes has room for")
	}
}

// advance answers what can be answered at the head of the queue: requests whose reply is
// known, and, given the machine, reads, until more than limit bytes are queued. Called with
// mu held, and with m under the node's lock.
func (c *conn) advance(m *state.Machine, limit int) {
	c.needDrain = false
	for c.pending.len() > 0 && !c.dead {
		p := c.pending.front()
		switch {
		case p.kind == pendingRead:
			if m == nil || len(c.out.queued) > limit {
				c.needDrain = true
				return
			}
			c.serveLocked(m, p.op, p.xid, p.data, *p.ids, p.startNs)
		case p.done:
			c.out.grow()
			c.out.queued = append(c.out.queued, c.raiseZxid(p.data)...)
			c.replied(p.op, p.xid, p.startNs, len(p.data))
		default:
			return
		}
		c.pop()
	}
}

// drain serves the reads at the head of the queue as far as the output queue has room, and
// says whether it had. If not, whoever writes the output queue comes back.
func (c *conn) drain() bool {
	c.s.node.RLock()
	defer c.s.node.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(c.s.node.Machine(), outSoftLimit)
	return !c.needDrain
}
