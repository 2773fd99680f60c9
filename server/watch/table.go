package watch

import (
	"strings"
	"sync"

	"github.com/zkd-project/zkd/wire"
)

// ID names a connection: a small integer that the server gives and reuses only after
// RemoveAll. Memory grows with the largest.
type ID uint32

// A Kind is what a watch waits for, and for how long. A Table holds any combination of
// them for one path and connection.
type Kind uint8

// The kinds.
const (
	Data       Kind = 1 << iota // set by getData, and by exists whether or not there is a node
	Child                       // set by getChildren
	Persistent                  // set by addWatch
	Recursive                   // set by addWatch, persistent too

	oneShot = Data | Child
	inData  = Data | Persistent | Recursive // kinds that ZooKeeper keeps in the data table
	inChild = Child | Persistent            // and in the child table
	all     = Data | Child | Persistent | Recursive
)

// A Table holds the watches of the connections of one server.
//
// A watch is a watcher in the set of its path and a link in the list of its connection,
// together 24 bytes. Links and paths are addressed by index, so that the garbage collector
// has little to follow. Free ones are chained for reuse.
//
// Invariants; check verifies them:
//
//	W1  byPath maps exactly the paths that have watchers, each to its own entry;
//	W2  a watcher has at least one kind, and its link is in its connection's list and names
//	    its path; there are no other links;
//	W3  the counters of a path, of a connection and of the Table are what counting gives.
//
// All methods may be called concurrently.
type Table struct {
	mu     sync.Mutex // guards all below
	byPath map[string]uint32
	paths  []pathEntry
	conns  []connEntry // by ID
	links  []link

	freePath uint32 // through paths[].inData
	freeLink uint32 // through links[].next
	counts   Counts

	recursive int // watches of kind Recursive: while 0, Fire looks at no ancestor
}

// A pathEntry is a path that is watched.
type pathEntry struct {
	path string
	set  set
	// How many watchers have a kind in the data table, in the child table, and Recursive:
	// Fire skips the set where it has nobody to tell.
	inData, inChild, recursive uint32
}

// A connEntry is a connection, if it has watches.
type connEntry struct {
	first   uint32 // of the list of its links
	watches uint32 // length of the list
	cost    uint32 // of them all, see Cost
	inData  uint32 // how many of them are in the data table
}

// A link is an element of the list of a connection's watches.
type link struct {
	path       uint32
	prev, next uint32
}

// none ends a list, or means no path.
const none = ^uint32(0)

// Counts are the sizes that monitoring shows. ZooKeeper counts a watch once per table that
// holds it, so a Persistent one counts as two, and Data and Persistent on one path as two.
type Counts struct {
	Watches         int // both tables (mntr watch_count)
	Data            int // data table only, as all below (wchs)
	DataPaths       int
	DataConnections int
}

// New returns an empty Table.
func New() *Table {
	return &Table{byPath: map[string]uint32{}, freePath: none, freeLink: none}
}

// Add registers a watch of kind k, which may be a set of kinds, and says whether any of it
// is new. The Table keeps path. It is not checked: a path that no node can have is a watch
// that never fires.
func (t *Table) Add(path string, k Kind, id ID) bool {
	if k &= all; k == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.byPath[path]
	if !ok {
		p = t.newPath(path)
	}
	e := &t.paths[p]
	w := e.set.get(id)
	if w == nil {
		t.account(e, id, 0, k)
		e.set.add(watcher{id: id, kind: k, link: t.newLink(p, id)})
		return true
	}
	if w.kind&k == k {
		return false
	}
	t.account(e, id, w.kind, w.kind|k)
	w.kind |= k
	return true
}

// kindsOf returns the kinds that removeWatches and checkWatches mean by a watcher type; 0
// for an unknown type.
func kindsOf(typ wire.WatcherType) Kind {
	switch typ {
	case wire.WatcherChildren:
		return Child
	case wire.WatcherData:
		return Data
	case wire.WatcherAny:
		return all
	case wire.WatcherPersistent:
		return Persistent
	case wire.WatcherPersistentRecursive:
		return Recursive
	}
	return 0
}

// Has says whether the connection has a watch of that type at exactly that path.
func (t *Table) Has(path string, typ wire.WatcherType, id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.byPath[path]
	if !ok {
		return false
	}
	w := t.paths[p].set.get(id)
	return w != nil && w.kind&kindsOf(typ) != 0
}

// Remove removes the connection's watches of that type at exactly that path, and says
// whether there were any. WatcherChildren and WatcherData mean one-shot watches alone.
func (t *Table) Remove(path string, typ wire.WatcherType, id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.byPath[path]
	if !ok {
		return false
	}
	e := &t.paths[p]
	w := e.set.get(id)
	if w == nil || w.kind&kindsOf(typ) == 0 {
		return false
	}
	left := w.kind &^ kindsOf(typ)
	t.account(e, id, w.kind, left)
	w.kind = left
	if left == 0 {
		t.unlink(id, w.link)
		e.set.remove(id)
		t.dropIfEmpty(p)
	}
	return true
}

// RemoveAll removes all watches of a connection that has ended. Nobody may add watches for
// it meanwhile; Fire may still report it until RemoveAll returns.
func (t *Table) RemoveAll(id ID) {
	for t.removeSome(id, removeAtOnce) {
	}
}

// removeAtOnce is how many watches RemoveAll removes under one hold of the mutex: some
// 100 µs, so that a connection with many watches does not hold the apply loop up.
const removeAtOnce = 512

// removeSome removes up to n watches of the connection and says whether there are more.
func (t *Table) removeSome(id ID, n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(id) >= len(t.conns) {
		return false
	}
	c := &t.conns[id]
	for ; n > 0 && c.first != none; n-- {
		p := t.links[c.first].path
		e := &t.paths[p]
		t.account(e, id, e.set.get(id).kind, 0)
		e.set.remove(id)
		t.unlink(id, c.first)
		t.dropIfEmpty(p)
	}
	return c.first != none
}

// account adjusts all counters to a watcher of id at e whose kinds change from was to is.
func (t *Table) account(e *pathEntry, id ID, was, is Kind) {
	for int(id) >= len(t.conns) {
		t.conns = append(t.conns, connEntry{first: none})
	}
	if d := has(is, inData) - has(was, inData); d != 0 {
		c := &t.conns[id]
		before := [2]uint32{e.inData, c.inData}
		e.inData += uint32(d)
		c.inData += uint32(d)
		t.counts.Data += d
		t.counts.Watches += d
		t.counts.DataPaths += appeared(before[0], e.inData)
		t.counts.DataConnections += appeared(before[1], c.inData)
	}
	d := has(is, inChild) - has(was, inChild)
	e.inChild += uint32(d)
	t.counts.Watches += d
	d = has(is, Recursive) - has(was, Recursive)
	e.recursive += uint32(d)
	t.recursive += d
}

// has returns 1 if k has one of the kinds in of, else 0.
func has(k, of Kind) int {
	if k&of != 0 {
		return 1
	}
	return 0
}

// appeared returns 1 if a count has left 0, -1 if it has come to 0, else 0.
func appeared(before, after uint32) int {
	switch {
	case before == 0 && after != 0:
		return 1
	case before != 0 && after == 0:
		return -1
	}
	return 0
}

// newPath makes an entry for a path that has none.
func (t *Table) newPath(path string) uint32 {
	p := t.freePath
	if p == none {
		p = uint32(len(t.paths))
		t.paths = append(t.paths, pathEntry{})
	} else {
		t.freePath = t.paths[p].inData
	}
	t.paths[p] = pathEntry{path: path}
	t.byPath[path] = p
	return p
}

// dropIfEmpty frees the entry if its last watcher is gone.
func (t *Table) dropIfEmpty(p uint32) {
	e := &t.paths[p]
	if !e.set.empty() {
		return
	}
	delete(t.byPath, e.path)
	*e = pathEntry{inData: t.freePath}
	t.freePath = p
}

// newLink adds the path to the list of the connection's watches.
func (t *Table) newLink(p uint32, id ID) uint32 {
	l := t.freeLink
	if l == none {
		l = uint32(len(t.links))
		t.links = append(t.links, link{})
	} else {
		t.freeLink = t.links[l].next
	}
	c := &t.conns[id]
	t.links[l] = link{path: p, prev: none, next: c.first}
	if c.first != none {
		t.links[c.first].prev = l
	}
	c.first = l
	c.watches++
	c.cost += uint32(Cost(t.paths[p].path))
	return l
}

// unlink takes the link out of the list of the connection's watches and frees it. The path is
// still there.
func (t *Table) unlink(id ID, l uint32) {
	c := &t.conns[id]
	e := t.links[l]
	if e.prev == none {
		c.first = e.next
	} else {
		t.links[e.prev].next = e.next
	}
	if e.next != none {
		t.links[e.next].prev = e.prev
	}
	c.watches--
	c.cost -= uint32(Cost(t.paths[e.path].path))
	t.freeLinkAt(l)
}

// freeLinkAt puts the link on the list of the unused.
func (t *Table) freeLinkAt(l uint32) {
	t.links[l] = link{path: none, next: t.freeLink}
	t.freeLink = l
}

// parentOf returns the parent's path; none for the root and for what is no path.
func parentOf(path string) (parent string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	switch {
	case i < 0 || len(path) == 1:
		return "", false
	case i == 0:
		return "/", true
	}
	return path[:i], true
}
