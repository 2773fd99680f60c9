package acl

import (
	"fmt"
	"sync/atomic"

	"github.com/zkd-project/zkd/wire"
)

// A Table holds every list that some node has, once, and counts the nodes.
//
// Invariants; Check verifies them:
//
//	T1  an entry is live iff its count is above zero, and then byKey leads to it;
//	T2  free holds exactly the refs of entries that are not live;
//	T3  sum is the sum of the marks of the live entries, live their number;
//	T4  Open is never an entry.
//
// Which Ref a list gets depends only on which refs are free: always the smallest. So equal
// histories give equal refs on every server, also on one that was restored in between, and
// a digest of a tree may contain refs.
//
// Owner: the apply loop. Readers may look between two changes.
type Table struct {
	entries []entry // entries[r-1] is that of Ref r
	byKey   map[string]Ref
	free    refHeap
	live    int
	sum     uint64
	key     []byte // scratch

	snap  atomic.Pointer[Snapshot] // the running one, or nil
	snaps uint64                   // snapshots taken so far
}

// An entry is one list and the number of nodes that have it.
type entry struct {
	list   []wire.ACL
	key    string // the list as on the wire; empty when the entry is free
	count  uint32
	digest uint64
	// covered is the number of the last snapshot that needs nothing more of this entry: it
	// has a copy of it, or the entry is younger than the snapshot.
	covered uint64
}

// NewTable returns a table that knows only Open.
func NewTable() *Table { return &Table{byKey: make(map[string]Ref)} }

// Intern returns the Ref of the list and adds one to its count. It keeps the list, which
// must not change any more.
func (t *Table) Intern(list []wire.ACL) Ref {
	if IsOpen(list) {
		return OpenRef
	}
	t.key = wire.AppendACLs(t.key[:0], list)
	if r, ok := t.byKey[string(t.key)]; ok {
		e := &t.entries[r-1]
		t.preserve(r, e)
		e.count++
		return r
	}
	r := t.takeRef()
	e := &t.entries[r-1]
	t.preserve(r, e)
	key := string(t.key)
	*e = entry{list: list, key: key, count: 1, digest: digestOf(key), covered: e.covered}
	t.byKey[key] = r
	t.live++
	t.sum += mark(r, e.digest)
	return r
}

// takeRef returns the smallest free Ref.
func (t *Table) takeRef() Ref {
	if len(t.free) > 0 {
		return t.free.pop()
	}
	t.entries = append(t.entries, entry{})
	return Ref(len(t.entries))
}

// Release takes one from the count of r. A list without a node is forgotten.
func (t *Table) Release(r Ref) {
	if r == OpenRef {
		return
	}
	e := t.at(r)
	t.preserve(r, e)
	if e.count--; e.count > 0 {
		return
	}
	t.sum -= mark(r, e.digest)
	t.live--
	delete(t.byKey, e.key)
	*e = entry{covered: e.covered}
	t.free.push(r)
}

// List returns the list of r. It is shared: do not change it.
func (t *Table) List(r Ref) []wire.ACL {
	if r == OpenRef {
		return open
	}
	return t.at(r).list
}

// Digest returns a hash of the list of r that depends on its content only; 0 if there is no
// such list, as in a snapshot whose tree and table do not fit together.
func (t *Table) Digest(r Ref) uint64 {
	switch {
	case r == OpenRef:
		return openDigest
	case int(r) > len(t.entries):
		return 0
	}
	return t.entries[r-1].digest
}

// Count returns how many nodes have the list of r; of Open it is not known.
func (t *Table) Count(r Ref) int {
	if r == OpenRef {
		return 0
	}
	return int(t.at(r).count)
}

// at panics for a Ref that nobody can hold: a node with a list that was forgotten.
func (t *Table) at(r Ref) *entry {
	if int(r) > len(t.entries) || t.entries[r-1].count == 0 {
		panic(fmt.Sprintf("acl: ref %d is not in use, the table has %d lists", r, t.live))
	}
	return &t.entries[r-1]
}

// Len returns the number of lists, without Open.
func (t *Table) Len() int { return t.live }

// TableDigest returns a hash of which Ref stands for which list. It does not depend on the
// counts: the tree's digest speaks of those.
func (t *Table) TableDigest() uint64 { return t.sum }

// Check verifies the invariants.
func (t *Table) Check() error {
	if err := t.free.check(len(t.entries)); err != nil {
		return err
	}
	live, sum := 0, uint64(0)
	for i := range t.entries {
		r, e := Ref(i+1), &t.entries[i]
		if e.count == 0 {
			continue
		}
		live++
		sum += mark(r, e.digest)
		if t.byKey[e.key] != r {
			return fmt.Errorf("acl: list %d is found as %d", r, t.byKey[e.key])
		}
		if IsOpen(e.list) {
			return fmt.Errorf("acl: list %d is the open one", r)
		}
		if string(wire.AppendACLs(nil, e.list)) != e.key || digestOf(e.key) != e.digest {
			return fmt.Errorf("acl: list %d was changed", r)
		}
	}
	if live != t.live || sum != t.sum || len(t.byKey) != live || len(t.free) != len(t.entries)-live {
		return fmt.Errorf("acl: %d lists are live, %d counted, %d by key, %d of %d free, sum %x, should be %x",
			live, t.live, len(t.byKey), len(t.free), len(t.entries), t.sum, sum)
	}
	return nil
}

var openDigest = digestOf(string(wire.AppendACLs(nil, open)))

// digestOf is FNV-1a with a final mix, so that sums of digests do not cancel out.
func digestOf(key string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 0x100000001b3
	}
	return mix(h)
}

// mark is what a live entry adds to the digest of the table.
func mark(r Ref, digest uint64) uint64 { return mix(digest ^ uint64(r)*0x9e3779b97f4a7c15) }

// mix spreads every bit of x over all bits (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
