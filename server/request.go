package server

import (
	"fmt"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

func errFrameLength(n int) error {
	return fmt.Errorf("a frame of %d bytes: not between 0 and jute.maxbuffer", n)
}

// request serves one frame of an established connection. An error ends the connection.
// body is valid only during the call.
func (c *conn) request(body []byte) error {
	d := wire.NewDecoder(body)
	var h wire.RequestHeader
	h.Decode(&d)
	if err := d.Err(); err != nil {
		return fmt.Errorf("request header: %w", err)
	}
	d.SetMaxLen(c.s.cfg.JuteMaxBuffer + c.s.cfg.JuteMaxBufferExtra)
	if h.Op != wire.OpAuth && h.Op != wire.OpSASL && c.s.mustAuthenticate(*c.ids.Load()) {
		return c.endWith(h, 0, wire.SessionClosedRequireSASLAuth)
	}
	switch h.Op {
	case wire.OpPing:
		c.ping()
		return nil
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		return c.write1(h, d.Rest())
	case wire.OpCloseSession:
		return c.closeSession(h)
	case wire.OpSync:
		return c.sync(h, &d)
	case wire.OpExists, wire.OpGetData, wire.OpGetACL, wire.OpGetChildren, wire.OpGetChildren2,
		wire.OpMultiRead, wire.OpGetEphemerals, wire.OpGetAllChildrenNumber, wire.OpWhoAmI,
		wire.OpSetWatches, wire.OpSetWatches2, wire.OpAddWatch, wire.OpRemoveWatches, wire.OpCheckWatches:
		c.readRequest(h, d.Rest())
		return nil
	case wire.OpAuth:
		return c.auth(h, &d)
	case wire.OpSASL:
		return c.saslStep(h, &d)
	default:
		return c.endWith(h, -1, wire.Unimplemented)
	}
}

// ping is answered at once, past everything that waits: it must not depend on the disk.
// The xid of the answer is always -2.
func (c *conn) ping() {
	zxid := c.s.zxid.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastZxid = max(c.lastZxid, zxid)
	c.appendReply(wire.XidPing, c.lastZxid, wire.OK)
	c.replied(wire.OpPing, wire.XidPing, c.lastSeen.Load(), 20)
}

// write1 admits a client's write: what cannot be decoded is refused here, before it costs
// a log entry or a zxid.
func (c *conn) write1(h wire.RequestHeader, body []byte) error {
	if code := state.CheckBody(h.Op, body); code != wire.OK {
		c.answer(h, code)
		return nil
	}
	return c.proposeNumbered(state.KindWrite, h, body)
}

// closeSession proposes the end of the session. What the client has sent behind it gets no
// answer: the reader stops here.
func (c *conn) closeSession(h wire.RequestHeader) error {
	if err := c.proposeNumbered(state.KindCloseSession, h, nil); err != nil {
		return err
	}
	return errEnd
}

// proposeNumbered gives the write its number, queues it and proposes it, in this order:
// the log may answer before propose returns.
func (c *conn) proposeNumbered(kind state.Kind, h wire.RequestHeader, body []byte) error {
	p := pendingRequest{
		kind: pendingWrite, op: h.Op, xid: h.Xid, size: len(body) + 64, startNs: c.lastSeen.Load(),
	}
	c.mu.Lock()
	for c.needDrain && !c.dead {
		// Reads in front of this write wait for a flusher: they must be served before it can
		// be applied (C2).
		c.mu.Unlock()
		c.drain()
		c.flush(true)
		c.waitForRoom()
		c.mu.Lock()
	}
	c.writes++
	p.number = c.writes
	cmd := state.Command{
		Kind: kind, Session: c.session, Epoch: c.epoch, Req: p.number, Op: h.Op, Body: body, IDs: *c.ids.Load(),
	}
	c.push(p)
	c.mu.Unlock()
	return c.s.propose(&cmd)
}

// sync proposes a mark: when it comes back, all that the log held before has been applied
// here. The path is not looked at, only echoed.
func (c *conn) sync(h wire.RequestHeader, d *wire.Decoder) error {
	var req wire.PathRequest
	req.Decode(d)
	if d.Err() != nil {
		c.answer(h, wire.MarshallingError)
		return nil
	}
	p := pendingRequest{
		kind: pendingSync, op: h.Op, xid: h.Xid, size: len(req.Path) + 64, startNs: c.lastSeen.Load(),
		body: []byte(req.Path),
	}
	c.mu.Lock()
	c.syncs++
	p.number = c.syncs
	cmd := state.Command{Kind: state.KindSync, Session: c.session, Epoch: c.epoch, Req: p.number}
	c.push(p)
	c.mu.Unlock()
	return c.s.propose(&cmd)
}

// readRequest serves a read now, or queues it behind the writes that are under way.
func (c *conn) readRequest(h wire.RequestHeader, body []byte) {
	for {
		c.s.node.RLock()
		c.mu.Lock()
		switch {
		case c.pending.len() > 0:
			c.push(pendingRequest{
				kind: pendingRead, op: h.Op, xid: h.Xid, size: len(body) + 64, startNs: c.lastSeen.Load(),
				body: append([]byte(nil), body...), ids: *c.ids.Load(),
			})
		case len(c.out.queued) > outSoftLimit && !c.dead:
			c.mu.Unlock()
			c.s.node.RUnlock()
			c.flush(true)
			c.waitForRoom()
			continue
		default:
			c.serveLocked(c.s.node.Machine(), h.Op, h.Xid, body, *c.ids.Load(), c.lastSeen.Load())
		}
		c.mu.Unlock()
		c.s.node.RUnlock()
		return
	}
}

// answer queues a reply that is known already, in its turn.
func (c *conn) answer(h wire.RequestHeader, code wire.Code) {
	c.answerFrame(h, c.s.zxid.Load(), code, nil)
}

// answerFrame is answer with the zxid and a body of the caller's choice.
func (c *conn) answerFrame(h wire.RequestHeader, zxid int64, code wire.Code, body []byte) {
	b, mark := wire.AppendFrame(nil)
	b = append(wire.AppendReply(b, h.Xid, zxid, code), body...)
	wire.FinishFrame(b, mark)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.push(pendingRequest{
		kind: pendingReply, done: true, op: h.Op, xid: h.Xid, size: len(b), startNs: c.lastSeen.Load(), reply: b,
	})
	c.advanceLocked()
}

// endWith answers and then ends the connection.
func (c *conn) endWith(h wire.RequestHeader, zxid int64, code wire.Code) error {
	c.answerFrame(h, zxid, code, nil)
	return errEnd
}

// push appends to the pending queue. Called with mu held, by the reader.
func (c *conn) push(p pendingRequest) {
	c.s.pendingBytes.Add(int64(p.size))
	c.s.pendingRequests.Add(1)
	c.stats.Begin()
	c.pending.push(p)
}
