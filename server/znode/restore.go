package znode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/zkd-project/zkd/server/acl"
)

// Restore reads a tree that Snapshot.Write wrote; r must end where the tree ends. aclDigest
// is as for New and must know the lists already, for the digest is compared with the
// written one. Damaged input is an error. The nodes are numbered anew, without gaps.
func Restore(r io.Reader, aclDigest func(acl.Ref) uint64) (*Tree, error) {
	rs := &restorer{in: source{r: r}, t: emptyTree(aclDigest)}
	err := rs.build()
	if err == nil {
		err = rs.verify()
	}
	if err != nil {
		return nil, fmt.Errorf("restore the tree: %w", err)
	}
	return rs.t, nil
}

// A restorer reads all nodes into the arena first, since they come in any order, and then
// ties them together from the root down.
type restorer struct {
	in      source
	t       *Tree
	places  placeMap // where the node with that index in the stream is
	nodes   uint64
	digest  uint64
	zk      uint64
	bound   uint64
	scratch []byte
}

// build makes a tree that keeps the invariants, or fails.
func (r *restorer) build() error {
	if err := r.head(); err != nil {
		return err
	}
	if err := r.readNodes(); err != nil {
		return err
	}
	if err := r.tail(); err != nil {
		return err
	}
	if err := r.link(); err != nil {
		return err
	}
	return r.sum()
}

// verify compares the digests that build has calculated with those that were written.
func (r *restorer) verify() error {
	t := r.t
	if t.digest != r.digest || t.zkDigest != r.zk {
		return fmt.Errorf("the digest is %016x, written was %016x (ZooKeeper's: %d, %d): the snapshot is damaged, take another one",
			t.digest, r.digest, t.zkDigest, r.zk)
	}
	return nil
}

func (r *restorer) head() error {
	format, err := r.in.uvarint(math.MaxUint64)
	if err != nil {
		return err
	}
	if format != snapshotFormat {
		return fmt.Errorf("the format is %d, this version reads %d: use the version that wrote it", format, snapshotFormat)
	}
	if r.bound, err = r.in.uvarint(maxNodes); err != nil {
		return err
	}
	if r.nodes, err = r.in.uvarint(r.bound); err != nil {
		return err
	}
	if r.nodes < reservedNodes {
		return fmt.Errorf("%d nodes are less than every tree has", r.nodes)
	}
	b, err := r.in.bytes(r.scratch, 16)
	if err != nil {
		return err
	}
	r.digest, r.zk = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	return nil
}

func (r *restorer) tail() error {
	b, err := r.in.uvarint(math.MaxUint64)
	if err != nil {
		return err
	}
	if b != snapshotTail {
		return fmt.Errorf("the number after the last node is %#x", b)
	}
	return r.in.end()
}

// readNodes puts the nodes into the arena; parent is still the index in the stream. The
// reserved nodes keep their places, which are the first ones in every tree; the others are
// placed as they come.
func (r *restorer) readNodes() error {
	t := r.t
	for range reservedNodes {
		n := t.alloc(0)
		n.flags = 0
	}
	for k := range r.nodes {
		if err := r.readNode(); err != nil {
			return fmt.Errorf("node %d of %d: %w", k+1, r.nodes, err)
		}
	}
	for i := rootIndex; i <= reservedNodes; i++ {
		if t.node(i).flags&flagUsed == 0 {
			return errors.New("a reserved node is missing")
		}
	}
	t.nodes = int64(r.nodes)
	return nil
}

func (r *restorer) readNode() error {
	old, err := r.in.uvarint(r.bound)
	if err != nil {
		return err
	}
	var n *Node
	if old <= reservedNodes {
		n = r.t.node(max(uint32(old), rootIndex))
		if old == 0 || n.flags&flagUsed != 0 {
			return fmt.Errorf("index %d is no node's, or comes twice", old)
		}
		n.flags = flagUsed
	} else {
		n = r.t.alloc(0)
	}
	if !r.places.set(uint32(old), n.index) {
		return fmt.Errorf("index %d comes twice", old)
	}
	return r.readImage(n)
}

func (r *restorer) readImage(n *Node) error {
	parent, err := r.in.uvarint(r.bound)
	if err != nil {
		return err
	}
	m := image{parent: uint32(parent)}
	if err := r.readText(&m); err != nil {
		return err
	}
	d := fields{in: &r.in}
	m.czxid = int64(d.uvarint(math.MaxUint64))
	m.mzxid = m.czxid + d.varint()
	m.pzxid = m.czxid + d.varint()
	m.ctimeMs = d.varint()
	m.mtimeMs = m.ctimeMs + d.varint()
	m.version = d.int32()
	m.aversion = d.int32()
	m.created = int64(d.uvarint(math.MaxInt64))
	m.acl = acl.Ref(d.uvarint(math.MaxUint32))
	m.owner = Owner(d.varint())
	if d.err != nil {
		return d.err
	}
	if !m.owner.valid() || n.index <= reservedNodes && m.owner != NoOwner {
		return fmt.Errorf("owner %#x is not allowed", uint64(m.owner))
	}
	n.parent = m.parent
	n.setImage(&m)
	return nil
}

// readText reads name and data into one allocation. Lengths are believed only as far as
// bytes follow.
func (r *restorer) readText(m *image) error {
	name, err := r.in.uvarint(math.MaxInt32)
	if err != nil {
		return err
	}
	if r.scratch, err = r.in.bytes(r.scratch[:0], int(name)); err != nil {
		return err
	}
	m.nameLen = uint32(name)
	data, err := r.in.uvarint(math.MaxInt32)
	if err != nil {
		return err
	}
	m.null = data == 0
	data -= min(data, 1)
	text := make([]byte, 0, int(name)+min(int(data), snapshotBuffer))
	m.text, err = r.in.bytes(append(text, r.scratch...), int(data))
	return err
}

// fields reads numbers; the first error sticks.
type fields struct {
	in  *source
	err error
}

func (d *fields) uvarint(limit uint64) (v uint64) {
	if d.err == nil {
		v, d.err = d.in.uvarint(limit)
	}
	return v
}

func (d *fields) varint() (v int64) {
	u := d.uvarint(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

func (d *fields) int32() int32 {
	v := d.varint()
	if d.err == nil && int64(int32(v)) != v {
		d.err = fmt.Errorf("version %d does not fit", v)
	}
	return int32(v)
}

// link turns parents into places, and makes child lists, index and sets.
func (r *restorer) link() error {
	t := r.t
	t.index.reserve(int(t.nodes))
	for i := t.end - 1; i > 0; i-- { // backwards: child lists get the first ones in front
		n := t.node(i)
		old := n.parent
		n.parent = 0
		if i == rootIndex {
			if old != 0 || n.nameLen != 0 {
				return errors.New("the root has a name or a parent")
			}
			continue
		}
		at := r.places.get(old)
		if at == 0 {
			return fmt.Errorf("the parent of node %q is missing", n.name())
		}
		parent := t.node(at)
		if parent.owner.Kind() == Ephemeral {
			return fmt.Errorf("node %q is below an ephemeral node", n.name())
		}
		name := string(n.name())
		if fault := nameFault(name); fault != "" {
			return fmt.Errorf("the name %q must not %s", name, fault)
		}
		t.link(n, parent)
		if !t.index.insert(&t.arena, t.index.hash(at, name), i, at, name) {
			return fmt.Errorf("the name %q comes twice under one parent", name)
		}
		t.addToSets(n)
	}
	return r.checkReserved()
}

func (r *restorer) checkReserved() error {
	for i, path := range reservedPaths {
		if n := r.t.Lookup(path); n == nil || n.index != rootIndex+uint32(i) {
			return fmt.Errorf("reserved node %s is missing or not in its place", path)
		}
	}
	return nil
}

var reservedPaths = [...]string{"/", ZooKeeperPath, QuotaPath, ConfigPath}

// sum goes down from the root: paths' checksums need the parents', and what is not reached
// hangs in a cycle. Then it adds up sizes from the leaves.
func (r *restorer) sum() error {
	t := r.t
	order := make([]uint32, 1, t.nodes)
	order[0] = rootIndex
	pathLens := int64(1) // the root is "" and "/"
	lens := make([]int64, t.end)
	for k := 0; k < len(order); k++ {
		n := t.node(order[k])
		if n.parent != 0 {
			parent := t.node(n.parent)
			n.pathCRC = childPathCRC(parent, n.name())
			n.flags |= parent.flags & flagHidden
			lens[n.index] = lens[n.parent] + 1 + int64(n.nameLen)
			pathLens += lens[n.index]
		}
		n.sumText()
		n.sumStat(&t.stat)
		t.count(n)
		if n.dir != nil {
			for i := n.dir.first; i != 0; i = t.node(i).next {
				order = append(order, i)
			}
		}
	}
	if int64(len(order)) != t.nodes {
		return fmt.Errorf("%d of %d nodes are not below the root", t.nodes-int64(len(order)), t.nodes)
	}
	for k := len(order) - 1; k > 0; k-- {
		n := t.node(order[k])
		d := t.node(n.parent).dir
		d.nodes++
		d.bytes += n.dataLen()
		if n.dir != nil {
			d.nodes += n.dir.nodes
			d.bytes += n.dir.bytes
		}
	}
	t.size = pathLens + t.Root().dataLen() + t.Root().dir.bytes
	return nil
}

// A placeMap maps the numbers of a stream to places in the arena. They are mostly dense,
// but a damaged stream may name any; so there is a page of 64 for each number that comes.
type placeMap struct {
	pages map[uint32]*[64]uint32
	last  *[64]uint32 // numbers mostly come in order
	at    uint32      // which page last is
}

// set returns false if the number is set already.
func (m *placeMap) set(number, place uint32) bool {
	if m.pages == nil {
		m.pages = make(map[uint32]*[64]uint32)
	}
	p := m.page(number / 64)
	if p == nil {
		p = new([64]uint32)
		m.pages[number/64] = p
		m.last, m.at = p, number/64
	}
	if p[number%64] != 0 {
		return false
	}
	p[number%64] = place
	return true
}

func (m *placeMap) get(number uint32) uint32 {
	p := m.page(number / 64)
	if p == nil {
		return 0
	}
	return p[number%64]
}

func (m *placeMap) page(k uint32) *[64]uint32 {
	if m.last == nil || m.at != k {
		m.last, m.at = m.pages[k], k
	}
	return m.last
}
