package crash

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/sim/disk"
	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/replication/segment"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed alone (0: the fixed ones)")
	seedsFlag = flag.Int("seeds", 0, "run so many seeds, from -seed or 1 on")
)

// eachSeed runs f for the fixed seeds, or for those that the flags ask for.
func eachSeed(t *testing.T, fixed int, f func(t *testing.T, seed uint64)) {
	first, count := max(*seedFlag, 1), fixed
	switch {
	case *seedsFlag > 0:
		count = *seedsFlag
	case *seedFlag != 0:
		count = 1
	case testing.Short():
		count = max(fixed/4, 1)
	}
	for seed := first; seed < first+uint64(count); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("replay: go test ./internal/sim/crash -run '%s' -seed=%d", parent(t), seed)
				}
			}()
			f(t, seed)
		})
	}
}

func parent(t *testing.T) string {
	name, _, _ := bytes.Cut([]byte(t.Name()), []byte("/"))
	return string(name)
}

const logDir = "/data/log"

func newLogDisk(t *testing.T) *disk.Disk {
	t.Helper()
	d := disk.New()
	if err := d.MkdirAll(logDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/", "/data"} {
		if err := d.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// seededReader is the random source of the log, so that a run repeats itself.
type seededReader struct{ r *rng.Rand }

func (s seededReader) Read(p []byte) (int, error) {
	s.r.Fill(p)
	return len(p), nil
}

func openLog(fsys vfs.FS, r *rng.Rand) (*segment.Log, error) {
	return segment.Open(segment.Options{
		FS: fsys, Dir: logDir, SegmentBytes: 6000, CacheBytes: 1500, Rand: seededReader{r}, Create: true,
	})
}

// logLife is a random life of a log. acked is what the log must hold; tried what it holds
// if the operation under way takes effect, and what was appended becomes durable (equal to acked
// when there is neither).
type logLife struct {
	t            *testing.T
	rng          *rng.Rand
	d            *disk.Disk
	lie          disk.Op // not 0: operations of this kind do nothing and report success
	log          *segment.Log
	acked, tried []*raft.Log
	everLowest   uint64 // entries below it may come back: they were deleted in front
	term         uint64
}

func (l *logLife) open() error {
	var err error
	l.log, err = openLog(lyingFS{l.d, l.lie}, l.rng.Fork("salt"))
	return err
}

func (l *logLife) next() uint64 {
	if n := len(l.tried); n > 0 {
		return l.tried[n-1].Index + 1
	}
	return max(l.everLowest, 1)
}

func (l *logLife) batch() []*raft.Log {
	var list []*raft.Log
	for range 1 + l.rng.Intn(5) {
		data := make([]byte, []int{0, 5, 100, 600, 1800}[l.rng.Intn(5)])
		l.rng.Fill(data)
		if l.rng.OneIn(4) {
			clear(data) // looks like space that was never written
		}
		list = append(list, &raft.Log{
			Index: l.next() + uint64(len(list)), Term: l.term, Type: raft.LogCommand, Data: data,
		})
	}
	return list
}

// step carries out one operation. After an error nothing is acknowledged.
func (l *logLife) step() error {
	kind := l.rng.Weighted([]int{70, 10, 12, 2, 6, 25, 15})
	if kind > 0 && kind < 5 { // what deletes, or closes, makes durable first what is left
		if err := l.sync(); err != nil {
			return err
		}
	}
	var err error
	switch n := len(l.acked); kind {
	case 5:
		return l.append()
	case 6:
		return l.sync()
	case 0:
		b := l.batch()
		l.tried = append(slices.Clone(l.tried), b...)
		err = l.log.StoreLogs(b)
	case 1: // compaction: the front goes
		if n < 2 {
			return nil
		}
		k := 1 + l.rng.Intn(n-1)
		l.tried = slices.Clone(l.acked[k:])
		l.everLowest = l.tried[0].Index
		err = l.log.DeleteRange(l.acked[0].Index, l.acked[k-1].Index)
	case 2: // a new leader: the end goes
		if n < 2 {
			return nil
		}
		k := 1 + l.rng.Intn(n-1)
		l.tried = slices.Clone(l.acked[:k])
		l.term++
		err = l.log.DeleteRange(l.acked[k].Index, l.acked[n-1].Index)
	case 3: // a snapshot was installed: everything goes
		if n == 0 {
			return nil
		}
		l.tried = nil
		l.everLowest = l.acked[n-1].Index + 1
		err = l.log.DeleteRange(l.acked[0].Index, l.acked[n-1].Index)
	case 4:
		return l.restart()
	}
	if err == nil {
		l.acked = l.tried
	}
	return err
}

// append writes a batch and does not sync it: nothing is acknowledged, not even when the log has
// to sync what came before, for it does not tell.
func (l *logLife) append() error {
	b := l.batch()
	l.tried = append(slices.Clone(l.tried), b...)
	return l.log.Append(b)
}

// sync acknowledges what the log says to be durable. If the disk is slow, more is appended
// meanwhile, which it must not count.
func (l *logLife) sync() error {
	durable, err := l.log.Sync()
	if err != nil {
		return err
	}
	n := 0
	for n < len(l.tried) && l.tried[n].Index <= durable {
		n++
	}
	l.acked = l.tried[:n:n]
	return nil
}

// restart closes and opens the log. Only entries that were deleted in front may come back.
func (l *logLife) restart() error {
	err := l.log.Close()
	if err == nil {
		err = l.open()
	}
	if err != nil {
		return err
	}
	found, err := contents(l.log)
	if err != nil {
		return err
	}
	if err := survives(found, l.acked, l.acked, l.everLowest); err != nil {
		return fmt.Errorf("after a restart: %w", err)
	}
	l.acked, l.tried = found, found
	return nil
}

// contents reads the whole log.
func contents(log *segment.Log) ([]*raft.Log, error) {
	first, err := log.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	if err != nil || first == 0 {
		return nil, err
	}
	var list []*raft.Log
	for i := first; i <= last; i++ {
		e := new(raft.Log)
		if err := log.GetLog(i, e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		list = append(list, e)
	}
	return list, nil
}

func sameEntry(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data)
}

// survives says what is wrong with the log that was found after a crash: every entry must
// be of acked or of tried, and one that is in both must be there.
func survives(found, acked, tried []*raft.Log, mayReturn uint64) error {
	byIndex := func(list []*raft.Log) map[uint64]*raft.Log {
		m := map[uint64]*raft.Log{}
		for _, e := range list {
			m[e.Index] = e
		}
		return m
	}
	was, will, is := byIndex(acked), byIndex(tried), byIndex(found)
	for _, e := range found {
		a, b := was[e.Index], will[e.Index]
		switch {
		case a == nil && b == nil && e.Index < mayReturn:
		case a != nil && sameEntry(a, e), b != nil && sameEntry(b, e):
		default:
			return fmt.Errorf("entry %d of term %d was never written like that", e.Index, e.Term)
		}
	}
	for _, a := range acked {
		if b := will[a.Index]; b != nil && is[a.Index] == nil {
			return fmt.Errorf("acknowledged entry %d is lost, the log has %s", a.Index, span(found))
		}
	}
	return nil
}

func span(list []*raft.Log) string {
	if len(list) == 0 {
		return "no entry"
	}
	return fmt.Sprintf("entries %d to %d", list[0].Index, list[len(list)-1].Index)
}

// recovered opens the log on a disk that a crash has left and checks it.
func (l *logLife) recovered(d *disk.Disk, acked, tried []*raft.Log) error {
	log, err := openLog(d, rng.New(99))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	found, err := contents(log)
	if err != nil {
		return err
	}
	if err := survives(found, acked, tried, l.everLowest); err != nil {
		return err
	}
	// What has been read once is answered for: raft counts it as stored. A second crash
	// must not take it away.
	again, err := openLog(d.AfterCrash(1), rng.New(98))
	if err != nil {
		return fmt.Errorf("open after a second crash: %w", err)
	}
	second, err := contents(again)
	if err != nil {
		return fmt.Errorf("after a second crash: %w", err)
	}
	if !slices.EqualFunc(found, second, sameEntry) {
		return fmt.Errorf("a second crash turns %s into %s", span(found), span(second))
	}
	e := &raft.Log{Index: 1, Term: 1 << 40, Data: []byte("next")}
	if len(second) > 0 {
		e.Index = second[len(second)-1].Index + 1
	}
	if err := again.StoreLog(e); err != nil {
		return fmt.Errorf("store after the crash: %w", err)
	}
	return nil
}

func newLife(t *testing.T, seed uint64) *logLife { return newLyingLife(t, seed, 0) }

func newLyingLife(t *testing.T, seed uint64, lie disk.Op) *logLife {
	l := &logLife{t: t, rng: rng.New(seed), d: newLogDisk(t), term: 1, lie: lie}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	return l
}

// The power fails before every operation that changes something, in three ways each.
func TestAcknowledgedEntriesSurviveACrashAtEveryWrite(t *testing.T) {
	eachSeed(t, 24, func(t *testing.T, seed uint64) {
		l := newLife(t, seed)
		images := 0
		l.d.Observe(func(b disk.Boundary) {
			for way := range uint64(3) {
				images++
				image := b.AfterCrash(seed<<32 + uint64(images)<<2 + way)
				before := fmt.Sprint(image.Files())
				if err := l.recovered(image, l.acked, l.tried); err != nil {
					t.Fatalf("crash before %v of %s, way %d: %v\nacknowledged %s, under way %s\nfiles %s",
						b.Op, b.Name, way, err, span(l.acked), span(l.tried), before)
				}
			}
		})
		for range 60 {
			if err := l.step(); err != nil {
				t.Fatal(err)
			}
		}
		if images < 300 {
			t.Errorf("only %d crashes", images)
		}
	})
}

// While a sync takes its time more is appended, and the power fails: what the sync has reported is
// there, also where the appended had to wait for it because it needs a new file.
func TestSyncCountsOnlyWhatWasThereWhenItBegan(t *testing.T) {
	eachSeed(t, 40, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			l := newLife(t, seed)
			l.d.SyncTime = 10 * time.Millisecond
			for range 30 {
				l.syncBeside(t)
				image := l.d.AfterCrash(l.rng.Uint64())
				log, err := openLog(image, rng.New(99))
				if err != nil {
					t.Fatalf("open: %v", err)
				}
				found, err := contents(log)
				if err != nil {
					t.Fatal(err)
				}
				if err := survives(found, l.acked, l.tried, l.everLowest); err != nil {
					t.Fatalf("%v\nacknowledged %s, written %s", err, span(l.acked), span(l.tried))
				}
			}
		})
	})
}

// syncBeside appends before a sync and while it runs, and takes note of what the sync reports.
func (l *logLife) syncBeside(t *testing.T) {
	if err := l.append(); err != nil {
		t.Fatal(err)
	}
	before := l.tried
	var synced sync.WaitGroup
	synced.Go(func() {
		durable, err := l.log.Sync()
		if err != nil {
			t.Error(err)
		}
		n := 0
		for n < len(before) && before[n].Index <= durable {
			n++
		}
		l.acked = before[:n:n]
	})
	time.Sleep(time.Duration(l.rng.Intn(9)) * time.Millisecond)
	for range 1 + l.rng.Intn(3) {
		if err := l.append(); err != nil {
			t.Fatal(err)
		}
	}
	synced.Wait()
}

// The log lives through one crash, kill or failed operation after another, also while it
// is being opened.
func TestLogLivesThroughCrashAfterCrash(t *testing.T) {
	eachSeed(t, 100, func(t *testing.T, seed uint64) {
		l := newLife(t, seed)
		for round := range 60 {
			fault := disk.Fault{N: 1 + l.rng.Intn(25), Cut: true, Short: l.rng.Intn(3000)}
			if l.rng.OneIn(4) {
				fault.Cut, fault.Err = false, rng.Pick(l.rng, []error{syscall.EIO, syscall.ENOSPC})
			}
			l.d.Inject(fault)
			err := l.resume()
			for i := 0; err == nil && i < 8; i++ {
				err = l.step()
			}
			if err != nil && l.d.Failures() == 0 {
				t.Fatalf("round %d: %v\nacknowledged %s, under way %s", round, err, span(l.acked), span(l.tried))
			}
			if l.rng.OneIn(3) {
				l.d = l.d.AfterKill()
			} else {
				l.d = l.d.AfterCrash(l.rng.Uint64())
			}
		}
	})
}

// resume opens the log after a crash or kill and goes on from what it holds.
func (l *logLife) resume() error {
	if err := l.open(); err != nil {
		return err
	}
	found, err := contents(l.log)
	if err != nil {
		return err
	}
	if err := survives(found, l.acked, l.tried, l.everLowest); err != nil {
		return err
	}
	l.acked, l.tried = found, found
	return nil
}

// The N-th operation fails, for every N: nothing is acknowledged afterwards, and the next
// start finds all that was acknowledged before. A new file may fail for want of room and be made
// shorter then: that is no failure of the log.
func TestFailedOperationStopsTheLogAndLosesNothing(t *testing.T) {
	for _, err := range []error{syscall.EIO, syscall.ENOSPC} {
		t.Run(err.Error(), func(t *testing.T) {
			for n := 1; ; n++ {
				l := newLife(t, uint64(n))
				l.d.Inject(disk.Fault{N: n, Err: err, Short: n % 700})
				var failed error
				for i := 0; failed == nil && i < 40; i++ {
					failed = l.step()
				}
				if failed == nil && l.d.Failures() == 0 {
					if n < 100 {
						t.Fatalf("only %d operations can fail", n)
					}
					return
				}
				if !errors.Is(failed, err) && (failed != nil || err != syscall.ENOSPC) {
					t.Fatalf("operation %d fails with %v, and the log with %v", n, err, failed)
				}
				for way := range uint64(4) {
					if err := l.recovered(l.d.AfterCrash(uint64(n)<<8+way), l.acked, l.tried); err != nil {
						t.Fatalf("operation %d failed (%v); then after a crash: %v", n, failed, err)
					}
				}
				if err := l.recovered(l.d.AfterKill(), l.acked, l.tried); err != nil {
					t.Fatalf("operation %d failed (%v); then after a kill: %v", n, failed, err)
				}
				if n > 400 {
					return
				}
			}
		})
	}
}

// After an error nothing is acknowledged any more, whatever the disk says then.
func TestLogTakesNothingAfterAFailedSync(t *testing.T) {
	l := newLife(t, 1)
	l.d.Inject(disk.Fault{Op: disk.OpSync, Err: syscall.EIO})
	b := l.batch()
	if err := l.log.StoreLogs(b); !errors.Is(err, syscall.EIO) {
		t.Fatalf("store: got %v, want EIO", err)
	}
	if err := l.log.StoreLogs(b); err == nil {
		t.Fatal("the log took a batch after a failed sync")
	}
}

// A bit that flips in a log that was closed is found: the log refuses to open and names
// the place, or the bit did not matter and all entries are as they were.
func TestFlippedBitIsNeverServed(t *testing.T) {
	eachSeed(t, 40, func(t *testing.T, seed uint64) {
		l := newLife(t, seed)
		for range 20 {
			if err := l.step(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.sync(); err != nil {
			t.Fatal(err)
		}
		if err := l.log.Close(); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for range 60 {
			image := l.d.AfterKill()
			files, err := image.ReadDir(logDir)
			if err != nil {
				t.Fatal(err)
			}
			file := rng.Pick(l.rng, files)
			info, err := file.Info()
			if err != nil || info.Size() == 0 {
				continue
			}
			off := int64(l.rng.Intn(int(info.Size())))
			if err := image.Flip(logDir+"/"+file.Name(), off, byte(1)<<l.rng.Intn(8)); err != nil {
				t.Fatal(err)
			}
			log, err := openLog(image, rng.New(1))
			var found []*raft.Log
			if err == nil {
				found, err = contents(log)
			}
			if err != nil {
				refused++
				if !errors.As(err, new(*damage.Error)) {
					t.Errorf("flipped byte %d of %s: the refusal names no damage: %v", off, file.Name(), err)
				}
				continue
			}
			for len(found) > 0 && len(l.acked) > 0 && found[0].Index < l.acked[0].Index {
				found = found[1:] // deleted in front, the file is still there
			}
			if len(l.acked) == 0 {
				continue
			}
			if !slices.EqualFunc(found, l.acked, sameEntry) {
				t.Errorf("flipped byte %d of %s (%d bytes): opened with %s, acknowledged were %s",
					off, file.Name(), info.Size(), span(found), span(l.acked))
			}
		}
		if refused == 0 {
			t.Error("no flipped bit was noticed")
		}
	})
}
