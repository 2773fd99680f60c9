package znode

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// Two digests are kept up to date with every change, both sums (wrapping, so that the order
// of nodes does not matter) of one number per node:
//
//	ZKDigest  ZooKeeper's (version 2): CRC-32 of path, data and persisted stat, over all
//	          nodes but those below /zookeeper; ZooKeeper's logs carry it.
//	Digest    ours: that CRC, a second CRC of the data, the content of the ACL, whether the
//	          data is null, and all 64 bits of the children created, over all nodes.
//
// A CRC can be continued: a node keeps that of its path (a child goes on from there) and
// that of path and data (a new stat goes on from there). So a change of the stat costs 60
// bytes of CRC, whatever the size of the data, and a new node 60 bytes and its own name and
// data. The second polynomial makes the sum sensitive to 64 bits of the data instead of 32.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// childPathCRC continues the CRC of a parent's path.
func childPathCRC(parent *Node, name []byte) uint32 {
	c := ^parent.pathCRC
	c = ^(crc32.IEEETable[byte(c)^'/'] ^ c>>8) // one step, without a call
	return crc32.Update(c, crc32.IEEETable, name)
}

// sumText renews the checksums of the data; pathCRC must be right.
func (n *Node) sumText() {
	data := n.text[n.nameLen:]
	n.bodyCRC = crc32.Update(n.pathCRC, crc32.IEEETable, data)
	n.dataCRC = crc32.Update(n.pathCRC, castagnoli, data)
}

// statBytes is the length of a StatPersisted on ZooKeeper's disk.
const statBytes = 60

// sumStat renews the checksum that covers everything; bodyCRC must be right. b is scratch
// space: a local one would be allocated, since package crc32 calls through a variable.
func (n *Node) sumStat(b *[statBytes]byte) {
	be := binary.BigEndian
	be.PutUint64(b[0:], uint64(n.czxid))
	be.PutUint64(b[8:], uint64(n.mzxid))
	be.PutUint64(b[16:], uint64(n.pzxid()))
	be.PutUint64(b[24:], uint64(n.ctimeMs))
	be.PutUint64(b[32:], uint64(n.mtimeMs))
	be.PutUint32(b[40:], uint32(n.version))
	be.PutUint32(b[44:], uint32(n.created()))
	be.PutUint32(b[48:], uint32(n.aversion))
	be.PutUint64(b[52:], uint64(n.owner))
	n.statCRC = crc32.Update(n.bodyCRC, crc32.IEEETable, b[:])
}

// share is what the node adds to Digest.
func (t *Tree) share(n *Node) uint64 {
	list := uint64(n.acl)
	if t.aclDigest != nil {
		list = t.aclDigest(n.acl)
	}
	x := uint64(n.statCRC)<<32 | uint64(n.dataCRC)
	rest := uint64(n.created())>>32<<1 | uint64(n.flags&flagNull)/uint64(flagNull)
	return fold(fold(x, list), rest)
}

// fold mixes two words into one.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo ^ a
}

// count adds the node to the digests, discount takes it out. In between its fields may
// change.
func (t *Tree) count(n *Node) {
	t.digest += t.share(n)
	if n.flags&flagHidden == 0 {
		t.zkDigest += uint64(n.statCRC)
	}
}

func (t *Tree) discount(n *Node) {
	t.digest -= t.share(n)
	if n.flags&flagHidden == 0 {
		t.zkDigest -= uint64(n.statCRC)
	}
}

// Digest is a 64-bit sum over all that the tree holds: paths, data, stats, contents of
// ACLs, quotas, sequence counters. Equal logs give equal digests. It is no defence against
// an adversary.
func (t *Tree) Digest() uint64 { return t.digest }

// ZKDigest is the digest that ZooKeeper (3.6 and later, digest version 2) has for the same
// tree.
func (t *Tree) ZKDigest() uint64 { return t.zkDigest }
