package znode

// An arena holds the nodes, in chunks that never move, so that a *Node stays valid while
// the arena grows. A slot that is freed is used again, the last one first: undoing a
// deletion finds the node's old slot that way. Chunks are never given back; a restart
// numbers the nodes anew.
type arena struct {
	chunks []*[chunkNodes]Node
	end    uint32 // slots below it are used or free; 0 is never used, it means "none"
	free   uint32 // the first free slot, chained by next
}

const (
	chunkBits  = 10
	chunkNodes = 1 << chunkBits // 128 KiB a chunk

	// maxNodes keeps indexes in 32 bits. Memory ends long before.
	maxNodes = 1<<32 - 1
)

// node is the slot i, which must be below end.
func (a *arena) node(i uint32) *Node {
	return &a.chunks[i>>chunkBits][i&(chunkNodes-1)]
}

// alloc returns a slot that is empty but for its index and epoch.
func (a *arena) alloc(epoch uint32) *Node {
	i := a.free
	if i != 0 {
		n := a.node(i)
		a.free = n.next
		*n = Node{index: i, epoch: epoch, flags: flagUsed}
		return n
	}
	if a.end == 0 {
		a.end = 1
	}
	if a.end == maxNodes {
		panic("znode: the tree has 4294967295 nodes, the most it can hold")
	}
	i = a.end
	if int(i>>chunkBits) == len(a.chunks) {
		a.chunks = append(a.chunks, new([chunkNodes]Node))
	}
	a.end++
	n := a.node(i)
	n.index, n.epoch, n.flags = i, epoch, flagUsed
	return n
}

// release empties the slot and lets go of what it held.
func (a *arena) release(n *Node) {
	*n = Node{index: n.index, next: a.free}
	a.free = n.index
}
