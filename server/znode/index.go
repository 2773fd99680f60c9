package znode

import (
	"hash/maphash"
	"math/bits"
)

// An index finds a node by (index of its parent, name). There is one for the whole tree:
// a node costs 11 to 22 bytes in it, and a directory nothing of its own.
//
// It is an open hash table with linear probing, cut into 256 segments by the top bits of
// the hash, which grow one by one: no single create pays for moving the whole table.
// A slot holds 32 further bits of the hash, the tag. The top bits of the tag are the
// position, so that growing reads and writes in order, and moving an entry never needs the
// node.
//
// The hash is seeded at random, as Go's maps are, so that nobody can choose names that
// collide. Nothing observable depends on it: the index is only ever asked for one name.
type index struct {
	seed maphash.Seed
	segs [256]segment
}

type segment struct {
	slots []slot // a power of two, or none
	shift uint8  // 32 - log2(len(slots)): tag >> shift is the position
	used  int
}

type slot struct {
	tag  uint32
	node uint32 // 0: empty
}

const minSlots = 8

func (x *index) hash(parent uint32, name string) uint64 {
	h := maphash.String(x.seed, name)
	hi, lo := bits.Mul64(h^uint64(parent)*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

func (x *index) segment(hash uint64) (s *segment, tag uint32) {
	return &x.segs[hash>>56], uint32(hash >> 24)
}

// insert adds a node, unless one with that parent and name is there: then it returns false.
func (x *index) insert(a *arena, hash uint64, node, parent uint32, name string) bool {
	s, tag := x.segment(hash)
	if 4*(s.used+1) > 3*len(s.slots) {
		s.resize(max(minSlots, 2*len(s.slots)))
	}
	mask := uint32(len(s.slots) - 1)
	i := tag >> s.shift
	for ; s.slots[i].node != 0; i = (i + 1) & mask {
		if e := s.slots[i]; e.tag == tag && a.node(e.node).is(parent, name) {
			return false
		}
	}
	s.slots[i] = slot{tag, node}
	s.used++
	return true
}

func (s *segment) put(e slot) {
	mask := uint32(len(s.slots) - 1)
	i := e.tag >> s.shift
	for s.slots[i].node != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = e
}

// remove takes out a node that is in the index, and moves those behind it up, so that no
// probe meets a gap.
func (x *index) remove(hash uint64, node uint32) {
	s, tag := x.segment(hash)
	mask := uint32(len(s.slots) - 1)
	i := tag >> s.shift
	for s.slots[i].node != node {
		if s.slots[i].node == 0 {
			panic("znode: a node is missing in the index")
		}
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; s.slots[j].node != 0; j = (j + 1) & mask {
		home := s.slots[j].tag >> s.shift
		if (j-home)&mask >= (j-i)&mask { // i is on the way from home to j
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
	s.used--
	if n := len(s.slots); n > minSlots && 8*s.used < n {
		s.resize(n / 2)
	}
}

func (s *segment) resize(n int) {
	old := s.slots
	s.slots = make([]slot, n)
	s.shift = uint8(32 - bits.TrailingZeros(uint(n)))
	for _, e := range old {
		if e.node != 0 {
			s.put(e)
		}
	}
}

// reserve makes room for n nodes at once.
func (x *index) reserve(n int) {
	per := n/len(x.segs) + n/len(x.segs)/8 // some segments get more than others
	size := minSlots
	for 3*size < 4*per {
		size *= 2
	}
	for i := range x.segs {
		x.segs[i].resize(size)
	}
}

// find is the child of parent with that name, or nil; hash is that of both.
func (x *index) find(a *arena, hash uint64, parent uint32, name string) *Node {
	s, tag := x.segment(hash)
	if len(s.slots) == 0 {
		return nil
	}
	mask := uint32(len(s.slots) - 1)
	for i := tag >> s.shift; ; i = (i + 1) & mask {
		e := s.slots[i]
		if e.node == 0 {
			return nil
		}
		if e.tag != tag {
			continue
		}
		if n := a.node(e.node); n.is(parent, name) {
			return n
		}
	}
}

func (n *Node) is(parent uint32, name string) bool {
	return n.parent == parent && string(n.text[:n.nameLen]) == name
}
