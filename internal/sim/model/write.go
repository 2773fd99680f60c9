package model

import (
	"fmt"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// maxTTLMs is the largest TTL that fits the 40 bits of the marker.
const maxTTLMs = 0xffffffffff

// maxSequence is the number of sequential names that a parent can give: beyond it the
// ten digits would no longer be an int in a client. What comes then is the project's own
// decision, since ZooKeeper gives the same name for ever.
const maxSequence = 1 << 31

const sequenceExhausted = wire.BadArguments

// txn is one transaction while it is carried out: a scratch copy of the tree, and what
// comes out.
type txn struct {
	nodes   tree
	zxid    int64
	nowMs   int64
	set     *state.Settings
	session int64
	ids     []wire.ID
	events  []state.Event
}

// begin opens a transaction on a copy of the tree and takes a zxid for it.
func (m *Model) begin(c *state.Command) *txn {
	return &txn{
		nodes: m.nodes.clone(), zxid: m.nextZxid(), nowMs: m.nowMs,
		set: &m.set, session: c.Session, ids: c.IDs,
	}
}

// write runs a client's write. A request that is not the next one of its connection takes
// no zxid; every other one does, even if it cannot be decoded.
func (m *Model) write(c *state.Command) state.Result {
	if outcome, ok := m.admit(c); !ok {
		return outcome
	}
	if c.Op == wire.OpMulti {
		return m.multi(c)
	}
	t := m.begin(c)
	r := state.Result{Op: c.Op}
	rd := reader{b: c.Body}
	o, known := rd.op(c.Op)
	switch {
	case c.Op == wire.OpReconfig:
		r.Code = m.reconfig(t, c, &rd, &r)
	case !known || c.Op == wire.OpCheck:
		r.Code = wire.Unimplemented
	case rd.bad:
		r.Code = wire.MarshallingError
	default:
		r.Path, r.Stat, r.Code = t.run(o)
	}
	if r.Code != wire.OK {
		r.Outcome = state.Failed
		return r
	}
	m.nodes = t.nodes
	r.Events = t.events
	return r
}

// multi applies all operations or none. The reply of a failed one is OK with a code for
// every operation: 0 before the failing one, its own, and RuntimeInconsistency after it.
func (m *Model) multi(c *state.Command) state.Result {
	t := m.begin(c)
	r := state.Result{Op: wire.OpMulti}
	rd := reader{b: c.Body}
	ops := rd.multi()
	if rd.bad {
		r.Outcome, r.Code = state.Failed, wire.MarshallingError
		return r
	}
	for i, o := range ops {
		path, stat, code := t.run(o)
		if code != wire.OK {
			r.Outcome, r.Multi = state.Failed, failedMulti(len(ops), i, code)
			return r
		}
		r.Multi = append(r.Multi, wire.MultiResult{Op: resultType(o.code), Path: path, Stat: stat})
	}
	m.nodes = t.nodes
	r.Events = t.events
	return r
}

func failedMulti(n, failed int, code wire.Code) []wire.MultiResult {
	list := make([]wire.MultiResult, n)
	for i := range list {
		list[i].Op = wire.OpError
		switch {
		case i == failed:
			list[i].Code = code
		case i > failed:
			list[i].Code = wire.RuntimeInconsistency
		}
	}
	return list
}

// resultType is the header type of an operation's result inside a multi.
func resultType(code wire.OpCode) wire.OpCode {
	if code == wire.OpCreateContainer || code == wire.OpCreateTTL {
		return wire.OpCreate2
	}
	return code
}

// run carries out one operation; nothing has changed unless the code is OK.
func (t *txn) run(o op) (path string, stat wire.Stat, code wire.Code) {
	switch o.code {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		path, code = t.create(o)
		if code == wire.OK {
			stat = t.nodes.stat(path)
		}
		return path, stat, code
	case wire.OpDelete:
		return "", stat, t.delete(o)
	case wire.OpSetData:
		code = t.setData(o)
	case wire.OpSetACL:
		code = t.setACL(o)
	case wire.OpCheck:
		return "", stat, t.check(o)
	default:
		panic("model: not an operation: " + o.code.String())
	}
	if code == wire.OK {
		stat = t.nodes.stat(o.path)
	}
	return "", stat, code
}

func knownFlags(flags int32) bool {
	return flags >= wire.FlagPersistent && flags <= wire.FlagPersistentSequentialTTL
}

// checkMode judges flags and ttl, the first checks of a create.
func (t *txn) checkMode(o op) wire.Code {
	if !knownFlags(o.flags) {
		return wire.BadArguments
	}
	isTTL := o.flags == wire.FlagPersistentTTL || o.flags == wire.FlagPersistentSequentialTTL
	if isTTL && !t.set.ExtendedTypes {
		return wire.Unimplemented
	}
	if isTTL && (o.ttlMs < 1 || o.ttlMs > maxTTLMs) {
		return wire.BadArguments
	}
	if !isTTL && (o.ttlMs >= 0 || o.code == wire.OpCreateTTL) {
		return wire.BadArguments
	}
	return wire.OK
}

// create makes a node and returns its actual path. The order of the checks is the order
// in which a client learns of its mistakes.
func (t *txn) create(o op) (string, wire.Code) {
	if code := t.checkMode(o); code != wire.OK {
		return "", code
	}
	if !plausiblePath(o.path) {
		return "", wire.BadArguments
	}
	acl, ok := expand(&t.set.ACL, o.acl, t.ids)
	if !ok {
		return "", wire.InvalidACL
	}
	parentPath := parentOf(o.path)
	parent, ok := t.nodes[parentPath]
	if !ok {
		return "", wire.NoNode
	}
	if !allowed(&t.set.ACL, parent.acl, wire.PermCreate, t.ids) {
		return "", wire.NoAuth
	}
	path := o.path
	switch o.flags {
	case wire.FlagPersistentSequential, wire.FlagEphemeralSequential, wire.FlagPersistentSequentialTTL:
		if parent.created >= maxSequence {
			return "", sequenceExhausted
		}
		path = fmt.Sprintf("%s%010d", o.path, parent.created)
	}
	if !validPath(path) {
		return "", wire.BadArguments
	}
	if _, exists := t.nodes[path]; exists {
		return "", wire.NodeExists
	}
	if parent.owner != 0 {
		return "", wire.NoChildrenForEphemerals
	}
	if !t.quotaAllows(path, 1, int64(len(o.data))) {
		return "", wire.QuotaExceeded
	}
	t.add(path, parentPath, o, acl)
	return path, wire.OK
}

// add carries out a create that has passed its checks.
func (t *txn) add(path, parentPath string, o op, acl []wire.ACL) {
	n := node{
		data: o.data, acl: acl,
		czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctimeMs: t.nowMs, mtimeMs: t.nowMs,
	}
	switch {
	case o.code == wire.OpCreateContainer:
		n.isContainer = true // whatever the flags say
	case o.code == wire.OpCreateTTL:
		n.ttlMs = o.ttlMs
	case o.flags == wire.FlagEphemeral || o.flags == wire.FlagEphemeralSequential:
		n.owner = t.session
	}
	t.nodes[path] = n
	parent := t.nodes[parentPath]
	parent.created++
	parent.pzxid = t.zxid
	t.nodes[parentPath] = parent
	t.quotaCreated(path)
	t.quotaChanged(path, 1, int64(len(o.data)))
	t.event(wire.EventNodeCreated, path, n.acl)
}

func (t *txn) delete(o op) wire.Code {
	switch o.path {
	case "/", reservedZookeeper, reservedQuota, reservedConfig:
		return wire.BadArguments
	}
	if !plausiblePath(o.path) {
		return wire.BadArguments
	}
	parent, ok := t.nodes[parentOf(o.path)]
	if !ok {
		return wire.NoNode
	}
	if !allowed(&t.set.ACL, parent.acl, wire.PermDelete, t.ids) {
		return wire.NoAuth
	}
	n, ok := t.nodes[o.path]
	if !ok {
		return wire.NoNode
	}
	if o.version != -1 && o.version != n.version {
		return wire.BadVersion
	}
	if t.nodes.children(o.path) > 0 {
		return wire.NotEmpty
	}
	t.remove(o.path)
	return wire.OK
}

// remove carries out a delete that has passed its checks. The parent's counter of created
// children stays: the visible cversion grows because there is one child less.
func (t *txn) remove(path string) {
	n := t.nodes[path]
	parentPath := parentOf(path)
	delete(t.nodes, path)
	parent := t.nodes[parentPath]
	parent.pzxid = t.zxid
	t.nodes[parentPath] = parent
	t.quotaChanged(path, -1, -int64(len(n.data)))
	t.event(wire.EventNodeDeleted, path, n.acl)
}

func (t *txn) setData(o op) wire.Code {
	if !validPath(o.path) {
		return wire.BadArguments
	}
	n, ok := t.nodes[o.path]
	if !ok {
		return wire.NoNode
	}
	if !allowed(&t.set.ACL, n.acl, wire.PermWrite, t.ids) {
		return wire.NoAuth
	}
	diff := int64(len(o.data)) - int64(len(n.data))
	if !t.quotaAllows(o.path, 0, diff) {
		return wire.QuotaExceeded
	}
	if o.version != -1 && o.version != n.version {
		return wire.BadVersion
	}
	n.data, n.mzxid, n.mtimeMs = o.data, t.zxid, t.nowMs
	n.version++
	t.nodes[o.path] = n
	t.quotaChanged(o.path, 0, diff)
	t.event(wire.EventNodeDataChanged, o.path, n.acl)
	return wire.OK
}

func (t *txn) setACL(o op) wire.Code {
	if !validPath(o.path) {
		return wire.BadArguments
	}
	acl, ok := expand(&t.set.ACL, o.acl, t.ids)
	if !ok {
		return wire.InvalidACL
	}
	n, ok := t.nodes[o.path]
	if !ok {
		return wire.NoNode
	}
	if !allowed(&t.set.ACL, n.acl, wire.PermAdmin, t.ids) {
		return wire.NoAuth
	}
	if o.version != -1 && o.version != n.aversion {
		return wire.BadVersion
	}
	n.acl = acl
	n.aversion++
	t.nodes[o.path] = n
	return wire.OK // no event: nobody can watch an ACL
}

func (t *txn) check(o op) wire.Code {
	if !validPath(o.path) {
		return wire.BadArguments
	}
	n, ok := t.nodes[o.path]
	if !ok {
		return wire.NoNode
	}
	if !allowed(&t.set.ACL, n.acl, wire.PermRead, t.ids) {
		return wire.NoAuth
	}
	if o.version != -1 && o.version != n.version {
		return wire.BadVersion
	}
	return wire.OK
}

func (t *txn) event(typ wire.EventType, path string, acl []wire.ACL) {
	e := state.Event{Type: typ, Path: path, Zxid: t.zxid, ACL: acl}
	if path != "/" {
		e.ParentACL = t.nodes[parentOf(path)].acl
	}
	t.events = append(t.events, e)
}
