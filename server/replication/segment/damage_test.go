package segment

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
	"github.com/zkd-project/zkd/server/replication/damage"
)

// How a log came to its end, and up to where damage must then be noticed.
type ending struct {
	name string
	mark int
}

// The last batch of a killed log, and all that was not synced, looks like a torn tail when
// it is damaged.
var (
	closed  = ending{"closed", 8}
	killed  = ending{"killed", 7}
	behind  = ending{"killed with entries not synced", 6}
	endings = []ending{closed, killed, behind}
)

// damageLog is a log of a few segments, and its entries.
func damageLog(t *testing.T, end ending) (*vfstest.Disk, []*raft.Log) {
	disk := newDisk()
	o := smallOptions(disk)
	o.SegmentBytes = 512
	l := mustOpen(t, o)
	want := entries(1, 8, 1, 70)
	for i, e := range want {
		if end == behind && i >= 4 {
			mustAppend(t, l, e)
		} else {
			mustStore(t, l, e)
		}
	}
	if end == closed {
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
	for _, end := range endings {
		base, want := damageLog(t, end)
		refused, total := 0, 0
		for _, name := range logFiles(t, base) {
			var size int
			base.Damage(name, func(b []byte) []byte { size = len(b); return b })
			for i := range size {
				disk := base.Clone()
				disk.Damage(name, func(b []byte) []byte { b[i] ^= 0x10; return b })
				total++
				if wantDamageOr(t, disk, want, end.mark) {
					refused++
				}
			}
		}
		if refused < total/3 {
			t.Fatalf("only %d of %d flipped bytes were noticed", refused, total)
		}
		t.Logf("%s: %d of %d flipped bytes refused, the others harmless", end.name, refused, total)
	}
}

func TestZeroedPageIsNoticed(t *testing.T) {
	base, want := damageLog(t, closed)
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
	for _, end := range endings {
		base, want := damageLog(t, end)
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
	base, want := damageLog(t, closed)
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
	a, want := damageLog(t, closed)
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

// unsyncedLog is a log of one segment, killed while entries were not synced, each batch with
// the marks that it must have; extents are where the records lie.
func unsyncedLog(t *testing.T) (disk *vfstest.Disk, name string, extents [][2]int, marks []uint64) {
	disk, stage, l := stagedLog(t)
	mustStore(t, l, entries(1, 2, 1, 90)...)
	mustAppend(t, l, entries(3, 4, 1, 90)...)
	g := stopAt(t, &stage.afterSync)
	synced := startSync(l)
	await(t, "the sync", g.reached)
	mustAppend(t, l, entry(5, 1, 90)) // the sync has not said yet that 4 is durable
	mustAppend(t, l, entry(6, 1, 90))
	g.open()
	await(t, "the sync", synced)
	for i := uint64(7); i <= 9; i++ {
		mustAppend(t, l, entry(i, 1, 90))
	}
	wantDurable(t, l, 4)
	s := l.tail()
	for i, off := range s.offsets {
		end := s.end
		if i+1 < len(s.offsets) {
			end = int64(s.offsets[i+1])
		}
		extents = append(extents, [2]int{int(off), int(end)})
	}
	disk.Kill()
	return disk, s.path, extents, []uint64{0, 0, 2, 2, 2, 2, 4, 4, 4}
}

func TestMarksNameWhatWasDurableWhenTheyWereWritten(t *testing.T) {
	disk, name, extents, marks := unsyncedLog(t)
	disk.Damage(name, func(b []byte) []byte {
		for i, e := range extents {
			if got := binary.BigEndian.Uint64(b[e[0]+32:]); got != marks[i] {
				t.Errorf("entry %d has the mark %d, want %d", i+1, got, marks[i])
			}
		}
		return b
	})
}

// Any records may be missing, with good ones behind them: a log whose first missing entry
// had been marked durable is damaged, and any other is cut there.
func TestHoleIsDamageUpToTheHighestMarkAndTornBehindIt(t *testing.T) {
	base, name, extents, marks := unsyncedLog(t)
	want := entries(1, 9, 1, 90)
	for lost := range 1 << len(extents) {
		for _, lose := range []func(b []byte){
			func(b []byte) { clear(b) },
			func(b []byte) { b[len(b)-20] ^= 1 }, // in the data
		} {
			disk := base.Clone()
			first, highest := len(extents), uint64(0)
			disk.Damage(name, func(b []byte) []byte {
				for i, e := range extents {
					if lost>>i&1 == 0 {
						highest = max(highest, marks[i])
						continue
					}
					first = min(first, i)
					lose(b[e[0]:e[1]])
				}
				return b
			})
			torn := uint64(first) >= highest // entry first+1 is the first that is missing
			if refused := wantDamageOr(t, disk, want, first); refused == torn {
				t.Fatalf("without %09b, where marks go up to %d: refused %v", lost, highest, refused)
			}
			if !torn {
				continue
			}
			// It ends there for good, and goes on from there.
			disk.Crash(nil)
			l := mustOpen(t, smallOptions(disk))
			wantLog(t, l, want[:first])
			mustStore(t, l, entry(uint64(first)+1, 2, 90))
			l.Close()
		}
	}
}

// What is found after a kill is durable from then on, and has a mark that says so.
func TestOpeningMarksWhatItFinds(t *testing.T) {
	disk, name, extents, _ := unsyncedLog(t)
	mustOpen(t, smallOptions(disk))
	for _, e := range extents {
		disk.Kill()
		d := disk.Clone()
		d.Damage(name, func(b []byte) []byte { b[e[0]+40] ^= 1; return b })
		if !wantDamageOr(t, d, nil, 9) {
			t.Fatalf("the record at %d was cut off as if it were torn", e[0])
		}
	}
}

// What a client puts into its data is not taken for a record that vouches for what is
// missing: it does not know the salt.
func TestDataThatLooksLikeARecordIsNone(t *testing.T) {
	forged := record{kind: kindEntry, index: 3, durable: 2, term: 1}
	data, _ := forged.append(nil, 0)
	disk := newDisk()
	l := mustOpen(t, smallOptions(disk))
	mustStore(t, l, entry(1, 1, 90))
	mustAppend(t, l, &raft.Log{Index: 2, Term: 1, Data: data})
	s := l.tail()
	disk.Kill()
	disk.Damage(s.path, func(b []byte) []byte {
		clear(b[s.offsets[1] : s.offsets[1]+recordSize])
		return b
	})
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, entries(1, 1, 1, 90))
	l.Close()
}

// tornBehindAClose is a log with entries 1 to 3 that was closed and opened, and then killed
// when 4 and 5 had been written; of these the disk has only 5. There is no mark between 3
// and 4, so that 4 can be written again byte for byte.
func tornBehindAClose(t *testing.T) (disk *vfstest.Disk, name string, fifth []byte, off int64) {
	disk = newDisk()
	o := smallOptions(disk)
	l := mustOpen(t, o)
	mustStore(t, l, entries(1, 3, 1, 90)...)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, o)
	mustAppend(t, l, entry(4, 1, 90))
	mustAppend(t, l, entry(5, 1, 90))
	s := l.tail()
	off = int64(s.offsets[4])
	disk.Kill()
	disk.Damage(s.path, func(b []byte) []byte {
		clear(b[s.offsets[3]:off])
		fifth = slices.Clone(b[off:s.end])
		return b
	})
	return disk, s.path, fifth, off
}

func TestRecordBehindACutDoesNotComeBackWhenTheCutIsFilled(t *testing.T) {
	disk, name, fifth, off := tornBehindAClose(t)
	l := mustOpen(t, smallOptions(disk))
	wantLog(t, l, entries(1, 3, 1, 90))
	mustAppend(t, l, entry(4, 1, 90))
	disk.Kill()
	if !disk.Damage(name, func(b []byte) []byte {
		var r record
		if !slices.Equal(b[off:off+int64(len(fifth))], make([]byte, len(fifth))) {
			t.Errorf("the record behind the cut is still there: %v", r.decode(b[off:], l.tail().crc0))
		}
		return b
	}) {
		t.Fatal("no file")
	}
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, entries(1, 4, 1, 90))
	l.Close()
}

// Were it still there, as on a disk that has not done what it was told, it would not follow
// an entry of another history.
func TestRecordOfAnotherHistoryDoesNotFollow(t *testing.T) {
	disk, name, fifth, off := tornBehindAClose(t)
	l := mustOpen(t, smallOptions(disk))
	want := append(entries(1, 3, 1, 90), &raft.Log{Index: 4, Term: 1, Data: make([]byte, 90)})
	mustAppend(t, l, want[3])
	disk.Kill()
	disk.Damage(name, func(b []byte) []byte {
		copy(b[off:], fifth)
		return b
	})
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, want)
	l.Close()
}
