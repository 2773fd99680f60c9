package znode

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// Check verifies the invariants of Tree and says which is broken. It walks the whole tree.
func (t *Tree) Check() error {
	return errors.Join(t.checkShape(), t.checkSets(), t.checkSums(), t.checkViews())
}

// checkShape verifies T1 to T3.
func (t *Tree) checkShape() error {
	seen := make(map[uint32]bool)
	stack := []uint32{rootIndex}
	for len(stack) > 0 {
		n := t.node(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		if seen[n.index] || n.flags&flagUsed == 0 {
			return fmt.Errorf("T1: node %d is reached twice, or its slot is free", n.index)
		}
		seen[n.index] = true
		if n.dir == nil {
			continue
		}
		if n.dir.created < 0 || n.dir.count > 0 && n.owner.Kind() == Ephemeral {
			return fmt.Errorf("T3: %q created %d children, has %d, owner %#x", t.Path(n), n.dir.created, n.dir.count, n.owner)
		}
		for i, prev := n.dir.first, uint32(0); i != 0; {
			c := t.node(i)
			if c.parent != n.index || c.prev != prev || t.child(n.index, c.Name()) != c || nameFault(c.Name()) != "" {
				return fmt.Errorf("T1: node %d %q under %q is not tied in well", i, c.name(), t.Path(n))
			}
			stack = append(stack, i)
			prev, i = i, c.next
		}
	}
	for i, path := range reservedPaths {
		if n := t.Lookup(path); n == nil || n.index != rootIndex+uint32(i) || n.owner != NoOwner {
			return fmt.Errorf("T2: reserved node %s is not as it must be", path)
		}
	}
	return t.checkSlots(seen)
}

// checkSlots verifies the free list, and that the index holds nothing else.
func (t *Tree) checkSlots(used map[uint32]bool) error {
	free := 0
	for i := t.free; i != 0; i = t.node(i).next {
		if free++; used[i] || free > int(t.end) {
			return fmt.Errorf("T1: slot %d is free and used, or the free list has a cycle", i)
		}
	}
	if len(used)+free != int(t.end)-1 {
		return fmt.Errorf("T1: %d used and %d free slots of %d", len(used), free, t.end-1)
	}
	entries := 0
	for i := range t.index.segs {
		s := &t.index.segs[i]
		n := 0
		for _, e := range s.slots {
			if e.node != 0 {
				n++
			}
		}
		if n != s.used {
			return fmt.Errorf("T1: segment %d of the index has %d entries, counted %d", i, n, s.used)
		}
		entries += n
	}
	if entries != len(used)-1 || int(t.nodes) != len(used) {
		return fmt.Errorf("T1: %d nodes, %d in the index, Len is %d", len(used), entries, t.nodes)
	}
	return nil
}

// checkSets verifies T5.
func (t *Tree) checkSets() error {
	owned, reap := 0, 0
	for i := uint32(1); i < t.end; i++ {
		n := t.node(i)
		if n.flags&flagUsed == 0 {
			continue
		}
		switch n.owner.Kind() {
		case Ephemeral:
			owned++
			if _, ok := t.owned[int64(n.owner)][i]; !ok {
				return fmt.Errorf("T5: %q is not in the set of its session", t.Path(n))
			}
		case Container, TTL:
			reap++
			if !t.reap.has(i) {
				return fmt.Errorf("T5: %q is not in the set for the reaper", t.Path(n))
			}
		}
	}
	for s, set := range t.owned {
		if owned -= len(set); len(set) == 0 {
			return fmt.Errorf("T5: session %#x has an empty set", s)
		}
	}
	t.reap.each(func(uint32) bool { reap--; return true })
	if owned != 0 || reap != 0 {
		return fmt.Errorf("T5: the sets have nodes that are not theirs: %d, %d", owned, reap)
	}
	count := 0
	for _, set := range t.owned {
		count += len(set)
	}
	if count != t.ephemerals {
		return fmt.Errorf("T5: %d ephemerals, counted %d", count, t.ephemerals)
	}
	return nil
}

// checkSums verifies T4 and T6 by putting all nodes into a fresh tree.
func (t *Tree) checkSums() error {
	type sums struct{ count, nodes, bytes int64 }
	all := make(map[uint32]*sums)
	fresh := Tree{aclDigest: t.aclDigest}
	size := int64(1) // the root is "" and "/"
	var err error
	t.Walk(func(path string, n *Node) bool {
		if n.index == rootIndex {
			path = ""
		}
		size += int64(len(path)) + n.dataLen()
		all[n.index] = &sums{}
		if p := all[n.parent]; p != nil {
			p.count++
		}
		for i := n.parent; i != 0; i = t.node(i).parent {
			all[i].nodes++
			all[i].bytes += n.dataLen()
		}
		c := *n
		c.pathCRC = crc32.ChecksumIEEE([]byte(path))
		c.sumText()
		c.sumStat(&fresh.stat)
		fresh.count(&c)
		hidden := len(path) > len(ZooKeeperPath) && path[:len(ZooKeeperPath)+1] == ZooKeeperPath+"/"
		same := [4]uint32{c.pathCRC, c.bodyCRC, c.dataCRC, c.statCRC} == [4]uint32{n.pathCRC, n.bodyCRC, n.dataCRC, n.statCRC}
		if !same || hidden != (n.flags&flagHidden != 0) {
			err = fmt.Errorf("T6: the checksums or flags of %q are wrong", path)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	for i, s := range all {
		n := t.node(i)
		if d := n.dir; d == nil && *s != (sums{}) || d != nil && *s != (sums{int64(d.count), d.nodes, d.bytes}) {
			return fmt.Errorf("T4: %q: counted %+v", t.Path(n), *s)
		}
	}
	if size != t.size || fresh.digest != t.digest || fresh.zkDigest != t.zkDigest {
		return fmt.Errorf("T4, T6: size %d, counted %d; digests %x %x, calculated %x %x",
			t.size, size, t.digest, t.zkDigest, fresh.digest, fresh.zkDigest)
	}
	return nil
}

// checkViews verifies T7.
func (t *Tree) checkViews() error {
	for i := uint32(1); i < t.end; i++ {
		n := t.node(i)
		if n.dir == nil {
			continue
		}
		v := n.dir.view.Load()
		if v == nil || len(v.pending) > 0 {
			continue
		}
		if !slices.Equal(v.names, t.sortedNames(n.dir)) {
			return fmt.Errorf("T7: the sorted children of %q are wrong", t.Path(n))
		}
	}
	return nil
}
