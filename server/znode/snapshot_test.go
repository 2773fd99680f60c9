package znode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"pgregory.net/rapid"
)

// A hookLocker runs mutations where a concurrent writer could: before the walker has the
// lock, and after it has given it back.
type hookLocker struct {
	held   bool
	chunks int
	mutate func()
}

func (l *hookLocker) Lock() {
	if l.mutate != nil {
		l.mutate()
	}
	l.held = true
	l.chunks++
}

func (l *hookLocker) Unlock() {
	l.held = false
	if l.mutate != nil {
		l.mutate()
	}
}

// writerFunc fails the test if it is called under the lock.
type lockedWriter struct {
	io.Writer
	l *hookLocker
}

func (w lockedWriter) Write(b []byte) (int, error) {
	if w.l.held {
		return 0, errors.New("written while the lock was held")
	}
	return w.Writer.Write(b)
}

func snapshotOf(tb testing.TB, t *Tree) []byte {
	tb.Helper()
	s := t.Snapshot()
	defer s.Close()
	var b bytes.Buffer
	if err := s.Write(&sync.Mutex{}, &b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func restore(b []byte) (*Tree, error) { return Restore(bytes.NewReader(b), contentDigest) }

// The writer goes on at every point at which it can: what is written is the tree at the
// moment of Snapshot, and the tree is not disturbed. Small chunks stand for large trees.
func TestSnapshotIsTheTreeAtItsMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(0, 60).Draw(t, "steps before") {
			w.step(t)
		}
		for k := range rapid.IntRange(1, 3).Draw(t, "snapshots") {
			w.settle()
			moment := w.model.clone()
			s := w.tree.Snapshot()
			s.chunk = uint32(rapid.IntRange(1, 9).Draw(t, "chunk"))
			for range rapid.IntRange(0, 10).Draw(t, "steps between") {
				w.step(t)
			}
			w.settle()
			l := &hookLocker{mutate: func() {
				for range rapid.IntRange(0, 6).Draw(t, "steps in a gap") {
					w.step(t)
				}
				w.settle() // a multi never spans a gap: the writer holds the lock for all of it
			}}
			var b bytes.Buffer
			if err := s.Write(l, lockedWriter{&b, l}); err != nil {
				t.Fatalf("snapshot %d: %v", k, err)
			}
			s.Close()
			if w.tree.snap.Load() != nil || len(s.saved) > 0 {
				t.Fatalf("the snapshot is not detached")
			}
			restored, err := restore(b.Bytes())
			if err != nil {
				t.Fatalf("snapshot %d: %v", k, err)
			}
			moment.compare(t, restored)
			w.model.compare(t, w.tree)
			if rapid.Bool().Draw(t, "go on with the restored tree") {
				w.tree, w.model = restored, moment
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps after") {
			w.step(t)
		}
		w.model.compare(t, w.tree)
	})
}

func TestSnapshotCanBeClosedEarly(t *testing.T) {
	tree := newTree(t)
	for i := range 10 {
		tree.Create(fmt.Sprintf("/n%d", i), nil, 0, NoOwner, 1, 1)
	}
	s := tree.Snapshot()
	s.chunk = 2
	chunks := 0
	l := &hookLocker{}
	l.mutate = func() {
		if chunks++; chunks == 4 {
			s.Close()
		}
	}
	if err := s.Write(l, io.Discard); !errors.Is(err, ErrSnapshotClosed) {
		t.Errorf("Write = %v", err)
	}
	tree.SetData(tree.Lookup("/n9"), nil, 2, 2)
	if len(s.saved) != 0 {
		t.Error("the writer goes on saving")
	}
	if len(snapshotOf(t, tree)) == 0 {
		t.Error("no snapshot after a closed one")
	}
}

func TestSecondSnapshotIsRefused(t *testing.T) {
	tree := newTree(t)
	first := tree.Snapshot()
	second := tree.Snapshot()
	if err := second.Write(&sync.Mutex{}, io.Discard); !errors.Is(err, ErrSnapshotBusy) {
		t.Errorf("Write of the second = %v", err)
	}
	second.Close()
	tree.SetData(tree.Root(), []byte("new"), 1, 1)
	var b bytes.Buffer
	if err := first.Write(&sync.Mutex{}, &b); err != nil {
		t.Fatal(err)
	}
	if err := first.Write(&sync.Mutex{}, &b); !errors.Is(err, ErrSnapshotWritten) {
		t.Errorf("second Write = %v", err)
	}
	first.Close()
	restored, err := restore(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(restored.Root().Data()) != 0 {
		t.Error("the first snapshot was disturbed by the second")
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

// The N-th write fails, N = 1, 2, 3 and so on until it succeeds.
func TestSnapshotReportsEveryFailedWrite(t *testing.T) {
	tree := newTree(t)
	for i := range 4 {
		tree.Create(fmt.Sprintf("/n%d", i), make([]byte, snapshotBuffer+1), 0, NoOwner, 1, 1)
	}
	for n := 0; ; n++ {
		s := tree.Snapshot()
		err := s.Write(&sync.Mutex{}, &failingWriter{left: n})
		s.Close()
		if err == nil {
			if n < 8 {
				t.Errorf("only %d writes", n)
			}
			return
		}
	}
}

// bigTree has n nodes below a few directories.
func bigTree(n int) *Tree {
	t := New(configACL, contentDigest)
	data := bytes.Repeat([]byte{'d'}, 100)
	for d := range max(n/10_000, 1) {
		parent := t.Create(fmt.Sprintf("/dir%d", d), nil, 0, NoOwner, int64(d), 1)
		for i := range min(n, 10_000) {
			zxid := int64(d*10_000 + i)
			t.CreateChild(parent, fmt.Sprintf("n%010d", i), data, 1, NoOwner, 1<<32+zxid, 1753000000000+zxid)
		}
	}
	return t
}

func TestLargeSnapshotRestores(t *testing.T) {
	tree := checked(t, bigTree(20_000))
	var l sync.RWMutex
	s := tree.Snapshot()
	defer s.Close()
	want := s.Len()
	if s.Len() != tree.Len() {
		t.Errorf("Len %d of %d", s.Len(), tree.Len())
	}
	done := make(chan error)
	var b bytes.Buffer
	go func() { done <- s.Write(l.RLocker(), &b) }()
	for i := range 10_000 { // a writer beside it, for the race detector
		l.Lock()
		n := tree.Lookup(fmt.Sprintf("/dir1/n%010d", i))
		tree.SetData(n, []byte("changed"), int64(i), 1)
		if i%2 == 0 {
			tree.Delete(n, int64(i))
		}
		l.Unlock()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	restored, err := restore(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, restored)
	if restored.Len() != want || string(restored.Lookup("/dir1/n0000009999").Data()) == "changed" {
		t.Errorf("%d nodes restored of %d, or a late change is in", restored.Len(), want)
	}
}

// Slots that were freed leave gaps; a restored tree has none.
func TestRestoreClosesGaps(t *testing.T) {
	tree := newTree(t)
	for i := range 5000 {
		tree.Create(fmt.Sprintf("/n%d", i), nil, 0, NoOwner, 1, 1)
	}
	for i := range 4990 {
		tree.Delete(tree.Lookup(fmt.Sprintf("/n%d", i)), 2)
	}
	restored, err := restore(snapshotOf(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	checked(t, restored)
	if restored.end != 15 || restored.Digest() != tree.Digest() {
		t.Errorf("the arena ends at %d, digests %x %x", restored.end, restored.Digest(), tree.Digest())
	}
}

// sampleTree has one of everything.
func sampleTree() *Tree {
	t := New(configACL, contentDigest)
	t.Create("/a", []byte("data"), 1, NoOwner, 1<<32, 1000)
	t.Create("/a/e", nil, 0, SessionOwner(9), 1<<32+1, 1001)
	t.Create("/c", []byte{}, 2, ContainerOwner, 1<<32+2, 1002)
	t.Create("/t", nil, 0, TTLOwner(500), 1<<32+3, 1003)
	t.Create("/zookeeper/quota/a", nil, 0, NoOwner, 1<<32+4, 1004)
	t.Create("/zookeeper/quota/a/zookeeper_limits", []byte("count=5,bytes=-1"), 0, NoOwner, 1<<32+5, 1005)
	t.Create("/zookeeper/quota/a/zookeeper_stats", nil, 0, NoOwner, 1<<32+6, 1006)
	t.Create("/gone", nil, 0, NoOwner, 1<<32+7, 1007)
	t.Delete(t.Lookup("/gone"), 1<<32+8)
	t.SetData(t.Lookup("/a"), []byte("more"), 1<<32+9, 1009)
	return t
}

func TestRestoreRefusesWhatIsDamaged(t *testing.T) {
	good := snapshotOf(t, sampleTree())
	if _, err := restore(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if _, err := restore(good[:i]); err == nil {
			t.Errorf("cut at %d of %d: no error", i, len(good))
		}
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if tree, err := restore(bad); err == nil && !harmless(tree, good) {
				t.Errorf("bit %d of byte %d flipped: no error", bit, i)
			}
		}
	}
	if _, err := restore(append(bytes.Clone(good), 0)); err == nil {
		t.Error("extended by a byte: no error")
	}
	if _, err := Restore(bytes.NewReader(good), func(r acl.Ref) uint64 { return contentDigest(r) + 1 }); err == nil {
		t.Error("with other ACLs: no error")
	}
}

// harmless says whether a tree from a damaged stream is nevertheless the right one: numbers
// in the stream (the arena's end, the index of a leaf) may change without a change of the
// tree, and the checksums of the container are for those.
func harmless(tree *Tree, good []byte) bool {
	want, err := restore(good)
	return err == nil && tree.Check() == nil && tree.Digest() == want.Digest()
}

func TestRestoreNeedsNoMoreMemoryThanItsInput(t *testing.T) {
	// A head that promises 4 billion nodes, and a name that promises 2 GiB.
	head := []byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f}
	head = append(head, make([]byte, 16)...)
	for _, b := range [][]byte{
		head,
		append(bytes.Clone(head), 1, 0, 0xff, 0xff, 0xff, 0xff, 0x07),
		append(bytes.Clone(head), 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x07),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := restore(b); err == nil {
			t.Error("no error")
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%d bytes of memory for %d bytes of input", got, len(b))
		}
	}
}

// What build accepts keeps the invariants; the digest, which hardly any mutation gets
// right, is left out.
func FuzzRestore(f *testing.F) {
	f.Add(snapshotOf(f, sampleTree()))
	f.Add(snapshotOf(f, New(configACL, contentDigest)))
	f.Fuzz(func(t *testing.T, b []byte) {
		rs := &restorer{in: source{r: bytes.NewReader(b)}, t: emptyTree(contentDigest)}
		if rs.build() != nil {
			return
		}
		mustCheck(t, rs.t)
		again, err := restore(snapshotOf(t, rs.t))
		if err != nil || again.Digest() != rs.t.Digest() {
			t.Fatalf("written again: %v", err)
		}
	})
}
