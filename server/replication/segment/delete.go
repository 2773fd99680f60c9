package segment

import (
	"fmt"
	"path/filepath"
)

// DeleteRange deletes the entries from lo to hi, both included: some in front, some at the
// end, or all. A cut at the end and the deletion of all are durable when it returns; one in
// front is so by whole files, and entries of a file that is still needed are back after a
// restart, which does no harm: a snapshot holds what they did. It waits for a Sync that runs.
func (l *Log) DeleteRange(lo, hi uint64) error {
	l.smu.Lock()
	defer l.smu.Unlock()
	l.wmu.Lock()
	defer l.wmu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if first == 0 || lo > last || hi < first || lo > hi {
		return nil
	}
	var err error
	switch {
	case lo <= first && hi >= last:
		err = l.begin(max(lo, 1))
	case lo <= first:
		err = l.deleteFront(hi)
	case hi >= last:
		err = l.cutTail(lo)
	default:
		return fmt.Errorf("cannot delete entries %d to %d out of the middle of %d to %d", lo, hi, first, last)
	}
	if err != nil {
		return l.fail("cannot delete from the log", err)
	}
	return nil
}

// deleteFront drops the entries up to hi, which is not the last. They have to be durable
// first: else a crash could leave a log that ends before what a snapshot holds, and the
// next entry would not follow.
func (l *Log) deleteFront(hi uint64) error {
	if err := l.syncTo(hi); err != nil {
		return err
	}
	l.mu.Lock()
	l.first = hi + 1
	l.cache.dropBefore(l.first)
	n := 0
	for n < len(l.segments)-1 && l.segments[n].last() <= hi {
		n++
	}
	old := l.segments[:n:n]
	l.segments = l.segments[n:]
	l.mu.Unlock()
	return l.remove(old)
}

// cutTail drops the entries from lo on, which is not the first.
//
// The segment with lo is written anew up to there and put in the old one's place, which
// happens wholly or not at all. Files behind it do not continue it; it has a flag that lets
// the next start remove them, should there be a crash before they are gone here.
func (l *Log) cutTail(lo uint64) error {
	i := len(l.segments) - 1
	for l.segments[i].first > lo {
		i--
	}
	s := l.segments[i]
	keep := int(lo - s.first)
	end := int64(s.offsets[keep])
	records := make([]byte, end-headerSize)
	if _, err := s.file.ReadAt(records, headerSize); err != nil {
		return err
	}
	crc, err := lastRecord(s, records)
	if err != nil {
		return err
	}
	h := s.header
	h.flags |= flagCut
	h.reserved = max(l.o.SegmentBytes, end)
	// The records keep their checksums, and with them the salt.
	cut, err := l.install(h, records, end)
	if err != nil {
		return err
	}
	cut.offsets = append([]uint32(nil), s.offsets[:keep]...)
	l.lastCRC = crc

	l.mu.Lock()
	l.durable = lo - 1 // install has synced what is left, also what was not before
	old := append([]*segment(nil), l.segments[i+1:]...)
	l.segments = append(l.segments[:i:i], cut)
	l.dropReads(lo)
	s.removed = true
	if s.readers == 0 {
		s.file.Close()
	}
	l.mu.Unlock()
	return l.remove(old)
}

// lastRecord walks through records of s and returns the checksum of the last.
func lastRecord(s *segment, records []byte) (uint32, error) {
	crc := s.prev
	for len(records) > 0 {
		var r record
		if err := r.decode(records, s.crc0); err != nil {
			return 0, fmt.Errorf("%s: %w", s.path, err)
		}
		crc = r.crc
		records = records[recordLen(records):]
	}
	return crc, nil
}

// dropReads forgets what was read or cached of the entries from index on. Called with mu
// held.
func (l *Log) dropReads(index uint64) {
	l.cache.dropFrom(index)
	l.ahead = ahead{}
	l.cuts++
}

// remove deletes files, the oldest first and each durably before the next, so that a crash
// leaves no gap between them.
func (l *Log) remove(old []*segment) error {
	for _, s := range old {
		l.mu.Lock()
		s.removed = true
		idle := s.readers == 0
		l.mu.Unlock()
		if idle {
			s.file.Close()
		}
		if err := l.o.FS.Remove(filepath.Join(l.o.Dir, s.name)); err != nil {
			return err
		}
		if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
			return err
		}
	}
	return nil
}
