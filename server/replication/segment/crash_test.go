package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
	"github.com/zkd-project/zkd/server/replication/damage"
)

func withChecksum(b []byte, seed uint32) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b, crc32.Update(seed, castagnoli, b[4:]))
	return b
}

// A script is a life of a log, step by step; it ends at the first error.
type script struct {
	name         string
	segmentBytes int64
	steps        func(s *script) []func() error

	model
	o     Options
	stage stageFS
	l     *Log
}

func (s *script) run(disk *vfstest.Disk) error {
	s.stage.FS = disk
	s.o = smallOptions(&s.stage)
	s.o.SegmentBytes = s.segmentBytes
	var err error
	if s.l, err = Open(s.o); err != nil {
		return err
	}
	for i, step := range s.steps(s) {
		if err := step(); err != nil {
			return err
		}
		if err := s.l.check(); err != nil {
			return fmt.Errorf("after step %d: %w", i, err)
		}
	}
	return s.l.Close()
}

func (s *script) store(from, to, term uint64, size int) func() error {
	return func() error { return s.model.store(s.l, entries(from, to, term, size)) }
}

func (s *script) append(from, to, term uint64, size int) func() error {
	return func() error { return s.model.append(s.l, entries(from, to, term, size)) }
}

func (s *script) remove(lo, hi uint64) func() error {
	return func() error { return s.model.remove(s.l, lo, hi) }
}

func (s *script) sync() error { return s.model.sync(s.l) }

// beside syncs, and appends while the sync runs: before the disk has done anything, or when
// it has done all and has not said so. What is appended must fit into the segment.
func (s *script) beside(hook *atomic.Pointer[func()], batch func() error) func() error {
	return func() error {
		var err error
		once := func() {
			hook.Store(nil)
			err = inTime(batch)
		}
		hook.Store(&once)
		serr := s.sync()
		if hook.Swap(nil) != nil && serr == nil {
			return errors.New("there was nothing to sync: the script is wrong")
		}
		return errors.Join(serr, err)
	}
}

func (s *script) reopen() error {
	if err := s.l.Close(); err != nil {
		return err
	}
	s.durable = s.last()
	var err error
	s.l, err = Open(s.o)
	return err
}

// check opens the log after a crash and compares it with the model.
func (s *script) check(t *testing.T, disk *vfstest.Disk) {
	t.Helper()
	s.o.FS = disk
	l := mustOpen(t, s.o)
	got, err := contents(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.mismatch(got); err != nil {
		t.Fatal(err)
	}
	// What was there once is answered for: also a second crash must not take it away.
	disk.Crash(nil)
	l = mustOpen(t, s.o)
	defer l.Close()
	if len(got) == 0 {
		wantLog(t, l, nil)
		mustStore(t, l, entry(s.last()+1, 99, 50))
		return
	}
	wantLog(t, l, got)
	mustStore(t, l, entry(got[len(got)-1].Index+1, 99, 50))
}

// scripts are the lives that the crashes come into: everything that a log does, with every
// batch synced before the next, and with batches that are not synced yet.
func scripts() []*script {
	return []*script{
		{name: "one after the other", segmentBytes: 1024, steps: func(s *script) []func() error {
			return []func() error{
				s.store(1, 1, 1, 30), s.store(2, 5, 1, 150), s.store(6, 9, 1, 200), s.store(10, 10, 1, 0),
				s.remove(1, 4), s.store(11, 25, 2, 100), s.remove(15, 25), s.store(15, 22, 3, 120),
				s.reopen, s.store(23, 30, 3, 90), s.remove(5, 24), s.store(31, 31, 4, 700),
				s.remove(25, 31), s.store(100, 110, 5, 100), s.remove(105, 110), s.store(105, 106, 6, 600), s.reopen,
			}
		}},
		{name: "in parallel", segmentBytes: 6000, steps: func(s *script) []func() error {
			before, after := &s.stage.beforeSync, &s.stage.afterSync
			return []func() error{
				s.append(1, 1, 1, 300), s.append(2, 3, 1, 500), s.append(4, 4, 1, 10), s.sync,
				s.append(5, 5, 1, 600), s.beside(after, s.append(6, 7, 1, 400)),
				s.beside(before, s.append(8, 8, 1, 700)), s.append(9, 9, 1, 200), // the next needs a new segment
				s.append(10, 12, 1, 600), s.append(13, 13, 1, 400), s.append(14, 16, 1, 100),
				s.remove(15, 16), s.append(15, 15, 2, 500), s.append(16, 17, 2, 400), // cut beyond the durable
				s.beside(after, s.append(18, 18, 2, 300)), s.append(19, 19, 2, 800), s.remove(14, 19), // below
				s.append(14, 14, 3, 500), s.append(15, 16, 3, 600), s.store(17, 17, 3, 500),
				s.append(18, 18, 3, 600), s.append(19, 20, 3, 700), s.remove(1, 19), // in front, beyond the durable
				s.append(21, 21, 3, 500), s.append(22, 22, 3, 600), s.reopen,
				s.append(23, 23, 3, 600), s.append(24, 24, 3, 20), s.append(25, 25, 3, 500), s.remove(20, 25), // all
				s.append(100, 101, 4, 600), s.beside(before, s.append(102, 103, 4, 500)), s.append(104, 104, 4, 900),
			}
		}},
	}
}

// After a crash at any operation, with any part of what was not synced surviving, the log
// opens and holds everything durable.
func TestCrashAtAnyOperationLosesNothingDurable(t *testing.T) {
	for i, script := range scripts() {
		t.Run(script.name, func(t *testing.T) {
			for n := 1; ; n++ {
				done := false
				for seed := range uint64(24) {
					disk := newDisk()
					disk.Fail(n, vfstest.ErrDown)
					s := scripts()[i]
					err := s.run(disk)
					if err != nil && !errors.Is(err, vfstest.ErrDown) {
						t.Fatal(err)
					}
					done = err == nil
					var rng *rand.Rand
					if seed > 0 {
						rng = rand.New(rand.NewPCG(seed, uint64(n)))
					}
					disk.Crash(rng)
					t.Logf("operation %d, seed %d: %v", n, seed, err)
					s.check(t, disk)
					// And once more: opening must have left a log that opens.
					disk.Crash(rng)
					l := mustOpen(t, smallOptions(disk))
					l.Close()
				}
				if done {
					if n < 50 {
						t.Fatalf("the script has only %d operations: nothing was tested", n)
					}
					return
				}
			}
		})
	}
}

// A crash while the log is opened after a crash does no harm either.
func TestCrashDuringRecoveryLosesNothing(t *testing.T) {
	for i, script := range scripts() {
		t.Run(script.name, func(t *testing.T) {
			for n := 1; n < 200; n += 3 {
				for m := 1; ; m++ {
					disk := newDisk()
					disk.Fail(n, vfstest.ErrDown)
					s := scripts()[i]
					s.run(disk)
					rng := rand.New(rand.NewPCG(uint64(n), uint64(m)))
					disk.Crash(rng)
					disk.Fail(m, vfstest.ErrDown)
					_, err := Open(smallOptions(disk)) // its files die with the crash
					disk.Crash(rng)
					s.check(t, disk)
					if err == nil {
						break
					}
				}
			}
		})
	}
}

// An error of the disk (full, EIO) is reported, nothing is written afterwards, and what
// was acknowledged is there when the disk works again.
func TestFailingOperationIsReportedAndFinal(t *testing.T) {
	boom := errors.New("input/output error")
	for i, script := range scripts() {
		t.Run(script.name, func(t *testing.T) {
			for n := 1; ; n++ {
				disk := newDisk()
				disk.Fail(n, boom)
				s := scripts()[i]
				err := s.run(disk)
				if err == nil {
					return
				}
				if !errors.Is(err, boom) {
					t.Fatalf("operation %d: %v", n, err)
				}
				if s.l != nil {
					before, ops := s.l.Durable(), disk.Ops()
					_, err := s.l.Sync()
					if closed := s.l.failure() == nil; err == nil && !closed {
						t.Fatalf("operation %d failed, and the log was synced", n)
					}
					if err := s.l.Append(entries(s.last()+1, s.last()+1, 99, 1)); err == nil {
						t.Fatalf("operation %d failed, and the log took an entry", n)
					}
					if s.l.Durable() != before || disk.Ops() != ops {
						t.Fatalf("operation %d failed, and the log went on", n)
					}
				}
				disk.Kill()
				s.check(t, disk)
			}
		})
	}
}

func TestNothingIsWrittenAfterAFailedSync(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, smallOptions(disk))
	mustStore(t, l, entries(1, 3, 1, 10)...)
	disk.Fail(2, errors.New("no space left on device")) // the write succeeds, the sync does not
	if err := l.StoreLog(entry(4, 1, 10)); err == nil {
		t.Fatal("a failed sync was not reported")
	}
	before := disk.Ops()
	if err := l.StoreLog(entry(4, 1, 10)); err == nil {
		t.Fatal("an entry was taken after a failed sync")
	}
	if err := l.DeleteRange(1, 2); err == nil {
		t.Fatal("entries were deleted after a failed sync")
	}
	wantLog(t, l, entries(1, 4, 1, 10)) // it was appended; nobody was told that it is durable
	if l.Durable() != 3 {
		t.Fatalf("durable is %d after a failed sync", l.Durable())
	}
	l.Close()
	if disk.Ops() != before {
		t.Fatal("the disk was written to after a failed sync")
	}
	disk.Crash(nil)
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, entries(1, 3, 1, 10))
	l.Close()
}

func TestDamageIsFoundByReading(t *testing.T) {
	disk := newDisk()
	o := smallOptions(disk)
	o.CacheBytes = 1
	l := mustOpen(t, o)
	mustStore(t, l, entries(1, 3, 1, 100)...)
	name := logFiles(t, disk)[0]
	disk.Damage(name, func(b []byte) []byte { b[headerSize+recordSize+20] ^= 1; return b })
	var d *damage.Error
	if err := l.GetLog(1, new(raft.Log)); !errors.As(err, &d) || d.File != name || d.Offset != headerSize {
		t.Fatalf("a flipped bit was read: %v", err)
	}
	if err := l.GetLog(2, new(raft.Log)); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestEntriesOfAnOldHistoryDoNotComeBack(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, smallOptions(disk))
	mustStore(t, l, entries(1, 6, 1, 40)...)
	if err := l.DeleteRange(3, 6); err != nil {
		t.Fatal(err)
	}
	disk.Crash(nil)
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, entries(1, 2, 1, 40))
	mustStore(t, l, entry(3, 2, 40))
	disk.Crash(nil)
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, append(entries(1, 2, 1, 40), entry(3, 2, 40)))
	l.Close()
}

func TestOtherFilesInTheDirectoryAreLeftAlone(t *testing.T) {
	disk := newDisk()
	for _, name := range []string{"notes.txt", "1-2.log", "x.log"} {
		f, _ := disk.OpenFile(testDir+"/"+name, os.O_RDWR|os.O_CREATE, 0o600)
		f.Close()
	}
	l := mustOpen(t, smallOptions(disk))
	mustStore(t, l, entry(1, 1, 1))
	l.Close()
	l = mustOpen(t, smallOptions(disk))
	l.Close()
	names := strings.Join(logFiles(t, disk), " ")
	for _, name := range []string{"notes.txt", "/1-2.log", "/x.log"} {
		if !strings.Contains(names, name) {
			t.Fatalf("%s is gone: %s", name, names)
		}
	}
}
