package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
)

// model says what a log may hold after a crash: entries as they were written, from a place
// in front to a place behind the durable ones, without a hole.
type model struct {
	written  []*raft.Log // what readers see, or will when the operation under way is done
	durable  uint64      // up to here nothing may be lost
	deleted  uint64      // entries up to here may be gone from the front, or be back there
	emptying bool        // all are being deleted
}

func (m *model) last() uint64 {
	if len(m.written) == 0 {
		return 0
	}
	return m.written[len(m.written)-1].Index
}

// append writes a batch to the log, and store syncs it as well.
func (m *model) append(l *Log, batch []*raft.Log) error {
	empty := len(m.written) == 0
	m.written = append(slices.Clone(m.written), batch...)
	err := l.Append(batch)
	if err == nil || !empty {
		m.durable = max(m.durable, l.Durable()) // it may have begun a segment
	}
	return err
}

func (m *model) store(l *Log, batch []*raft.Log) error {
	m.written = append(slices.Clone(m.written), batch...)
	err := l.StoreLogs(batch)
	if err == nil {
		m.durable = m.last()
	}
	return err
}

// sync syncs the log, which must reach all that was written when it was called.
func (m *model) sync(l *Log) error {
	want := m.last()
	durable, err := l.Sync()
	if want > 0 { // an empty log has no index, and the next entry may have any
		m.durable = max(m.durable, durable)
	}
	if err == nil && durable < want {
		return fmt.Errorf("sync of a log up to %d ends at %d", want, durable)
	}
	return err
}

// remove deletes a range of entries.
func (m *model) remove(l *Log, lo, hi uint64) error {
	after := *m
	switch first, last := m.written[0].Index, m.last(); {
	case lo <= first && hi >= last:
		m.emptying = true
		after = model{}        // and nothing comes back
		lo, _ = l.FirstIndex() // entries deleted before a restart may be back
	case lo <= first:
		m.deleted = max(m.deleted, hi)
		after.written, after.deleted = slices.Clone(m.written[hi-first+1:]), m.deleted
		lo, _ = l.FirstIndex()
	default:
		m.durable = min(m.durable, lo-1)
		after.written, after.durable = slices.Clone(m.written[:lo-first]), m.durable
	}
	if err := l.DeleteRange(lo, hi); err != nil {
		return err
	}
	*m = after
	if len(m.written) == 0 {
		return nil
	}
	if durable := l.Durable(); durable < m.durable || durable > m.last() {
		return fmt.Errorf("durable is %d in a log up to %d that was durable up to %d", durable, m.last(), m.durable)
	}
	m.durable = l.Durable()
	return nil
}

// mismatch says what is wrong with a log that was found after a crash.
func (m *model) mismatch(got []*raft.Log) error {
	err := fmt.Errorf("after the crash the log has %s\nwritten was %s, durable up to %d, deleted up to %d (all: %v)",
		show(got), show(m.written), m.durable, m.deleted, m.emptying)
	for len(got) > 0 && len(m.written) > 0 && got[0].Index <= m.deleted && got[0].Index < m.written[0].Index {
		got = got[1:]
	}
	if len(got) == 0 {
		if m.emptying || len(m.written) == 0 || m.durable < m.written[0].Index || m.durable <= m.deleted {
			return nil
		}
		return err
	}
	i := slices.IndexFunc(m.written, func(e *raft.Log) bool { return e.Index == got[0].Index })
	if i < 0 || len(got) > len(m.written)-i || got[0].Index > max(m.deleted+1, m.written[0].Index) {
		return err
	}
	for k, e := range got {
		if !equal(e, m.written[i+k]) {
			return err
		}
	}
	if got[len(got)-1].Index < m.durable {
		return err
	}
	return nil
}

func show(list []*raft.Log) string {
	if len(list) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d (term %d) to %d (term %d)", list[0].Index, list[0].Term,
		list[len(list)-1].Index, list[len(list)-1].Term)
}

// contents reads the whole log.
func contents(l *Log) ([]*raft.Log, error) {
	var list []*raft.Log
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	for i := first; first > 0 && i <= last; i++ {
		e := new(raft.Log)
		if err := l.GetLog(i, e); err != nil {
			return nil, fmt.Errorf("get %d: %w", i, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// check says which of the log's invariants does not hold.
func (l *Log) check() error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.segments[1:] {
		if s.first != l.segments[i].last()+1 {
			return fmt.Errorf("L1: entry %d follows entry %d", s.first, l.segments[i].last())
		}
	}
	if last := l.tail().last(); l.durable+1 < l.first || l.durable > last {
		return fmt.Errorf("L4: durable is %d in a log from %d to %d", l.durable, l.first, last)
	}
	if l.durable+1 < l.tail().first {
		return fmt.Errorf("L5: durable is %d, and the last segment begins with %d", l.durable, l.tail().first)
	}
	return nil
}

// stageFS lets a test stand beside what is done to files: a hook, where set, is called by
// the goroutine that writes or syncs. It counts syncs and bytes that
// are read, and what is done to a file while a
// sync of it runs and must not be.
type stageFS struct {
	vfs.FS
	beforeSync, afterSync, beforeWrite atomic.Pointer[func()]

	syncs    atomic.Int64
	read     atomic.Int64 // bytes
	overlaps atomic.Int64
}

type stageFile struct {
	vfs.File
	fs      *stageFS
	syncing atomic.Int32
}

func call(hook *atomic.Pointer[func()]) {
	if f := hook.Load(); f != nil {
		(*f)()
	}
}

// inTime calls f, which what the caller holds must not keep from returning.
func inTime(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return errors.New("an append waits for the sync beside it")
	}
}

func (s *stageFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &stageFile{File: f, fs: s}, nil
}

func (f *stageFile) Sync() error {
	f.fs.syncs.Add(1)
	if f.syncing.Add(1) > 1 {
		f.fs.overlaps.Add(1)
	}
	defer f.syncing.Add(-1)
	call(&f.fs.beforeSync)
	err := f.File.Sync()
	call(&f.fs.afterSync)
	return err
}

func (f *stageFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.read.Add(int64(len(p)))
	return f.File.ReadAt(p, off)
}

func (f *stageFile) WriteAt(p []byte, off int64) (int, error) {
	call(&f.fs.beforeWrite)
	return f.File.WriteAt(p, off)
}

func (f *stageFile) Truncate(size int64) error {
	if f.syncing.Load() > 0 {
		f.fs.overlaps.Add(1)
	}
	return f.File.Truncate(size)
}

func (f *stageFile) Close() error {
	if f.syncing.Load() > 0 {
		f.fs.overlaps.Add(1)
	}
	return f.File.Close()
}
