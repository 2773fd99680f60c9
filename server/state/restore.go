package state

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A backup is put in the place of the tree, or of a part of it, while clients are served. It may
// be larger than a log entry can be, so it comes in pieces, which every machine keeps, and takes
// effect with the last command:
//
//	RestoreBegin ──► RestoreChunk … ──► RestoreCommit    all of it, at one zxid (restorecommit.go)
//	                                └─► RestoreAbort     nothing
//
// Each chunk is judged when it comes: what is kept is always the beginning of a tree in order,
// so that the commit has nothing to find out halfway. What is kept is part of the machine, of
// its digest and of its snapshots. docs/decisions/0010-restore.md has the argument.

// A restores is what a machine knows of restores. It is nil until there was one.
type restores struct {
	last *Restored // how the last one ended; nil if none has
	now  *staging  // the one under way, nil if there is none
}

// Restored says how a restore has ended.
type Restored struct {
	ID     int64  // its number
	Path   string // what was replaced
	Code   wire.Code
	Zxid   int64 // of the commit
	TimeMs int64

	Created uint64 // nodes that were missing
	Changed uint64 // nodes that had other data, another list or another kind
	Deleted uint64 // nodes that the backup does not have
	Kept    uint64 // ephemeral nodes of living sessions that stay as they are
}

// A Restoring says how far a restore is.
type Restoring struct {
	ID     int64
	Path   string
	Chunks uint64
	Nodes  uint64
}

// A staging holds the chunks of a restore under way.
type staging struct {
	id        int64
	path      string
	touchedMs int64    // when the last piece came
	chunks    [][]byte // only grows: snapshots share it
	bytes     int64    // in chunks
	nodes     uint64
	sum       uint64 // of all chunks, see RestoreSum
	last      string // path of the last node, "" before the first
}

const (
	// stagingPatienceMs is for how long a restore may make no progress, by the clock of the
	// leaders. Then whoever has begun it is gone, and what has come is dropped.
	stagingPatienceMs = 2 * 60 * 1000
	// maxStagedBytes bounds what a restore keeps in the memory of every server. It is part of what
	// commands mean, as is the one before.
	maxStagedBytes = 16 << 30
)

// restore applies a step.
func (m *Machine) restore(c *Command, r *Result) {
	if m.level < LevelRestore {
		refuse(r) // nobody proposes it: some servers could not read it
		return
	}
	if m.restores == nil {
		m.restores = &restores{}
	}
	switch c.Restore {
	case RestoreBegin:
		m.beginRestore(c, r)
	case RestoreChunk:
		m.takeChunk(c, r)
	case RestoreCommit:
		m.commitRestore(c, r)
	case RestoreAbort:
		if s := m.restores.now; s != nil && s.id == c.Target {
			m.restores.now = nil
		} else {
			r.Outcome = Stale
		}
	default:
		refuse(r)
	}
}

func (m *Machine) beginRestore(c *Command, r *Result) {
	switch now := m.restores.now; {
	case now != nil && now.id == c.Target, m.restores.last != nil && m.restores.last.ID == c.Target:
		r.Outcome = Duplicate
	case now != nil:
		r.Outcome = Stale
	case !restorable(c.Path):
		refuse(r)
	default:
		m.restores.now = &staging{id: c.Target, path: c.Path, touchedMs: m.timeMs}
	}
}

// restorable says whether a backup may go there. What is below /zookeeper goes with the whole
// tree alone: it makes sense together with it.
func restorable(path string) bool {
	return path == "/" || znode.CheckPath(path) == nil && !within(path, znode.ZooKeeperPath)
}

// within says whether path is at or below root.
func within(path, root string) bool {
	return root == "/" || len(path) >= len(root) && path[:len(root)] == root && (len(path) == len(root) || path[len(root)] == '/')
}

func (m *Machine) takeChunk(c *Command, r *Result) {
	s := m.restores.now
	have := uint64(0)
	if s != nil {
		have = uint64(len(s.chunks))
	}
	switch {
	case s == nil || s.id != c.Target:
		r.Outcome = Stale
	case c.Req <= have:
		r.Outcome = Duplicate
	case c.Req > have+1:
		r.Outcome = Gap
	case s.add(c.Body) != nil:
		refuse(r)
	default:
		s.touchedMs = m.timeMs
	}
}

// dropStalledRestore drops what nobody goes on with. It is called for every batch, and decides
// by the time of the log, so all servers do it at the same place.
func (m *Machine) dropStalledRestore() {
	if m.restores != nil && m.restores.now != nil && m.timeMs-m.restores.now.touchedMs > stagingPatienceMs {
		m.restores.now = nil
	}
}

var errStagedBytes = errors.New("the backup is larger than a restore may be")

// add judges a chunk and keeps a copy of it. After an error nothing has changed.
func (s *staging) add(chunk []byte) error {
	if s.bytes+int64(len(chunk)) > maxStagedBytes {
		return errStagedBytes
	}
	d := restoreDecoder{in: input{b: chunk}, last: s.last}
	nodes := uint64(0)
	for d.next() {
		if err := s.judge(&d); err != nil {
			return err
		}
		nodes++
	}
	if d.in.err != nil {
		return d.in.err
	}
	s.chunks = append(s.chunks, slices.Clone(chunk))
	s.bytes += int64(len(chunk))
	s.nodes += nodes
	s.sum = RestoreSum(s.sum, chunk)
	s.last = d.last
	return nil
}

var errRestoredNode = errors.New("a node that cannot be restored, or not at this place")

// judge says whether the node may come next.
func (s *staging) judge(d *restoreDecoder) error {
	n := &d.node
	kind := n.Owner.Kind()
	switch {
	case d.before == "" && n.Path != s.path,
		d.before != "" && (!within(n.Path, s.path) || !follows(d.before, n.Path)),
		n.Path != "/" && znode.CheckPath(n.Path) != nil,
		within(n.Path, znode.ConfigPath),
		!znode.ValidOwner(n.Owner) || kind == znode.Ephemeral,
		znode.Reserved(n.Path) && kind != znode.Persistent:
		return errRestoredNode
	}
	return nil
}

// RestoreSum is the sum of chunks when one more has come; it begins with 0.
func RestoreSum(sum uint64, chunk []byte) uint64 {
	x := uint64(crc32.Checksum(chunk, castagnoli))<<32 | uint64(crc32.ChecksumIEEE(chunk))
	for _, w := range [...]uint64{sum, uint64(len(chunk))} { // splitmix64's finalizer
		x ^= w
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// LastRestore says how the last restore has ended; ok is false if none has.
func (m *Machine) LastRestore() (last Restored, ok bool) {
	if m.restores == nil || m.restores.last == nil {
		return Restored{}, false
	}
	return *m.restores.last, true
}

// Restoring is the restore under way; ok is false if there is none.
func (m *Machine) Restoring() (now Restoring, ok bool) {
	if m.restores == nil || m.restores.now == nil {
		return Restoring{}, false
	}
	s := m.restores.now
	return Restoring{s.id, s.path, uint64(len(s.chunks)), s.nodes}, true
}

// fixed is what the restores are now, for a snapshot; nil if there is nothing to tell.
func (rs *restores) fixed() *restores {
	if rs == nil {
		return nil
	}
	c := *rs // Restored never changes
	if c.now != nil {
		s := *c.now
		s.chunks = s.chunks[:len(s.chunks):len(s.chunks)]
		c.now = &s
	}
	return &c
}

// digest covers all of it; that of the chunks is their sum.
func (rs *restores) digest() uint64 {
	b := rs.appendLast(nil)
	if s := rs.now; s != nil {
		b = s.appendHead(b)
		b = binary.AppendUvarint(b, s.nodes)
		b = binary.BigEndian.AppendUint64(b, s.sum)
	}
	return digestOf(b)
}

// check verifies invariant M6 by judging everything again.
func (rs *restores) check() error {
	s := rs.now
	if s == nil {
		return nil
	}
	again := staging{id: s.id, path: s.path}
	for _, chunk := range s.chunks {
		if err := again.add(chunk); err != nil {
			return err
		}
	}
	if again.nodes != s.nodes || again.sum != s.sum || again.last != s.last || again.bytes != s.bytes {
		return errors.New("the chunks of a restore are not what they were")
	}
	return nil
}
