package znode

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
)

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// maxBytesPerNode is the live heap that a node of 100 bytes of data and a name such as
// n0000000123 may cost, data and name included.
const maxBytesPerNode = 330

func TestMemoryPerNode(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 200_000
	}
	before := heapBytes()
	tree := bigTree(n)
	built := heapBytes()
	restored, err := restore(snapshotOf(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(tree)
	tree = nil
	again := heapBytes()
	runtime.KeepAlive(restored)
	for what, heap := range map[string]uint64{"built": built, "restored": again} {
		per := float64(heap-before) / float64(n)
		t.Logf("%s: %.0f bytes per node", what, per)
		if per > maxBytesPerNode {
			t.Errorf("%s: %.0f bytes per node, the target is %d", what, per, maxBytesPerNode)
		}
	}
}

const benchNodes = 1_000_000

var benchTree = sync.OnceValue(func() *Tree { return bigTree(benchNodes) })

// scattered is the path of a node far away from the last one.
func scattered() (paths []string, at func(i int) string) {
	paths = make([]string, 1<<16)
	x := uint32(1)
	for i := range paths {
		x = x*1664525 + 1013904223
		k := int(x>>8) % benchNodes
		paths[i] = fmt.Sprintf("/dir%d/n%010d", k/10_000, k%10_000)
	}
	return paths, func(i int) string { return paths[i&(len(paths)-1)] }
}

func BenchmarkLookup(b *testing.B) {
	tree := benchTree()
	_, at := scattered()
	b.Run("scattered", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if tree.Lookup(at(i)) == nil {
				b.Fatal("missing")
			}
			i++
		}
	})
	b.Run("same", func(b *testing.B) {
		for b.Loop() {
			if tree.Lookup("/dir3/n0000000123") == nil {
				b.Fatal("missing")
			}
		}
	})
}

func BenchmarkStat(b *testing.B) {
	n := benchTree().Lookup("/dir3")
	for b.Loop() {
		if n.Stat().NumChildren == 0 {
			b.Fatal("no children")
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	tree := New(0, nil)
	d := tree.Create("/d", nil, 0, NoOwner, 1, 1)
	data := make([]byte, 100)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		tree.CreateChild(d, fmt.Sprintf("n%010d", i), data, 0, NoOwner, int64(i), int64(i))
		i++
	}
}

func BenchmarkCreateDelete(b *testing.B) {
	tree := benchTree()
	data := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		tree.Delete(tree.Create("/dir3/new", data, 0, SessionOwner(1), 1, 1), 1)
	}
}

func BenchmarkSetData(b *testing.B) {
	tree := benchTree()
	_, at := scattered()
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			data := make([]byte, size)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				tree.SetData(tree.Lookup(at(i&0xff)), data, int64(i), int64(i))
				i++
			}
		})
	}
}

func BenchmarkMultiOfTwo(b *testing.B) {
	tree := benchTree()
	data := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		tree.Begin()
		n := tree.Create("/dir3/new", data, 0, NoOwner, 1, 1)
		tree.SetData(n, data, 1, 1)
		tree.Rollback()
	}
}

func BenchmarkChildren(b *testing.B) {
	for _, n := range []int{10, 10_000, 100_000} {
		tree := New(0, nil)
		d := tree.Create("/d", nil, 0, NoOwner, 1, 1)
		for i := range n {
			tree.CreateChild(d, fmt.Sprintf("n%010d", i), nil, 0, NoOwner, 1, 1)
		}
		b.Run(fmt.Sprintf("%d/first", n), func(b *testing.B) {
			for b.Loop() {
				d.dir.view.Store(nil)
				tree.Children(d)
			}
		})
		b.Run(fmt.Sprintf("%d/again", n), func(b *testing.B) {
			for b.Loop() {
				tree.Children(d)
			}
		})
		b.Run(fmt.Sprintf("%d/after a change", n), func(b *testing.B) {
			for b.Loop() {
				tree.Delete(tree.CreateChild(d, "n9", nil, 0, NoOwner, 1, 1), 1)
				tree.Children(d)
			}
		})
	}
}

func BenchmarkReapable(b *testing.B) {
	tree := New(0, nil)
	for i := range 100_000 {
		tree.Create(fmt.Sprintf("/n%d", i), nil, 0, TTLOwner(1000), 1, 1)
	}
	for b.Loop() {
		tree.Reapable(1, 0, 100)
	}
}

func BenchmarkSnapshotWrite(b *testing.B) {
	tree := benchTree()
	b.ReportAllocs()
	for b.Loop() {
		s := tree.Snapshot()
		if err := s.Write(&sync.Mutex{}, io.Discard); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkSnapshotLock is how long the readers' lock is held for one chunk.
func BenchmarkSnapshotLock(b *testing.B) {
	tree := benchTree()
	images := make([]image, 0, chunkNodes)
	s := tree.Snapshot()
	for b.Loop() {
		if s.pos+s.chunk >= s.bound {
			s.pos = 1
		}
		s.take(&sync.Mutex{}, images)
	}
	s.Close()
}

func BenchmarkRestore(b *testing.B) {
	stream := snapshotOf(b, benchTree())
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Restore(bytes.NewReader(stream), contentDigest); err != nil {
			b.Fatal(err)
		}
	}
}
