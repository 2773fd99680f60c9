package segment

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
)

const (
	// DefaultSegmentBytes is large enough that starting a file, four syncs, does not show
	// among the batches that fit into it, and small enough to give space back in time.
	DefaultSegmentBytes = 64 << 20
	// DefaultCacheBytes bounds the entries kept in memory for readers that are just behind
	// the end: a follower that has stored entries and is told now to apply them, and a
	// leader's stream to a follower. Too small costs a read from the page cache.
	DefaultCacheBytes = 8 << 20

	// smallestShare of a segment's length is what a segment has at least if the disk has no room
	// for all of it: 1 MiB.
	smallestShare = 64

	// aheadBytes is read at once by who reads entry after entry.
	aheadBytes = 256 << 10
	// keepBuffer is the largest write buffer that is kept for the next batch.
	keepBuffer = 4 << 20
	// maxExtensions is what fits into the length field.
	maxExtensions = 1<<16 - 1
)

// Options of a log. Zero values of the sizes stand for the defaults.
type Options struct {
	FS           vfs.FS
	Dir          string // exists
	SegmentBytes int64
	CacheBytes   int64
	Rand         io.Reader // of the salts; crypto/rand by default
	Logger       *slog.Logger
	// Create allows that there is no file yet. Without it an empty directory is damage.
	Create bool
}

// A Log is a raft.LogStore without gaps.
//
// Invariants:
//
//	L1  segments is never empty; the indexes of its entries are contiguous, and only the
//	    last segment grows;
//	L2  what readers can see (index and cache) has been written as a whole;
//	L3  the files hold no entry beyond the last one that readers can see, unless a write
//	    is under way or broken is set;
//	L4  the entries up to durable have been synced, in a file whose name is durable too, and
//	    first-1 <= durable <= last;
//	L5  only the last segment has entries beyond durable: a segment starts when all before
//	    it is synced;
//	L6  no record in the files has a mark higher than durable was when it was written;
//	L7  once broken is set, durable does not rise.
//
// Locks are taken in the order smu, wmu, mu.
type Log struct {
	o Options

	// smu is held for as long as a sync takes, and by all that replaces or closes the last
	// segment. No two syncs of a file overlap, because the kernel reports a write that has
	// failed to one of them only, and the other would take it for durable.
	smu vfs.Gate

	// wmu is held for as long as a write takes, I/O included, but for the sync of an Append:
	// raft writes from one goroutine anyway, and Close has to wait for it.
	wmu     vfs.Gate
	wbuf    []byte
	lastCRC uint32 // of the last record
	closed  bool

	// mu guards what readers need; never held across I/O. segments, and where their records
	// are, change with wmu held as well.
	mu       sync.Mutex
	broken   error  // the first failed write or sync: no more writes
	durable  uint64 // highest index that is surely on the disk
	segments []*segment
	first    uint64 // of the entries that are not deleted; those before may still be on disk
	cache    cache
	ahead    ahead
	cuts     int // counts cuts of the tail: a reader that fails beside one is excused
}

// ahead is the block that the last sequential read has fetched.
type ahead struct {
	s    *segment
	off  int64
	b    []byte // never written to again: entries alias it
	next uint64 // the entry after the one that was read last
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// Open reads the log in o.Dir and makes it fit to be appended to: what a crash has left
// over is removed, a torn tail is cut, what may not be on the disk is synced. Damage is a
// *damage.Error, and nothing is changed then.
func Open(o Options) (*Log, error) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	found, err := readLayout(o.FS, o.Dir, os.O_RDWR, nil)
	if err != nil {
		return nil, err
	}
	l := &Log{
		o: o, smu: vfs.NewGate(), wmu: vfs.NewGate(),
		segments: found.segments, cache: cache{limit: o.CacheBytes},
	}
	if err := l.repair(found); err != nil {
		found.close()
		return nil, fmt.Errorf("cannot open the log: %w", err)
	}
	l.first = l.segments[0].first
	return l, nil
}

// repair does what is to be done after a crash. Each step leaves a log that the next start
// reads as this one did.
func (l *Log) repair(found *layout) error {
	if len(l.segments) == 0 && !l.o.Create {
		return allMissing(l.o.Dir)
	}
	// A file that was found may have got its name just before the process was killed. That
	// must be durable before what it replaces is removed, and before it takes entries.
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return err
	}
	for _, name := range found.leftovers {
		if err := l.o.FS.Remove(filepath.Join(l.o.Dir, name)); err != nil {
			return err
		}
	}
	if len(found.leftovers) > 0 {
		l.o.Logger.Info("removed log files left over from a crash", "files", found.leftovers)
		if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
			return err
		}
	}
	if len(l.segments) == 0 {
		return l.begin(1)
	}
	l.lastCRC, l.durable = found.lastCRC, found.mark
	s := l.tail()
	if found.torn > 0 {
		l.o.Logger.Warn("cutting a torn tail off the log, left by a crash in the middle of a write",
			"file", s.path, "offset", s.end, "bytes", found.torn, "last index", s.last())
		// Not by Truncate, which would look like a lost end if the power failed before
		// the length was restored. Half overwritten, a torn tail is still one.
		if _, err := s.file.WriteAt(make([]byte, found.torn), s.end); err != nil {
			return err
		}
	}
	return l.settle(found.unmarked)
}

// settle makes the last segment durable from off on and marks it so: entries, and marks as
// well, since later records are chained to them. What was written but not synced before a
// kill is read from the page cache, and it need not be on the disk; if a sync has failed,
// the kernel takes it even for written. So it is written once more.
func (l *Log) settle(off int64) error {
	s := l.tail()
	if off < s.end {
		b := make([]byte, s.end-off)
		if _, err := s.file.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := s.file.WriteAt(b, off); err != nil {
			return err
		}
	}
	if err := s.file.Preallocate(s.reserved); err != nil {
		if s.size < s.reserved {
			s.file.Truncate(s.size) // what it has grown by, others need on a full disk; finish bears it as well
		}
		return err
	}
	s.size = max(s.size, s.reserved)
	// From here on more than zeros may follow a close: the length has to be durable before, see finish.
	if err := s.file.Sync(); err != nil {
		return err
	}
	if l.durable >= s.last() {
		return nil
	}
	l.durable = s.last()
	return l.putMark(kindMark)
}

// putMark appends a record that says that all entries are durable, which they must be, and
// syncs it.
func (l *Log) putMark(kind uint8) error {
	s := l.tail()
	r := record{kind: kind, prev: l.lastCRC, index: s.last(), durable: s.last()}
	b, crc := r.append(nil, s.crc0)
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	l.lastCRC = crc
	l.mu.Lock()
	s.end += int64(len(b))
	s.size = max(s.size, s.end)
	l.mu.Unlock()
	return nil
}

func (l *Log) tail() *segment { return l.segments[len(l.segments)-1] }

// IsMonotonic tells raft that there are no gaps: after installing a snapshot it deletes
// all entries.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex is the index of the oldest entry, 0 if there is none.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail().last() < l.first {
		return 0, nil
	}
	return l.first, nil
}

// LastIndex is the index of the newest entry, 0 if there is none.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.tail().last(); last >= l.first {
		return last, nil
	}
	return 0, nil
}

// Bytes is the length of all records on the disk, deleted ones in a file that is still
// needed included.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.segments {
		n += s.end - headerSize
	}
	return n
}

// GetLog reads an entry; raft.ErrLogNotFound if it is not there. Data may be shared with
// others: it must not be changed.
func (l *Log) GetLog(index uint64, out *raft.Log) error {
	l.mu.Lock()
	if index < l.first || index > l.tail().last() {
		l.mu.Unlock()
		return raft.ErrLogNotFound
	}
	if l.cache.get(index, out) {
		l.mu.Unlock()
		return nil
	}
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].first > index }) - 1
	s := l.segments[i]
	k := int(index - s.first)
	off, end := int64(s.offsets[k]), s.end
	if k+1 < len(s.offsets) {
		end = int64(s.offsets[k+1])
	}
	if l.ahead.s == s && l.ahead.off <= off && end <= l.ahead.off+int64(len(l.ahead.b)) {
		b := l.ahead.b[off-l.ahead.off : end-l.ahead.off]
		l.ahead.next = index + 1
		l.mu.Unlock()
		return decodeEntry(s, off, b, index, out)
	}
	sequential := l.ahead.next == index
	l.ahead.next = index + 1
	if sequential {
		end = max(end, min(off+aheadBytes, s.end))
	}
	cuts := l.cuts
	s.readers++
	l.mu.Unlock()

	b := make([]byte, end-off)
	_, err := s.file.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = decodeEntry(s, off, b, index, out)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	s.readers--
	if s.removed && s.readers == 0 {
		s.file.Close()
	}
	if err != nil && l.cuts != cuts {
		return raft.ErrLogNotFound // the file was cut and written anew under the read
	}
	if err == nil && sequential && l.cuts == cuts {
		l.ahead = ahead{s: s, off: off, b: b, next: index + 1}
	}
	return err
}

// decodeEntry decodes the record at off of s, whose bytes are at the start of b.
func decodeEntry(s *segment, off int64, b []byte, index uint64, out *raft.Log) error {
	var r record
	if err := r.decode(b, s.crc0); err != nil || r.kind != kindEntry || r.index != index {
		return &damage.Error{
			File: s.path, Offset: off, Repair: damage.Rejoin,
			What: fmt.Sprintf("entry %d is not readable, although it had been stored", index),
		}
	}
	r.toLog(out)
	return nil
}

// begin starts a log whose first entry will be next, and drops all that was before. Called
// with smu and wmu held.
func (l *Log) begin(next uint64) error {
	s, err := l.create(header{flags: flagBegins, first: next, reserved: l.o.SegmentBytes}, headerSize)
	if err != nil {
		return err
	}
	l.lastCRC = 0
	l.mu.Lock()
	l.durable = next - 1
	old := l.segments
	l.segments = []*segment{s}
	l.first = next
	l.dropReads(next)
	l.mu.Unlock()
	return l.remove(old) // if it fails, the next start does it: s says that it begins a log
}

// roll starts the next segment and seals the last one, whose entries are all synced before:
// that is what lets the reader take an unreadable record in any but the last segment for
// damage. Called with smu and wmu held.
func (l *Log) roll(size int64) error {
	old := l.tail()
	if err := l.syncTo(old.last()); err != nil {
		return err
	}
	need := headerSize + size
	s, err := l.create(header{
		first: old.last() + 1, prev: l.lastCRC, reserved: max(l.o.SegmentBytes, need),
	}, need)
	if err != nil {
		return err
	}
	// The seal comes when the successor is there: the other way round a crash in between
	// would look like a lost successor.
	if err := l.putMark(kindSeal); err != nil {
		return err
	}
	if err := old.file.Truncate(old.end); err != nil {
		return err
	}
	if err := old.file.Sync(); err != nil {
		return err
	}
	l.lastCRC = s.prev
	l.mu.Lock()
	defer l.mu.Unlock()
	old.size = old.end
	l.segments = append(l.segments, s)
	return nil
}

// create makes a segment file, complete and durable under its name. For need see install.
func (l *Log) create(h header, need int64) (*segment, error) {
	var salt [8]byte
	if _, err := io.ReadFull(l.o.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("cannot draw a random number: %w", err)
	}
	h.salt = binary.BigEndian.Uint64(salt[:])
	h.seq = 1
	if len(l.segments) > 0 {
		h.seq = l.tail().seq + 1
	}
	return l.install(h, nil, need)
}

// install writes a segment with header h and the given records and puts it under its name,
// over an older one if there is one. Of the length in h it may get less, but at least need.
func (l *Log) install(h header, records []byte, need int64) (*segment, error) {
	name := fileName(h.seq, h.first)
	path := filepath.Join(l.o.Dir, name)
	f, err := l.o.FS.OpenFile(path+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	err = l.reserve(f, &h, need)
	b := append(h.encode(), records...)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		l.o.FS.Remove(path + ".tmp") // else the next start does it
		return nil, err
	}
	err = l.o.FS.Rename(path+".tmp", path)
	if err == nil {
		err = l.o.FS.SyncDir(l.o.Dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &segment{header: h, name: name, path: path, file: f, crc0: h.seed(), end: int64(len(b))}
	s.size = max(h.reserved, s.end)
	return s, nil
}

// reserve gives the file of a new segment the length that h names, or a smaller one, which it puts
// into h. A disk without room for a whole segment is not full: long before it is, clients are
// refused their writes, and the sessions' entries, which go on, take little.
func (l *Log) reserve(f vfs.File, h *header, need int64) error {
	whole, least := h.reserved, max(need, l.o.SegmentBytes/smallestShare)
	for {
		err := f.Preallocate(h.reserved)
		if err == nil && h.reserved < whole {
			l.o.Logger.Warn("the disk has little room: a log file is shorter than it should be", "bytes", h.reserved, "usual", whole)
		}
		if !errors.Is(err, syscall.ENOSPC) || h.reserved <= least {
			return err
		}
		// It may have taken all that there was.
		if err := f.Truncate(0); err != nil {
			return err
		}
		h.reserved = max(h.reserved/2, least)
	}
}

// Close makes all entries durable, marks the end of the log as that, gives back the space
// behind it and closes the files.
func (l *Log) Close() error {
	l.smu.Lock()
	defer l.smu.Unlock()
	l.wmu.Lock()
	defer l.wmu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var err error
	if l.failure() == nil {
		if err = l.finish(); err != nil {
			err = l.fail("cannot close the log", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		s.removed = true
		if s.readers == 0 {
			if cerr := s.file.Close(); err == nil {
				err = cerr
			}
		}
	}
	return err
}

// finish ends the last segment. The sync comes first: the mark must not vouch for entries
// that a crash can still take.
func (l *Log) finish() error {
	s := l.tail()
	if err := l.syncTo(s.last()); err != nil {
		return err
	}
	if err := l.putMark(kindClose); err != nil {
		return err
	}
	if err := s.file.Truncate(s.end); err != nil {
		return err
	}
	return s.file.Sync()
}
