package segment

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// StoreLog stores one entry.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs is Append and Sync: when it returns nil the entries are durable.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	if err := l.Append(entries); err != nil {
		return err
	}
	_, err := l.Sync()
	return err
}

// Append writes entries, which must follow the last one and each other; if the log is empty
// they may begin anywhere. They can be read when it returns, and are durable after a Sync
// that begins afterwards. It does not wait for a Sync that runs, unless the entries need a
// new segment. The entries' Data may be kept: the caller must not change it.
func (l *Log) Append(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	if done, err := l.appendToTail(entries); done || err != nil {
		return err
	}
	l.smu.Lock()
	defer l.smu.Unlock()
	l.wmu.Lock()
	defer l.wmu.Unlock()
	// From the start: the log was unlocked in between, and a sync may have failed.
	size, err := l.admit(entries)
	if err != nil {
		return err
	}
	if err := l.makeRoom(entries[0].Index, size); err != nil {
		return l.fail("cannot start a log segment", err)
	}
	return l.write(entries)
}

// appendToTail appends entries if the last segment can take them as it is.
func (l *Log) appendToTail(entries []*raft.Log) (done bool, err error) {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	size, err := l.admit(entries)
	if err != nil || !l.fits(entries[0].Index, size) {
		return false, err
	}
	return true, l.write(entries)
}

// admit checks a batch before anything is written and returns its encoded size. Called
// with wmu held.
func (l *Log) admit(entries []*raft.Log) (int64, error) {
	if l.closed {
		return 0, errors.New("the log is closed")
	}
	if err := l.failure(); err != nil {
		return 0, err
	}
	next := entries[0].Index
	if last, _ := l.LastIndex(); last != 0 && next != last+1 {
		return 0, fmt.Errorf("entry %d cannot follow entry %d in the log", next, last)
	}
	var size int64
	for _, e := range entries {
		if e.Index != next {
			return 0, fmt.Errorf("entry %d cannot follow entry %d in the log", e.Index, next-1)
		}
		if len(e.Extensions) > maxExtensions {
			return 0, fmt.Errorf("extensions of entry %d are %d bytes long, at most %d fit", e.Index, len(e.Extensions), maxExtensions)
		}
		next++
		size += int64(encodedSize(e))
	}
	if size > 1<<31 {
		return 0, fmt.Errorf("a batch of %d bytes is too large for the log", size)
	}
	return size, nil
}

// fits says whether the last segment can take size bytes that begin with entry next.
func (l *Log) fits(next uint64, size int64) bool {
	s := l.tail()
	if s.last()+1 != next {
		return false // the log is empty: the next entry may have any index
	}
	return s.end+size <= s.reserved || len(s.offsets) == 0 // larger than a segment is meant to be
}

// makeRoom sees to it that the last segment can take size bytes that begin with entry next.
// Called with smu and wmu held.
func (l *Log) makeRoom(next uint64, size int64) error {
	switch {
	case l.fits(next, size):
		return nil
	case l.tail().last()+1 != next:
		return l.begin(next)
	}
	return l.roll(size)
}

// write writes entries behind the last one and shows them to readers. Called with wmu held.
func (l *Log) write(entries []*raft.Log) error {
	s := l.tail()
	offsets := make([]uint32, 0, len(entries))
	durable := l.Durable() // not the last entry: a mark must not vouch for what a crash can take
	b, crc := l.wbuf[:0], l.lastCRC
	for _, e := range entries {
		offsets = append(offsets, uint32(s.end+int64(len(b))))
		r := fromLog(e, durable)
		r.prev = crc
		b, crc = r.append(b, s.crc0)
	}
	if cap(b) <= keepBuffer {
		l.wbuf = b
	}
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return l.fail("cannot write to the log", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken // a sync has failed meanwhile: these entries will never be durable
	}
	l.lastCRC = crc
	s.offsets = append(s.offsets, offsets...)
	s.end += int64(len(b))
	s.size = max(s.size, s.end)
	for _, e := range entries {
		l.cache.add(e)
	}
	return nil
}

// Sync makes all durable that was appended before the call and returns the highest durable
// index. It may run beside Append and GetLog. Of several callers one syncs; those that come
// while it does need what was appended since, and one of them syncs that for all of them.
func (l *Log) Sync() (uint64, error) {
	l.mu.Lock()
	want, durable, err := l.tail().last(), l.durable, l.broken
	l.mu.Unlock()
	if err != nil || durable >= want {
		return durable, err
	}
	l.smu.Lock()
	defer l.smu.Unlock()
	err = l.syncTo(want)
	return l.Durable(), err
}

// syncTo makes durable what has been written, unless all up to index is already. Called
// with smu held, so that the last segment stays the last.
func (l *Log) syncTo(index uint64) error {
	l.mu.Lock()
	s := l.tail()
	last := s.last() // what is written from here on, this sync need not reach
	err, done := l.broken, l.durable >= min(index, last)
	l.mu.Unlock()
	if err != nil || done {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return l.fail("cannot sync the log", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil { // a write may have failed meanwhile
		l.durable = last
	}
	return l.broken
}

// Durable is the highest index known durable, at most the last; what is missing before the
// first entry counts as durable, also in an empty log.
func (l *Log) Durable() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// failure is the first error, after which nothing is written.
func (l *Log) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// fail remembers the first error: from then on nothing is written.
func (l *Log) fail(what string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = fmt.Errorf("%s: %w", what, err)
	}
	return l.broken
}
