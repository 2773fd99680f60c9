package state

import (
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// MaxMultiOps is how many operations a multi or multiRead may have. A frame of the default
// size holds fewer; the limit bounds memory where frames may be larger. It is part of what
// commands mean: changing it takes a new feature level.
const MaxMultiOps = 1 << 16

// decodeMulti decodes a multi. Since ZooKeeper 3.9 flags that mean nothing make the whole
// request undecodable, not one operation bad.
func decodeMulti(body []byte) ([]wire.MultiOp, wire.Code) {
	d := newDecoder(body)
	ops, err := wire.DecodeMulti(&d, wire.IsMultiWrite, MaxMultiOps)
	if err != nil {
		return nil, wire.MarshallingError
	}
	for i := range ops {
		// The flags of the record that does not count are zero.
		if !knownFlags(ops[i].Create.Flags) || !knownFlags(ops[i].CreateTTL.Flags) {
			return nil, wire.MarshallingError
		}
	}
	return ops, wire.OK
}

// multi is opcode 14: all operations at one zxid, each on the state that those before it
// left, or none. The tree keeps a journal meanwhile; nobody reads before Apply is done.
// That goes for quotas too: ZooKeeper compares each operation with the usage before the
// multi, so that one multi can pass a hard limit, and cannot use the room that it makes.
// The code is that of the reply header: OK also for a multi that failed.
func (m *Machine) multi(q *request, body []byte) wire.Code {
	ops, code := decodeMulti(body)
	if code != wire.OK {
		return code
	}
	m.begin()
	q.verdicts = verdicts{}
	for i := range ops {
		if code := m.sub(q, &ops[i]); code != wire.OK {
			m.rollback()
			q.r.failMulti(i, len(ops), code)
			return wire.OK
		}
	}
	m.commit()
	q.r.Path, q.r.Stat = "", wire.Stat{}
	return wire.OK
}

// sub applies one operation of a multi and appends its result.
func (m *Machine) sub(q *request, op *wire.MultiOp) wire.Code {
	result := wire.MultiResult{Op: op.Op}
	var code wire.Code
	switch op.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer:
		c := &op.Create
		code = m.create(q, op.Op, &createRequest{c.Path, c.Data, c.ACL, c.Flags, noTTL})
		result.Path, result.Stat = q.r.Path, q.r.Stat
		if op.Op != wire.OpCreate {
			result.Op = wire.OpCreate2
		}
	case wire.OpCreateTTL:
		c := &op.CreateTTL
		code = m.create(q, op.Op, &createRequest{c.Path, c.Data, c.ACL, c.Flags, c.TTLMs})
		result.Path, result.Stat = q.r.Path, q.r.Stat
		result.Op = wire.OpCreate2
	case wire.OpDelete:
		code = m.delete(q, &op.Delete)
	case wire.OpSetData:
		code = m.setData(q, &op.SetData)
		result.Stat = q.r.Stat
	case wire.OpCheck:
		code = m.check(q, &op.Check)
	}
	q.r.Multi = append(q.r.Multi, result)
	return code
}

// check is opcode 13, which exists only inside a multi.
func (m *Machine) check(q *request, req *wire.CheckRequest) wire.Code {
	if znode.CheckPath(req.Path) != nil {
		return wire.BadArguments
	}
	n := m.tree.Lookup(req.Path)
	switch {
	case n == nil:
		return wire.NoNode
	case !m.allowed(q, n, wire.PermRead):
		return wire.NoAuth
	case req.Version != anyVersion && req.Version != n.Version():
		return wire.BadVersion
	}
	return wire.OK
}

// failMulti replaces the results by those of a multi of n operations of which the one at
// index failed has failed: OK before it, RuntimeInconsistency after it.
func (r *Result) failMulti(failed, n int, code wire.Code) {
	clear(r.Events)
	*r = Result{Outcome: Failed, Op: r.Op, Multi: r.Multi[:0], Events: r.Events[:0], Refused: r.Refused}
	for i := range n {
		result := wire.MultiResult{Op: wire.OpError}
		switch {
		case i == failed:
			result.Code = code
		case i > failed:
			result.Code = wire.RuntimeInconsistency
		}
		r.Multi = append(r.Multi, result)
	}
}

// begin, commit and rollback frame a multi. The tree undoes its own changes; references to
// lists are taken at once and given back when the outcome is known, so that a list never
// disappears while the journal may bring a node with it back.
func (m *Machine) begin() {
	m.tree.Begin()
	m.inMulti = true
}

func (m *Machine) commit() {
	m.tree.Commit()
	m.endMulti(m.released)
}

func (m *Machine) rollback() {
	m.tree.Rollback()
	m.endMulti(m.interned)
}

func (m *Machine) endMulti(surplus []acl.Ref) {
	for _, ref := range surplus {
		m.acls.Release(ref)
	}
	m.inMulti, m.interned, m.released = false, m.interned[:0], m.released[:0]
}

// intern takes a reference to a list for a node.
func (m *Machine) intern(list []wire.ACL) acl.Ref {
	ref := m.acls.Intern(list)
	if m.inMulti {
		m.interned = append(m.interned, ref)
	}
	return ref
}

// release gives the reference of a node back.
func (m *Machine) release(ref acl.Ref) {
	if m.inMulti {
		m.released = append(m.released, ref)
		return
	}
	m.acls.Release(ref)
}
