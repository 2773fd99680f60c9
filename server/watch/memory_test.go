package watch

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkMemory says what a watch costs in memory, for docs/capacity.md. The paths are not
// counted: a watch of a node that exists shares the tree's.
func BenchmarkMemory(b *testing.B) {
	const watches = 200_000
	for _, m := range []struct {
		name            string
		perID, sessions int // watches of each session, sessions
		paths           int
		kind            Kind
	}{
		{"each its own node", 20, watches / 20, watches, Data},
		{"all the same node", 1, watches, 1, Data},
		{"one session", watches, 1, watches, Data},
		{"persistent", 20, watches / 20, watches, Persistent},
	} {
		b.Run(m.name, func(b *testing.B) {
			paths := make([]string, m.paths)
			for i := range paths {
				paths[i] = fmt.Sprintf("/services/group-%d/member-%d", i%100, i)
			}
			var table *Table
			before, after := uint64(0), uint64(0)
			for b.Loop() {
				table = nil
				before = liveHeap()
				table = New()
				for i := range watches {
					table.Add(paths[i%m.paths], m.kind, ID(i/m.perID))
				}
				after = liveHeap()
			}
			runtime.KeepAlive(table)
			runtime.KeepAlive(paths)
			b.ReportMetric(float64(after-before)/watches, "B/watch")
		})
	}
}

// liveHeap is what is left after a collection.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
