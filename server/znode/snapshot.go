package znode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// A snapshot is the tree at one moment, written while the tree goes on changing.
//
//	Snapshot():  epoch++; bound = end of the arena; pos = 1
//	walker:      under the readers' lock, copies the used slots [pos, pos+chunk) whose epoch
//	             is not the snapshot's, and takes what the writer has saved; without the
//	             lock, encodes and writes it
//	writer:      before it changes or deletes a node whose epoch is not the snapshot's and
//	             that is in [pos, bound), saves its image and sets the node's epoch;
//	             a new node has the epoch from the start
//
// Argument. Take a node that existed at the moment of Snapshot. If nobody changes it before
// the walker comes, the walker copies it as it was. If the writer changes it first, it saves
// the image as it was and sets the epoch, so the walker skips the slot, also when the slot
// has been freed and used again by then, for a new node has the epoch too. After the walker
// has passed (index < pos) changes are of no interest. So every node is written exactly
// once, as it was. Names and data are shared, not copied: they are never written again.
//
// The lock is held for the copying of a thousand fixed-size records, some tens of
// microseconds. What the writer has saved is taken whole with each chunk; it is at most one
// image for each node that the walker has not yet passed, and holds on to the old data.
//
// The stream, all numbers as unsigned varints unless said otherwise (zigzag: signed ones):
//
//	head     format (1) | end of the arena | number of nodes | Digest, ZKDigest (8 bytes each)
//	node     index | parent's index (0: the root)
//	         len(name) | name | len(data)+1, or 0 for null | data
//	         czxid | zigzag(mzxid-czxid) | zigzag(pzxid-czxid)
//	         zigzag(ctime) | zigzag(mtime-ctime)
//	         zigzag(version) | zigzag(aversion) | created | ACL
//	         owner: zigzag
//	...      as many nodes as the head says, in any order
//	tail     0xee
//
// The differences make a node that was never changed 25 to 30 bytes plus name and data. The
// digest is checked at the end of Restore. There is no other checksum: the container
// (package server/snapshot) has them.
type Snapshot struct {
	tree     *Tree
	epoch    uint32
	bound    uint32 // the arena's end at the moment of the snapshot
	nodes    int64
	digest   uint64
	zkDigest uint64
	chunk    uint32 // slots walked under one lock
	busy     bool   // another snapshot was running: this one is void
	started  bool   // Write was called

	pos   uint32  // next slot to walk; changed by the walker under the readers' lock
	saved []image // by the writer; taken by the walker under the readers' lock

	closed atomic.Bool
}

const (
	snapshotFormat = 1
	snapshotTail   = 0xee

	// snapshotBuffer is how many bytes are encoded before they are written; data beyond it
	// is written by itself.
	snapshotBuffer = 64 << 10
)

// Errors of Snapshot.Write.
var (
	// ErrSnapshotBusy is returned when another snapshot of the tree was running at the
	// moment of Snapshot.
	ErrSnapshotBusy = errors.New("another snapshot of the tree is being written: try again when it has ended")
	// ErrSnapshotClosed is returned when Close came before the end of Write.
	ErrSnapshotClosed = errors.New("the snapshot was closed before it was written")
	// ErrSnapshotWritten is returned by the second Write, whatever came of the first.
	ErrSnapshotWritten = errors.New("the snapshot can be written only once: take another one")
)

// Snapshot fixes the tree as it is now, to be written by Write; it must be closed. It takes
// no longer for a large tree than for a small one. The caller is the writer. Only one
// snapshot can run at a time: the next one is void, and its Write fails.
func (t *Tree) Snapshot() *Snapshot {
	if t.inMulti {
		panic("znode: Snapshot inside of Begin")
	}
	s := &Snapshot{
		tree: t, bound: t.end, pos: 1, chunk: chunkNodes,
		nodes: t.nodes, digest: t.digest, zkDigest: t.zkDigest,
	}
	if t.snap.Load() != nil {
		s.busy = true
		return s
	}
	t.epoch++
	s.epoch = t.epoch
	t.snap.Store(s)
	return s
}

// Len is the number of nodes in the snapshot.
func (s *Snapshot) Len() int { return int(s.nodes) }

// Close ends the snapshot, also before or while it is written. It needs no lock and may be
// called more than once.
func (s *Snapshot) Close() {
	s.closed.Store(true)
	s.tree.snap.CompareAndSwap(s, nil)
}

// preserve saves the image of n if the running snapshot still needs it.
func (t *Tree) preserve(n *Node) {
	s := t.snap.Load()
	if s == nil || n.epoch == s.epoch {
		return
	}
	n.epoch = s.epoch
	if n.index >= s.pos && n.index < s.bound {
		s.saved = append(s.saved, n.image())
	}
}

// Write writes the snapshot to w. l is the readers' side of the lock that the writer of the
// tree holds; it is taken for short times and never while w is written to. It can be called
// once.
func (s *Snapshot) Write(l sync.Locker, w io.Writer) error {
	switch {
	case s.busy:
		return ErrSnapshotBusy
	case s.started:
		return ErrSnapshotWritten
	}
	s.started = true
	e := &encoder{w: w, buf: make([]byte, 0, snapshotBuffer+4096)}
	e.head(s)
	images := make([]image, 0, s.chunk)
	var written int64
	for more := true; more; {
		var saved []image
		images, saved, more = s.take(l, images[:0])
		if s.closed.Load() {
			return ErrSnapshotClosed
		}
		if err := e.images(images, saved); err != nil {
			return fmt.Errorf("write snapshot of the tree: %w", err)
		}
		written += int64(len(images) + len(saved))
		clear(images) // lets go of old data
	}
	if written != s.nodes {
		panic(fmt.Sprintf("znode: snapshot of %d nodes wrote %d", s.nodes, written))
	}
	e.buf = binary.AppendUvarint(e.buf, snapshotTail)
	if err := e.flush(); err != nil {
		return fmt.Errorf("write snapshot of the tree: %w", err)
	}
	return nil
}

// take copies the next chunk and takes what was saved. The last time it detaches the
// snapshot from the tree.
func (s *Snapshot) take(l sync.Locker, images []image) (walked, saved []image, more bool) {
	l.Lock()
	defer l.Unlock()
	t := s.tree
	for end := min(s.bound, s.pos+s.chunk); s.pos < end; s.pos++ {
		if n := t.node(s.pos); n.flags&flagUsed != 0 && n.epoch != s.epoch {
			images = append(images, n.image())
		}
	}
	saved, s.saved = s.saved, nil
	if s.pos < s.bound {
		return images, saved, true
	}
	t.snap.CompareAndSwap(s, nil)
	return images, saved, false
}

// An encoder appends to buf and writes it when it is full.
type encoder struct {
	w   io.Writer
	buf []byte
}

func (e *encoder) flush() error {
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	return err
}

func (e *encoder) head(s *Snapshot) {
	b := binary.AppendUvarint(e.buf, snapshotFormat)
	b = binary.AppendUvarint(b, uint64(s.bound))
	b = binary.AppendUvarint(b, uint64(s.nodes))
	b = binary.BigEndian.AppendUint64(b, s.digest)
	e.buf = binary.BigEndian.AppendUint64(b, s.zkDigest)
}

func (e *encoder) images(lists ...[]image) error {
	for _, list := range lists {
		for i := range list {
			if err := e.image(&list[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *encoder) image(m *image) error {
	b := binary.AppendUvarint(e.buf, uint64(m.index))
	b = binary.AppendUvarint(b, uint64(m.parent))
	b = binary.AppendUvarint(b, uint64(m.nameLen))
	b = append(b, m.text[:m.nameLen]...)
	data := m.text[m.nameLen:]
	if m.null {
		b = binary.AppendUvarint(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(len(data))+1)
	}
	e.buf = b
	if len(data) > snapshotBuffer {
		if err := e.flush(); err != nil {
			return err
		}
		if _, err := e.w.Write(data); err != nil {
			return err
		}
		data = nil
	}
	b = append(e.buf, data...)
	b = binary.AppendUvarint(b, uint64(m.czxid))
	b = binary.AppendVarint(b, m.mzxid-m.czxid)
	b = binary.AppendVarint(b, m.pzxid-m.czxid)
	b = binary.AppendVarint(b, m.ctimeMs)
	b = binary.AppendVarint(b, m.mtimeMs-m.ctimeMs)
	b = binary.AppendVarint(b, int64(m.version))
	b = binary.AppendVarint(b, int64(m.aversion))
	b = binary.AppendUvarint(b, uint64(m.created))
	b = binary.AppendUvarint(b, uint64(m.acl))
	e.buf = binary.AppendVarint(b, int64(m.owner))
	if len(e.buf) >= snapshotBuffer {
		return e.flush()
	}
	return nil
}
