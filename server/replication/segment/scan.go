package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
)

// scanBlock is how much of a file is read at once when it is read through.
const scanBlock = 1 << 20

// A segment is one file of the log. Guarded by Log.mu, but for the fields above the line.
type segment struct {
	header
	name string
	path string
	file vfs.File
	crc0 uint32 // the seed of the checksums

	offsets []uint32 // where the entry first+i begins
	end     int64    // where the next record goes
	size    int64    // length of the file, at least end
	readers int      // GetLog calls under way
	removed bool     // the last reader closes the file
}

// last is the index of the last entry; first-1 if there is none.
func (s *segment) last() uint64 { return s.first + uint64(len(s.offsets)) - 1 }

// layout is what reading a log directory through has found. Nothing is changed by it.
type layout struct {
	segments  []*segment
	leftovers []string // names of files to remove

	// Of the last segment:
	lastCRC  uint32
	lastTerm uint64
	mark     uint64 // highest index that is surely on the disk, which later ones may be too
	unmarked int64  // where the records behind that entry begin
	torn     int64  // bytes behind the end that are not zero: the torn tail
}

func (l *layout) close() {
	for _, s := range l.segments {
		s.file.Close()
	}
}

// readLayout reads all segments of dir. visit, where not nil, sees each entry, which it may
// keep until it returns. flag says how the files are opened.
func readLayout(fsys vfs.FS, dir string, flag int, visit func(*raft.Log) error) (_ *layout, err error) {
	l := &layout{}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := l.openAll(fsys, dir, flag); err != nil {
		return nil, err
	}
	for i := 0; i < len(l.segments); i++ {
		s := l.segments[i]
		sc := scan{s: s, visit: visit, crc: s.prev, term: l.lastTerm}
		if err := sc.run(); err != nil {
			return nil, err
		}
		l.lastTerm = sc.term
		if i+1 < len(l.segments) && !l.segments[i+1].continues(&sc) {
			if s.flags&flagCut == 0 || sc.kind == kindSeal {
				return nil, sc.gap(l.segments[i+1])
			}
			// DeleteRange has cut the tail and then came a crash: the files that held the
			// rest of the tail are still there.
			for _, old := range l.segments[i+1:] {
				old.file.Close()
				l.leftovers = append(l.leftovers, old.name)
			}
			l.segments = l.segments[:i+1]
		}
		if i+1 == len(l.segments) {
			if err := l.finish(&sc); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// openAll opens the segments of dir in order, from the last that begins a log.
func (l *layout) openAll(fsys vfs.FS, dir string, flag int) error {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot list the log directory: %w", err)
	}
	for _, e := range list {
		seq, first, ok := parseName(e.Name())
		if !ok {
			if strings.HasSuffix(e.Name(), ".log.tmp") {
				l.leftovers = append(l.leftovers, e.Name())
			}
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := fsys.OpenFile(path, flag, 0)
		if err != nil {
			return fmt.Errorf("cannot open a log segment: %w", err)
		}
		s := &segment{name: e.Name(), path: path, file: f}
		l.segments = append(l.segments, s)
		if s.size, err = f.Size(); err != nil {
			return err
		}
		b := make([]byte, headerSize)
		if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("cannot read a log segment: %w", err)
		}
		if err := s.decode(b); err != nil {
			return &damage.Error{File: path, What: err.Error(), Repair: damage.Rejoin}
		}
		if s.seq != seq || s.first != first {
			return &damage.Error{
				File: path, Offset: -1, Repair: "give the file its name back",
				What: fmt.Sprintf("the file was named %s", fileName(s.seq, s.first)),
			}
		}
		s.crc0 = s.seed()
	}
	sort.Slice(l.segments, func(i, j int) bool { return l.segments[i].seq < l.segments[j].seq })
	for i := len(l.segments) - 1; i > 0; i-- {
		if l.segments[i].flags&flagBegins == 0 {
			continue
		}
		for _, old := range l.segments[:i] {
			old.file.Close()
			l.leftovers = append(l.leftovers, old.name)
		}
		l.segments = l.segments[i:]
		break
	}
	return nil
}

// continues says whether s goes on exactly where the scanned segment ends.
func (s *segment) continues(sc *scan) bool {
	return s.first == sc.last+1 && s.prev == sc.crc
}

// finish judges the end of the last segment.
func (l *layout) finish(sc *scan) error {
	s := sc.s
	if sc.kind == kindSeal {
		return &damage.Error{
			File: filepath.Dir(s.path), Offset: -1, Repair: damage.Rejoin,
			What: fmt.Sprintf("the segment behind %s, which begins with entry %d, is missing", s.name, sc.last+1),
		}
	}
	torn, damaged, err := resync(s, s.end, sc.last+1)
	if err != nil {
		return err
	}
	if damaged {
		return sc.damaged("entry %d is not readable, although it had been stored", sc.last+1)
	}
	// Opening reserves the space behind a close again before it writes there: if it came only half
	// way, for want of room or because of a crash, zeros follow, and nothing else.
	if s.size < s.reserved && (sc.kind != kindClose || torn > 0) {
		return sc.damaged("the file is cut short: %d bytes of %d, and it was not closed so", s.size, s.reserved)
	}
	l.torn = torn
	l.lastCRC = sc.crc
	l.mark = sc.mark
	l.unmarked = sc.markedEnd
	return nil
}

// scan reads one segment through.
type scan struct {
	s     *segment
	visit func(*raft.Log) error

	last uint64 // index of the last entry
	term uint64 // its term
	crc  uint32 // of the last record that is not a seal
	kind uint8  // of the last record, 0 if there is none
	mark uint64 // highest durable mark

	entryEnds []int64 // where the records of the entries beyond the mark end
	markedEnd int64   // where the record of the entry with the index mark ends
}

// run reads records while they are valid and sets offsets and end of the segment.
func (sc *scan) run() error {
	s := sc.s
	sc.last = s.first - 1
	sc.mark = s.first - 1 // a segment starts when all before it is synced
	s.offsets = s.offsets[:0]
	w := window{s: s}
	off := int64(headerSize)
	sc.markedEnd = off
	for {
		var r record
		n, err := w.record(off, &r)
		if err != nil && !errors.Is(err, errRecord) {
			return fmt.Errorf("cannot read a log segment: %w", err)
		}
		if err != nil || r.prev != sc.crc || !sc.follows(&r) {
			break
		}
		if r.kind == kindEntry {
			s.offsets = append(s.offsets, uint32(off))
			sc.last, sc.term = r.index, r.term
			if sc.visit != nil {
				var entry raft.Log
				r.toLog(&entry)
				if err := sc.visit(&entry); err != nil {
					return err
				}
			}
		}
		sc.kind = r.kind
		off += n
		if r.kind == kindEntry {
			sc.entryEnds = append(sc.entryEnds, off)
		}
		sc.raiseMark(r.durable)
		if r.kind == kindSeal {
			break // the successor was there before: it continues what came before the seal
		}
		sc.crc = r.crc
	}
	s.end = off
	return nil
}

// raiseMark notes that the entries up to index are on the disk, and with them all that was
// written before. A mark says nothing of the record that it stands in.
func (sc *scan) raiseMark(index uint64) {
	if index <= sc.mark {
		return
	}
	n := index - sc.mark // entries beyond the old mark that are covered by the new one
	sc.markedEnd = sc.entryEnds[n-1]
	sc.entryEnds = sc.entryEnds[:copy(sc.entryEnds, sc.entryEnds[n:])]
	sc.mark = index
}

// follows says whether a record is in its place by index and term.
func (sc *scan) follows(r *record) bool {
	if r.kind == kindEntry {
		return r.index == sc.last+1 && r.term >= sc.term && r.durable < r.index
	}
	return r.index == sc.last && r.durable <= r.index
}

func (sc *scan) damaged(format string, args ...any) error {
	return &damage.Error{
		File: sc.s.path, Offset: sc.s.end, What: fmt.Sprintf(format, args...), Repair: damage.Rejoin,
	}
}

// gap is the error of a segment that is not the last and does not reach the next one.
func (sc *scan) gap(next *segment) error {
	if sc.last+1 < next.first {
		if sc.kind == kindSeal {
			return &damage.Error{
				File: filepath.Dir(next.path), Offset: -1, Repair: damage.Rejoin,
				What: fmt.Sprintf("the segment with the entries from %d to %d is missing", sc.last+1, next.first-1),
			}
		}
		return sc.damaged("entry %d is not readable, although it had been stored", sc.last+1)
	}
	return &damage.Error{
		File: next.path, Offset: 0, Repair: damage.Rejoin,
		What: fmt.Sprintf("the segment does not continue %s, which ends with entry %d", sc.s.name, sc.last),
	}
}

func allMissing(dir string) error {
	return &damage.Error{File: dir, Offset: -1, What: "all files of the log are missing", Repair: damage.Rejoin}
}

// window reads a segment through in blocks.
type window struct {
	s   *segment
	buf []byte
	off int64
}

// bytes is all that is buffered from off on: at least n bytes, fewer at the end of the
// file only. It is valid until the next call.
func (w *window) bytes(off, n int64) ([]byte, error) {
	n = min(n, w.s.size-off)
	if n <= 0 {
		return nil, nil
	}
	if off < w.off || off+n > w.off+int64(len(w.buf)) {
		size := min(max(n, scanBlock), w.s.size-off)
		if int64(cap(w.buf)) < size {
			w.buf = make([]byte, size)
		}
		w.buf, w.off = w.buf[:size], off
		if k, err := w.s.file.ReadAt(w.buf, off); err != nil && !(errors.Is(err, io.EOF) && int64(k) == size) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return w.buf[off-w.off:], nil
}

// record decodes the record at off; errRecord if there is none.
func (w *window) record(off int64, r *record) (int64, error) {
	b, err := w.bytes(off, recordSize)
	if err != nil {
		return 0, err
	}
	n := recordLen(b)
	if n == 0 || n > w.s.size-off {
		return 0, errRecord
	}
	if b, err = w.bytes(off, n); err != nil {
		return 0, err
	}
	return n, r.decode(b, w.s.crc0)
}

// Report is what Check has found.
type Report struct {
	Segments    int
	First, Last uint64 // indexes of the entries, 0 without any
	Bytes       int64  // of records
	Torn        int64  // bytes of a torn tail, which opening would cut
	Leftovers   []string
}

// Check reads the whole log in dir without changing anything. visit, where not nil, sees
// each entry in order; the entry is valid until it returns.
func Check(fsys vfs.FS, dir string, visit func(*raft.Log) error) (Report, error) {
	l, err := readLayout(fsys, dir, os.O_RDONLY, visit)
	if err != nil {
		return Report{}, err
	}
	defer l.close()
	if len(l.segments) == 0 {
		return Report{}, allMissing(dir)
	}
	r := Report{Segments: len(l.segments), Torn: l.torn, Leftovers: l.leftovers}
	for _, s := range l.segments {
		r.Bytes += s.end - headerSize
		if len(s.offsets) > 0 {
			if r.First == 0 {
				r.First = s.first
			}
			r.Last = s.last()
		}
	}
	return r, nil
}
