package state

import (
	"math"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A request is what the operations know of the command that they are part of.
type request struct {
	settings *Settings
	session  int64
	asker    Asker // the command itself, for answers that come later
	ids      []wire.ID
	r        *Result  // operations put Path, Stat, Data and Events there
	verdicts verdicts // of a multi, else nil
}

// write applies a client's write. From the moment that its number is accepted it takes a
// zxid, whether it succeeds or not.
func (m *Machine) write(h *BatchHeader, c *Command, r *Result) {
	r.Op = c.Op
	if !m.numbered(c, r) {
		return
	}
	m.nextZxid()
	q := request{&h.Settings, c.Session, Asker{c.Session, c.Epoch, c.Req}, c.IDs, r, nil}
	if c.Op == wire.OpMulti {
		r.Code = m.multi(&q, c.Body)
	} else {
		r.Code = m.single(&q, c.Op, c.Body)
	}
	if r.Code != wire.OK {
		r.Outcome = Failed
	}
}

// single applies a write that is not a multi. What cannot be decoded was refused before it
// got into the log, unless the server that let it in is of another opinion: then it fails
// here, on all servers alike.
func (m *Machine) single(q *request, op wire.OpCode, body []byte) wire.Code {
	d := newDecoder(body)
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		var req createRequest
		if req.decode(&d, op); d.Err() == nil {
			return m.create(q, op, &req)
		}
	case wire.OpDelete:
		var req wire.DeleteRequest
		if req.Decode(&d); d.Err() == nil {
			return m.delete(q, &req)
		}
	case wire.OpSetData:
		var req wire.SetDataRequest
		if req.Decode(&d); d.Err() == nil {
			return m.setData(q, &req)
		}
	case wire.OpSetACL:
		var req wire.SetACLRequest
		if req.Decode(&d); d.Err() == nil {
			return m.setACL(q, &req)
		}
	case wire.OpReconfig:
		var req reconfigRequest
		if req.decode(&d); d.Err() == nil {
			return m.reconfig(q, &req)
		}
	default:
		return wire.Unimplemented
	}
	return wire.MarshallingError
}

// newDecoder decodes without a limit on strings and buffers: that is a setting of the
// server that let the request in, and the other servers may have another one.
func newDecoder(body []byte) wire.Decoder {
	d := wire.NewDecoder(body)
	d.SetMaxLen(math.MaxInt32)
	return d
}

// allowed says whether the sender may do what perm says to the node.
func (m *Machine) allowed(q *request, n *znode.Node, perm int32) bool {
	return q.verdicts.mayDo(m, &q.settings.ACL, n, perm, q.ids)
}

// delete is opcode 2. The permission is asked of the parent; the node's own list does not
// matter.
func (m *Machine) delete(q *request, req *wire.DeleteRequest) wire.Code {
	parentPath, _, ok := znode.SplitPath(req.Path)
	if !ok || znode.Reserved(req.Path) {
		return wire.BadArguments
	}
	n := m.tree.Lookup(req.Path)
	parent := m.tree.Lookup(parentPath)
	switch {
	case parent == nil:
		return wire.NoNode
	case !m.allowed(q, parent, wire.PermDelete):
		return wire.NoAuth
	case n == nil:
		return wire.NoNode
	case req.Version != anyVersion && req.Version != n.Version():
		return wire.BadVersion
	case n.NumChildren() != 0:
		return wire.NotEmpty
	}
	m.remove(n, req.Path, q.r)
	return wire.OK
}

// anyVersion in a request matches every version.
const anyVersion int32 = -1

// remove deletes a node at the current zxid.
func (m *Machine) remove(n *znode.Node, path string, r *Result) {
	ref := n.ACL()
	r.Events = append(r.Events, Event{
		Type: wire.EventNodeDeleted, Path: path, Zxid: m.zxid,
		ACL: m.acls.List(ref), ParentACL: m.acls.List(m.tree.Parent(n).ACL()),
	})
	m.tree.Delete(n, m.zxid)
	m.release(ref)
}

// setData is opcode 5. ZooKeeper looks at the quota before it looks at the version.
func (m *Machine) setData(q *request, req *wire.SetDataRequest) wire.Code {
	if znode.CheckPath(req.Path) != nil {
		return wire.BadArguments
	}
	n := m.tree.Lookup(req.Path)
	if n == nil {
		return wire.NoNode
	}
	if !m.allowed(q, n, wire.PermWrite) {
		return wire.NoAuth
	}
	if code := m.quota(q, req.Path, 0, len(req.Data)-len(n.Data())); code != wire.OK {
		return code
	}
	if req.Version != anyVersion && req.Version != n.Version() {
		return wire.BadVersion
	}
	m.tree.SetData(n, req.Data, m.zxid, m.timeMs)
	q.r.Stat = n.Stat()
	q.r.Events = append(q.r.Events, Event{
		Type: wire.EventNodeDataChanged, Path: req.Path, Zxid: m.zxid, ACL: m.acls.List(n.ACL()),
	})
	return wire.OK
}

// quota says whether a change passes a hard limit, and notes what it passes otherwise.
func (m *Machine) quota(q *request, path string, addNodes, addBytes int) wire.Code {
	quota, ok := m.tree.QuotaOf(path)
	if !ok {
		return wire.OK
	}
	excess := quota.Excess(int64(addNodes), int64(addBytes))
	if excess.Hard && q.settings.EnforceQuota {
		q.r.Refused = path
		return wire.QuotaExceeded
	}
	if excess.Count || excess.Bytes {
		q.r.OverQuota = quota.Path
	}
	return wire.OK
}

// setACL is opcode 7. It fires no event.
func (m *Machine) setACL(q *request, req *wire.SetACLRequest) wire.Code {
	if znode.CheckPath(req.Path) != nil {
		return wire.BadArguments
	}
	list, code := acl.Expand(&q.settings.ACL, req.ACL, q.ids)
	if code != wire.OK {
		return code
	}
	n := m.tree.Lookup(req.Path)
	switch {
	case n == nil:
		return wire.NoNode
	case !m.allowed(q, n, wire.PermAdmin):
		return wire.NoAuth
	case req.Version != anyVersion && req.Version != n.Aversion():
		return wire.BadVersion
	}
	old := n.ACL()
	m.tree.SetACL(n, m.intern(list))
	m.release(old)
	q.r.Stat = n.Stat()
	return wire.OK
}

// reap deletes a container or TTL node that the leader has found to be due, unless it has
// been used meanwhile. The codes are those of ZooKeeper's deleteContainer.
func (m *Machine) reap(h *BatchHeader, c *Command, r *Result) {
	r.Op = wire.OpDeleteContainer
	m.nextZxid()
	n := m.tree.Lookup(c.Path)
	switch {
	case n == nil:
		r.Code = wire.NoNode
	case n.NumChildren() != 0:
		r.Code = wire.NotEmpty
	case !n.Due(m.timeMs, h.Settings.MaxNeverUsedMs):
		r.Code = wire.BadVersion
	default:
		if n.Kind() == znode.TTL {
			r.TTLReaped++
		}
		m.remove(n, c.Path, r)
		return
	}
	r.Outcome = Failed
}
