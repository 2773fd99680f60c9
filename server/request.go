package server

import (
	"bytes"
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
	if all := c.s.observers.Load(); all != nil {
		c.observed(*all, h.Op, body)
	}
	if h.Op != wire.OpAuth && h.Op != wire.OpSASL && c.s.mustAuthenticate(*c.ids.Load()) {
		return c.endWith(h, 0, wire.SessionClosedRequireSASLAuth)
	}
	if h.Op == wire.OpPing {
		c.ping(h)
		return nil
	}
	if c.readOnly {
		return c.readOnlyRequest(h, &d)
	}
	if isRead(h.Op) {
		return c.readRequest(h, d.Rest())
	}
	c.mu.Lock()
	err := c.admit()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	switch h.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpSetData, wire.OpSetACL, wire.OpMulti:
		return c.writeRequest(h, d.Rest())
	case wire.OpReconfig:
		return c.reconfigRequest(h, d.Rest())
	case wire.OpCloseSession:
		return c.closeSession(h)
	case wire.OpSync:
		return c.sync(h, &d)
	case wire.OpAuth:
		return c.auth(h, &d)
	case wire.OpSASL:
		return c.saslStep(h, &d)
	default:
		return c.endWith(h, -1, wire.Unimplemented)
	}
}

// isRead says whether an operation needs nothing of the log.
func isRead(op wire.OpCode) bool {
	switch op {
	case wire.OpExists, wire.OpGetData, wire.OpGetACL, wire.OpGetChildren, wire.OpGetChildren2,
		wire.OpMultiRead, wire.OpGetEphemerals, wire.OpGetAllChildrenNumber, wire.OpWhoAmI,
		wire.OpSetWatches, wire.OpSetWatches2, wire.OpAddWatch, wire.OpRemoveWatches, wire.OpCheckWatches:
		return true
	}
	return false
}

// ping is answered at once, past everything that waits: it must not depend on the disk.
// The xid of the answer is always -2.
func (c *conn) ping(h wire.RequestHeader) {
	zxid := c.s.zxid.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastZxid = max(c.lastZxid, zxid)
	c.appendReply(wire.XidPing, c.lastZxid, wire.OK)
	c.replied(wire.OpPing, h.Xid, c.lastSeen.Load(), 20)
}

// writeRequest admits a client's write: what cannot be decoded is refused here, before it
// costs a log entry or a zxid.
func (c *conn) writeRequest(h wire.RequestHeader, body []byte) error {
	code := state.CheckBody(h.Op, body)
	if c.s.refusing.Load() {
		code = wire.SystemError
	}
	if h.Op == wire.OpMulti && code == wire.OK && c.tooManyOps(body, wire.IsMultiWrite) {
		code = wire.MarshallingError
	}
	if code != wire.OK {
		if a := c.s.auditor.Load(); a != nil {
			a.refused(c, h.Op, body)
		}
		c.answer(h, code)
		return nil
	}
	return c.proposeNumbered(state.KindWrite, h, body)
}

// tooManyOps says whether a multi or multiRead has more operations than are configured. It
// is decoded for that only if it is long enough.
func (c *conn) tooManyOps(body []byte, allowed func(wire.OpCode) bool) bool {
	const leastOp = 9 + 4 + 1 // header, path, watch
	most := c.s.cfg.MaxMultiOps
	if len(body)/leastOp <= most {
		return false
	}
	d := wire.NewDecoder(body)
	d.SetMaxLen(len(body))
	_, err := wire.DecodeMulti(&d, allowed, most)
	return err != nil
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
	c.mu.Lock()
	for c.needDrain { // reads that were sent before this write must not see it
		c.mu.Unlock()
		if !c.drain() {
			return errNoRoom
		}
		c.mu.Lock()
	}
	c.writes++
	cmd := state.Command{
		Kind: kind, Session: c.session, Epoch: c.epoch, Req: c.writes, Op: h.Op, Body: body, IDs: *c.ids.Load(),
	}
	gen, encoded := c.encode(&cmd)
	c.push(pendingRequest{
		kind: pendingWrite, op: h.Op, xid: h.Xid, size: requestSize(body), number: c.writes, startNs: c.lastSeen.Load(),
		encoded: encoded,
	})
	c.mu.Unlock()
	return c.propose(&cmd, gen, encoded)
}

// requestSize is what a request counts against the limits.
func requestSize(body []byte) int32 { return int32(len(body) + 64) }

// sync proposes a mark: when it comes back, all that the log held before has been applied
// here. The path is not looked at, only echoed.
func (c *conn) sync(h wire.RequestHeader, d *wire.Decoder) error {
	path := bytes.Clone(d.StringBytes())
	if d.Err() != nil {
		c.answer(h, wire.MarshallingError)
		return nil
	}
	c.mu.Lock()
	c.syncs++
	cmd := state.Command{Kind: state.KindSync, Session: c.session, Epoch: c.epoch, Req: c.syncs}
	gen, encoded := c.encode(&cmd)
	c.push(pendingRequest{
		kind: pendingSync, op: h.Op, xid: h.Xid, size: requestSize(path), number: c.syncs, startNs: c.lastSeen.Load(),
		data: path, encoded: encoded,
	})
	c.mu.Unlock()
	return c.propose(&cmd, gen, encoded)
}

// readRequest serves a read now, or queues it behind the writes that are under way.
func (c *conn) readRequest(h wire.RequestHeader, body []byte) error {
	c.s.node.RLock()
	defer c.s.node.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.admit(); err != nil {
		return err
	}
	if c.pending.len() > 0 {
		c.push(pendingRequest{
			kind: pendingRead, op: h.Op, xid: h.Xid, size: requestSize(body), startNs: c.lastSeen.Load(),
			data: bytes.Clone(body), ids: c.ids.Load(),
		})
		return nil
	}
	c.serveLocked(c.machine(), h.Op, h.Xid, body, *c.ids.Load(), c.lastSeen.Load())
	return nil
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
		kind: pendingReply, done: true, op: h.Op, xid: h.Xid, size: requestSize(b), startNs: c.lastSeen.Load(), data: b,
	})
	if c.pending.len() == 1 {
		c.advance(nil, 0)
	}
}

// endWith answers and then ends the connection.
func (c *conn) endWith(h wire.RequestHeader, zxid int64, code wire.Code) error {
	c.answerFrame(h, zxid, code, nil)
	return errEnd
}
