package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/internal/vfs"
)

// seeds is how many crashes a test looks at where chance decides.
const seeds = 200

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file without syncing anything.
func put(t *testing.T, d *Disk, name, text string) vfs.File {
	t.Helper()
	f, err := d.Create(name)
	check(t, err)
	_, err = f.Write([]byte(text))
	check(t, err)
	return f
}

// outcomes are the contents of a file over many crashes; "-" is a missing file.
func outcomes(t *testing.T, d *Disk, name string) []string {
	t.Helper()
	seen := map[string]bool{}
	for seed := range uint64(seeds) {
		b, err := vfs.ReadFile(d.AfterCrash(seed), name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			seen["-"] = true
		case err != nil:
			t.Fatal(err)
		default:
			seen[string(b)] = true
		}
	}
	var list []string
	for s := range seen {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

func TestSyncedFileWithSyncedNameSurvivesEveryCrash(t *testing.T) {
	d := New()
	f := put(t, d, "/a", "one")
	check(t, f.Sync())
	check(t, d.SyncDir("/"))
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"one"}) {
		t.Errorf("got %q", got)
	}
}

func TestUnsyncedNameMayBeLostWithItsSyncedContent(t *testing.T) {
	d := New()
	f := put(t, d, "/a", "one")
	check(t, f.Sync())
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"-", "one"}) {
		t.Errorf("got %q", got)
	}
}

func TestUnsyncedContentMayBeLostUnderASyncedName(t *testing.T) {
	d := New()
	put(t, d, "/a", "one")
	check(t, d.SyncDir("/"))
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"", "\x00\x00\x00", "one"}) {
		t.Errorf("got %q", got)
	}
}

func TestWritesTearAtSectorsAndNowhereElse(t *testing.T) {
	d := New()
	f := put(t, d, "/a", strings.Repeat("a", 3*SectorSize))
	check(t, f.Sync())
	check(t, d.SyncDir("/"))
	must(f.WriteAt(bytes.Repeat([]byte("b"), 2*SectorSize), SectorSize/2))
	var torn bool
	for seed := range uint64(seeds) {
		b := must(vfs.ReadFile(d.AfterCrash(seed), "/a"))
		for i := range 3 {
			s := string(b[i*SectorSize : (i+1)*SectorSize])
			old := strings.Repeat("a", SectorSize)
			half := strings.Repeat("a", SectorSize/2)
			written := []string{half + strings.Repeat("b", SectorSize/2), strings.Repeat("b", SectorSize), strings.Repeat("b", SectorSize/2) + half}[i]
			if s != old && s != written {
				t.Fatalf("seed %d: sector %d is neither the old nor the new one", seed, i)
			}
		}
		first, second := b[SectorSize-1] == 'b', b[SectorSize] == 'b'
		torn = torn || first != second
	}
	if !torn {
		t.Error("no crash has torn the write")
	}
}

func TestRenameIsOldOrNewAndNeverNeither(t *testing.T) {
	d := New()
	check(t, put(t, d, "/a", "old").Sync())
	check(t, d.SyncDir("/"))
	check(t, put(t, d, "/a.tmp", "new").Sync())
	check(t, d.Rename("/a.tmp", "/a"))
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("before SyncDir: got %q", got)
	}
	check(t, d.SyncDir("/"))
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"new"}) {
		t.Errorf("after SyncDir: got %q", got)
	}
}

func TestRenameAcrossDirectoriesKeepsTheOrderUnderOneName(t *testing.T) {
	d := New()
	check(t, d.MkdirAll("/x", 0o700))
	check(t, d.MkdirAll("/y", 0o700))
	check(t, d.SyncDir("/"))
	check(t, put(t, d, "/y/f", "old").Sync())
	check(t, put(t, d, "/x/f", "new").Sync())
	check(t, d.Rename("/x/f", "/y/f"))
	check(t, d.SyncDir("/x")) // takes the creation of /y/f along, not the other way round
	check(t, d.SyncDir("/y"))
	if got := outcomes(t, d, "/y/f"); !slices.Equal(got, []string{"new"}) {
		t.Errorf("got %q", got)
	}
}

func TestRemovedFileMayComeBackUntilSyncDir(t *testing.T) {
	d := New()
	check(t, put(t, d, "/a", "one").Sync())
	check(t, d.SyncDir("/"))
	check(t, d.Remove("/a"))
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"-", "one"}) {
		t.Errorf("got %q", got)
	}
	check(t, d.SyncDir("/"))
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"-"}) {
		t.Errorf("got %q", got)
	}
}

// "After a failed fsync nothing is known about what had been written" (fsyncgate): the
// page cache says that all is well, and the second Sync succeeds.
func TestSecondSyncDoesNotSaveWhatTheFailedOneLeft(t *testing.T) {
	d := New()
	f := put(t, d, "/a", "old")
	check(t, f.Sync())
	check(t, d.SyncDir("/"))
	must(f.WriteAt([]byte("new"), 0))
	d.Inject(Fault{Op: OpSync, Err: syscall.EIO})
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync: got %v, want EIO", err)
	}
	check(t, f.Sync())
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("after the second Sync: got %q", got)
	}
	must(f.WriteAt([]byte("NEW"), 0))
	check(t, f.Sync())
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"NEW"}) {
		t.Errorf("after writing again: got %q", got)
	}
}

// The length of a failed Sync may be lost, but not under bytes that a later one has saved.
func TestWriteAfterAFailedSyncSavesTheLengthItNeeds(t *testing.T) {
	d := New()
	f := put(t, d, "/a", "12")
	check(t, f.Sync())
	check(t, d.SyncDir("/"))
	check(t, f.Truncate(6))
	d.Inject(Fault{Op: OpSync, Err: syscall.EIO})
	if err := f.Sync(); err == nil {
		t.Fatal("the fault did not hit")
	}
	must(f.WriteAt([]byte("34"), 2))
	check(t, f.Sync())
	if got := outcomes(t, d, "/a"); !slices.Equal(got, []string{"1234\x00\x00"}) {
		t.Errorf("got %q", got)
	}
}

func TestFaultsHitTheNthMatchingOperation(t *testing.T) {
	d := New()
	f := put(t, d, "/log", "")
	d.Inject(Fault{Op: OpWrite, Base: "l*", N: 2, Err: syscall.ENOSPC, Short: 2})
	must(f.Write([]byte("aaaa")))
	n, err := f.Write([]byte("bbbb"))
	if n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("second write: got %d, %v, want 2, ENOSPC", n, err)
	}
	must(f.Write([]byte("cc")))
	if got := string(must(vfs.ReadFile(d, "/log"))); got != "aaaabbcc" {
		t.Errorf("got %q", got)
	}
}

func TestSlowOperationTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		f := put(t, d, "/a", "x")
		d.Inject(Fault{Op: OpSync, Delay: time.Second})
		start := time.Now()
		check(t, f.Sync())
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}

func TestNothingWorksAfterAPowerCut(t *testing.T) {
	d := New()
	f := put(t, d, "/a", "x")
	d.Inject(Fault{N: 2, Cut: true})
	must(f.Write([]byte("y")))
	if _, err := f.Write([]byte("z")); !errors.Is(err, ErrPowerCut) {
		t.Errorf("write: got %v", err)
	}
	if _, err := d.Open("/a"); !errors.Is(err, ErrPowerCut) {
		t.Errorf("open: got %v", err)
	}
}

func TestFullDiskTakesWhatFitsAndGivesSpaceBack(t *testing.T) {
	d := New()
	d.SetCapacity(10)
	put(t, d, "/a", "12345678")
	f := must(d.Create("/b"))
	n, err := f.Write([]byte("1234"))
	if n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %d, %v, want 2, ENOSPC", n, err)
	}
	if err := f.Preallocate(9); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Preallocate: got %v", err)
	}
	check(t, d.Remove("/a"))
	must(f.Write([]byte("34567890")))
}

// As on ext4.
func TestPreallocateThatFailsGrowsTheFilePartOfTheWay(t *testing.T) {
	size := func(d *Disk) int64 { return must(d.Stat("/a")).Size() }
	d := New()
	d.SetCapacity(10)
	f := put(t, d, "/a", "1234")
	if err := f.Preallocate(11); !errors.Is(err, syscall.ENOSPC) || size(d) != 10 {
		t.Errorf("without room: %v, %d bytes", err, size(d))
	}
	check(t, f.Truncate(4))
	d.SetCapacity(0)
	for want, fault := range map[int64]Fault{
		4: {Err: syscall.EIO}, 7: {Err: syscall.EIO, Short: 3}, 11: {Err: syscall.ENOSPC, Short: 100}, 6: {Short: 2, Cut: true},
	} {
		d := d.AfterKill()
		f := must(d.OpenFile("/a", os.O_RDWR, 0))
		fault.Op = OpTruncate
		d.Inject(fault)
		if err := f.Preallocate(11); err == nil || must(d.AfterKill().Stat("/a")).Size() != want {
			t.Errorf("%+v: %v, %d bytes", fault, err, must(d.AfterKill().Stat("/a")).Size())
		}
		if err := f.Preallocate(2); !fault.Cut && (err != nil || size(d) != want) {
			t.Errorf("%+v: a smaller one then: %v, %d bytes", fault, err, size(d))
		}
	}
}

func TestEqualSeedsGiveEqualDisks(t *testing.T) {
	d := New()
	for _, name := range []string{"/a", "/b", "/c"} {
		put(t, d, name, strings.Repeat(name, 1000))
	}
	read := func(d *Disk) string {
		var b strings.Builder
		for _, name := range []string{"/a", "/b", "/c"} {
			data, _ := vfs.ReadFile(d, name)
			b.Write(data)
			b.WriteString("|")
		}
		return b.String()
	}
	different := false
	for seed := range uint64(seeds) {
		first, again := read(d.AfterCrash(seed)), read(d.AfterCrash(seed))
		if first != again {
			t.Fatalf("seed %d gives two disks", seed)
		}
		different = different || first != read(d.AfterCrash(seed+1))
	}
	if !different {
		t.Error("all seeds give the same disk")
	}
}

func TestKilledProcessLeavesWhatItWroteButNotForSure(t *testing.T) {
	d := New()
	put(t, d, "/a", "one")
	next := d.AfterKill()
	if got := string(must(vfs.ReadFile(next, "/a"))); got != "one" {
		t.Errorf("after the kill: got %q", got)
	}
	if got := outcomes(t, next, "/a"); !slices.Contains(got, "-") {
		t.Errorf("after kill and crash: got %q, want the loss of it among them", got)
	}
	f := must(next.OpenFile("/a", os.O_RDWR, 0))
	check(t, f.Sync())
	check(t, next.SyncDir("/"))
	if got := outcomes(t, next, "/a"); slices.Equal(got, []string{"one"}) == false {
		t.Errorf("after syncing what the dead process wrote: got %q", got)
	}
}

func TestLockIsExclusiveUntilClosed(t *testing.T) {
	d := New()
	l := must(d.Lock("/lock"))
	if _, err := d.Lock("/lock"); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("second lock: got %v", err)
	}
	check(t, l.Close())
	must(d.Lock("/lock"))
}

// The running system must see a plain file system whatever is pending underneath.
func TestFilesReadBackAsWritten(t *testing.T) {
	r := rng.New(1)
	d := New()
	f := must(d.Create("/a"))
	var want []byte
	for range 3000 {
		size := r.Intn(3000)
		switch r.Intn(5) {
		case 0:
			check(t, f.Truncate(int64(size)))
			want = append(want, make([]byte, max(size-len(want), 0))...)[:size]
		case 1:
			check(t, f.Sync())
		default:
			p, off := make([]byte, r.Intn(1500)), r.Intn(3000)
			r.Fill(p)
			must(f.WriteAt(p, int64(off)))
			if len(p) > 0 {
				want = append(want, make([]byte, max(off+len(p)-len(want), 0))...)
			}
			copy(want[min(off, len(want)):], p)
		}
		if got := must(vfs.ReadFile(d, "/a")); !bytes.Equal(got, want) {
			t.Fatalf("file differs from what was written: %d and %d bytes", len(got), len(want))
		}
	}
}
