package cluster

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "run this seed alone (0: the fixed ones)")
	seedsFlag   = flag.Int("seeds", 0, "run so many seeds, from -seed or 1 on")
	virtualFlag = flag.Duration("virtual", time.Minute, "virtual time of faults per seed")
	historyFlag = flag.String("history", "", "write the history of the last seed to this file")
	logFlag     = flag.Bool("log", false, "show what the servers log")
)

// seeds are those that the flags, or ZKD_SIM_SEEDS for their number, ask for; the fixed ones are
// the first few.
func seeds() []uint64 {
	first, count := max(*seedFlag, 1), *seedsFlag
	if n, err := strconv.Atoi(os.Getenv("ZKD_SIM_SEEDS")); err == nil && count == 0 && *seedFlag == 0 {
		count = n
	}
	switch {
	case count == 0 && *seedFlag != 0:
		count = 1
	case count == 0 && testing.Short():
		count = 2
	case count == 0:
		count = 6
	}
	list := make([]uint64, count)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}

func options(seed uint64) Options {
	o := Options{Seed: seed, Virtual: *virtualFlag}
	if *logFlag {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return o
}

// run runs a seed in a bubble.
func run(t *testing.T, o Options) *Report {
	t.Helper()
	start := time.Now()
	var r *Report
	synctest.Test(t, func(*testing.T) { r = Run(o) })
	r.Stats.Real = time.Since(start)
	t.Logf("seed %d: %v; %.0f times as fast as time", o.Seed, r.Stats, r.Stats.Virtual.Seconds()/r.Stats.Real.Seconds())
	if *historyFlag != "" {
		writeHistory(t, r)
	}
	return r
}

func writeHistory(t *testing.T, r *Report) {
	t.Helper()
	var b strings.Builder
	for i := range r.History {
		b.WriteString(r.History[i].String() + "\n")
	}
	if err := os.WriteFile(*historyFlag, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestClustersKeepTheirPromises is level B. A failure prints how to run its seed again; how
// goroutines take turns is not part of the seed, so that it can take several runs to fail again.
func TestClustersKeepTheirPromises(t *testing.T) {
	for _, seed := range seeds() {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := run(t, options(seed))
			for i, err := range r.Failures {
				if i == 5 {
					t.Errorf("and %d more", len(r.Failures)-i)
					break
				}
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("replay: go test ./internal/sim/cluster -run TestClustersKeepTheirPromises -seed=%d -virtual=%v -count=20", seed, *virtualFlag)
			}
		})
	}
}
