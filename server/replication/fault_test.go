package replication

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

func faultOptions(disk *vfstest.Disk) Options {
	o := testOptions()
	o.Dir, o.FS, o.SegmentBytes, o.SnapRetain = "/data", disk, 2048, 2
	return o
}

// life is a short life of a node with snapshots, new log files and a restart. It ends with
// the first error. acked are the nodes whose creation was acknowledged.
type life struct {
	acked []string
	zxid  int64 // of the last acknowledged write
}

func (l *life) run(t *testing.T, o Options) error {
	req, next := uint64(0), 0
	for start := range 2 {
		r := newRig(t)
		fatal := make(chan error, 10)
		o.Observer, o.Fatal = r, func(err error) { fatal <- err }
		n, _, err := Open(o)
		if err != nil {
			return err
		}
		r.Node = n
		err = func() error {
			if err := n.WaitReady(testContext(t)); err != nil {
				return err
			}
			if start == 0 {
				if _, err := r.do(sessionCommand()); err != nil {
					return err
				}
			}
			for i := range 9 {
				path := nodePath(next)
				req, next = req+1, next+1
				a, err := r.do(createNode(req, path, make([]byte, 200)))
				if err != nil {
					return err
				}
				if a.code != 0 {
					t.Fatalf("create %s: %v", path, a.code)
				}
				l.acked, l.zxid = append(l.acked, path), a.zxid
				if i%4 == 3 {
					// A snapshot for which there is no room does no harm.
					if err := n.SnapshotNow(testContext(t)); err != nil && !errors.Is(err, syscall.ENOSPC) {
						return err
					}
				}
			}
			return nil
		}()
		cerr := n.Close()
		if fatals := len(fatal); err != nil && fatals != 1 || fatals > 1 {
			t.Fatalf("%v, and Fatal was called %d times", err, fatals)
		}
		if err != nil {
			err = errors.Join(err, <-fatal)
		}
		if err == nil {
			err = cerr
		}
		if err != nil {
			if perr := n.Propose(createNode(req+1, "/late", nil)); !errors.Is(perr, ErrClosed) {
				t.Fatalf("a proposal after the end: %v", perr)
			}
			return err
		}
	}
	return nil
}

// check opens the directory again and looks for all that was acknowledged.
func (l *life) check(t *testing.T, o Options) {
	t.Helper()
	r := openRig(t, o)
	for _, path := range l.acked {
		if r.data(path) == nil {
			t.Fatalf("%s was acknowledged and is gone; there were %d", path, len(l.acked))
		}
	}
	r.RLock()
	zxid := r.Machine().Zxid()
	err := r.Machine().Check()
	r.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	if zxid < l.zxid {
		t.Fatalf("zxid %x after the restart, %x had been seen", zxid, l.zxid)
	}
	r.Node.Close()
}

// The power fails at the n-th operation, for every n; of what was not synced anything may
// survive.
func TestPowerCutAtAnyOperationLosesNothingAcknowledged(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 2
	}
	for n := 1; ; n++ {
		for seed := range seeds {
			disk := vfstest.New()
			disk.Fail(n, vfstest.ErrDown)
			var l life
			l.run(t, faultOptions(disk))
			if !disk.Failed() {
				if n < 100 {
					t.Fatalf("only %d operations were tried", n)
				}
				t.Logf("%d operations", n)
				return
			}
			var rng *rand.Rand
			if seed > 0 {
				rng = rand.New(rand.NewPCG(seed, uint64(n)))
			}
			disk.Crash(rng)
			l.check(t, faultOptions(disk))
		}
	}
}

// The n-th operation fails with an error of the disk, for every n: the start fails, or
// Fatal is called once; what was acknowledged is there when the disk works again.
func TestDiskErrorAtAnyOperationEndsTheNode(t *testing.T) {
	for _, boom := range []error{syscall.EIO, syscall.ENOSPC} {
		t.Run(fmt.Sprint(boom), func(t *testing.T) {
			for n := 1; ; n++ {
				disk := vfstest.New()
				disk.Fail(n, boom)
				var l life
				err := l.run(t, faultOptions(disk))
				if !disk.Failed() {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if err != nil && !errors.Is(err, boom) {
					t.Fatalf("operation %d: %v, which does not lead back to what the disk said", n, err)
				}
				disk.Kill()
				l.check(t, faultOptions(disk))
			}
		})
	}
}

// After a failed sync nothing more is acknowledged or applied, and the node says why.
func TestFailedSyncEndsTheNode(t *testing.T) {
	disk := vfstest.New()
	r := openRig(t, faultOptions(disk))
	r.session()
	r.mustDo(createNode(1, "/a", nil))
	before := r.digest()
	disk.Fail(2, syscall.EIO) // the write, then the sync
	if a, err := r.do(createNode(2, "/b", nil)); err == nil {
		t.Fatalf("answered %+v", a)
	}
	if err := <-r.fatal; !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if r.digest() != before {
		t.Fatal("the machine has changed")
	}
	if err := r.WaitReady(testContext(t)); err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	ops := disk.Ops()
	r.Node.Close()
	if disk.Ops() != ops {
		t.Fatal("the log was written to after a failed sync")
	}
	// The page cache still has it, so it may be there after a restart of the process; then it
	// must be made durable.
	disk.Kill()
	r = openRig(t, faultOptions(disk))
	found := r.data("/b") != nil
	disk.Crash(nil)
	r2 := openRig(t, faultOptions(disk))
	if found && r2.data("/b") == nil {
		t.Fatal("it was there after the restart, and is gone after the power cut")
	}
	if r2.data("/a") == nil {
		t.Fatal("an acknowledged node is gone")
	}
}

func TestKilledProcessLosesNothing(t *testing.T) {
	for _, store := range []string{logStoreSegment, logStoreBolt} {
		t.Run(store, func(t *testing.T) {
			o := testOptions()
			o.Dir, o.LogStore = t.TempDir(), store
			r := openRig(t, o)
			r.session()
			for i := range 30 {
				r.mustDo(createNode(uint64(i+1), nodePath(i), nil))
				if i == 10 {
					if err := r.SnapshotNow(testContext(t)); err != nil {
						t.Fatal(err)
					}
				}
			}
			// What kill -9 leaves: the files as they are.
			killed := o
			killed.Dir = t.TempDir()
			copyDir(t, o.Dir, killed.Dir)
			report, err := CheckDir(killed.Dir, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Nodes < 30 || report.Snapshots != 1 {
				t.Fatalf("%+v", report)
			}
			k := openRig(t, killed)
			if k.digestWithoutTerm() != r.digestWithoutTerm() {
				t.Fatal("another state after the kill")
			}
		})
	}
}
