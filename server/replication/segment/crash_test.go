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

// script is a life of a log with everything in it: batches, new files, deletion in front,
// at the end, of all, a restart. It returns at the first error. acked and tried are the log
// as acknowledged, and as it is if the operation under way took effect; deleted is the
// highest index that may be gone from the front.
type script struct {
	acked, tried []*raft.Log
	deleted      uint64
}

func (s *script) run(o Options) error {
	l, err := Open(o)
	if err != nil {
		return err
	}
	store := func(from, to, term uint64, size int) func() error {
		return func() error {
			batch := entries(from, to, term, size)
			s.tried = append(slices.Clone(s.acked), batch...)
			return l.StoreLogs(batch)
		}
	}
	remove := func(lo, hi uint64) func() error {
		return func() error {
			first, last := s.acked[0].Index, s.acked[len(s.acked)-1].Index
			switch {
			case lo <= first && hi >= last:
				s.tried = nil
			case lo <= first:
				s.deleted = hi
				s.tried = slices.Clone(s.acked[hi-first+1:])
				lo, _ = l.FirstIndex() // entries deleted before a restart may be back
			default:
				s.tried = slices.Clone(s.acked[:lo-first])
			}
			return l.DeleteRange(lo, hi)
		}
	}
	reopen := func() error {
		if err := l.Close(); err != nil {
			return err
		}
		var err error
		l, err = Open(o)
		return err
	}
	steps := []func() error{
		store(1, 1, 1, 30), store(2, 5, 1, 150), store(6, 9, 1, 200), store(10, 10, 1, 0),
		remove(1, 4), store(11, 25, 2, 100), remove(15, 25), store(15, 22, 3, 120),
		reopen, store(23, 30, 3, 90), remove(5, 24), store(31, 31, 4, 700),
		remove(25, 31), store(100, 110, 5, 100), remove(105, 110), store(105, 106, 6, 600), reopen,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
		s.acked = s.tried
	}
	return l.Close()
}

// check opens the log after a crash and compares it with what was acknowledged.
func (s *script) check(t *testing.T, o Options) {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer l.Close()
	var got []*raft.Log
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	for i := first; first > 0 && i <= last; i++ {
		e := new(raft.Log)
		if err := l.GetLog(i, e); err != nil {
			t.Fatalf("get %d: %v", i, err)
		}
		got = append(got, e)
	}
	if !s.matches(got, s.acked, s.tried) {
		t.Fatalf("after the crash the log has %s\nacknowledged %s\ntried %s", show(got), show(s.acked), show(s.tried))
	}
	next := last + 1
	if err := l.StoreLog(entry(next, 99, 50)); err != nil {
		t.Fatalf("store after the crash: %v", err)
	}
}

// matches: got is acked or tried or between them (a part of a batch, a part of a cut tail),
// but for entries in front that were deleted and are back.
func (s *script) matches(got, acked, tried []*raft.Log) bool {
	for len(got) > 0 && got[0].Index <= s.deleted && (len(acked) == 0 || got[0].Index < acked[0].Index) {
		got = got[1:]
	}
	long, short := acked, tried
	if len(tried) > 0 && (len(acked) == 0 || tried[len(tried)-1].Index > acked[len(acked)-1].Index) {
		long, short = tried, acked
	}
	if len(got) == 0 {
		return len(short) == 0
	}
	i := slices.IndexFunc(long, func(e *raft.Log) bool { return e.Index == got[0].Index })
	if i < 0 || len(got) > len(long)-i {
		return false
	}
	for k, e := range got {
		if !equal(e, long[i+k]) {
			return false
		}
	}
	covered := func(list []*raft.Log, index uint64) bool {
		return len(list) == 0 || list[0].Index <= index
	}
	if !covered(got, max(s.deleted+1, long[0].Index)) {
		return false
	}
	return len(short) == 0 || got[len(got)-1].Index >= short[len(short)-1].Index
}

func show(list []*raft.Log) string {
	if len(list) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d (term %d) to %d (term %d)", list[0].Index, list[0].Term,
		list[len(list)-1].Index, list[len(list)-1].Term)
}

// After a crash at any operation, with any part of what was not synced surviving, the log
// opens and holds everything acknowledged.
func TestCrashAtAnyOperationLosesNothingAcknowledged(t *testing.T) {
	for n := 1; ; n++ {
		done := false
		for seed := range uint64(12) {
			disk := newDisk()
			disk.Fail(n, vfstest.ErrDown)
			var s script
			err := s.run(smallOptions(disk))
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
			s.check(t, smallOptions(disk))
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
}

// A crash while the log is opened after a crash does no harm either.
func TestCrashDuringRecoveryLosesNothing(t *testing.T) {
	for n := 1; n < 200; n += 3 {
		for m := 1; ; m++ {
			disk := newDisk()
			disk.Fail(n, vfstest.ErrDown)
			var s script
			s.run(smallOptions(disk))
			rng := rand.New(rand.NewPCG(uint64(n), uint64(m)))
			disk.Crash(rng)
			disk.Fail(m, vfstest.ErrDown)
			l, err := Open(smallOptions(disk))
			disk.Crash(rng)
			s.check(t, smallOptions(disk))
			if err == nil {
				_ = l // its files died with the crash
				break
			}
		}
	}
}

// An error of the disk (full, EIO) is reported, nothing is written afterwards, and what
// was acknowledged is there when the disk works again.
func TestFailingOperationIsReportedAndFinal(t *testing.T) {
	boom := errors.New("input/output error")
	for n := 1; ; n++ {
		disk := newDisk()
		disk.Fail(n, boom)
		var s script
		err := s.run(smallOptions(disk))
		if err == nil {
			return
		}
		if !errors.Is(err, boom) {
			t.Fatalf("operation %d: %v", n, err)
		}
		disk.Kill()
		s.check(t, smallOptions(disk))
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
	wantLog(t, l, entries(1, 3, 1, 10))
	l.Close()
	if disk.Ops() != before {
		t.Fatal("the disk was written to after a failed sync")
	}
	disk.Crash(nil)
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, entries(1, 3, 1, 10))
	l.Close()
}

// damageLog is a closed log of a few segments, and its entries.
func damageLog(t *testing.T, clean bool) (*vfstest.Disk, []*raft.Log) {
	disk := newDisk()
	o := smallOptions(disk)
	o.SegmentBytes = 512
	l := mustOpen(t, o)
	want := entries(1, 8, 1, 70)
	for _, e := range want {
		mustStore(t, l, e)
	}
	if clean {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		disk.Kill()
	}
	return disk, want
}

func logFiles(t *testing.T, disk *vfstest.Disk) []string {
	list, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, testDir+"/"+e.Name())
	}
	return names
}

// wantDamageOr opens a damaged log: it must be refused with a *damage.Error, or have all
// entries up to atLeast unchanged.
func wantDamageOr(t *testing.T, disk *vfstest.Disk, want []*raft.Log, atLeast int) (refused bool) {
	t.Helper()
	o := smallOptions(disk)
	o.Create = false
	before := disk.Ops()
	_, cerr := Check(disk, testDir, nil)
	if disk.Ops() != before {
		t.Fatal("Check has changed something")
	}
	l, err := Open(o)
	if (cerr == nil) != (err == nil) {
		t.Fatalf("Check says %v, Open says %v", cerr, err)
	}
	var d *damage.Error
	if errors.As(err, &d) {
		if d.File == "" || d.What == "" || d.Repair == "" {
			t.Fatalf("the error does not say enough: %+v", d)
		}
		if disk.Ops() != before {
			t.Fatal("a damaged log was changed")
		}
		return true
	}
	if err != nil {
		t.Fatalf("not a damage error: %v", err)
	}
	last, _ := l.LastIndex()
	if int(last) < atLeast {
		t.Fatalf("entries from %d on are gone without an error", last+1)
	}
	wantLog(t, l, want[:last])
	l.Close()
	return false
}

func TestEveryFlippedByteIsNoticedOrHarmless(t *testing.T) {
	for _, clean := range []bool{true, false} {
		base, want := damageLog(t, clean)
		refused, total := 0, 0
		for _, name := range logFiles(t, base) {
			var size int
			base.Damage(name, func(b []byte) []byte { size = len(b); return b })
			for i := range size {
				disk := base.Clone()
				disk.Damage(name, func(b []byte) []byte { b[i] ^= 0x10; return b })
				atLeast := len(want)
				if !clean {
					atLeast-- // the last batch of a killed log looks like a torn tail
				}
				total++
				if wantDamageOr(t, disk, want, atLeast) {
					refused++
				}
			}
		}
		if refused < total/3 {
			t.Fatalf("only %d of %d flipped bytes were noticed", refused, total)
		}
		t.Logf("clean %v: %d of %d flipped bytes refused, the others harmless", clean, refused, total)
	}
}

func TestZeroedPageIsNoticed(t *testing.T) {
	base, want := damageLog(t, true)
	for _, name := range logFiles(t, base) {
		for off := 0; off < 512; off += 64 {
			disk := base.Clone()
			changed := false
			disk.Damage(name, func(b []byte) []byte {
				for i := off; i < min(off+64, len(b)); i++ {
					changed = changed || b[i] != 0
					b[i] = 0
				}
				return b
			})
			if changed {
				wantDamageOr(t, disk, want, len(want))
			}
		}
	}
}

func TestShortenedFileIsNoticed(t *testing.T) {
	for _, clean := range []bool{true, false} {
		base, want := damageLog(t, clean)
		files := logFiles(t, base)
		for k, name := range files {
			var size int
			base.Damage(name, func(b []byte) []byte { size = len(b); return b })
			for n := range size {
				disk := base.Clone()
				disk.Damage(name, func(b []byte) []byte { return b[:n] })
				if !wantDamageOr(t, disk, want, len(want)) && k == len(files)-1 {
					t.Fatalf("%s cut to %d of %d bytes was opened", name, n, size)
				}
			}
		}
	}
}

func TestMissingFileIsNoticed(t *testing.T) {
	base, want := damageLog(t, true)
	files := logFiles(t, base)
	if len(files) < 3 {
		t.Fatalf("want at least three segments, have %d", len(files))
	}
	for i, name := range files {
		disk := base.Clone()
		disk.Remove(name)
		if i == 0 {
			continue // a log without its first entries: the owner of the snapshots must notice
		}
		if !wantDamageOr(t, disk, want, len(want)) {
			t.Fatalf("the loss of %s was not noticed", name)
		}
	}
	for _, name := range files {
		base.Remove(name)
	}
	if !wantDamageOr(t, base, want, len(want)) {
		t.Fatal("the loss of all files was not noticed")
	}
}

func TestForeignFileIsNoticed(t *testing.T) {
	a, want := damageLog(t, true)
	// The same log with other salts and one other entry.
	b := newDisk()
	o := smallOptions(b)
	o.SegmentBytes, o.Rand = 512, rand.NewChaCha8([32]byte{2})
	l := mustOpen(t, o)
	other := entries(1, 8, 1, 70)
	other[0].Data[0] ^= 1
	for _, e := range other {
		mustStore(t, l, e)
	}
	l.Close()
	for i, name := range logFiles(t, a) {
		disk := a.Clone()
		var content []byte
		b.Damage(name, func(b []byte) []byte { content = slices.Clone(b); return b })
		disk.Damage(name, func([]byte) []byte { return content })
		if !wantDamageOr(t, disk, want, len(want)) {
			t.Fatalf("foreign segment %d was taken", i)
		}
	}
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
