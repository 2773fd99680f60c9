package server

import (
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// A pendingKind says what an entry of the queue waits for.
type pendingKind uint8

const (
	pendingWrite pendingKind = iota // the log: a numbered write or closeSession
	pendingSync                     // the log: a sync mark
	pendingRead                     // its turn: then it is served from the machine
	pendingReply                    // its turn: the reply is known
)

// A pendingRequest is a request that has no reply in the output queue yet.
type pendingRequest struct {
	kind    pendingKind
	done    bool // the log has answered, or the reply was known from the start
	op      wire.OpCode
	xid     int32
	size    int    // bytes that count against the limits
	number  uint64 // of the write, or the tag of the sync
	startNs int64
	body    []byte    // pendingRead: the request record, a copy
	ids     []wire.ID // pendingRead: the identities when it was received
	reply   []byte    // the complete frame, once known, if it must wait for its turn
}

// A pendingQueue holds the requests of one connection that are under way, oldest first.
// Guarded by the connection's mu.
type pendingQueue struct {
	q      []pendingRequest // q[head:] is the queue
	head   int
	await  int // index of the first entry from head on that may still wait for the log
	writes int // entries that are writes and not done
	bytes  int
}

func (p *pendingQueue) len() int { return len(p.q) - p.head }

func (p *pendingQueue) push(r pendingRequest) {
	if p.head > 0 && len(p.q) == cap(p.q) {
		n := copy(p.q, p.q[p.head:])
		clear(p.q[n:])
		p.q = p.q[:n]
		p.await -= p.head
		p.head = 0
	}
	p.q = append(p.q, r)
	p.bytes += r.size
	if r.kind == pendingWrite {
		p.writes++
	}
}

// finish notes that the log has answered an entry.
func (p *pendingQueue) finish(r *pendingRequest) {
	r.done = true
	if r.kind == pendingWrite {
		p.writes--
	}
}

func (p *pendingQueue) front() *pendingRequest { return &p.q[p.head] }

func (p *pendingQueue) pop() {
	p.bytes -= p.q[p.head].size
	p.q[p.head] = pendingRequest{}
	p.head++
	p.await = max(p.await, p.head)
	if p.head == len(p.q) {
		// An idle connection keeps no queue.
		if cap(p.q) > 64 {
			p.q = nil
		}
		p.q, p.head, p.await = p.q[:0], 0, 0
	}
}

// awaited returns the first entry that waits for the log, if it is the one that c is about.
// Commands are applied in the order in which they were proposed, so it is the only one that
// can be meant; anything else is a repeat.
func (p *pendingQueue) awaited(cmd *state.Command) *pendingRequest {
	kind := pendingWrite
	if cmd.Kind == state.KindSync {
		kind = pendingSync
	}
	p.await = max(p.await, p.head)
	for ; p.await < len(p.q); p.await++ {
		r := &p.q[p.await]
		if r.done || r.kind == pendingRead || r.kind == pendingReply {
			continue
		}
		if r.kind == kind && r.number == cmd.Req {
			return r
		}
		return nil
	}
	return nil
}

// complete runs under the write lock when the log has handed back a write or sync of this
// connection.
func (c *conn) complete(cmd *state.Command, r *state.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return
	}
	p := c.pending.awaited(cmd)
	if p == nil {
		return
	}
	c.pending.finish(p)
	if p == c.pending.front() {
		c.emitResult(p, r)
		c.popLocked()
	} else {
		p.reply = c.appendResult(nil, p, r)
	}
	c.advanceLocked()
	if c.needDrain && c.pending.writes > 0 {
		// A write of the session that comes after these reads may be applied next: they must
		// not see it (C2), so they cannot wait for a flusher.
		c.drainLocked(c.s.node.Machine(), int(c.s.cfg.MaxConnQueueBytes))
		if c.needDrain {
			c.cutSlow()
		}
	}
	c.s.touch(c)
}

// advanceLocked sends the replies at the head of the queue that are known. A read at the
// head sets needDrain: it may be served. Called with mu held.
func (c *conn) advanceLocked() {
	for c.pending.len() > 0 {
		p := c.pending.front()
		if p.kind == pendingRead {
			c.needDrain = true
			return
		}
		if !p.done {
			return
		}
		c.out.grow()
		c.out.queued = append(c.out.queued, c.raiseZxid(p.reply)...)
		c.replied(p.op, p.xid, p.startNs, len(p.reply))
		c.popLocked()
	}
}

func (c *conn) popLocked() {
	c.s.pendingBytes.Add(-int64(c.pending.front().size))
	c.s.pendingRequests.Add(-1)
	c.stats.End()
	c.pending.pop()
	c.room.Broadcast()
}

// drain serves the reads at the head of the queue, as far as the output queue has room;
// whoever writes that queue comes back for the rest.
func (c *conn) drain() {
	c.s.node.RLock()
	defer c.s.node.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainLocked(c.s.node.Machine(), outSoftLimit)
}

// drainLocked is drain with the node's read or write lock and mu held.
func (c *conn) drainLocked(m *state.Machine, limit int) {
	for !c.dead {
		c.advanceLocked()
		if !c.needDrain || len(c.out.queued) > limit {
			return
		}
		c.needDrain = false
		p := c.pending.front()
		c.serveLocked(m, p.op, p.xid, p.body, p.ids, p.startNs)
		c.popLocked()
	}
}
