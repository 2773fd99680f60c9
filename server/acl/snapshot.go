package acl

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/wire"
)

// A Snapshot is a Table as it was at one moment, while the table lives on. It copies
// nothing: before the table changes an entry that the snapshot still needs and has not yet
// written, it leaves a copy in saved.
//
// Format, integers as unsigned varints:
//
//	number of lists
//	per list, refs ascending: ref | count | length | vector<ACL> as on the wire
type Snapshot struct {
	t     *Table
	seq   uint64 // number of this snapshot
	total int    // lists to write
	last  Ref    // the highest ref that can be part of the snapshot

	// next and saved belong to the table's lock: Write holds the readers' side when it
	// looks, the table's owner the writers' side when it changes them.
	next   Ref // refs below it are written
	saved  map[Ref]image
	busy   bool // another snapshot was running: this one is void
	closed atomic.Bool
}

// Errors of Snapshot.Write.
var (
	// ErrSnapshotBusy is returned when another snapshot of the table was running at the
	// moment of Snapshot.
	ErrSnapshotBusy = errors.New("another snapshot of the access control lists is being written: try again when it has ended")
	// ErrSnapshotClosed is returned when Close came before the end of Write.
	ErrSnapshotClosed = errors.New("the snapshot of the access control lists was closed before it was written")
)

// An image is an entry before its first change.
type image struct {
	key   string
	count uint32
}

// chunkEntries is how many entries Write looks at under one lock: some 100 µs.
const chunkEntries = 512

// Snapshot fixes the table as it is now, to be written by Write; it must be closed. Only
// one can run at a time: the next one is void, and its Write fails.
func (t *Table) Snapshot() *Snapshot {
	s := &Snapshot{t: t, total: t.live, last: Ref(len(t.entries)), next: 1, saved: make(map[Ref]image)}
	if t.snap.Load() != nil {
		s.busy = true
		return s
	}
	t.snaps++
	s.seq = t.snaps
	t.snap.Store(s)
	return s
}

// preserve is called before every change of an entry.
func (t *Table) preserve(r Ref, e *entry) {
	s := t.snap.Load()
	if s == nil || e.covered == s.seq {
		return
	}
	e.covered = s.seq
	if e.count > 0 && r >= s.next {
		s.saved[r] = image{e.key, e.count}
	}
}

// Close ends the snapshot, also before or while it is written. It needs no lock and may be
// called more than once.
func (s *Snapshot) Close() {
	s.closed.Store(true)
	s.t.snap.CompareAndSwap(s, nil)
}

// Write writes the snapshot to w. It takes l, the readers' side of the lock that guards
// the table, for short moments only and not while it writes.
func (s *Snapshot) Write(l sync.Locker, w io.Writer) error {
	if s.busy {
		return ErrSnapshotBusy
	}
	b := binary.AppendUvarint(nil, uint64(s.total))
	written := 0
	for more := true; more; {
		var n int
		l.Lock()
		b, n, more = s.appendChunk(b)
		l.Unlock()
		if s.closed.Load() {
			return ErrSnapshotClosed
		}
		written += n
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write access control lists: %w", err)
		}
		b = b[:0]
	}
	if written != s.total {
		panic(fmt.Sprintf("acl: snapshot %d wrote %d lists of %d", s.seq, written, s.total))
	}
	return nil
}

// appendChunk appends the next entries, and says how many and whether there are more.
func (s *Snapshot) appendChunk(b []byte) (out []byte, n int, more bool) {
	end := min(s.next+chunkEntries, s.last+1)
	for ; s.next < end; s.next++ {
		im, ok := s.saved[s.next]
		if ok {
			delete(s.saved, s.next)
		} else if e := &s.t.entries[s.next-1]; e.count > 0 && e.covered != s.seq {
			im = image{e.key, e.count}
		} else {
			continue // free then, whatever it is now
		}
		b = binary.AppendUvarint(b, uint64(s.next))
		b = binary.AppendUvarint(b, uint64(im.count))
		b = binary.AppendUvarint(b, uint64(len(im.key)))
		b = append(b, im.key...)
		n++
	}
	return b, n, s.next <= s.last
}

// maxListBytes bounds a list in a snapshot. Lists come out of client frames, whose limit
// can be raised, but not so far.
const maxListBytes = 1 << 28

var errDamaged = errors.New("damaged access control lists in the snapshot")

// Restore reads what Write wrote.
func Restore(r io.Reader) (*Table, error) { return restore(r, maxRef) }

func restore(r io.Reader, highest uint64) (*Table, error) {
	in := bufio.NewReader(r)
	total, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, fmt.Errorf("%w: number of lists: %w", errDamaged, err)
	}
	t := NewTable()
	for n := range total {
		if err := t.restoreEntry(in, highest); err != nil {
			return nil, fmt.Errorf("%w: list %d of %d: %w", errDamaged, n+1, total, err)
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("%w: more than the %d lists announced", errDamaged, total)
	}
	return t, nil
}

func (t *Table) restoreEntry(in *bufio.Reader, highest uint64) error {
	var head [3]uint64 // ref, count, length
	for i := range head {
		v, err := binary.ReadUvarint(in)
		if err != nil {
			return noEOF(err)
		}
		head[i] = v
	}
	ref, count, length := head[0], head[1], head[2]
	if ref <= uint64(len(t.entries)) || ref > highest || count == 0 || count > maxCount || length > maxListBytes {
		return fmt.Errorf("ref %d, count %d, %d bytes", ref, count, length)
	}
	key, err := readString(in, int(length))
	if err != nil {
		return err
	}
	d := wire.NewDecoder([]byte(key))
	d.SetMaxLen(maxListBytes)
	list := d.ACLs()
	if _, dup := t.byKey[key]; dup || d.Err() != nil || string(wire.AppendACLs(nil, list)) != key || IsOpen(list) {
		return fmt.Errorf("ref %d does not hold a list of its own", ref)
	}
	for uint64(len(t.entries)) < ref-1 {
		t.entries = append(t.entries, entry{})
		t.free.push(Ref(len(t.entries)))
	}
	t.entries = append(t.entries, entry{list: list, key: key, count: uint32(count), digest: digestOf(key)})
	e := &t.entries[ref-1]
	t.byKey[key] = Ref(ref)
	t.live++
	t.sum += mark(Ref(ref), e.digest)
	return nil
}

// Limits of what Restore believes. The table has a place for every ref below the highest;
// that a ref is not merely damaged, the checksum around the section has already shown.
const (
	maxRef   = 1 << 28
	maxCount = 1<<32 - 1
)

// readString reads n bytes, and allocates no more than there are.
func readString(in *bufio.Reader, n int) (string, error) {
	var b []byte
	for n > 0 {
		step := min(n, 1<<16)
		b = append(b, make([]byte, step)...)
		if _, err := io.ReadFull(in, b[len(b)-step:]); err != nil {
			return "", noEOF(err)
		}
		n -= step
	}
	return string(b), nil
}

// noEOF makes the end of the input an error where more was announced.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
