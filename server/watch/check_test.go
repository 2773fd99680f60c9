package watch

import (
	"fmt"
	"testing"
)

// newTable returns a Table whose invariants are checked when the test ends.
func newTable(t testing.TB) *Table {
	table := New()
	t.Cleanup(func() {
		if err := table.check(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// check verifies the invariants of the Table and of the sets in it.
func (t *Table) check() error {
	var counts Counts
	recursive, watchers := 0, 0
	perConn := map[ID]connEntry{}
	for path, p := range t.byPath {
		e := &t.paths[p]
		if e.path != path {
			return fmt.Errorf("W1: %q leads to the entry of %q", path, e.path)
		}
		if err := e.set.check(); err != nil {
			return fmt.Errorf("set of %q: %w", path, err)
		}
		counted := pathEntry{}
		for i := range e.set.numChunks() {
			for _, w := range e.set.chunk(i) {
				watchers++
				if w.kind == 0 || t.links[w.link].path != p {
					return fmt.Errorf("W2: watcher %+v of %q", w, path)
				}
				c := perConn[w.id]
				c.watches++
				c.cost += uint32(Cost(path))
				c.inData += uint32(has(w.kind, inData))
				perConn[w.id] = c
				counted.inData += uint32(has(w.kind, inData))
				counted.inChild += uint32(has(w.kind, inChild))
				counted.recursive += uint32(has(w.kind, Recursive))
			}
		}
		if counted.inData != e.inData || counted.inChild != e.inChild || counted.recursive != e.recursive {
			return fmt.Errorf("W3: %q counts %d, %d, %d, should %d, %d, %d", path,
				e.inData, e.inChild, e.recursive, counted.inData, counted.inChild, counted.recursive)
		}
		counts.Watches += int(e.inData + e.inChild)
		counts.Data += int(e.inData)
		counts.DataPaths += appeared(0, e.inData)
		recursive += int(e.recursive)
	}
	links := 0
	for id := range t.conns {
		c, want := t.conns[id], perConn[ID(id)]
		if c.watches != want.watches || c.cost != want.cost || c.inData != want.inData {
			return fmt.Errorf("W3: connection %d counts %+v, should %+v", id, c, want)
		}
		counts.DataConnections += appeared(0, c.inData)
		before := none
		for l := c.first; l != none; l = t.links[l].next {
			if w := t.paths[t.links[l].path].set.get(ID(id)); w == nil || w.link != l || t.links[l].prev != before {
				return fmt.Errorf("W2: link %d of connection %d has no watcher", l, id)
			}
			before = l
			links++
		}
	}
	if links != watchers {
		return fmt.Errorf("W2: %d links for %d watchers", links, watchers)
	}
	if counts != t.counts || recursive != t.recursive {
		return fmt.Errorf("W3: %+v and %d recursive, should be %+v and %d", t.counts, t.recursive, counts, recursive)
	}
	return t.checkFree(links)
}

// checkFree verifies that what is not in use is free.
func (t *Table) checkFree(links int) error {
	free := 0
	for p := t.freePath; p != none; p = t.paths[p].inData {
		free++
	}
	if free+len(t.byPath) != len(t.paths) {
		return fmt.Errorf("W1: %d paths in use and %d free of %d", len(t.byPath), free, len(t.paths))
	}
	free = 0
	for l := t.freeLink; l != none; l = t.links[l].next {
		free++
	}
	if free+links != len(t.links) {
		return fmt.Errorf("W2: %d links in use and %d free of %d", links, free, len(t.links))
	}
	return nil
}

// check verifies the invariants of a set, which is not empty.
func (s *set) check() error {
	if s.empty() {
		return fmt.Errorf("is empty but kept")
	}
	if s.chunks != nil && s.solo[0] != (watcher{}) {
		return fmt.Errorf("solo %+v beside chunks", s.solo[0])
	}
	last := int64(-1)
	for i := range s.numChunks() {
		c := s.chunk(i)
		if len(c) == 0 || len(c) > chunkMax {
			return fmt.Errorf("chunk %d has %d watchers", i, len(c))
		}
		for _, w := range c {
			if int64(w.id) <= last {
				return fmt.Errorf("id %d follows %d", w.id, last)
			}
			last = int64(w.id)
		}
	}
	return nil
}
