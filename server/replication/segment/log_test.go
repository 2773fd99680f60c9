package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "/log"

// smallOptions makes segments so small that tests see many of them.
func smallOptions(fsys vfs.FS) Options {
	return Options{
		FS: fsys, Dir: testDir, SegmentBytes: 1024, CacheBytes: 512, Create: true,
		Rand: rand.NewChaCha8([32]byte{1}),
	}
}

func newDisk() *vfstest.Disk {
	d := vfstest.New()
	d.MkdirAll(testDir, 0o700)
	return d
}

func mustOpen(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func entry(index, term uint64, size int) *raft.Log {
	data := bytes.Repeat([]byte{byte(index), byte(term)}, size/2+1)[:size]
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: data, AppendedAt: time.Unix(int64(index), 7)}
}

func entries(from, to, term uint64, size int) []*raft.Log {
	var list []*raft.Log
	for i := from; i <= to; i++ {
		list = append(list, entry(i, term, size))
	}
	return list
}

func mustStore(t testing.TB, l *Log, list ...*raft.Log) {
	t.Helper()
	if err := l.StoreLogs(list); err != nil {
		t.Fatalf("store %d..%d: %v", list[0].Index, list[len(list)-1].Index, err)
	}
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// equal compares what a log store must keep of an entry.
func equal(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) &&
		bytes.Equal(a.Extensions, b.Extensions) && a.AppendedAt.Equal(b.AppendedAt)
}

// wantLog checks bounds and content of a log against the entries of a model.
func wantLog(t failer, l *Log, want []*raft.Log) {
	t.Helper()
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if len(want) == 0 {
		if first != 0 || last != 0 {
			t.Fatalf("log has %d to %d, want none", first, last)
		}
		return
	}
	if first != want[0].Index || last != want[len(want)-1].Index {
		t.Fatalf("log has %d to %d, want %d to %d", first, last, want[0].Index, want[len(want)-1].Index)
	}
	for _, w := range want {
		var got raft.Log
		if err := l.GetLog(w.Index, &got); err != nil {
			t.Fatalf("get %d: %v", w.Index, err)
		}
		if !equal(&got, w) {
			t.Fatalf("entry %d is %+v, want %+v", w.Index, got, *w)
		}
	}
	for _, i := range []uint64{0, first - 1, last + 1} {
		if err := l.GetLog(i, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("get %d outside %d to %d: %v", i, first, last, err)
		}
	}
}

// What raft's own tests expect of a LogStore (hashicorp/raft inmem_store.go and the tests
// of raft-boltdb).
func TestLogStoreKeepsWhatRaftExpects(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, smallOptions(disk))
	wantLog(t, l, nil)
	if err := l.GetLog(1, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatalf("get from an empty log: %v", err)
	}
	want := entries(1, 3, 1, 100)
	want[1].Type = raft.LogConfiguration
	want[2].Extensions = []byte("ext")
	mustStore(t, l, want[0])
	if err := l.StoreLog(want[1]); err != nil {
		t.Fatal(err)
	}
	mustStore(t, l, want[2])
	wantLog(t, l, want)
	more := entries(4, 60, 2, 90)
	mustStore(t, l, more...)
	want = append(want, more...)
	empty := &raft.Log{Index: 61, Term: 2, Type: raft.LogNoop}
	mustStore(t, l, empty)
	want = append(want, empty)
	wantLog(t, l, want)
	if !l.IsMonotonic() {
		t.Fatal("raft must know that gaps are not allowed")
	}
	if err := l.StoreLog(entry(63, 2, 1)); err == nil {
		t.Fatal("a gap was taken")
	}
	if err := l.StoreLog(entry(60, 2, 1)); err == nil {
		t.Fatal("an index was taken twice")
	}
	if err := l.DeleteRange(5, 8); err == nil {
		t.Fatal("a hole was made")
	}
	wantLog(t, l, want)

	if err := l.DeleteRange(1, 20); err != nil {
		t.Fatal(err)
	}
	want = want[20:]
	wantLog(t, l, want)
	if err := l.DeleteRange(50, 61); err != nil {
		t.Fatal(err)
	}
	want = want[:29]
	wantLog(t, l, want)
	more = entries(50, 80, 3, 40)
	mustStore(t, l, more...)
	want = append(want, more...)
	wantLog(t, l, want)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, smallOptions(disk))
	defer l.Close()
	first, _ := l.FirstIndex()
	if first > 21 {
		t.Fatalf("entries from 21 on must be there, the log begins with %d", first)
	}
	if err := l.DeleteRange(first, 20); err != nil {
		t.Fatal(err)
	}
	wantLog(t, l, want)
}

func TestDeletingAllAllowsAnyNextIndex(t *testing.T) {
	for _, next := range []uint64{1, 7, 30, 31, 500} {
		t.Run(fmt.Sprint(next), func(t *testing.T) {
			disk := newDisk()
			l := mustOpen(t, smallOptions(disk))
			mustStore(t, l, entries(7, 30, 1, 60)...)
			if err := l.DeleteRange(7, 30); err != nil {
				t.Fatal(err)
			}
			wantLog(t, l, nil)
			l.Close()
			l = mustOpen(t, smallOptions(disk))
			wantLog(t, l, nil)
			want := entries(next, next+20, 2, 60)
			mustStore(t, l, want...)
			wantLog(t, l, want)
			l.Close()
			l = mustOpen(t, smallOptions(disk))
			wantLog(t, l, want)
			l.Close()
		})
	}
}

func TestLargeBatchGetsItsOwnSegment(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, smallOptions(disk))
	want := []*raft.Log{entry(1, 1, 10), entry(2, 1, 5000), entry(3, 1, 6000), entry(4, 1, 10)}
	for _, e := range want {
		mustStore(t, l, e)
	}
	wantLog(t, l, want)
	disk.Kill()
	l = mustOpen(t, smallOptions(disk))
	wantLog(t, l, want)
	l.Close()
}

func TestReadersSeeWholeEntriesBesideTheWriter(t *testing.T) {
	o := smallOptions(vfs.OS)
	o.Dir = t.TempDir()
	o.SegmentBytes = 16 << 10
	l := mustOpen(t, o)
	defer l.Close()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for seed := range uint64(3) {
		wg.Go(func() { readUntil(t, l, seed, stop) })
	}
	next, term := uint64(1), uint64(1)
	rng := rand.New(rand.NewPCG(9, 9))
	for range 400 {
		mustStore(t, l, entries(next, next+9, term, rng.IntN(200))...)
		next += 10
		switch rng.IntN(8) {
		case 0:
			if err := l.DeleteRange(next-1-rng.Uint64N(8), next-1); err != nil {
				t.Fatal(err)
			}
			last, _ := l.LastIndex()
			next = last + 1
			term++
		case 1:
			first, _ := l.FirstIndex()
			if err := l.DeleteRange(first, first+rng.Uint64N(next-first)/2); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

func FuzzRecordDecoder(f *testing.F) {
	r := record{kind: kindEntry, index: 7, term: 2, durable: 6, data: []byte("data"), ext: []byte("x"), atNs: 5}
	b, _ := r.append(nil, 99)
	f.Add(b, uint32(99))
	f.Add(b[:40], uint32(99))
	f.Add([]byte{}, uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, seed uint32) {
		var r record
		if err := r.decode(b, seed); err != nil {
			// With the checksum put right the rest must still be safe to decode.
			n := recordLen(b)
			if n == 0 || n > int64(len(b)) {
				return
			}
			b = withChecksum(b[:n], seed)
			if err := r.decode(b, seed); err != nil {
				t.Fatalf("not decoded with the right checksum: %v", err)
			}
		}
		b2, _ := r.append(nil, seed)
		var again record
		if err := again.decode(b2, seed); err != nil {
			t.Fatalf("not decoded again: %v", err)
		}
		if again.index != r.index || again.term != r.term || again.durable != r.durable || again.kind != r.kind ||
			again.typ != r.typ || again.atNs != r.atNs || !bytes.Equal(again.data, r.data) || !bytes.Equal(again.ext, r.ext) {
			t.Fatalf("%+v became %+v", r, again)
		}
	})
}
