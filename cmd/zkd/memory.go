package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage may pile up before it is collected. The runtime's own rule, as much as
// there is live data, is wrong for a server like this at both ends: a small tree under heavy
// writes would be collected dozens of times a second, and a large tree would double the
// memory.
const (
	leastGarbage = 48 << 20 // however small the live data
	garbageShare = 0.33     // of the live data, beyond that
	mostPercent  = 1000
)

// tuneGC applies the rule above at the end of every collection. An operator who sets GOGC
// decides instead.
func tuneGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	watchCollections(percentFor(0))
}

// watchCollections runs after each collection: the runtime finalizes the sentinel of the
// last one then, and a new one is made.
func watchCollections(percent int) {
	debug.SetGCPercent(percent)
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var arm func()
	arm = func() {
		sentinel := new([16]byte)
		runtime.SetFinalizer(sentinel, func(*[16]byte) {
			metrics.Read(sample)
			if p := percentFor(sample[0].Value.Uint64()); p != percent {
				percent = p
				debug.SetGCPercent(p)
			}
			arm()
		})
	}
	arm()
}

// percentFor is the GOGC value for so many bytes of live data.
func percentFor(live uint64) int {
	garbage := max(float64(leastGarbage), garbageShare*float64(live))
	// Below the runtime's smallest heap the percentage means little.
	return int(min(100*garbage/max(float64(live), 4<<20), mostPercent))
}
