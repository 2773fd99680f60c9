package state

import (
	"bytes"
	"encoding/binary"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A restore is a write like others: it makes the tree, or a part of it, what it was, by deleting
// what the backup does not have, creating what is missing and changing what differs, all at
// one zxid, which is above all that were. Who watches hears of each change.
//
//   - What is as in the backup stays untouched.
//   - No zxid, no version and no counter of children falls: a client that holds one from before
//     the restore, for a conditional write or as a fencing token, never finds it meaning something
//     else. A node that is created gets the zxid of the restore, its versions and its times from the
//     backup; a TTL begins anew.
//   - Ephemeral nodes belong to the sessions that live now. Those of the backup do not come back,
//     also if their session lives: its client may have deleted them. Those that exist stay, unless
//     the backup has another node in their place, or no parent for them.
//   - Sessions, members and /zookeeper/config are not touched.

// commitRestore ends a restore. Its nodes were judged when they came (invariant M6), so from the
// moment at which the sums and the place are found right nothing can fail.
func (m *Machine) commitRestore(c *Command, r *Result) {
	s := m.restores.now
	if s == nil || s.id != c.Target {
		r.Outcome = Stale
		return
	}
	m.nextZxid()
	end := &Restored{ID: s.id, Path: s.path, Zxid: m.zxid, TimeMs: m.timeMs, Code: m.judgeCommit(s, c)}
	m.restores = &restores{last: end}
	if end.Code != wire.OK {
		r.Outcome, r.Code = Failed, end.Code
		return
	}
	j := &restoreJob{m: m, s: s, r: r, end: end, differs: make([]uint64, s.nodes/64+1)}
	if j.prune() {
		j.fill()
	}
	if end.Created+end.Changed+end.Deleted > 0 {
		m.tree.RefreshQuotas()
	}
}

// judgeCommit says whether all has come, and there is a place for it.
func (m *Machine) judgeCommit(s *staging, c *Command) wire.Code {
	if len(c.Body) != 8 || binary.BigEndian.Uint64(c.Body) != s.sum || c.Req != s.nodes || s.nodes == 0 {
		return wire.BadArguments
	}
	if s.path == "/" {
		return wire.OK
	}
	parentPath, _, _ := znode.SplitPath(s.path)
	switch parent := m.tree.Lookup(parentPath); {
	case parent == nil:
		return wire.NoNode
	case parent.Kind() == znode.Ephemeral:
		return wire.NoChildrenForEphemerals
	}
	return wire.OK
}

// A restoreJob is the commit of a restore.
type restoreJob struct {
	m       *Machine
	s       *staging
	r       *Result
	end     *Restored
	differs []uint64 // a bit for each staged node, in their order: it is missing, or something else now
}

// A stagedNodes goes through the nodes of a restore.
type stagedNodes struct {
	chunks [][]byte
	d      restoreDecoder
	count  uint64 // of the nodes that have come
}

func (s *staging) all() *stagedNodes { return &stagedNodes{chunks: s.chunks} }

// next returns the next node, nil after the last one. It is valid until the next call.
func (it *stagedNodes) next() *RestoredNode {
	for !it.d.next() {
		if len(it.chunks) == 0 {
			return nil
		}
		it.d = restoreDecoder{in: input{b: it.chunks[0]}, last: it.d.last}
		it.chunks = it.chunks[1:]
	}
	it.count++
	return &it.d.node
}

// note marks the node that has come last.
func (j *restoreJob) note(it *stagedNodes) { j.differs[(it.count-1)/64] |= 1 << ((it.count - 1) % 64) }

func (j *restoreJob) noted(it *stagedNodes) bool {
	return j.differs[(it.count-1)/64]>>((it.count-1)%64)&1 != 0
}

// prune deletes what the backup does not have, marks the staged nodes that there is something to
// do for, and says whether there are any. Both sides are in the order of Walk.
func (j *restoreJob) prune() (more bool) {
	var doomed []string
	top := "" // the highest node above the last one that is doomed
	it := j.s.all()
	staged := it.next()
	missing := func() {
		j.note(it)
		more = true
		staged = it.next()
	}
	j.m.tree.WalkFrom(j.s.path, func(path string, n *znode.Node) bool {
		for staged != nil && walkLess(staged.Path, path) {
			missing()
		}
		inBackup := staged != nil && staged.Path == path
		lost := top != "" && within(path, top) // its parent goes
		switch {
		case inBackup && n.Kind() != znode.Ephemeral:
			if j.compare(n, staged).any {
				missing()
				return true
			}
			staged = it.next()
			return true
		case within(path, znode.ConfigPath), znode.Reserved(path):
			return true
		case n.Kind() == znode.Ephemeral && !inBackup && !lost:
			j.end.Kept++
			return true
		}
		if doomed = append(doomed, path); !lost {
			top = path
		}
		return true
	})
	for staged != nil {
		missing()
	}
	for i := len(doomed) - 1; i >= 0; i-- {
		j.m.remove(j.m.tree.Lookup(doomed[i]), doomed[i], j.r)
	}
	j.end.Deleted = uint64(len(doomed))
	return more
}

// walkLess says whether Walk comes to a before it comes to b: a slash is before everything.
func walkLess(a, b string) bool {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	switch {
	case i == len(a) || i == len(b):
		return len(a) < len(b)
	case a[i] == '/':
		return true
	case b[i] == '/':
		return false
	}
	return a[i] < b[i]
}

// fill creates and changes the nodes that prune has marked. Places of nodes do not move, so a
// parent stays valid for its children.
func (j *restoreJob) fill() {
	tree := j.m.tree
	it := j.s.all()
	var parent *znode.Node
	parentPath := ""
	for n := it.next(); n != nil; n = it.next() {
		if !j.noted(it) {
			continue
		}
		if n.Path == "/" {
			j.change(tree.Root(), n)
			continue
		}
		dir, name, _ := znode.SplitPath(n.Path)
		if parent == nil || dir != parentPath {
			parent, parentPath = tree.Lookup(dir), dir
		}
		if node := tree.Child(parent, name); node != nil {
			j.change(node, n)
		} else {
			j.create(parent, name, n)
		}
	}
}

// create makes a node that is missing. Of a parent that has been there it is one child more;
// of one that this restore has made it has been counted already.
func (j *restoreJob) create(parent *znode.Node, name string, n *RestoredNode) {
	m := j.m
	ref := m.acls.Intern(n.ACL)
	node := m.tree.PutChild(parent, name, n.Data, ref, znode.Persisted{
		Czxid: m.zxid, Mzxid: m.zxid, Pzxid: m.zxid,
		CtimeMs: min(n.CtimeMs, m.timeMs), MtimeMs: m.mtime(n),
		Version: n.Version, Aversion: n.Aversion, Owner: n.Owner,
	})
	m.tree.Raise(node, n.Created, 0)
	if parent.Stat().Czxid != m.zxid {
		m.tree.Raise(parent, parent.Created()+1, m.zxid)
	}
	j.r.Events = append(j.r.Events, Event{
		Type: wire.EventNodeCreated, Path: n.Path, Zxid: m.zxid,
		ACL: m.acls.List(ref), ParentACL: m.acls.List(parent.ACL()),
	})
	j.end.Created++
}

// mtime is when the data of a restored node were written. A TTL begins with the restore, or the
// node would be reaped at once.
func (m *Machine) mtime(n *RestoredNode) int64 {
	if n.Owner.Kind() == znode.TTL {
		return m.timeMs
	}
	return min(n.MtimeMs, m.timeMs)
}

// A difference says in what a node is not as in the backup.
type difference struct {
	data, list, kind bool
	any              bool // one of these, or more children were created
}

func (j *restoreJob) compare(node *znode.Node, n *RestoredNode) difference {
	d := difference{kind: node.RawOwner() != n.Owner}
	now := node.Data()
	d.data = (now == nil) != (n.Data == nil) || !bytes.Equal(now, n.Data)
	if d.data && znode.IsUsage(n.Path) {
		d.data = false // RefreshQuotas writes it
	}
	open := acl.IsOpen(n.ACL)
	d.list = open != (node.ACL() == acl.OpenRef) ||
		!open && !bytes.Equal(wire.AppendACLs(nil, n.ACL), wire.AppendACLs(nil, j.m.acls.List(node.ACL())))
	d.any = d.data || d.list || d.kind || n.Created > node.Created()
	return d
}

// change makes a node what it was.
func (j *restoreJob) change(node *znode.Node, n *RestoredNode) {
	m := j.m
	d := j.compare(node, n)
	p, data, ref := node.Persisted(), node.Data(), node.ACL()
	if d.data {
		data = n.Data
		p.Version, p.Mzxid, p.MtimeMs = znode.NextVersion(max(p.Version, n.Version)), m.zxid, m.mtime(n)
	}
	if d.kind {
		p.Owner, p.MtimeMs = n.Owner, m.mtime(n)
	}
	if d.list {
		ref = m.acls.Intern(n.ACL)
		p.Aversion = znode.NextVersion(max(p.Aversion, n.Aversion))
	}
	if d.data || d.kind || d.list {
		old := node.ACL()
		m.tree.Put(node, data, ref, p) // which still asks for the old list
		if d.list {
			m.acls.Release(old)
		}
		j.end.Changed++
	}
	m.tree.Raise(node, n.Created, 0)
	if d.data {
		j.r.Events = append(j.r.Events, Event{
			Type: wire.EventNodeDataChanged, Path: n.Path, Zxid: m.zxid, ACL: m.acls.List(ref),
		})
	}
}
