package state

import (
	"fmt"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// Import, done to a New machine that is nobody's yet: sessions first, then nodes with
// parents before children, then FinishImport. The result is written as a snapshot, which a
// new cluster starts from.

// ImportSession adds a session of another system, held by no connection.
func (m *Machine) ImportSession(id int64, password [session.PasswordSize]byte, timeoutMs int32) error {
	if !session.ValidID(id) || m.sessions.Get(id) != nil {
		return fmt.Errorf("session %#x: the id is reserved or comes twice", uint64(id))
	}
	m.sessions.Create(id, password, timeoutMs, session.Origin{})
	return nil
}

// ImportNode adds a node of another system, or gives its content to a node that is there.
// An ephemeral node whose session was not imported is left out, as ZooKeeper does when it
// loads a snapshot; imported says so.
func (m *Machine) ImportNode(path string, data []byte, list []wire.ACL, p znode.Persisted) (imported bool, err error) {
	if p.Owner.Kind() == znode.Ephemeral && m.sessions.Get(p.Owner.Session()) == nil {
		return false, nil
	}
	old := acl.OpenRef
	if n := m.tree.Lookup(path); n != nil {
		old = n.ACL()
	}
	ref := m.acls.Intern(list)
	if _, err := m.tree.Import(path, data, ref, p); err != nil {
		m.acls.Release(ref)
		return false, err
	}
	m.acls.Release(old)
	return true, nil
}

// FinishImport sets the zxid and the time from which the machine goes on: not below what
// clients of the other system have seen, or they could not connect.
func (m *Machine) FinishImport(zxid, timeMs int64) {
	m.tree.RefreshQuotas()
	m.zxid = max(m.zxid, zxid)
	m.timeMs = max(m.timeMs, timeMs)
}
