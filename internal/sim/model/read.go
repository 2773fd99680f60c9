package model

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/wire"
)

// Reads append the body of their reply to b; only if the code is OK.

// lookup finds a node to read: "" is another name of the root, every other odd path is
// simply not there.
func (m *Model) lookup(path string) (string, node, bool) {
	if path == "" {
		path = "/"
	}
	n, ok := m.nodes[path]
	return path, n, ok
}

// readable finds a node and checks that the identities have one of the permissions.
func (m *Model) readable(path string, perm int32, ids []wire.ID) (string, node, wire.Code) {
	path, n, ok := m.lookup(path)
	if !ok {
		return path, n, wire.NoNode
	}
	if !allowed(&m.set.ACL, n.acl, perm, ids) {
		return path, n, wire.NoAuth
	}
	return path, n, wire.OK
}

// GetData is opcode 4.
func (m *Model) GetData(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	path, n, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	return putStat(putBuffer(b, n.data), m.nodes.stat(path)), wire.OK
}

// Exists is opcode 3.
func (m *Model) Exists(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	if strings.Contains(path, "\x00") {
		return b, wire.BadArguments
	}
	path, _, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	return putStat(b, m.nodes.stat(path)), wire.OK
}

// GetACL is opcode 6.
func (m *Model) GetACL(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	path, n, code := m.readable(path, wire.PermRead|wire.PermAdmin, ids)
	if code != wire.OK {
		return b, code
	}
	list := n.acl
	if !allowed(&m.set.ACL, list, wire.PermAdmin, ids) {
		list = redact(list)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, a := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(a.Perms))
		b = putBuffer(b, []byte(a.ID.Scheme))
		b = putBuffer(b, []byte(a.ID.ID))
	}
	return putStat(b, m.nodes.stat(path)), wire.OK
}

// GetChildren is opcode 8, with a stat opcode 12.
func (m *Model) GetChildren(b []byte, path string, withStat bool, ids []wire.ID) ([]byte, wire.Code) {
	path, _, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	b = putStrings(b, m.childNames(path))
	if withStat {
		b = putStat(b, m.nodes.stat(path))
	}
	return b, wire.OK
}

func (m *Model) childNames(path string) []string {
	var names []string
	for _, p := range m.nodes.childPaths(path) {
		names = append(names, p[strings.LastIndexByte(p, '/')+1:])
	}
	slices.Sort(names)
	return names
}

// GetAllChildrenNumber is opcode 104.
func (m *Model) GetAllChildrenNumber(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	path, _, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	var count uint32
	for other := range m.nodes {
		if other != path && isUnder(other, path) {
			count++
		}
	}
	return binary.BigEndian.AppendUint32(b, count), wire.OK
}

// Ephemerals lists the ephemeral nodes of a session that begin with prefix, sorted
// (opcode 103); an empty or blank prefix and "/" mean all.
func (m *Model) Ephemerals(id int64, prefix string) []string {
	var list []string
	if strings.TrimSpace(prefix) == "" {
		prefix = "/"
	}
	for _, path := range m.nodes.ephemerals(id) {
		if strings.HasPrefix(path, prefix) {
			list = append(list, path)
		}
	}
	return list
}

func putBuffer(b, data []byte) []byte {
	if data == nil {
		return append(b, 0xff, 0xff, 0xff, 0xff)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

func putStrings(b []byte, list []string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, s := range list {
		b = putBuffer(b, []byte(s))
	}
	return b
}

func putStat(b []byte, s wire.Stat) []byte {
	put32 := func(v int32) { b = binary.BigEndian.AppendUint32(b, uint32(v)) }
	put64 := func(v int64) { b = binary.BigEndian.AppendUint64(b, uint64(v)) }
	put64(s.Czxid)
	put64(s.Mzxid)
	put64(s.CtimeMs)
	put64(s.MtimeMs)
	put32(s.Version)
	put32(s.Cversion)
	put32(s.Aversion)
	put64(s.EphemeralOwner)
	put32(s.DataLength)
	put32(s.NumChildren)
	put64(s.Pzxid)
	return b
}

// AppendStrings appends a vector of strings as a reply has it.
func AppendStrings(b []byte, list []string) []byte { return putStrings(b, list) }

// MultiRead is opcode 22: getData and getChildren, each with a result or a code of its own.
func (m *Model) MultiRead(b, body []byte, ids []wire.ID) ([]byte, wire.Code) {
	start := len(b)
	r := reader{b: body}
	for {
		op, done := wire.OpCode(r.int32()), r.bool()
		r.int32()
		if done {
			return putMultiHeader(b, wire.OpError, true, -1), wire.OK
		}
		path := r.path()
		r.bool() // a watch is never set
		var result []byte
		var code wire.Code
		switch {
		case r.bad:
			return b[:start], wire.MarshallingError
		case op == wire.OpGetData:
			result, code = m.GetData(nil, path, ids)
		case op == wire.OpGetChildren:
			result, code = m.GetChildren(nil, path, false, ids)
		default:
			return b[:start], wire.MarshallingError
		}
		if code != wire.OK {
			b = putMultiHeader(b, wire.OpError, false, code)
			b = binary.BigEndian.AppendUint32(b, uint32(code))
			continue
		}
		b = append(putMultiHeader(b, op, false, wire.OK), result...)
	}
}

// A WatchList is one of the lists of setWatches2.
type WatchList int

// The lists.
const (
	DataWatches WatchList = iota
	ExistWatches
	ChildWatches
	PersistentWatches
	RecursiveWatches
)

// Rewatched is what becomes of one path of setWatches2: it fires at once, or (Fires is 0)
// it is registered again.
type Rewatched struct {
	List  WatchList
	Path  string
	Fires wire.EventType
}

// Rewatch is opcodes 101 and 105.
func (m *Model) Rewatch(req *wire.SetWatches2) []Rewatched {
	var out []Rewatched
	for _, path := range req.DataWatches {
		_, n, ok := m.lookup(path)
		w := Rewatched{List: DataWatches, Path: path}
		switch {
		case !ok:
			w.Fires = wire.EventNodeDeleted
		case n.mzxid > req.RelativeZxid:
			w.Fires = wire.EventNodeDataChanged
		}
		out = append(out, w)
	}
	for _, path := range req.ExistWatches {
		w := Rewatched{List: ExistWatches, Path: path}
		if _, _, ok := m.lookup(path); ok {
			w.Fires = wire.EventNodeCreated
		}
		out = append(out, w)
	}
	for _, path := range req.ChildWatches {
		_, n, ok := m.lookup(path)
		w := Rewatched{List: ChildWatches, Path: path}
		switch {
		case !ok:
			w.Fires = wire.EventNodeDeleted
		case n.pzxid > req.RelativeZxid:
			w.Fires = wire.EventNodeChildrenChanged
		}
		out = append(out, w)
	}
	for _, path := range req.PersistentWatches {
		out = append(out, Rewatched{List: PersistentWatches, Path: path})
	}
	for _, path := range req.PersistentRecursiveWatches {
		out = append(out, Rewatched{List: RecursiveWatches, Path: path})
	}
	return out
}
