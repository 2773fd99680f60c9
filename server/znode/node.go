package znode

import (
	"math"
	"sync/atomic"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

// A Node is one node of a Tree. It has 128 bytes, so that a chunk of the arena has a round
// size; think twice before adding a field.
type Node struct {
	// text is the name and then the data, in one allocation. It is never written after it
	// was set: readers, the undo journal and snapshots share it.
	text []byte
	// dir is nil as long as the node never had a child.
	dir *dir

	czxid, mzxid     int64
	ctimeMs, mtimeMs int64
	owner            Owner
	version          int32
	aversion         int32
	acl              acl.Ref

	index      uint32 // where the node is in the arena
	parent     uint32
	next, prev uint32 // siblings, 0 at the ends
	nameLen    uint32

	// epoch is the number of the last snapshot that need not look at this node any more:
	// the node was made, or its pre-image was saved, after that snapshot had begun.
	epoch uint32

	// Checksums, see digest.go.
	pathCRC uint32 // of the path
	bodyCRC uint32 // of the path and the data
	dataCRC uint32 // of the data, with another polynomial
	statCRC uint32 // of the path, the data and the persisted stat

	flags uint8
}

// dir is what a node has besides if it has, or once had, children.
type dir struct {
	// created counts the children ever created, of any kind; deletions do not lower it. It
	// is the next sequence number. Clients see cversion = 2*created - count, the number of
	// changes (DataNode.copyStat in Apache ZooKeeper). The nodes of the reserved tree do
	// not count.
	created int64
	pzxid   int64 // zxid of the last create or delete of a child; at first the node's czxid

	count uint32 // children now
	first uint32 // the newest child, 0 if none; next leads to the others

	// nodes and bytes are those of all descendants, without the node itself: so the
	// number of descendants and the true values of a quota cost no walk.
	nodes int64
	bytes int64

	view atomic.Pointer[view] // cached sorted children; see children.go
}

// Flags of a node.
const (
	flagUsed   uint8 = 1 << iota // the slot holds a node
	flagNull                     // the data is null, which clients can tell from empty
	flagHidden                   // below /zookeeper: not part of ZooKeeper's digest
)

// Name is the last component of the node's path, "" for the root.
func (n *Node) Name() string { return string(n.name()) }

func (n *Node) name() []byte { return n.text[:n.nameLen] }

// Data is the node's data, nil if it is null. It must not be changed, and stays as it is
// when the node changes.
func (n *Node) Data() []byte {
	if n.flags&flagNull != 0 {
		return nil
	}
	return n.text[n.nameLen:len(n.text):len(n.text)]
}

func (n *Node) dataLen() int64 { return int64(len(n.text)) - int64(n.nameLen) }

// Version is the number of changes of the data.
func (n *Node) Version() int32 { return n.version }

// Aversion is the number of changes of the ACL.
func (n *Node) Aversion() int32 { return n.aversion }

// ACL names the node's access control list.
func (n *Node) ACL() acl.Ref { return n.acl }

// NumChildren is the number of children.
func (n *Node) NumChildren() int {
	if n.dir == nil {
		return 0
	}
	return int(n.dir.count)
}

// Kind says what ends the node's life.
func (n *Node) Kind() Kind { return n.owner.Kind() }

// Owner is the session that owns the node, 0 unless it is ephemeral.
func (n *Node) Owner() int64 { return n.owner.Session() }

// RawOwner is the owner as it is stored, with the marks of container and TTL nodes.
func (n *Node) RawOwner() Owner { return n.owner }

// TTLMs is the time to live of a TTL node in milliseconds, 0 for others.
func (n *Node) TTLMs() int64 { return n.owner.TTLMs() }

// Stat is what clients see of the node.
func (n *Node) Stat() wire.Stat {
	st := wire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.czxid,
		CtimeMs: n.ctimeMs, MtimeMs: n.mtimeMs,
		Version: n.version, Aversion: n.aversion,
		EphemeralOwner: n.owner.Session(),
		DataLength:     int32(n.dataLen()),
	}
	if d := n.dir; d != nil {
		st.Pzxid = d.pzxid
		st.NumChildren = int32(d.count)
		st.Cversion = int32(2*d.created - int64(d.count))
	}
	return st
}

// A Persisted is the stat as ZooKeeper stores it (StatPersisted): Cversion is the low half
// of the number of children ever created, and the owner is raw.
type Persisted struct {
	Czxid, Mzxid, Pzxid         int64
	CtimeMs, MtimeMs            int64
	Version, Cversion, Aversion int32
	Owner                       Owner
}

// Persisted is the stat as ZooKeeper stores it.
func (n *Node) Persisted() Persisted {
	return Persisted{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid(),
		CtimeMs: n.ctimeMs, MtimeMs: n.mtimeMs,
		Version: n.version, Cversion: int32(n.created()), Aversion: n.aversion,
		Owner: n.owner,
	}
}

func (n *Node) pzxid() int64 {
	if n.dir == nil {
		return n.czxid
	}
	return n.dir.pzxid
}

func (n *Node) created() int64 {
	if n.dir == nil {
		return 0
	}
	return n.dir.created
}

// needDir is n.dir, made if there is none yet.
func (n *Node) needDir() *dir {
	if n.dir == nil {
		n.dir = &dir{pzxid: n.czxid}
	}
	return n.dir
}

// nextVersion is the version after v. It wraps like Java's int, but skips -1, which stands
// for "any version" in requests: after -2 comes 0 (Apache ZooKeeper 3.10; older versions do
// reach -1).
func nextVersion(v int32) int32 {
	switch v {
	case -2:
		return 0
	case math.MaxInt32:
		return math.MinInt32
	}
	return v + 1
}
