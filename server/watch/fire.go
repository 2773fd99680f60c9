package watch

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/wire"
)

// An Event is a change of one node: created, deleted, or its data changed.
type Event struct {
	Type wire.EventType
	Path string
}

// A Delivery says that the connection ID must be told that something happened to Path.
type Delivery struct {
	ID   ID
	Type wire.EventType
	Path string // of the node that changed, also for a recursive watch above it
	// OnParent marks a NodeChildrenChanged: Path is the parent of the event's node, and
	// the ACL that decides who may be told is the parent's.
	OnParent bool
}

// Fire appends to dst whom to tell of ev, and consumes the one-shot watches that fire. The
// order is that of Apache ZooKeeper:
//
//	step    created            deleted                       data changed
//	data    NodeCreated        NodeDeleted                   NodeDataChanged
//	child                      NodeDeleted, to those not
//	                           told by the data step
//	parent  NodeChildrenChanged(parent), to its Child and
//	        Persistent watchers
//
// Within a step a connection is told once, in the order of ids. Events of any other type
// fire nothing. The order of events is the order of calls.
func (t *Table) Fire(ev Event, dst []Delivery) []Delivery {
	switch ev.Type {
	case wire.EventNodeCreated, wire.EventNodeDeleted, wire.EventNodeDataChanged:
	default:
		return dst
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	dst = t.fireNode(ev, dst)
	if ev.Type == wire.EventNodeDataChanged {
		return dst
	}
	if parent, ok := parentOf(ev.Path); ok {
		dst = t.fireParent(parent, dst)
	}
	return dst
}

// fireNode is the data step and the child step.
func (t *Table) fireNode(ev Event, dst []Delivery) []Delivery {
	start := len(dst)
	p, watched := t.byPath[ev.Path]
	if watched && t.paths[p].inData > 0 {
		dst = t.paths[p].set.tell(inData, Delivery{Type: ev.Type, Path: ev.Path}, dst)
	}
	if t.recursive > 0 {
		dst = t.tellAncestors(ev, start, dst)
	}
	switch {
	case !watched:
	case ev.Type == wire.EventNodeDeleted:
		if t.paths[p].inChild > 0 {
			dst = t.paths[p].set.tellChild(ev, start, dst)
		}
		t.consume(p, oneShot)
	case t.paths[p].inData > 0:
		t.consume(p, Data)
	}
	return dst
}

// fireParent is the parent step.
func (t *Table) fireParent(parent string, dst []Delivery) []Delivery {
	p, ok := t.byPath[parent]
	if !ok || t.paths[p].inChild == 0 {
		return dst
	}
	told := Delivery{Type: wire.EventNodeChildrenChanged, Path: parent, OnParent: true}
	dst = t.paths[p].set.tell(inChild, told, dst)
	t.consume(p, Child)
	return dst
}

// tellAncestors adds the recursive watchers above the event's path to what the data step
// has appended to dst from start on, and restores the order of ids, each once.
func (t *Table) tellAncestors(ev Event, start int, dst []Delivery) []Delivery {
	for path, ok := parentOf(ev.Path); ok; path, ok = parentOf(path) {
		if p, watched := t.byPath[path]; watched && t.paths[p].recursive > 0 {
			dst = t.paths[p].set.tell(Recursive, Delivery{Type: ev.Type, Path: ev.Path}, dst)
		}
	}
	if step := dst[start:]; !sorted(step) {
		slices.SortFunc(step, func(a, b Delivery) int { return cmp.Compare(a.ID, b.ID) })
		step = slices.CompactFunc(step, func(a, b Delivery) bool { return a.ID == b.ID })
		dst = dst[:start+len(step)]
	}
	return dst
}

// sorted says whether ids ascend strictly.
func sorted(step []Delivery) bool {
	for i := 1; i < len(step); i++ {
		if step[i-1].ID >= step[i].ID {
			return false
		}
	}
	return true
}

// tell appends told, with the id of each watcher that has one of the kinds.
func (s *set) tell(kinds Kind, told Delivery, dst []Delivery) []Delivery {
	for i := range s.numChunks() {
		for _, w := range s.chunk(i) {
			if w.kind&kinds != 0 {
				told.ID = w.id
				dst = append(dst, told)
			}
		}
	}
	return dst
}

// tellChild appends the deletion for each watcher in the child table whom the data step,
// dst from start on, has not told. Both are in the order of ids, so one pass does.
func (s *set) tellChild(ev Event, start int, dst []Delivery) []Delivery {
	end := len(dst)
	for i := range s.numChunks() {
		for _, w := range s.chunk(i) {
			if w.kind&inChild == 0 || w.kind&inData != 0 {
				continue
			}
			for start < end && dst[start].ID < w.id {
				start++
			}
			if start < end && dst[start].ID == w.id {
				continue
			}
			dst = append(dst, Delivery{ID: w.id, Type: ev.Type, Path: ev.Path})
		}
	}
	return dst
}

// consume removes the kinds, which are one-shot, from all watchers of the path.
func (t *Table) consume(p uint32, kinds Kind) {
	e := &t.paths[p]
	gone := false
	for i := range e.set.numChunks() {
		c := e.set.chunk(i)
		for j := range c {
			w := &c[j]
			if w.kind&kinds == 0 {
				continue
			}
			t.account(e, w.id, w.kind, w.kind&^kinds)
			w.kind &^= kinds
			if w.kind == 0 {
				t.unlink(w.id, w.link)
				gone = true
			}
		}
	}
	if gone {
		e.set.sweep()
		t.dropIfEmpty(p)
	}
}
