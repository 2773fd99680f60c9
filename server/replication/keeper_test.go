package replication

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/sim/disk"
)

func TestSnapshotsBesideWriters(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		o.SnapshotBytes = 20 << 10
		r := openRig(t, o)
		r.session()
		const n = 3000
		for i := range n {
			for {
				err := r.Propose(createNode(uint64(i+1), nodePath(i), make([]byte, 50)))
				if err == nil {
					break
				}
				if !errors.Is(err, ErrQueueFull) {
					t.Fatal(err)
				}
			}
			if i%500 == 250 {
				if err := r.SnapshotNow(testContext(t)); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.mustDo(createNode(n+1, "/last", nil))
		want := r.digestWithoutTerm()
		zxid, at, ok := r.LastSnapshot()
		if !ok || zxid == 0 || time.Since(at) > time.Hour {
			t.Fatal(zxid, at, ok)
		}
		r = r.reopen(o)
		if r.info.SnapshotIndex == 0 {
			t.Fatal("no snapshot was loaded")
		}
		if got := r.digestWithoutTerm(); got != want {
			t.Fatalf("digest %x, want %x", got, want)
		}
	})
}

// A snapshot for which the disk has no room costs nothing but itself: the node serves on, nothing
// is left over, and the next one succeeds.
func TestSnapshotWithoutRoomOnTheDisk(t *testing.T) {
	for _, op := range []disk.Op{disk.OpCreate, disk.OpWrite, disk.OpSync, disk.OpRename} {
		t.Run(op.String(), func(t *testing.T) {
			d := disk.New()
			o := testOptions()
			o.Dir, o.FS, o.SnapshotBytes = "/data", d, -1
			r := openRig(t, o)
			r.session()
			r.mustDo(createNode(1, "/a", make([]byte, 1000)))
			d.Inject(disk.Fault{Op: op, Base: "*.snap*", Err: syscall.ENOSPC})
			if err := r.SnapshotNow(testContext(t)); !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			if _, _, ok := r.LastSnapshot(); ok {
				t.Fatal("a snapshot that was not written")
			}
			for _, name := range d.Files() {
				if strings.Contains(name, snapSuffix) {
					t.Fatalf("left over: %s", name)
				}
			}
			r.mustDo(createNode(2, "/b", nil))
			if err := r.SnapshotNow(testContext(t)); err != nil {
				t.Fatal(err)
			}
			want := r.digestWithoutTerm()
			r = r.reopen(o)
			if r.info.SnapshotIndex == 0 || r.digestWithoutTerm() != want {
				t.Fatalf("started from index %d with another tree", r.info.SnapshotIndex)
			}
		})
	}
}

func TestSnapCountTakesSnapshots(t *testing.T) {
	o := testOptions()
	o.Memory, o.SnapshotBytes, o.SnapCount = true, -1, 100
	r := openRig(t, o)
	r.session()
	req := uint64(1)
	for deadline := time.Now().Add(patience); ; req++ {
		r.mustDo(createNode(req, nodePath(int(req)), nil))
		if _, _, ok := r.LastSnapshot(); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no snapshot")
		}
	}
	if req < 99 {
		t.Fatalf("a snapshot after %d commands", req)
	}
}

func TestPurgingKeepsSnapshotsAndTheirLog(t *testing.T) {
	o := testOptions()
	o.Dir, o.SegmentBytes, o.SnapRetain = t.TempDir(), 4096, 3
	r := openRig(t, o)
	r.session()
	req := uint64(1)
	var indexes []uint64
	for range 8 {
		for range 20 {
			r.mustDo(createNode(req, nodePath(int(req)), make([]byte, 100)))
			req++
		}
		r.RLock() // what was answered last may be of a batch that is still being applied
		indexes = append(indexes, r.AppliedIndex())
		r.RUnlock()
		if err := r.SnapshotNow(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	files := r.stores.snaps.all()
	if len(files) != 3 || files[0].index != indexes[5] {
		t.Fatalf("%d snapshots, the oldest at %d of %v", len(files), files[0].index, indexes)
	}
	first, _ := r.stores.log.FirstIndex()
	if first != indexes[5]+1 {
		t.Fatalf("the log begins with %d, the oldest snapshot is at %d", first, indexes[5])
	}
	segments, _ := filepath.Glob(filepath.Join(o.Dir, "log", "*.log"))
	if len(segments) > 6 {
		t.Fatalf("%d log files are left", len(segments))
	}
	data, log := r.DirSizes()
	if data <= 0 || log <= 0 || log > 100<<10 {
		t.Fatal(data, log)
	}
	r.reopen(o)
}

func TestWithoutPurgingEverythingStays(t *testing.T) {
	o := testOptions()
	o.Dir, o.SegmentBytes, o.PurgeInterval = t.TempDir(), 4096, -1
	r := openRig(t, o)
	r.session()
	for i := range 6 {
		r.mustDo(createNode(uint64(i+1), nodePath(i), make([]byte, 3000)))
		if err := r.SnapshotNow(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if first, _ := r.stores.log.FirstIndex(); first != 1 || len(r.stores.snaps.all()) != 6 {
		t.Fatalf("log from %d, %d snapshots", first, len(r.stores.snaps.all()))
	}
}

func TestDamagedNewestSnapshotStopsTheStart(t *testing.T) {
	o := testOptions()
	o.Dir = t.TempDir()
	r := openRig(t, o)
	r.session()
	for i := range 3 {
		r.mustDo(createNode(uint64(i+1), nodePath(i), []byte("data")))
		if err := r.SnapshotNow(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	r.mustDo(createNode(4, "/after", nil))
	want := r.digestWithoutTerm()
	r.Node.Close()
	snaps, _ := filepath.Glob(filepath.Join(o.Dir, "snapshots", "*.snap"))
	newest := snaps[len(snaps)-1]
	b, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(newest, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var d *DamageError
	_, err = tryOpenRig(t, o)
	if !errors.As(err, &d) || d.File != newest || !strings.Contains(d.Repair, "move the file") {
		t.Fatalf("%v", err)
	}
	if _, err := CheckDir(o.Dir, "", nil); !errors.As(err, &d) {
		t.Fatalf("check: %v", err)
	}
	// The repair that it names.
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	r = openRig(t, o)
	if got := r.digestWithoutTerm(); got != want {
		t.Fatalf("digest %x, want %x", got, want)
	}
}
