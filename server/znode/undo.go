package znode

import "github.com/zkd-project/zkd/server/acl"

// An image is all of a node that is not derived from others: what a snapshot writes, and
// what undoing needs. It shares the text.
type image struct {
	text             []byte
	czxid, mzxid     int64
	pzxid            int64
	ctimeMs, mtimeMs int64
	created          int64
	owner            Owner
	version          int32
	aversion         int32
	acl              acl.Ref
	index, parent    uint32
	nameLen          uint32
	null             bool
}

func (n *Node) image() image {
	return image{
		text: n.text, nameLen: n.nameLen, null: n.flags&flagNull != 0,
		czxid: n.czxid, mzxid: n.mzxid, pzxid: n.pzxid(),
		ctimeMs: n.ctimeMs, mtimeMs: n.mtimeMs, created: n.created(),
		owner: n.owner, version: n.version, aversion: n.aversion, acl: n.acl,
		index: n.index, parent: n.parent,
	}
}

// setImage gives n everything of the image but its place (index, parent, siblings).
func (n *Node) setImage(m *image) {
	n.text, n.nameLen = m.text, m.nameLen
	n.setNull(m.null)
	n.czxid, n.mzxid = m.czxid, m.mzxid
	n.ctimeMs, n.mtimeMs = m.ctimeMs, m.mtimeMs
	n.owner, n.version, n.aversion, n.acl = m.owner, m.version, m.aversion, m.acl
	if n.dir != nil || m.created != 0 || m.pzxid != m.czxid {
		d := n.needDir()
		d.created, d.pzxid = m.created, m.pzxid
	}
}

// An undoEntry undoes one change. Entries are undone in the opposite order, so each finds
// the tree as it was right after its change, and a node that was deleted gets its slot back
// (slots are taken last freed first): a *Node from before Begin is valid after Rollback.
type undoEntry struct {
	op    undoOp
	image image // of the node before the change; for undoCreate only index counts
}

type undoOp uint8

const (
	undoChange undoOp = iota // give the node its image back
	undoCreate               // remove the node
	undoDelete               // put the node back
)

// Begin starts a multi: the changes from here on can be undone. Multis do not nest, and no
// snapshot can be taken inside of one.
func (t *Tree) Begin() {
	if t.inMulti {
		panic("znode: Begin inside of Begin")
	}
	t.inMulti = true
}

// Commit ends a multi and keeps its changes.
func (t *Tree) Commit() {
	t.mustBeInMulti("Commit")
	t.endMulti()
}

// Rollback ends a multi and undoes its changes, whatever they were: data, stats, sequence
// counters, quotas, digests, ephemerals. Nodes found since Begin are no longer valid.
func (t *Tree) Rollback() {
	t.mustBeInMulti("Rollback")
	t.inMulti = false // what follows is not journalled
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.revert(&t.undo[i])
	}
	t.endMulti()
}

func (t *Tree) mustBeInMulti(what string) {
	if !t.inMulti {
		panic("znode: " + what + " without Begin")
	}
}

// maxUndoKept is how many entries (120 bytes each) stay allocated between multis.
const maxUndoKept = 1024

func (t *Tree) endMulti() {
	t.inMulti = false
	clear(t.undo) // lets go of data
	t.undo = t.undo[:0]
	if cap(t.undo) > maxUndoKept {
		t.undo = nil
	}
}

func (t *Tree) journalChange(n *Node) {
	if t.inMulti {
		t.undo = append(t.undo, undoEntry{op: undoChange, image: n.image()})
	}
}

func (t *Tree) journalCreate(n *Node) {
	if t.inMulti {
		t.undo = append(t.undo, undoEntry{op: undoCreate, image: image{index: n.index}})
	}
}

func (t *Tree) journalDelete(n *Node) {
	if t.inMulti {
		t.undo = append(t.undo, undoEntry{op: undoDelete, image: n.image()})
	}
}

func (t *Tree) revert(e *undoEntry) {
	switch e.op {
	case undoCreate:
		t.uproot(t.node(e.image.index))
	case undoDelete:
		n := t.alloc(t.epoch)
		if n.index != e.image.index {
			panic("znode: a deleted node did not get its slot back")
		}
		n.setImage(&e.image)
		t.plant(n, t.node(e.image.parent))
	case undoChange:
		n := t.node(e.image.index)
		t.discount(n)
		t.removeFromSets(n) // Import may have changed the owner
		before := n.dataLen()
		n.setImage(&e.image)
		t.grow(n, n.dataLen()-before)
		t.addToSets(n)
		n.sumText()
		t.changed(n)
	}
}
