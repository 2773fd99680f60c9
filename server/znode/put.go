package znode

import (
	"strings"

	"github.com/zkd-project/zkd/server/acl"
)

// What a restore of a backup needs: to give nodes content and stat from elsewhere, in a tree
// that serves, and beside a snapshot of it. The caller keeps the counts of references, and calls
// RefreshQuotas at the end.

// WalkFrom is Walk of the node at path and of what is below it; nothing if there is no node.
func (t *Tree) WalkFrom(path string, f func(path string, n *Node) bool) {
	if n := t.Lookup(path); n != nil {
		t.walk(path, n, f)
	}
}

// PutChild makes a child of parent with that stat. The name must be valid and free, and the
// parent not ephemeral. The parent's counters do not change: see Raise.
func (t *Tree) PutChild(parent *Node, name string, data []byte, ref acl.Ref, s Persisted) *Node {
	n := t.alloc(t.epoch)
	n.nameLen = uint32(len(name))
	n.setText(name, data)
	n.setPersisted(ref, s)
	t.plant(n, parent)
	t.journalCreate(n)
	return n
}

// Put gives a node that exists other data, list and stat. A node with children, or a reserved
// one, must not become ephemeral.
func (t *Tree) Put(n *Node, data []byte, ref acl.Ref, s Persisted) {
	created := n.created()
	t.importOver(n, data, ref, s)
	t.Raise(n, created, 0)
}

// Raise lets neither the number of children ever created nor the pzxid of n be below these. The
// numbers of sequential nodes, once given, so stay behind.
func (t *Tree) Raise(n *Node, created, pzxid int64) {
	if created <= n.created() && pzxid <= n.pzxid() {
		return
	}
	t.change(n)
	d := n.needDir()
	d.created, d.pzxid = max(d.created, created), max(d.pzxid, pzxid)
	t.changed(n)
}

// Created is the number of children ever created.
func (n *Node) Created() int64 { return n.created() }

// NextVersion is the version of data or ACL after a change of one with version v.
func NextVersion(v int32) int32 { return nextVersion(v) }

// ValidOwner says whether o is one of the forms that an owner can have.
func ValidOwner(o Owner) bool { return o.valid() }

// IsUsage says whether path is that of a node that holds the usage of a quota, which the tree
// writes itself.
func IsUsage(path string) bool {
	_, ok := quotaTarget(path)
	return ok && strings.HasSuffix(path, "/"+statsName)
}

// BytesBelow is the number of bytes of data of all nodes below n.
func (t *Tree) BytesBelow(n *Node) int64 {
	if n.dir == nil {
		return 0
	}
	return n.dir.bytes
}
