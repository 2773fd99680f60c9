package state

import (
	"bytes"
	"math"
	"unicode/utf8"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A createRequest is any of the four create requests.
type createRequest struct {
	path  string
	data  []byte
	acl   []wire.ACL
	flags int32
	ttlMs int64 // noTTL unless the operation is createTTL
}

// noTTL is what ZooKeeper takes for the ttl of a request that has none.
const noTTL = -1

// openACLBytes is the open list as nearly every create request carries it.
var openACLBytes = wire.AppendACLs(nil, acl.Open())

// decode decodes the request of op.
func (req *createRequest) decode(d *wire.Decoder, op wire.OpCode) {
	if !req.decodeOpen(d) {
		var full wire.CreateRequest // the other three begin like it
		full.Decode(d)
		req.path, req.data, req.acl, req.flags = full.Path, full.Data, full.ACL, full.Flags
	}
	req.ttlMs = noTTL
	if op == wire.OpCreateTTL {
		req.ttlMs = d.Int64()
	}
}

// decodeOpen decodes up to the flags if the list is the open one, without making it anew.
func (req *createRequest) decodeOpen(d *wire.Decoder) bool {
	fast := *d
	path, data := fast.StringBytes(), fast.Buffer()
	if path == nil || !utf8.Valid(path) || !bytes.HasPrefix(fast.Rest(), openACLBytes) {
		return false
	}
	fast.Reset(fast.Rest()[len(openACLBytes):])
	req.path, req.data, req.acl, req.flags = string(path), data, acl.Open(), fast.Int32()
	*d = fast
	return true
}

// create is opcodes 1, 15, 19 and 21. The order of the checks is that of
// PrepRequestProcessor.pRequest2TxnCreate in Apache ZooKeeper.
func (m *Machine) create(q *request, op wire.OpCode, req *createRequest) wire.Code {
	if code := checkMode(q.settings, op, req.flags, req.ttlMs); code != wire.OK {
		return code
	}
	parentPath, _, ok := znode.SplitPath(req.path)
	if !ok {
		return wire.BadArguments
	}
	list, code := acl.Expand(&q.settings.ACL, req.acl, q.ids)
	if code != wire.OK {
		return code
	}
	parent := m.tree.Lookup(parentPath)
	if parent == nil {
		return wire.NoNode
	}
	if !m.allowed(q, parent, wire.PermCreate) {
		return wire.NoAuth
	}
	path := req.path
	if isSequential(req.flags) {
		if path, ok = appendSequence(path, m.tree.NextSequence(parent)); !ok {
			return wire.BadArguments
		}
	}
	if znode.CheckPath(path) != nil {
		return wire.BadArguments
	}
	_, name, _ := znode.SplitPath(path)
	if path == "/" || m.tree.Child(parent, name) != nil {
		return wire.NodeExists
	}
	if parent.Kind() == znode.Ephemeral {
		return wire.NoChildrenForEphemerals
	}
	if code := m.quota(q, path, 1, len(req.data)); code != wire.OK {
		return code
	}
	m.addNode(q, op, req, parent, path, name, list)
	return wire.OK
}

// addNode makes the node that create has found to be allowed.
func (m *Machine) addNode(q *request, op wire.OpCode, req *createRequest, parent *znode.Node, path, name string, list []wire.ACL) {
	ref := m.intern(list)
	n := m.tree.CreateChild(parent, name, req.data, ref, ownerOf(op, req, q.session), m.zxid, m.timeMs)
	q.r.Path, q.r.Stat = path, n.Stat()
	if op == wire.OpCreateTTL {
		q.r.TTLCreated++
	}
	q.r.Events = append(q.r.Events, Event{
		Type: wire.EventNodeCreated, Path: path, Zxid: m.zxid,
		ACL: m.acls.List(ref), ParentACL: m.acls.List(parent.ACL()),
	})
}

// checkMode judges flags and ttl. ZooKeeper accepts a createTTL whose flags are not those
// of a TTL node if its ttl is negative, and dies of it when it applies it.
func checkMode(s *Settings, op wire.OpCode, flags int32, ttlMs int64) wire.Code {
	switch {
	case !knownFlags(flags):
		return wire.BadArguments
	case isTTL(flags) && !s.ExtendedTypes:
		return wire.Unimplemented
	case isTTL(flags) && (ttlMs < 1 || ttlMs > znode.MaxTTLMs):
		return wire.BadArguments // also a TTL mode outside of createTTL: ttl is noTTL then
	case !isTTL(flags) && (ttlMs >= 0 || op == wire.OpCreateTTL):
		return wire.BadArguments
	}
	return wire.OK
}

func knownFlags(flags int32) bool {
	return flags >= wire.FlagPersistent && flags <= wire.FlagPersistentSequentialTTL
}

func isTTL(flags int32) bool {
	return flags == wire.FlagPersistentTTL || flags == wire.FlagPersistentSequentialTTL
}

func isSequential(flags int32) bool {
	switch flags {
	case wire.FlagPersistentSequential, wire.FlagEphemeralSequential, wire.FlagPersistentSequentialTTL:
		return true
	}
	return false
}

// ownerOf says what kind of node a create makes. As in ZooKeeper the opcode decides: create
// and create2 with the flag of a container make an ordinary node, and createContainer makes
// a container whatever its flags.
func ownerOf(op wire.OpCode, req *createRequest, session int64) znode.Owner {
	switch {
	case op == wire.OpCreateContainer:
		return znode.ContainerOwner
	case op == wire.OpCreateTTL:
		return znode.TTLOwner(req.ttlMs)
	case req.flags == wire.FlagEphemeral || req.flags == wire.FlagEphemeralSequential:
		return znode.SessionOwner(session)
	}
	return znode.NoOwner
}

// sequenceDigits is the width of the suffix of a sequential node.
const sequenceDigits = 10

// maxSequence is the last number that is given. Clients parse ten digits into 32 bits;
// ZooKeeper's counter sticks here, and every further create fails with NodeExists or, with
// another prefix, gets a number that others have too. Here it fails with BadArguments,
// which every client knows and none retries; NodeExists would make recipes look for their
// own node. It concerns a directory under which 2^31 nodes were created: others must be
// named without a number, or the directory made anew.
const maxSequence = math.MaxInt32

// appendSequence appends the suffix; ok is false when the numbers are used up.
func appendSequence(path string, n int64) (string, bool) {
	if n > maxSequence {
		return path, false
	}
	var digits [sequenceDigits]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return path + string(digits[:]), true
}
