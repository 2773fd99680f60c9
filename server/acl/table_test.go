package acl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/wire"
	"pgregory.net/rapid"
)

// newTable returns a table that is checked when the test ends.
func newTable(t *testing.T) *Table {
	t.Helper()
	table := NewTable()
	t.Cleanup(func() {
		if err := table.Check(); err != nil {
			t.Error(err)
		}
	})
	return table
}

func numbered(i int) []wire.ACL { return entry1(int32(i), "digest", fmt.Sprintf("u%d:h", i)) }

// noLock is the lock of a test that has one goroutine.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

func TestEqualListsShareARef(t *testing.T) {
	table := newTable(t)
	a, b := table.Intern(numbered(1)), table.Intern(numbered(1))
	if a != b || a == OpenRef || table.Len() != 1 || table.Count(a) != 2 {
		t.Errorf("refs %d and %d, %d lists, count %d", a, b, table.Len(), table.Count(a))
	}
	if c := table.Intern(numbered(2)); c == a {
		t.Error("different lists share a ref")
	}
}

func TestOpenListIsNotCounted(t *testing.T) {
	table := newTable(t)
	own := entry1(wire.PermAll, "world", "anyone")
	if r := table.Intern(own); r != OpenRef || table.Len() != 0 || !IsOpen(table.List(r)) {
		t.Errorf("ref %d, %d lists", r, table.Len())
	}
	table.Release(OpenRef)
	if table.Digest(OpenRef) == 0 {
		t.Error("no digest")
	}
}

func TestForgottenRefIsGivenAgainSmallestFirst(t *testing.T) {
	table := newTable(t)
	for i := range 10 {
		table.Intern(numbered(i))
	}
	for _, r := range []Ref{9, 3, 7} {
		table.Release(r)
	}
	for _, want := range []Ref{3, 7, 9, 11} {
		if got := table.Intern(numbered(100 + int(want))); got != want {
			t.Errorf("got ref %d, want %d", got, want)
		}
	}
}

func TestReleaseOfAForgottenListPanics(t *testing.T) {
	table := newTable(t)
	r := table.Intern(numbered(1))
	table.Release(r)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	table.Release(r)
}

func TestTableDigestIsThatOfTheContent(t *testing.T) {
	a, b := newTable(t), newTable(t)
	a.Intern(numbered(1))
	empty := b.TableDigest()
	b.Intern(numbered(1))
	b.Intern(numbered(1))
	if a.TableDigest() != b.TableDigest() {
		t.Error("the digest depends on counts")
	}
	b.Release(1)
	b.Release(1)
	if b.TableDigest() != empty {
		t.Error("a forgotten list is left in the digest")
	}
}

func restored(t rapid.TB, data []byte) *Table {
	t.Helper()
	table, err := Restore(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Check(); err != nil {
		t.Fatal(err)
	}
	return table
}

func written(t rapid.TB, s *Snapshot) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := s.Write(noLock{}, &buf); err != nil {
		t.Fatal(err)
	}
	s.Close()
	return buf.Bytes()
}

// model is a table as a list of what was done to it.
type model map[Ref][]wire.ACL

func (m model) step(t *rapid.T, table *Table) {
	if rapid.Bool().Draw(t, "intern") || len(m) == 0 {
		list := numbered(rapid.IntRange(0, 40).Draw(t, "list"))
		r := table.Intern(list)
		if known, ok := m[r]; ok && !reflect.DeepEqual(known, list) {
			t.Fatalf("ref %d stands for %v and %v", r, known, list)
		}
		m[r] = list
		return
	}
	r := Ref(rapid.IntRange(1, 41).Draw(t, "ref"))
	if _, ok := m[r]; !ok {
		return
	}
	if table.Count(r) == 1 {
		delete(m, r)
	}
	table.Release(r)
}

func TestSnapshotShowsTheMomentItWasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, m := NewTable(), model{}
		for range 3 {
			for range rapid.IntRange(0, 60).Draw(t, "before") {
				m.step(t, table)
			}
			at := written(t, table.Snapshot())
			s := table.Snapshot()
			var split bytes.Buffer
			if err := s.Write(&stepper{func() {
				for range rapid.IntRange(0, 60).Draw(t, "beside") {
					m.step(t, table)
				}
			}}, &split); err != nil {
				t.Fatal(err)
			}
			s.Close()
			if !bytes.Equal(at, split.Bytes()) {
				t.Fatalf("snapshot beside changes:\n%x\nwithout:\n%x", split.Bytes(), at)
			}
			if err := table.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A stepper changes the table each time before the snapshot gets its lock.
type stepper struct{ f func() }

func (s *stepper) Lock()   { s.f() }
func (s *stepper) Unlock() {}

func TestRestoredTableGoesOnAsTheOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, m := NewTable(), model{}
		for range rapid.IntRange(0, 80).Draw(t, "before") {
			m.step(t, table)
		}
		twin := restored(t, written(t, table.Snapshot()))
		for range rapid.IntRange(0, 40).Draw(t, "after") {
			if rapid.Bool().Draw(t, "release") && len(m) > 0 {
				r := Ref(rapid.IntRange(1, 41).Draw(t, "ref"))
				if _, ok := m[r]; ok {
					if table.Count(r) == 1 {
						delete(m, r)
					}
					table.Release(r)
					twin.Release(r)
				}
				continue
			}
			list := numbered(rapid.IntRange(0, 40).Draw(t, "list"))
			r := table.Intern(list)
			if got := twin.Intern(list); got != r {
				t.Fatalf("the restored table gives ref %d, the original %d", got, r)
			}
			m[r] = list
		}
		if twin.TableDigest() != table.TableDigest() {
			t.Fatal("digests differ")
		}
	})
}

func TestSnapshotBesideAWriter(t *testing.T) {
	table := newTable(t)
	for i := range 5000 {
		table.Intern(numbered(i))
	}
	var lock sync.RWMutex
	s := table.Snapshot()
	var buf bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- s.Write(lock.RLocker(), &buf) }()
	for i := range 5000 {
		lock.Lock()
		table.Release(Ref(i + 1))
		table.Intern(numbered(10000 + i))
		lock.Unlock()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got := restored(t, buf.Bytes()); got.Len() != 5000 || !reflect.DeepEqual(got.List(5000), numbered(4999)) {
		t.Errorf("%d lists, the last is %v", got.Len(), got.List(5000))
	}
}

func TestSecondSnapshotIsVoidWhileTheFirstRuns(t *testing.T) {
	table := newTable(t)
	table.Intern(numbered(1))
	first, second := table.Snapshot(), table.Snapshot()
	if err := second.Write(noLock{}, io.Discard); !errors.Is(err, ErrSnapshotBusy) {
		t.Errorf("the second gives %v", err)
	}
	second.Close()
	if written(t, first); table.snap.Load() != nil {
		t.Error("the first is still running")
	}
	third := table.Snapshot()
	third.Close()
	if err := third.Write(noLock{}, io.Discard); !errors.Is(err, ErrSnapshotClosed) {
		t.Errorf("a closed one gives %v", err)
	}
}

func TestEveryTruncationIsSeen(t *testing.T) {
	table := newTable(t)
	for i := range 20 {
		table.Intern(numbered(i))
	}
	data := written(t, table.Snapshot())
	for n := range data {
		if _, err := Restore(bytes.NewReader(data[:n])); err == nil {
			t.Errorf("%d of %d bytes were taken for a table", n, len(data))
		}
	}
	if _, err := Restore(bytes.NewReader(append(data, 0))); err == nil {
		t.Error("a trailing byte was overlooked")
	}
}

// failAt is a writer that fails at its n-th write.
type failAt struct{ n int }

func (w *failAt) Write(p []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, fmt.Errorf("disk full")
	}
	return len(p), nil
}

func TestEveryFailedWriteIsReported(t *testing.T) {
	table := newTable(t)
	for i := range 3 * chunkEntries {
		table.Intern(numbered(i))
	}
	for n := 0; ; n++ {
		s := table.Snapshot()
		err := s.Write(noLock{}, &failAt{n})
		s.Close()
		if err == nil {
			if n < 3 {
				t.Errorf("only %d writes", n)
			}
			return
		}
	}
}

func FuzzRestore(f *testing.F) {
	table := NewTable()
	for i := range 3 {
		table.Intern(numbered(i))
	}
	table.Release(2)
	f.Add(written(f, table.Snapshot()))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := restore(bytes.NewReader(data), 1<<12)
		if err != nil {
			return
		}
		if err := table.Check(); err != nil {
			t.Fatal(err)
		}
		again := restored(t, written(t, table.Snapshot()))
		if again.TableDigest() != table.TableDigest() {
			t.Error("a second round gives another table")
		}
	})
}

func BenchmarkIntern(b *testing.B) {
	table := NewTable()
	list := append(numbered(1), numbered(2)...)
	table.Intern(list)
	b.ReportAllocs()
	for b.Loop() {
		table.Release(table.Intern(list))
	}
}
