package watch

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

func BenchmarkFireUnwatched(b *testing.B) {
	for _, recursive := range []bool{false, true} {
		b.Run(fmt.Sprintf("recursive=%v", recursive), func(b *testing.B) {
			table := New()
			for i := range 1000 {
				table.Add(fmt.Sprintf("/n%d", i), Data, ID(i))
			}
			if recursive {
				table.Add("/elsewhere", Recursive, 1)
			}
			ev := Event{created, "/some/path/to/a/node"}
			b.ReportAllocs()
			for b.Loop() {
				table.Fire(ev, nil)
			}
		})
	}
}

// BenchmarkAddAndFireOne is the cycle of a client that reads with a watch.
func BenchmarkAddAndFireOne(b *testing.B) {
	table := New()
	ev := Event{changed, "/config/app"}
	var dst []Delivery
	b.ReportAllocs()
	for b.Loop() {
		table.Add(ev.Path, Data, 7)
		dst = table.Fire(ev, dst[:0])
	}
}

// BenchmarkHerd registers 10,000 one-shot watchers of one path and fires it.
func BenchmarkHerd(b *testing.B) {
	const n = 10_000
	for _, order := range []string{"ascending", "random"} {
		b.Run(order, func(b *testing.B) {
			ids := rand.New(rand.NewPCG(1, 2)).Perm(n)
			if order == "ascending" {
				for i := range ids {
					ids[i] = i
				}
			}
			table := New()
			var dst []Delivery
			b.ReportAllocs()
			for b.Loop() {
				for _, id := range ids {
					table.Add("/config", Data, ID(id))
				}
				dst = table.Fire(Event{changed, "/config"}, dst[:0])
			}
			if len(dst) != n {
				b.Fatalf("%d deliveries", len(dst))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/watch")
		})
	}
}

func BenchmarkFirePersistent10k(b *testing.B) {
	table := New()
	for i := range ID(10_000) {
		table.Add("/config", Persistent, i)
	}
	var dst []Delivery
	b.ReportAllocs()
	for b.Loop() {
		dst = table.Fire(Event{changed, "/config"}, dst[:0])
	}
}

// BenchmarkConnection200k registers and drops 200,000 watches of one connection, and
// reports what they weigh without their paths.
func BenchmarkConnection200k(b *testing.B) {
	const n = 200_000
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/service/instances/node-%06d", i)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	table := New()
	for _, p := range paths {
		table.Add(p, Data, 1)
	}
	weight := heap() - before
	table.RemoveAll(1)
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range paths {
			table.Add(p, Data, 1)
		}
		table.RemoveAll(1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/watch")
	b.ReportMetric(float64(weight)/n, "B/watch")
	runtime.KeepAlive(paths)
}
