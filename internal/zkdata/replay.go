package zkdata

import (
	"bytes"

	"github.com/zkd-project/zkd/server/znode"
)

// Apply applies a transaction, as ZooKeeper does when it starts (DataTree.processTxn): what it
// would change may have been changed already, when the snapshot was written while the
// transaction took effect.
func (db *Database) Apply(t *Txn) {
	db.Zxid, db.TimeMs = t.Zxid, max(db.TimeMs, t.TimeMs)
	switch {
	case t.Digest != nil:
		db.noted = t.Digest
	case t.Type != Failed && db.noted != nil && db.noted.Zxid < t.Zxid:
		db.noted = nil // digests were switched off: the noted one is that of an older tree
	}
	switch t.Type {
	case CreateSession:
		db.Sessions[t.Session] = t.TimeoutMs
	case CloseSession:
		for _, path := range t.Paths {
			db.remove(path, t.Zxid)
		}
		db.CloseSession(t.Session, t.Zxid)
	case Multi:
		for i := range t.Ops {
			if t.Ops[i].Type == Failed {
				return
			}
		}
		for i := range t.Ops {
			db.change(&t.Ops[i], t)
		}
	default:
		db.change(t, t)
	}
}

// change applies one operation of the transaction h.
func (db *Database) change(op, h *Txn) {
	path := internal(op.Path)
	switch op.Type {
	case Create, Create2, CreateContainer, CreateTTL:
		db.create(path, op, h)
	case Delete, DeleteContainer:
		db.remove(path, h.Zxid)
	case SetData, Reconfig:
		if n := db.nodes[path]; n != nil {
			n.Data = bytes.Clone(op.Data)
			n.Stat.Version, n.Stat.Mzxid, n.Stat.MtimeMs = op.Version, h.Zxid, h.TimeMs
		}
	case SetACL:
		if n := db.nodes[path]; n != nil {
			n.ACL, n.noACL = op.ACL, false
			n.Stat.Aversion = op.Version
		}
	}
}

func (db *Database) create(path string, op, h *Txn) {
	dir, _ := split(path)
	parent := db.nodes[dir]
	if parent == nil || path == "" || path[0] != '/' {
		return
	}
	cversion := op.ParentCversion
	if cversion == -1 {
		cversion = parent.Stat.Cversion + 1
	}
	if cversion > parent.Stat.Cversion { // also where the node is there: its parent may be older
		parent.Stat.Cversion, parent.Stat.Pzxid = cversion, h.Zxid
	}
	if old := db.nodes[path]; old != nil {
		if old.noACL && old.Stat.Czxid == h.Zxid {
			old.ACL, old.noACL = op.ACL, false
		}
		return
	}
	n := &Node{Data: bytes.Clone(op.Data), ACL: op.ACL}
	n.Stat = znode.Persisted{Czxid: h.Zxid, Mzxid: h.Zxid, Pzxid: h.Zxid, CtimeMs: h.TimeMs, MtimeMs: h.TimeMs}
	switch {
	case op.Type == CreateContainer:
		n.Stat.Owner = znode.ContainerOwner
	case op.Type == CreateTTL:
		n.Stat.Owner = znode.TTLOwner(op.TTLMs)
	case op.Ephemeral:
		n.Stat.Owner = znode.SessionOwner(h.Session)
	}
	db.mustPut(path, n)
}
