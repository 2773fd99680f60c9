package segment

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

// patience is how long a test waits before it says that something hangs.
const patience = 2 * time.Minute

// gate stops the first who comes to it until it is opened, at the latest when the test ends.
type gate struct {
	reached chan struct{}
	open    func()
}

// stopAt puts a gate at a hook.
func stopAt(t *testing.T, hook *atomic.Pointer[func()]) *gate {
	opened := make(chan struct{})
	g := &gate{reached: make(chan struct{}), open: sync.OnceFunc(func() { close(opened) })}
	stop := func() {
		hook.Store(nil)
		close(g.reached)
		<-opened
	}
	hook.Store(&stop)
	t.Cleanup(g.open)
	return g
}

type syncResult struct {
	durable uint64
	err     error
}

func startSync(l *Log) <-chan syncResult {
	done := make(chan syncResult, 1)
	go func() {
		durable, err := l.Sync()
		done <- syncResult{durable, err}
	}()
	return done
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		buf := make([]byte, 1<<16)
		t.Fatalf("%s hangs\n%s", what, buf[:runtime.Stack(buf, true)])
		panic("not reached")
	}
}

// awaitLocked starts f, a method of Log, and waits until it waits at a gate. It fails if
// f returns instead.
func awaitLocked(t *testing.T, method string, f func() error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	buf := make([]byte, 1<<20)
	for {
		select {
		case err := <-done:
			t.Fatalf("%s did not wait for the sync: %v", method, err)
		default:
		}
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "[chan send") && strings.Contains(g, "vfs.Gate.Lock(") && strings.Contains(g, ".(*Log)."+method+"(") {
				return done
			}
		}
		runtime.Gosched()
	}
}

func mustAppend(t testing.TB, l *Log, list ...*raft.Log) {
	t.Helper()
	if err := l.Append(list); err != nil {
		t.Fatalf("append %d..%d: %v", list[0].Index, list[len(list)-1].Index, err)
	}
}

func wantDurable(t testing.TB, l *Log, want uint64) {
	t.Helper()
	if got := l.Durable(); got != want {
		t.Fatalf("durable is %d, want %d", got, want)
	}
}

// stagedLog is an empty log with large segments on a disk that a test stands beside.
func stagedLog(t *testing.T) (*vfstest.Disk, *stageFS, *Log) {
	disk := newDisk()
	stage := &stageFS{FS: disk}
	o := smallOptions(stage)
	o.SegmentBytes = 4096
	l := mustOpen(t, o)
	t.Cleanup(func() {
		l.Close()
		if n := stage.overlaps.Load(); n > 0 {
			t.Errorf("%d times a file was synced, shortened or closed while a sync of it ran", n)
		}
	})
	return disk, stage, l
}

func TestAppendReturnsWhileASyncIsStuck(t *testing.T) {
	for _, where := range []string{"before", "after"} {
		t.Run(where, func(t *testing.T) {
			_, stage, l := stagedLog(t)
			hook := &stage.beforeSync
			if where == "after" {
				hook = &stage.afterSync
			}
			mustAppend(t, l, entries(1, 3, 1, 10)...)
			wantDurable(t, l, 0)
			g := stopAt(t, hook)
			first := startSync(l)
			await(t, "the first sync", g.reached)
			appended := make(chan error, 1)
			go func() { appended <- l.Append(entries(4, 5, 1, 10)) }()
			if err := await(t, "an append beside a sync", appended); err != nil {
				t.Fatal(err)
			}
			wantLog(t, l, entries(1, 5, 1, 10))
			wantDurable(t, l, 0)
			g.open()
			// The disk may have missed what was written while it was syncing.
			if r := await(t, "the sync", first); r.err != nil || r.durable != 3 {
				t.Fatalf("sync of entries up to 3 returned %d, %v", r.durable, r.err)
			}
			wantDurable(t, l, 3)
			if r := await(t, "the sync", startSync(l)); r.err != nil || r.durable != 5 {
				t.Fatalf("sync of entries up to 5 returned %d, %v", r.durable, r.err)
			}
			wantDurable(t, l, 5)
		})
	}
}

func TestCallersThatComeDuringASyncShareTheNext(t *testing.T) {
	_, stage, l := stagedLog(t)
	mustAppend(t, l, entry(1, 1, 10))
	stage.syncs.Store(0)
	g := stopAt(t, &stage.beforeSync)
	results := []<-chan syncResult{startSync(l)}
	await(t, "the first sync", g.reached)
	mustAppend(t, l, entry(2, 1, 10))
	for range 8 {
		results = append(results, startSync(l))
	}
	g.open()
	for i, c := range results {
		if r := await(t, "a sync", c); r.err != nil || i > 0 && r.durable != 2 {
			t.Fatalf("caller %d: %d, %v", i, r.durable, r.err)
		}
	}
	if n := stage.syncs.Load(); n != 2 {
		t.Fatalf("nine callers took %d syncs, want 2", n)
	}
	if _, err := l.Sync(); err != nil || stage.syncs.Load() != 2 {
		t.Fatalf("with nothing to sync there were %d syncs, %v", stage.syncs.Load(), err)
	}
}

// A caller whose entries a running sync has seen has nothing to wait for but its end.
func TestCallerWithNothingNewSyncsNothing(t *testing.T) {
	_, stage, l := stagedLog(t)
	mustAppend(t, l, entry(1, 1, 10))
	stage.syncs.Store(0)
	g := stopAt(t, &stage.beforeSync)
	first := startSync(l)
	await(t, "the first sync", g.reached)
	second := make(chan syncResult, 1)
	waiting := awaitLocked(t, "Sync", func() error {
		durable, err := l.Sync()
		second <- syncResult{durable, err}
		return nil
	})
	mustAppend(t, l, entry(2, 1, 10)) // that is for those who come from now on
	g.open()
	await(t, "the first sync", first)
	await(t, "the second caller", waiting)
	if r := <-second; r.err != nil || r.durable != 1 || stage.syncs.Load() != 1 {
		t.Fatalf("%d, %v after %d syncs", r.durable, r.err, stage.syncs.Load())
	}
}

func TestWhatChangesTheLastSegmentWaitsForARunningSync(t *testing.T) {
	for _, c := range []struct {
		name, method string
		do           func(l *Log) error
		durable      uint64
		want         []*raft.Log
	}{
		{"cut below the synced", "DeleteRange", func(l *Log) error { return l.DeleteRange(3, 6) }, 2, entries(1, 2, 1, 10)},
		{"cut beyond the synced", "DeleteRange", func(l *Log) error { return l.DeleteRange(6, 6) }, 5, entries(1, 5, 1, 10)},
		{"deletion in front", "DeleteRange", func(l *Log) error { return l.DeleteRange(1, 2) }, 4, entries(3, 6, 1, 10)},
		{"deletion in front beyond the synced", "DeleteRange", func(l *Log) error { return l.DeleteRange(1, 5) }, 6, entries(6, 6, 1, 10)},
		{"deletion of all", "DeleteRange", func(l *Log) error { return l.DeleteRange(1, 6) }, 0, nil},
		{"close", "Close", func(l *Log) error { return l.Close() }, 6, nil},
		{"a new segment", "Append", func(l *Log) error { return l.Append(entries(7, 7, 1, 5000)) }, 6, append(entries(1, 6, 1, 10), entry(7, 1, 5000))},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, stage, l := stagedLog(t)
			mustAppend(t, l, entries(1, 4, 1, 10)...)
			g := stopAt(t, &stage.afterSync)
			synced := startSync(l)
			await(t, "the sync", g.reached)
			mustAppend(t, l, entries(5, 6, 1, 10)...)
			done := awaitLocked(t, c.method, func() error { return c.do(l) })
			// While it waits, appending goes on.
			if c.method == "DeleteRange" {
				if err := l.GetLog(6, new(raft.Log)); err != nil {
					t.Fatal(err)
				}
			}
			g.open()
			if err := await(t, c.method, done); err != nil {
				t.Fatal(err)
			}
			if r := await(t, "the sync", synced); r.err != nil {
				t.Fatal(r.err)
			}
			wantDurable(t, l, c.durable)
			if c.method != "Close" {
				wantLog(t, l, c.want)
			}
		})
	}
}

// Who waits to delete does not keep others from appending.
func TestAppendReturnsWhileADeletionWaitsForASync(t *testing.T) {
	_, stage, l := stagedLog(t)
	mustAppend(t, l, entries(1, 4, 1, 10)...)
	g := stopAt(t, &stage.beforeSync)
	synced := startSync(l)
	await(t, "the sync", g.reached)
	deleted := awaitLocked(t, "DeleteRange", func() error { return l.DeleteRange(1, 2) })
	appended := make(chan error, 1)
	go func() { appended <- l.Append(entries(5, 6, 1, 10)) }()
	if err := await(t, "an append", appended); err != nil {
		t.Fatal(err)
	}
	g.open()
	if err := await(t, "the deletion", deleted); err != nil {
		t.Fatal(err)
	}
	await(t, "the sync", synced)
	wantLog(t, l, entries(3, 6, 1, 10))
}

// Those who wait for a sync that fails fail with it: the kernel would tell them that all is
// well.
func TestNobodyGoesOnAfterTheSyncHeHasWaitedForFailed(t *testing.T) {
	for name, next := range map[string]struct {
		method string
		do     func(l *Log) error
	}{
		"sync":          {"Sync", func(l *Log) error { _, err := l.Sync(); return err }},
		"store":         {"Sync", func(l *Log) error { return l.StoreLogs(entries(6, 6, 1, 10)) }},
		"a new segment": {"Append", func(l *Log) error { return l.Append(entries(6, 6, 1, 5000)) }},
		"delete front":  {"DeleteRange", func(l *Log) error { return l.DeleteRange(1, 4) }},
		"cut":           {"DeleteRange", func(l *Log) error { return l.DeleteRange(5, 5) }},
	} {
		t.Run(name, func(t *testing.T) {
			disk, stage, l := stagedLog(t)
			mustStore(t, l, entries(1, 2, 1, 10)...)
			mustAppend(t, l, entries(3, 4, 1, 10)...)
			g := stopAt(t, &stage.beforeSync)
			synced := startSync(l)
			await(t, "the sync", g.reached)
			mustAppend(t, l, entry(5, 1, 10))
			done := awaitLocked(t, next.method, func() error { return next.do(l) })
			disk.Fail(1, errBoom)
			ops := disk.Ops()
			g.open()
			if r := await(t, "the sync", synced); !errors.Is(r.err, errBoom) || r.durable != 2 {
				t.Fatalf("the failing sync returned %d, %v", r.durable, r.err)
			}
			if err := await(t, name, done); !errors.Is(err, errBoom) {
				t.Fatalf("%s returned %v", name, err)
			}
			wantDurable(t, l, 2)
			l.Close()
			if disk.Ops() != ops+1 {
				t.Fatal("the disk was used after the failure")
			}
		})
	}
}

func TestFailedWriteBesideASyncKeepsDurableWhereItWas(t *testing.T) {
	disk, stage, l := stagedLog(t)
	mustAppend(t, l, entries(1, 2, 1, 10)...)
	g := stopAt(t, &stage.afterSync)
	synced := startSync(l)
	await(t, "the sync", g.reached)
	disk.Fail(1, errBoom)
	if err := l.Append(entries(3, 3, 1, 10)); !errors.Is(err, errBoom) {
		t.Fatalf("the failing append returned %v", err)
	}
	g.open()
	if r := await(t, "the sync", synced); !errors.Is(r.err, errBoom) || r.durable != 0 {
		t.Fatalf("the sync beside it returned %d, %v", r.durable, r.err)
	}
	wantDurable(t, l, 0)
	wantLog(t, l, entries(1, 2, 1, 10))
}

func TestAppendBesideAFailingSyncFails(t *testing.T) {
	disk, stage, l := stagedLog(t)
	mustAppend(t, l, entry(1, 1, 10))
	g := stopAt(t, &stage.beforeWrite)
	appended := make(chan error, 1)
	go func() { appended <- l.Append(entries(2, 2, 1, 10)) }()
	await(t, "the append", g.reached)
	disk.Fail(1, errBoom)
	if _, err := l.Sync(); !errors.Is(err, errBoom) {
		t.Fatalf("the failing sync returned %v", err)
	}
	g.open()
	if err := await(t, "the append", appended); !errors.Is(err, errBoom) {
		t.Fatalf("an entry was taken that will never be durable: %v", err)
	}
	wantLog(t, l, entries(1, 1, 1, 10))
}

// Goroutines append, cut, sync and read until the power fails; then all that was durable is
// there. It is worth most under the race detector.
func TestPowerFailsBesideWritersSyncersAndReaders(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 77))
		disk := newDisk()
		stage := &stageFS{FS: disk}
		o := smallOptions(stage)
		o.SegmentBytes = 6000
		l := mustOpen(t, o)
		disk.Fail(1+rng.IntN(150), vfstest.ErrDown)
		w := writer{l: l, rng: rng}
		var wg sync.WaitGroup
		down := make(chan struct{})
		wg.Go(func() {
			defer close(down)
			w.run(t)
		})
		for range 2 {
			wg.Go(func() { syncUntil(t, l, down) })
		}
		wg.Go(func() { readUntil(t, l, seed, down) })
		wg.Wait()
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		if n := stage.overlaps.Load(); n > 0 {
			t.Fatalf("%d times a file was synced, shortened or closed while a sync of it ran", n)
		}
		if len(w.written) > 0 && !w.cutting {
			w.durable = max(w.durable, min(l.Durable(), w.last()))
		}
		disk.Crash(rng)
		o.FS = disk
		found := mustOpen(t, o)
		got, err := contents(found)
		if err == nil {
			err = w.mismatch(got)
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		found.Close()
	}
}

// writer appends to a log and deletes from it.
type writer struct {
	model
	l       *Log
	rng     *rand.Rand
	term    uint64
	cutting bool // a cut of the tail is under way
}

func (w *writer) run(t *testing.T) {
	for {
		if err := w.step(); err != nil {
			if !errors.Is(err, vfstest.ErrDown) {
				t.Error(err)
			}
			return
		}
	}
}

func (w *writer) step() error {
	w.cutting = false
	n := len(w.written)
	batch := entries(w.last()+1, w.last()+1+w.rng.Uint64N(4), w.term, w.rng.IntN(500))
	switch choice := w.rng.IntN(20); {
	case n < 2 || choice < 13:
		return w.append(w.l, batch)
	case choice < 15:
		return w.store(w.l, batch)
	case choice < 16:
		return w.sync(w.l)
	case choice < 18:
		w.cutting = true
		w.term++
		return w.remove(w.l, w.written[1+w.rng.IntN(n-1)].Index, w.last())
	default:
		return w.remove(w.l, w.written[0].Index, w.written[w.rng.IntN(n-1)].Index)
	}
}

func syncUntil(t *testing.T, l *Log, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if _, err := l.Sync(); err != nil {
			if !errors.Is(err, vfstest.ErrDown) {
				t.Error(err)
			}
			return
		}
		runtime.Gosched()
	}
}

// readUntil reads entries at random: each is whole, or not there.
func readUntil(t *testing.T, l *Log, seed uint64, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(1, seed))
	for {
		select {
		case <-stop:
			return
		default:
		}
		first, _ := l.FirstIndex()
		last, _ := l.LastIndex()
		if last == 0 {
			runtime.Gosched()
			continue
		}
		var got raft.Log
		i := first + rng.Uint64N(max(last, first)-first+1)
		for k := i; k < i+20; k++ {
			switch err := l.GetLog(k, &got); {
			case errors.Is(err, raft.ErrLogNotFound):
			case errors.Is(err, vfstest.ErrDown):
				return
			case err != nil:
				t.Errorf("get %d: %v", k, err)
				return
			case !equal(&got, entry(k, got.Term, len(got.Data))):
				t.Errorf("entry %d is %+v", k, got)
				return
			}
		}
	}
}
