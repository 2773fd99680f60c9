package server

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// serveLocked appends the reply of a read to the output queue, and registers its watch.
// Called with the node's read lock and mu held: no change can fall between the read, the
// watch and the place of the reply among the events.
func (c *conn) serveLocked(m *state.Machine, op wire.OpCode, xid int32, body []byte, ids []wire.ID, startNs int64) {
	c.out.grow()
	c.lastZxid = max(c.lastZxid, m.Zxid())
	if op == wire.OpSetWatches || op == wire.OpSetWatches2 {
		c.setWatches(m, op, xid, body)
		c.replied(op, xid, startNs, 20)
		return
	}
	start := len(c.out.queued)
	b, mark := wire.AppendFrame(c.out.queued)
	b = wire.AppendReply(b, xid, c.lastZxid, wire.OK)
	header := len(b)
	b, code := c.readBody(b, m, op, body, ids)
	if code != wire.OK {
		b = wire.AppendReply(b[:mark+4], xid, c.lastZxid, code)
		b = b[:header]
	}
	wire.FinishFrame(b, mark)
	c.out.queued = b
	c.replied(op, xid, startNs, len(b)-start)
}

// readBody appends the record that answers op.
func (c *conn) readBody(b []byte, m *state.Machine, op wire.OpCode, body []byte, ids []wire.ID) ([]byte, wire.Code) {
	d := wire.NewDecoder(body)
	d.SetMaxLen(c.s.cfg.JuteMaxBuffer + c.s.cfg.JuteMaxBufferExtra)
	switch op {
	case wire.OpGetData, wire.OpExists, wire.OpGetChildren, wire.OpGetChildren2:
		return c.readNode(b, m, op, &d, ids)
	case wire.OpGetACL, wire.OpGetEphemerals, wire.OpGetAllChildrenNumber:
		return c.readPath(b, m, op, &d, ids)
	case wire.OpMultiRead:
		if c.tooManyOps(body, wire.IsMultiRead) {
			return b, wire.MarshallingError
		}
		return m.MultiRead(b, body, ids, maxReplyBytes)
	case wire.OpWhoAmI:
		return appendWhoAmI(b, ids), wire.OK
	default:
		return c.watchRequest(b, op, &d)
	}
}

// readNode serves the four reads that may leave a watch.
func (c *conn) readNode(b []byte, m *state.Machine, op wire.OpCode, d *wire.Decoder, ids []wire.ID) ([]byte, wire.Code) {
	raw, watched := d.PathWatch()
	if d.Err() != nil {
		return b, wire.MarshallingError
	}
	// The lookup does not keep the path, so it need not be copied.
	path := unsafe.String(unsafe.SliceData(raw), len(raw))
	var code wire.Code
	kind := watch.Data
	switch op {
	case wire.OpGetData:
		b, code = m.GetData(b, path, ids)
	case wire.OpExists:
		b, code = m.Exists(b, path, ids)
	case wire.OpGetChildren:
		b, code = m.GetChildren(b, path, ids)
		kind = watch.Child
	case wire.OpGetChildren2:
		b, code = m.GetChildren2(b, path, ids)
		kind = watch.Child
	}
	// exists waits for a node that is not there yet; a failed read of another kind leaves
	// no watch.
	if watched && (code == wire.OK || op == wire.OpExists && code == wire.NoNode) {
		c.addWatch(strings.Clone(path), kind)
	}
	return b, code
}

// readPath serves the reads whose request is a path alone.
func (c *conn) readPath(b []byte, m *state.Machine, op wire.OpCode, d *wire.Decoder, ids []wire.ID) ([]byte, wire.Code) {
	raw := d.StringBytes()
	if d.Err() != nil || raw == nil && op != wire.OpGetEphemerals { // for which null is any path
		return b, wire.MarshallingError
	}
	switch path := string(raw); op {
	case wire.OpGetACL:
		return m.GetACL(b, path, ids)
	case wire.OpGetAllChildrenNumber:
		return m.GetAllChildrenNumber(b, path, ids)
	default:
		return m.GetEphemerals(b, c.session, path)
	}
}

// watchRequest serves addWatch, removeWatches and checkWatches, which touch only the
// watches of this connection.
func (c *conn) watchRequest(b []byte, op wire.OpCode, d *wire.Decoder) ([]byte, wire.Code) {
	if op == wire.OpAddWatch {
		var req wire.AddWatchRequest
		req.Decode(d)
		kind := watch.Persistent
		if req.Mode == wire.AddWatchPersistentRecursive {
			kind = watch.Recursive
		}
		if d.Err() != nil || req.Mode != wire.AddWatchPersistent && req.Mode != wire.AddWatchPersistentRecursive {
			return b, wire.MarshallingError
		}
		// A path that no node can have would stay in the table for nothing.
		if znode.CheckPath(req.Path) != nil {
			return b, wire.BadArguments
		}
		c.addWatch(req.Path, kind)
		return wire.AppendInt32(b, 0), wire.OK
	}
	var req wire.WatchesRequest
	req.Decode(d)
	if d.Err() != nil || req.Type < wire.WatcherChildren || req.Type > wire.WatcherPersistentRecursive {
		return b, wire.MarshallingError
	}
	found := false
	if op == wire.OpRemoveWatches {
		found = c.s.watches.Remove(req.Path, req.Type, c.id)
	} else {
		found = c.s.watches.Has(req.Path, req.Type, c.id)
	}
	if !found {
		return b, wire.NoWatcher
	}
	return b, wire.OK
}

// addWatch registers a watch. A connection with too many, or too long ones, is cut: no code of
// the protocol says that. Called with mu held.
func (c *conn) addWatch(path string, k watch.Kind) {
	if !c.s.watches.Add(path, k, c.id) {
		return
	}
	c.watchesAdded += watch.Cost(path)
	if most := c.s.cfg.MaxConnWatches; most > 0 && c.watchesAdded > most {
		// Some of those added may have fired since.
		if c.watchesAdded = c.s.watches.CostOf(c.id); c.watchesAdded > most {
			c.cut("it watches more paths than zkd.maxConnWatches")
		}
	}
}

// setWatches registers the watches that a client held before it reconnected. What has
// changed since the zxid that it has seen fires at once, before the reply.
func (c *conn) setWatches(m *state.Machine, op wire.OpCode, xid int32, body []byte) {
	var req wire.SetWatches2
	d := wire.NewDecoder(body)
	d.SetMaxLen(len(body))
	if op == wire.OpSetWatches2 {
		req.Decode(&d)
	} else {
		req.DecodeSetWatches(&d)
	}
	code := wire.OK
	if d.Err() != nil {
		code = wire.MarshallingError
	} else {
		m.Rewatch(&req,
			c.addWatch,
			func(t wire.EventType, path string) {
				before := len(c.out.queued)
				c.out.queued = wire.AppendEvent(c.out.queued, -1, t, path)
				c.notified(len(c.out.queued) - before)
			})
	}
	c.appendReply(xid, c.lastZxid, code)
}

func appendWhoAmI(b []byte, ids []wire.ID) []byte {
	infos := make([]wire.ClientInfo, len(ids))
	for i, id := range ids {
		infos[i] = wire.ClientInfo{Scheme: id.Scheme, User: acl.UserName(id)}
	}
	return wire.AppendClientInfos(b, infos)
}

// appendReply appends a reply without a body. Called with mu held.
func (c *conn) appendReply(xid int32, zxid int64, code wire.Code) {
	c.out.grow()
	b, mark := wire.AppendFrame(c.out.queued)
	b = wire.AppendReply(b, xid, zxid, code)
	wire.FinishFrame(b, mark)
	c.out.queued = b
}

// emitResult appends the reply of a write or sync to the output queue. Called with mu and
// the write lock held.
func (c *conn) emitResult(p *pendingRequest, r *state.Result) {
	c.out.grow()
	start := len(c.out.queued)
	c.out.queued = appendResult(c.out.queued, p, r)
	c.raiseZxid(c.out.queued[start:])
	c.replied(p.op, p.xid, p.startNs, len(c.out.queued)-start)
}

// appendResult appends the complete reply frame of a write or sync.
func appendResult(b []byte, p *pendingRequest, r *state.Result) []byte {
	b, mark := wire.AppendFrame(b)
	b = wire.AppendReply(b, p.xid, r.Zxid, r.Code)
	if r.Code == wire.OK {
		if p.kind == pendingSync {
			b = wire.AppendBuffer(b, p.data)
		} else {
			b = r.AppendBody(b)
		}
	}
	wire.FinishFrame(b, mark)
	return b
}

// raiseZxid makes the zxid in a reply frame at least that of the reply before it: a read
// that waited in between may have been served from a later state. Zero and -1 are words of
// their own and stay.
func (c *conn) raiseZxid(frame []byte) []byte {
	const at = 8 // length, xid
	z := int64(binary.BigEndian.Uint64(frame[at:]))
	if z <= 0 {
		return frame
	}
	c.lastZxid = max(c.lastZxid, z)
	binary.BigEndian.PutUint64(frame[at:], uint64(c.lastZxid))
	return frame
}

// replied counts a reply. Called with mu held.
func (c *conn) replied(op wire.OpCode, xid int32, startNs int64, size int) {
	now := c.s.nowNs()
	c.stats.Responded(op, xid, c.lastZxid, now, now-startNs)
	c.shard.Reply(size)
	c.shard.Request(op, now-startNs)
}

// notified counts a watch event.
func (c *conn) notified(size int) {
	c.stats.Sent()
	c.shard.Event(size)
}
