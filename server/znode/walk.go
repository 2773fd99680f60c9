package znode

import (
	"fmt"

	"github.com/zkd-project/zkd/server/acl"
)

// Walk calls f for every node until it returns false, parents before their children and
// siblings in order. f may change data, but no node may come or go.
func (t *Tree) Walk(f func(path string, n *Node) bool) {
	t.walk("/", t.Root(), f)
}

func (t *Tree) walk(path string, n *Node, f func(string, *Node) bool) bool {
	if !f(path, n) {
		return false
	}
	if path == "/" {
		path = ""
	}
	for _, name := range t.Children(n) {
		if !t.walk(path+"/"+name, t.child(n.index, name), f) {
			return false
		}
	}
	return true
}

// Import makes the node at path with that stat, or gives it to the node that is there. It
// is how a tree is built from ZooKeeper's files: neither the parent's counters nor quotas
// change (call RefreshQuotas at the end), and what breaks a rule is an error. Reserved
// nodes keep having no owner.
func (t *Tree) Import(path string, data []byte, ref acl.Ref, s Persisted) (*Node, error) {
	n := t.Lookup(path)
	switch {
	case !s.Owner.valid():
		return nil, fmt.Errorf("node %q has the owner %#x, which is no session, container or TTL mark", path, uint64(s.Owner))
	case n != nil && n.index <= reservedNodes && s.Owner != NoOwner:
		return nil, fmt.Errorf("reserved node %q must not have an owner", path)
	case n != nil && n.NumChildren() > 0 && s.Owner.Kind() == Ephemeral:
		return nil, fmt.Errorf("node %q cannot be ephemeral: it has children", path)
	}
	if n != nil {
		t.importOver(n, data, ref, s)
		return n, nil
	}
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	dirPath, name, _ := SplitPath(path)
	parent := t.Lookup(dirPath)
	if parent == nil {
		return nil, fmt.Errorf("node %q comes before its parent, or has none", path)
	}
	if parent.owner.Kind() == Ephemeral {
		return nil, fmt.Errorf("node %q is below an ephemeral node", path)
	}
	n = t.alloc(t.epoch)
	n.nameLen = uint32(len(name))
	n.setText(name, data)
	n.setPersisted(ref, s)
	t.plant(n, parent)
	t.journalCreate(n)
	return n, nil
}

func (t *Tree) importOver(n *Node, data []byte, ref acl.Ref, s Persisted) {
	t.change(n)
	t.removeFromSets(n)
	t.replaceData(n, data)
	n.setPersisted(ref, s)
	t.addToSets(n)
	t.changed(n)
}

func (n *Node) setPersisted(ref acl.Ref, s Persisted) {
	n.czxid, n.mzxid, n.ctimeMs, n.mtimeMs = s.Czxid, s.Mzxid, s.CtimeMs, s.MtimeMs
	n.version, n.aversion, n.owner, n.acl = s.Version, s.Aversion, s.Owner, ref
	if created := int64(uint32(s.Cversion)); n.dir != nil || created != 0 || s.Pzxid != s.Czxid {
		d := n.needDir()
		d.created, d.pzxid = created, s.Pzxid
	}
}
