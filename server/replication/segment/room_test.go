package segment

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/sim/disk"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/vfs/vfstest"
	"github.com/zkd-project/zkd/server/replication/damage"
)

// newLimitedDisk can be given a capacity, and cuts the power in the middle of an operation.
func newLimitedDisk(t *testing.T) *disk.Disk {
	t.Helper()
	d := disk.New()
	if err := errors.Join(d.MkdirAll(testDir, 0o700), d.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return d
}

// limit leaves room bytes on the disk.
func limit(d *disk.Disk, room int64) {
	free, total := d.Space()
	d.SetCapacity(total - free + room)
}

// restartable leaves nothing but to open the log: an empty directory is damage.
func restartable(fsys vfs.FS) Options {
	o := smallOptions(fsys)
	o.Create = false
	return o
}

func fileSizes(t *testing.T, d *disk.Disk) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	list, err := d.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		st, err := d.Stat(testDir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		sizes[e.Name()] = st.Size()
	}
	return sizes
}

// A start for which the disk has no room fails, changes nothing, and the next one succeeds where
// there is room: the space that it got on the way does not look like a lost end.
func TestStartWithoutRoomCanBeRepeated(t *testing.T) {
	want := entries(1, 2, 1, 100)
	for room := int64(0); room < 600; room += 52 {
		d := newLimitedDisk(t)
		l := mustOpen(t, smallOptions(d))
		mustStore(t, l, want...)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(fileSizes(t, d))
		limit(d, room)
		for range 2 {
			var de *damage.Error
			if _, err := Open(restartable(d)); !errors.Is(err, syscall.ENOSPC) || errors.As(err, &de) {
				t.Fatalf("room for %d bytes: %v", room, err)
			}
			if after := fmt.Sprint(fileSizes(t, d)); after != before {
				t.Fatalf("room for %d bytes: the files have now %s bytes, had %s", room, after, before)
			}
		}
		d.SetCapacity(0)
		l = mustOpen(t, restartable(d))
		wantLog(t, l, want)
		mustStore(t, l, entry(3, 2, 100))
		l.Close()
	}
}

// The space behind a closed log is half reserved, and then nothing more is done: there was a crash,
// or the half could not be given back.
func TestHalfReservedSpaceBehindAClosedLogIsNoDamage(t *testing.T) {
	want := entries(1, 2, 1, 100)
	for grown := 0; grown < 700; grown += 13 {
		for _, again := range []bool{false, true} { // the repair of that start is interrupted in the same way
			d := newLimitedDisk(t)
			l := mustOpen(t, smallOptions(d))
			mustStore(t, l, want...)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			for range map[bool]int{false: 1, true: 2}[again] {
				d.Inject(disk.Fault{Op: disk.OpTruncate, Short: grown, Cut: true})
				if _, err := Open(restartable(d)); !errors.Is(err, disk.ErrPowerCut) {
					t.Fatalf("grown by %d: %v", grown, err)
				}
				d = d.AfterKill()
			}
			for way := range uint64(5) {
				next := d.AfterKill()
				if way > 0 {
					next = d.AfterCrash(way)
				}
				if _, err := Check(next, testDir, nil); err != nil {
					t.Fatalf("grown by %d: check: %v", grown, err)
				}
				l, err := Open(restartable(next))
				if err != nil {
					t.Fatalf("grown by %d: %v", grown, err)
				}
				wantLog(t, l, want)
				mustStore(t, l, entry(3, 2, 100))
				l.Close()
				l = mustOpen(t, restartable(next))
				wantLog(t, l, append(slices.Clone(want), entry(3, 2, 100)))
				l.Close()
			}
		}
	}
}

// Only zeros can follow a close in a file shorter than reserved: all else has been written
// when it had its full length.
func TestShortFileWithMoreThanZerosBehindACloseIsDamaged(t *testing.T) {
	closedLog := func() (*vfstest.Disk, []*raft.Log, string, int) {
		base := newDisk()
		l := mustOpen(t, smallOptions(base))
		want := entries(1, 2, 1, 100)
		mustStore(t, l, want...)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		name := logFiles(t, base)[0]
		var size int
		base.Damage(name, func(b []byte) []byte { size = len(b); return b })
		return base, want, name, size
	}
	t.Run("foreign bytes", func(t *testing.T) {
		base, want, name, size := closedLog()
		for n := 1; size+n < 1024; n += 29 {
			for at := range n {
				d := base.Clone()
				d.Damage(name, func(b []byte) []byte {
					b = append(b, make([]byte, n)...)
					b[size+at] = 1
					return b
				})
				if !wantDamageOr(t, d, want, len(want)) {
					t.Fatalf("a byte %d behind the end was taken for none, the file longer by %d", at, n)
				}
			}
		}
	})
	t.Run("lost end", func(t *testing.T) {
		base, want, name, size := closedLog()
		l := mustOpen(t, restartable(base))
		mustStore(t, l, entry(3, 2, 200))
		base.Kill()
		for n := size + 8; n < 1024; n++ {
			d := base.Clone()
			d.Damage(name, func(b []byte) []byte { return b[:n] })
			if !wantDamageOr(t, d, want, len(want)) {
				t.Fatalf("a file cut to %d bytes behind a close was opened", n)
			}
		}
	})
}

// A disk with less room than a segment takes gets shorter ones, down to a 64th, before the log
// gives up. Nothing that was acknowledged is lost then, and with room they are long again.
func TestSegmentsAreShorterWhereThereIsLittleRoom(t *testing.T) {
	const long = 64 << 10
	for room := int64(0); room < 3*long; room += 7919 {
		d := newLimitedDisk(t)
		o := smallOptions(d)
		o.SegmentBytes = long
		l := mustOpen(t, o)
		limit(d, room)
		var stored []*raft.Log
		var err error
		for i := uint64(1); err == nil; i++ {
			e := entry(i, 1, 400)
			if err = l.StoreLog(e); err == nil {
				stored = append(stored, e)
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if free, _ := d.Space(); free >= 2*long/smallestShare {
			t.Fatalf("room for %d bytes: the log gave up with %d left", room, free)
		}
		for name := range fileSizes(t, d) {
			if _, _, ok := parseName(name); !ok {
				t.Fatalf("left over: %s", name)
			}
		}
		// What a header says is reserved, no more and no less.
		if st, err := d.Stat(l.tail().path); err != nil || st.Size() != l.tail().reserved {
			t.Fatalf("room for %d bytes: the file has %v bytes (%v), %d are reserved", room, st.Size(), err, l.tail().reserved)
		}
		l.Close()
		for way := range uint64(3) {
			next := d.AfterKill()
			if way > 0 {
				next = d.AfterCrash(way)
			}
			o.FS = next
			l := mustOpen(t, o) // still full: it needs no more than it has
			wantLog(t, l, stored)
			next.SetCapacity(0)
			mustStore(t, l, entries(uint64(len(stored))+1, uint64(len(stored))+400, 2, 400)...)
			if got := l.tail().reserved; got < long {
				t.Fatalf("the disk has room again, the segment has %d bytes", got)
			}
			l.Close()
			l = mustOpen(t, o)
			wantLog(t, l, append(slices.Clone(stored), entries(uint64(len(stored))+1, uint64(len(stored))+400, 2, 400)...))
			l.Close()
		}
	}
}

func TestLargeBatchHasItsLengthReservedWhereThereIsLittleRoom(t *testing.T) {
	d := newLimitedDisk(t)
	o := smallOptions(d)
	o.SegmentBytes = 16 << 10
	l := mustOpen(t, o)
	mustStore(t, l, entries(1, 20, 1, 700)...)
	limit(d, 6000)
	mustStore(t, l, entry(21, 1, 5000))
	if s := l.tail(); s.first != 21 || s.reserved < s.end {
		t.Fatalf("%d bytes are reserved, entry %d and what follows take %d", s.reserved, s.first, s.end)
	}
	l.Close()
	l = mustOpen(t, o)
	wantLog(t, l, append(entries(1, 20, 1, 700), entry(21, 1, 5000)))
	l.Close()
}

// Also what deletes from a log needs a new file.
func TestLogIsCutWhereThereIsLittleRoom(t *testing.T) {
	want := entries(1, 10, 1, 100)
	for _, c := range []struct {
		name   string
		lo, hi uint64
	}{{"the end", 6, 10}, {"all", 1, 10}} {
		t.Run(c.name, func(t *testing.T) {
			d := newLimitedDisk(t)
			o := smallOptions(d)
			o.SegmentBytes = 16 << 10
			l := mustOpen(t, o)
			mustStore(t, l, want...)
			limit(d, 1200)
			if err := l.DeleteRange(c.lo, c.hi); err != nil {
				t.Fatal(err)
			}
			left := want[:c.lo-1]
			wantLog(t, l, left)
			more := entries(c.lo, c.lo+1, 2, 50)
			mustStore(t, l, more...)
			l.Close()
			l = mustOpen(t, o)
			wantLog(t, l, append(slices.Clone(left), more...))
			l.Close()
		})
	}
}
