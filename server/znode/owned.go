package znode

import (
	"math/bits"
	"slices"
	"strings"
)

// addToSets enters n where it is found by owner or by kind.
func (t *Tree) addToSets(n *Node) {
	switch n.owner.Kind() {
	case Ephemeral:
		set := t.owned[int64(n.owner)]
		if set == nil {
			set = make(map[uint32]struct{})
			t.owned[int64(n.owner)] = set
		}
		set[n.index] = struct{}{}
		t.ephemerals++
	case Container, TTL:
		t.reap.add(n.index)
	}
}

func (t *Tree) removeFromSets(n *Node) {
	switch n.owner.Kind() {
	case Ephemeral:
		set := t.owned[int64(n.owner)]
		delete(set, n.index)
		if len(set) == 0 {
			delete(t.owned, int64(n.owner))
		}
		t.ephemerals--
	case Container, TTL:
		t.reap.remove(n.index)
	}
}

// Ephemerals are the paths of the session's ephemeral nodes that start with prefix (a plain
// string prefix, "" for all), sorted.
func (t *Tree) Ephemerals(session int64, prefix string) []string {
	set := t.owned[session]
	if len(set) == 0 {
		return nil
	}
	paths := make([]string, 0, len(set))
	for i := range set {
		if p := t.Path(t.node(i)); strings.HasPrefix(p, prefix) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// A SessionEphemerals lists the ephemeral nodes of one session.
type SessionEphemerals struct {
	Session int64
	Paths   []string // sorted
}

// AllEphemerals lists the ephemeral nodes of all sessions that have some, by session.
func (t *Tree) AllEphemerals() []SessionEphemerals {
	all := make([]SessionEphemerals, 0, len(t.owned))
	for s := range t.owned {
		all = append(all, SessionEphemerals{s, t.Ephemerals(s, "")})
	}
	slices.SortFunc(all, func(a, b SessionEphemerals) int {
		if a.Session < b.Session {
			return -1
		}
		return 1
	})
	return all
}

// EphemeralCount is the number of ephemeral nodes.
func (t *Tree) EphemeralCount() int { return t.ephemerals }

// Due says whether n is a container or TTL node that shall go (ContainerManager in Apache
// ZooKeeper): it has no children, and it is a container that once had one, or that has not
// changed for maxNeverUsedMs (0: that alone is no reason), or a TTL node whose data has not
// changed for its time to live.
func (n *Node) Due(nowMs, maxNeverUsedMs int64) bool {
	if n.NumChildren() != 0 {
		return false
	}
	switch n.owner.Kind() {
	case Container:
		return n.created() > 0 || maxNeverUsedMs != 0 && nowMs-n.mtimeMs > maxNeverUsedMs
	case TTL:
		return nowMs-n.mtimeMs > n.owner.TTLMs()
	}
	return false
}

// Reapable are the paths of at most limit nodes that are due.
func (t *Tree) Reapable(nowMs, maxNeverUsedMs int64, limit int) []string {
	var due []string
	t.reap.each(func(i uint32) bool {
		if len(due) >= limit {
			return false
		}
		if n := t.node(i); n.Due(nowMs, maxNeverUsedMs) {
			due = append(due, t.Path(n))
		}
		return true
	})
	return due
}

// A bitmap is a set of small numbers.
type bitmap []uint64

func (b *bitmap) add(i uint32) {
	for int(i/64) >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bitmap) remove(i uint32) { b[i/64] &^= 1 << (i % 64) }

func (b bitmap) has(i uint32) bool { return int(i/64) < len(b) && b[i/64]>>(i%64)&1 != 0 }

// each calls f with the members in order until f returns false.
func (b bitmap) each(f func(i uint32) bool) {
	for w, word := range b {
		for ; word != 0; word &= word - 1 {
			if !f(uint32(w*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
