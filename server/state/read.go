package state

import (
	"strings"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// The reads. Each appends the record that follows the reply header to b, and returns b as
// it was unless the code is OK. Paths are not checked: an odd one is not found, and "" is
// the root, as in ZooKeeper. ids are the identities of the connection when the request was
// received.

// readable finds a node that the caller may read.
func (m *Machine) readable(path string, perm int32, ids []wire.ID) (*znode.Node, wire.Code) {
	return m.readableBy(nil, path, perm, ids)
}

// readableBy is readable for one of many operations.
func (m *Machine) readableBy(v verdicts, path string, perm int32, ids []wire.ID) (*znode.Node, wire.Code) {
	n := m.tree.Lookup(path)
	switch {
	case n == nil:
		return nil, wire.NoNode
	case !v.mayDo(m, &m.settings.ACL, n, perm, ids):
		return nil, wire.NoAuth
	}
	return n, wire.OK
}

// May says whether the caller may do what perm says to a node; false if there is none.
func (m *Machine) May(path string, perm int32, ids []wire.ID) bool {
	_, code := m.readable(path, perm, ids)
	return code == wire.OK
}

// GetData is opcode 4: data and Stat.
func (m *Machine) GetData(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	n, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	return appendData(b, n), wire.OK
}

func appendData(b []byte, n *znode.Node) []byte {
	st := n.Stat()
	return st.Append(wire.AppendBuffer(b, n.Data()))
}

// Exists is opcode 3: the Stat. A caller that asked for a watch gets it also with NoNode.
func (m *Machine) Exists(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	if strings.IndexByte(path, 0) >= 0 {
		return b, wire.BadArguments
	}
	n, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	st := n.Stat()
	return st.Append(b), wire.OK
}

// GetACL is opcode 6: the list and the Stat. Who may read but not administer the node does
// not see the hashes of passwords.
func (m *Machine) GetACL(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	n, code := m.readable(path, wire.PermRead|wire.PermAdmin, ids)
	if code != wire.OK {
		return b, code
	}
	list := m.acls.List(n.ACL())
	if !verdicts(nil).mayDo(m, &m.settings.ACL, n, wire.PermAdmin, ids) {
		list = acl.Redact(list)
	}
	st := n.Stat()
	return st.Append(wire.AppendACLs(b, list)), wire.OK
}

// GetChildren is opcode 8: the names of the children, sorted.
func (m *Machine) GetChildren(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	n, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	return wire.AppendStrings(b, m.tree.Children(n)), wire.OK
}

// GetChildren2 is opcode 12: the names of the children, sorted, and the Stat.
func (m *Machine) GetChildren2(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	n, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	st := n.Stat()
	return st.Append(wire.AppendStrings(b, m.tree.Children(n))), wire.OK
}

// GetAllChildrenNumber is opcode 104: the number of nodes below, at any depth.
func (m *Machine) GetAllChildrenNumber(b []byte, path string, ids []wire.ID) ([]byte, wire.Code) {
	n, code := m.readable(path, wire.PermRead, ids)
	if code != wire.OK {
		return b, code
	}
	return wire.AppendInt32(b, int32(m.tree.Descendants(n))), wire.OK
}

// GetEphemerals is opcode 103: the paths of the session's ephemeral nodes that start with
// prefix, sorted. A blank prefix and "/" mean all.
func (m *Machine) GetEphemerals(b []byte, session int64, prefix string) ([]byte, wire.Code) {
	if strings.TrimSpace(prefix) == "" {
		prefix = ""
	}
	return wire.AppendStrings(b, m.tree.Ephemerals(session, prefix)), wire.OK
}

// MultiRead is opcode 22: any number of getData and getChildren on one state of the tree.
// body is the request. Each has a result of its own; the code is not OK only if the request
// cannot be decoded, or if the reply would be longer than maxBytes, which no client takes.
func (m *Machine) MultiRead(b []byte, body []byte, ids []wire.ID, maxBytes int) ([]byte, wire.Code) {
	d := newDecoder(body)
	ops, err := wire.DecodeMulti(&d, wire.IsMultiRead, MaxMultiOps)
	if err != nil {
		return b, wire.MarshallingError
	}
	start := len(b)
	v := verdicts{}
	for i := range ops {
		if b = m.appendSubRead(b, &ops[i], v, ids); len(b)-start > maxBytes {
			return b[:start], wire.MarshallingError
		}
	}
	return wire.AppendMultiEnd(b), wire.OK
}

// appendSubRead appends the result of one operation of a multiRead.
func (m *Machine) appendSubRead(b []byte, op *wire.MultiOp, v verdicts, ids []wire.ID) []byte {
	n, code := m.readableBy(v, op.Path.Path, wire.PermRead, ids)
	if code != wire.OK {
		failed := wire.MultiResult{Op: wire.OpError, Code: code}
		return failed.Append(b)
	}
	header := wire.MultiHeader{Op: op.Op}
	b = header.Append(b)
	if op.Op == wire.OpGetData {
		return appendData(b, n)
	}
	return wire.AppendStrings(b, m.tree.Children(n))
}
