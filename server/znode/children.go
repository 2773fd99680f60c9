package znode

import (
	"slices"
	"strings"
)

// Children are listed in order. Sorting 100,000 names takes tens of milliseconds, mostly
// waiting for memory, so a large directory keeps its sorted names, copied into one block,
// from the first listing on. Changes are only noted (two words and a name each); the next
// listing merges what was noted into a new list, at the cost of copying string headers.
// When more was noted than is worth merging, the list is dropped and made anew on demand.
//
// Readers run in parallel: they make views under Tree.viewMu and publish them through the
// atomic pointer. A published list of names is never written again. Only the writer, whom
// no reader runs beside, appends to pending and drops a view.
type view struct {
	names   []string // sorted; immutable
	merged  int      // names that came by merging, each in a block of its own, or went
	pending []childChange
}

type childChange struct {
	name    string
	created bool
}

// minView is the number of children from which on a view is kept. Below, sorting takes a
// few microseconds.
const minView = 64

// note tells the view that n was created or deleted.
func (d *dir) note(n *Node, created bool) {
	v := d.view.Load()
	if v == nil {
		return
	}
	if d.count < minView || len(v.pending) > len(v.names)/4 {
		d.view.Store(nil)
		return
	}
	v.pending = append(v.pending, childChange{n.Name(), created})
}

// Children are the names of the children of n, sorted. The slice may be shared: it must not
// be changed, but stays as it is when the node changes.
func (t *Tree) Children(n *Node) []string {
	d := n.dir
	if d == nil || d.count == 0 {
		return nil
	}
	if d.count < minView {
		return t.sortedNames(d)
	}
	if v := d.view.Load(); v != nil && len(v.pending) == 0 {
		return v.names
	}
	t.viewMu.Lock()
	defer t.viewMu.Unlock()
	v := d.view.Load()
	switch {
	case v == nil || v.merged+len(v.pending) > len(v.names):
		v = &view{names: t.sortedNames(d)}
	case len(v.pending) > 0:
		v = v.merge()
	default:
		return v.names
	}
	d.view.Store(v)
	return v.names
}

// AppendChildren appends the names of the children of n, sorted.
func (t *Tree) AppendChildren(dst []string, n *Node) []string {
	return append(dst, t.Children(n)...)
}

// sortedNames copies the names into one block, since a name that shared the text of its
// node would keep old data alive. The child list is newest first, and names often grow, so
// it is read from its end: sorting then has little to do.
func (t *Tree) sortedNames(d *dir) []string {
	size := 0
	for i := d.first; i != 0; {
		n := t.node(i)
		size += int(n.nameLen)
		i = n.next
	}
	var block strings.Builder
	block.Grow(size)
	names := make([]string, d.count)
	k := len(names)
	for i := d.first; i != 0; {
		n := t.node(i)
		start := block.Len()
		block.Write(n.name())
		k--
		names[k] = block.String()[start:]
		i = n.next
	}
	slices.Sort(names)
	return names
}

// merge returns a view with the pending changes done.
func (v *view) merge() *view {
	last := slices.Clone(v.pending)
	slices.SortStableFunc(last, func(a, b childChange) int { return strings.Compare(a.name, b.name) })
	names := make([]string, 0, len(v.names)+len(last))
	rest := v.names
	for i, c := range last {
		if i+1 < len(last) && last[i+1].name == c.name {
			continue // a later change of the same name decides
		}
		at, found := slices.BinarySearch(rest, c.name)
		names = append(names, rest[:at]...)
		rest = rest[at:]
		if found {
			rest = rest[1:]
		}
		if c.created {
			names = append(names, c.name)
		}
	}
	names = append(names, rest...)
	return &view{names: names, merged: v.merged + len(last)}
}
