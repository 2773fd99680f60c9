package znode

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/server/acl"
)

// The reserved tree: these and the root always exist.
const (
	ZooKeeperPath = "/zookeeper"
	QuotaPath     = "/zookeeper/quota"
	ConfigPath    = "/zookeeper/config"
)

// The reserved nodes have fixed places in the arena, in every tree.
const (
	rootIndex uint32 = 1 + iota
	zookeeperIndex
	quotaIndex
	configIndex
	reservedNodes = iota
)

// A Tree is the namespace after applying a prefix of the log.
//
// Invariants; Check verifies them, and every test tree is checked when its test ends:
//
//	T1  a used slot is reached from the root through child lists exactly once, the index
//	    finds it by (parent, name) and nothing else is in the index; the other slots are
//	    in the free list exactly once;
//	T2  the reserved nodes have their places, no owner, and the right parents;
//	T3  an ephemeral node has no children; created >= 0;
//	T4  dir.count, dir.nodes and dir.bytes are the true numbers of children, descendants and
//	    bytes of data below; nodes and size are those of the whole tree;
//	T5  owned[s] is exactly the set of nodes whose owner is session s, and never empty;
//	    ephemerals is their number; reap is exactly the set of containers and TTL nodes;
//	T6  the checksums of a node and both digests are what a calculation from scratch gives;
//	T7  a view that has no pending changes lists the names of the children in order.
//
// Owner: the apply loop; see the package comment for readers.
type Tree struct {
	arena
	index index

	nodes int64 // used slots
	size  int64 // bytes of all paths and all data

	owned      map[int64]map[uint32]struct{} // nodes by owning session
	ephemerals int
	reap       bitmap // containers and TTL nodes by index

	digest    uint64
	zkDigest  uint64
	aclDigest func(acl.Ref) uint64 // immutable after New; may be nil

	stat [statBytes]byte // scratch space of the writer, for sumStat

	undo    []undoEntry // the changes since Begin, oldest first
	inMulti bool

	epoch uint32                   // number of the last snapshot
	snap  atomic.Pointer[Snapshot] // the running snapshot, or nil

	viewMu sync.Mutex // held by a reader while it builds or merges a view
}

// New returns a fresh tree: /, /zookeeper, /zookeeper/quota and /zookeeper/config, all
// zxids and times 0. config is the ACL of the last one (ZooKeeper has world:anyone read);
// aclDigest gives the digest of a list's content, which goes into Digest (nil: the Ref
// itself does; replicas agree on Digest only if it is the content). It is asked for the old
// list of a node as well as the new one while a node changes, also in Rollback.
func New(config acl.Ref, aclDigest func(acl.Ref) uint64) *Tree {
	t := emptyTree(aclDigest)
	root := t.alloc(t.epoch)
	root.text = []byte{}
	t.plant(root, nil)
	zk := t.plantReserved(root, "zookeeper")
	t.plantReserved(zk, "quota")
	n := t.plantReserved(zk, "config")
	t.discount(n)
	n.acl, n.aversion = config, -1
	n.sumStat(&t.stat)
	t.count(n)
	return t
}

func emptyTree(aclDigest func(acl.Ref) uint64) *Tree {
	return &Tree{
		index:     index{seed: maphash.MakeSeed()},
		owned:     make(map[int64]map[uint32]struct{}),
		aclDigest: aclDigest,
	}
}

func (t *Tree) plantReserved(parent *Node, name string) *Node {
	n := t.alloc(t.epoch)
	n.text, n.nameLen = []byte(name), uint32(len(name))
	t.plant(n, parent)
	return n
}

// Root is the node "/".
func (t *Tree) Root() *Node { return t.node(rootIndex) }

// Lookup is the node at path, nil if there is none. "" is the root, too; a path that breaks
// the rules of CheckPath is simply not found.
func (t *Tree) Lookup(path string) *Node {
	if path == "" || path == "/" {
		return t.Root()
	}
	if path[0] != '/' {
		return nil
	}
	at := rootIndex
	for rest := path[1:]; ; {
		name := rest
		i := strings.IndexByte(rest, '/')
		if i >= 0 {
			name = rest[:i]
		}
		n := t.child(at, name)
		if n == nil || i < 0 {
			return n
		}
		at, rest = n.index, rest[i+1:]
	}
}

// Child is the child of n with that name, nil if there is none.
func (t *Tree) Child(n *Node, name string) *Node { return t.child(n.index, name) }

func (t *Tree) child(parent uint32, name string) *Node {
	return t.index.find(&t.arena, t.index.hash(parent, name), parent, name)
}

// Parent is the node above n, nil for the root.
func (t *Tree) Parent(n *Node) *Node {
	if n.parent == 0 {
		return nil
	}
	return t.node(n.parent)
}

// Path is the path of n.
func (t *Tree) Path(n *Node) string {
	if n.index == rootIndex {
		return "/"
	}
	size := 0
	for a := n; a.parent != 0; a = t.node(a.parent) {
		size += 1 + int(a.nameLen)
	}
	var b strings.Builder
	b.Grow(size)
	t.writePath(&b, n)
	return b.String()
}

func (t *Tree) writePath(b *strings.Builder, n *Node) {
	var names [32]*Node
	chain := names[:0]
	for a := n; a.parent != 0; a = t.node(a.parent) {
		chain = append(chain, a)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.Write(chain[i].name())
	}
}

// Len is the number of nodes.
func (t *Tree) Len() int { return int(t.nodes) }

// NodeCount is the number that ZooKeeper shows: it counts the root twice, so an empty
// server has 5.
func (t *Tree) NodeCount() int { return int(t.nodes) + 1 }

// ApproximateDataSize is the bytes of all paths and all data, as ZooKeeper counts them (44
// for an empty server).
func (t *Tree) ApproximateDataSize() int64 { return t.size }

// Descendants is the number of nodes below n, at any depth.
func (t *Tree) Descendants(n *Node) int {
	if n.dir == nil {
		return 0
	}
	return int(n.dir.nodes)
}

// NextSequence is the number that the next sequential child of parent gets: the children
// ever created under it. The counter has 64 bits; a name has room for 31, so from 1<<31 on
// the caller must refuse instead of letting names collide.
func (t *Tree) NextSequence(parent *Node) int64 { return parent.created() }

// Create makes the node at path. The parent must exist and not be ephemeral, the node must
// not exist, and the path must be valid: the caller has checked. data is copied.
func (t *Tree) Create(path string, data []byte, ref acl.Ref, owner Owner, zxid, timeMs int64) *Node {
	dirPath, name, _ := SplitPath(path)
	parent := t.Lookup(dirPath)
	if parent == nil {
		panic(fmt.Sprintf("znode: create %q without a parent", path))
	}
	return t.CreateChild(parent, name, data, ref, owner, zxid, timeMs)
}

// CreateChild is Create for a caller that has the parent.
func (t *Tree) CreateChild(parent *Node, name string, data []byte, ref acl.Ref, owner Owner, zxid, timeMs int64) *Node {
	if parent.owner.Kind() == Ephemeral || !owner.valid() {
		panic(fmt.Sprintf("znode: create of %q under %q with owner %#x breaks a rule", name, t.Path(parent), uint64(owner)))
	}
	t.change(parent)
	d := parent.needDir()
	d.created++
	d.pzxid = zxid
	t.changed(parent)

	n := t.alloc(t.epoch)
	n.nameLen = uint32(len(name))
	n.setText(name, data)
	n.czxid, n.mzxid, n.ctimeMs, n.mtimeMs = zxid, zxid, timeMs, timeMs
	n.owner, n.acl = owner, ref
	t.plant(n, parent)
	t.journalCreate(n)

	if t.hasQuotas() {
		t.quotaCreated(parent, n)
	}
	return n
}

// Delete removes n, which must have no children and not be reserved.
func (t *Tree) Delete(n *Node, zxid int64) {
	if n.NumChildren() != 0 || n.index <= reservedNodes {
		panic(fmt.Sprintf("znode: delete of %q, which has children or is reserved", t.Path(n)))
	}
	path, size := "", n.dataLen()
	if t.hasQuotas() {
		path = t.Path(n)
	}
	parent := t.node(n.parent)
	t.change(parent)
	parent.needDir().pzxid = zxid
	t.changed(parent)

	t.preserve(n)
	t.journalDelete(n)
	t.uproot(n)
	if path != "" {
		t.quotaChanged(path, -1, -size)
	}
}

// SetData replaces the data of n by a copy of data.
func (t *Tree) SetData(n *Node, data []byte, zxid, timeMs int64) {
	t.setData(n, data, zxid, timeMs, nextVersion(n.version))
}

// SetConfig is SetData of /zookeeper/config as a configuration change does it: the version
// is -1 as on a ZooKeeper ensemble, and the configuration is known by mzxid.
func (t *Tree) SetConfig(data []byte, zxid, timeMs int64) *Node {
	n := t.node(configIndex)
	t.setData(n, data, zxid, timeMs, -1)
	return n
}

func (t *Tree) setData(n *Node, data []byte, zxid, timeMs int64, version int32) {
	t.change(n)
	delta := t.replaceData(n, data)
	n.mzxid, n.mtimeMs, n.version = zxid, timeMs, version
	t.changed(n)
	if t.hasQuotas() && delta != 0 {
		t.quotaChanged(t.Path(n), 0, delta)
	}
}

// SetACL gives n another list. The caller keeps the counts of references.
func (t *Tree) SetACL(n *Node, ref acl.Ref) {
	t.change(n)
	n.acl = ref
	n.aversion = nextVersion(n.aversion)
	t.changed(n)
}

// change must be called before any field of n changes that a client can see.
func (t *Tree) change(n *Node) {
	t.preserve(n)
	t.journalChange(n)
	t.discount(n)
}

// changed must be called after it.
func (t *Tree) changed(n *Node) {
	n.sumStat(&t.stat)
	t.count(n)
}

// replaceData changes the data and what follows from it but the digests, and returns by how
// much its length grew.
func (t *Tree) replaceData(n *Node, data []byte) int64 {
	old := n.dataLen()
	name := n.name()
	text := make([]byte, 0, len(name)+len(data))
	n.text = append(append(text, name...), data...)
	n.setNull(data == nil)
	n.sumText()
	delta := n.dataLen() - old
	t.grow(n, delta)
	return delta
}

// setText gives a new node its name and data.
func (n *Node) setText(name string, data []byte) {
	text := make([]byte, 0, len(name)+len(data))
	n.text = append(append(text, name...), data...)
	n.setNull(data == nil)
}

func (n *Node) setNull(null bool) {
	n.flags &^= flagNull
	if null {
		n.flags |= flagNull
	}
}

// grow adds delta bytes of data of n to the sums.
func (t *Tree) grow(n *Node, delta int64) {
	if delta == 0 {
		return
	}
	t.size += delta
	for i := n.parent; i != 0; {
		a := t.node(i)
		a.dir.bytes += delta
		i = a.parent
	}
}

// plant puts a node that has its name, data and stat under parent (nil: it is the root):
// child list, index, sets, sums, digests. The parent's own counters are the caller's.
func (t *Tree) plant(n, parent *Node) {
	if parent != nil {
		t.link(n, parent)
		name := string(n.name())
		if !t.index.insert(&t.arena, t.index.hash(n.parent, name), n.index, n.parent, name) {
			panic(fmt.Sprintf("znode: create of %q, which exists", t.Path(n)))
		}
		n.pathCRC = childPathCRC(parent, n.name())
		parent.dir.note(n, true)
	}
	t.addToSets(n)
	t.addToSums(n, 1)
	n.sumText()
	n.sumStat(&t.stat)
	t.count(n)
}

// uproot is the opposite of plant, and frees the slot.
func (t *Tree) uproot(n *Node) {
	parent := t.node(n.parent)
	t.discount(n)
	t.addToSums(n, -1)
	t.removeFromSets(n)
	parent.dir.note(n, false)
	t.index.remove(t.index.hash(n.parent, string(n.name())), n.index)
	t.unlink(n, parent)
	t.release(n)
}

func (t *Tree) link(n, parent *Node) {
	d := parent.needDir()
	n.parent = parent.index
	n.next, n.prev = d.first, 0
	if d.first != 0 {
		t.node(d.first).prev = n.index
	}
	d.first = n.index
	d.count++
	if parent.index == zookeeperIndex || parent.flags&flagHidden != 0 {
		n.flags |= flagHidden
	}
}

func (t *Tree) unlink(n, parent *Node) {
	d := parent.dir
	if n.prev == 0 {
		d.first = n.next
	} else {
		t.node(n.prev).next = n.next
	}
	if n.next != 0 {
		t.node(n.next).prev = n.prev
	}
	d.count--
}

// addToSums counts n (sign 1) or stops counting it (-1) in its ancestors and the tree.
func (t *Tree) addToSums(n *Node, sign int64) {
	bytes := sign * n.dataLen()
	path := int64(0)
	if n.parent != 0 {
		path = 1 + int64(n.nameLen)
	}
	for i := n.parent; i != 0; {
		a := t.node(i)
		a.dir.nodes += sign
		a.dir.bytes += bytes
		if a.parent != 0 {
			path += 1 + int64(a.nameLen)
		}
		i = a.parent
	}
	t.nodes += sign
	t.size += bytes + sign*path
	if n.index == rootIndex {
		t.size += sign // ZooKeeper has the root as "" and as "/"
	}
}
