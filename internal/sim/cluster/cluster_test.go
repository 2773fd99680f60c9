package cluster

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
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
	skipFlag    = flag.String("skip", "", "rounds of faults to leave out, separated by commas; 0 is the birth")
	withoutFlag = flag.String("without", "", "parts of the work to leave out, separated by commas")
	shrinkFlag  = flag.Int("shrink", 0, "shrink a failing seed, in at most so many runs")
)

// found are seeds that have found something once: 500467 a leader that was cut off and answered pings
// of a session that the next leader ended.
var found = []uint64{500467}

// seeds are those that the flags, or ZKD_SIM_SEEDS for their number, ask for; the fixed ones are
// the first few, and those of found.
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
		return append([]uint64{1, 2, 3, 4, 5, 6}, found...)
	}
	list := make([]uint64, count)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}

func options(seed uint64) Options {
	o := Options{Seed: seed, Virtual: *virtualFlag}
	for _, s := range strings.FieldsFunc(*skipFlag, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(s)
		if err != nil {
			panic("-skip: " + s + " is no number of a round")
		}
		o.Skip = append(o.Skip, n)
	}
	o.Without = strings.FieldsFunc(*withoutFlag, func(r rune) bool { return r == ',' })
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
	func() {
		defer func() {
			if p := recover(); p != nil {
				r = leftOver(t, r, p)
			}
		}()
		synctest.Test(t, func(*testing.T) { r = Run(o) })
	}()
	r.Stats.Real = time.Since(start)
	t.Logf("seed %d: %v; %.0f times as fast as time", o.Seed, r.Stats, r.Stats.Virtual.Seconds()/r.Stats.Real.Seconds())
	if *historyFlag != "" {
		writeHistory(t, r)
	}
	return r
}

// leftOver is called when a run has ended and goroutines of its servers have not: that is a failure
// like others, and must not end those that come after it.
func leftOver(t *testing.T, r *Report, p any) *Report {
	t.Helper()
	if r == nil {
		panic(p)
	}
	buf := make([]byte, 8<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "synctest bubble") {
			r.Failures = append(r.Failures, fmt.Errorf("goroutines: %v: this one is left:\n%s", p, g))
		}
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

// command is what one types to run that again.
func command(o Options) string {
	c := fmt.Sprintf("go test ./internal/sim/cluster -run TestClustersKeepTheirPromises -seed=%d -virtual=%v", o.Seed, o.Virtual)
	if len(o.Skip) > 0 {
		c += " -skip=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Skip), " ", ","), "[]")
	}
	if len(o.Without) > 0 {
		c += " -without=" + strings.Join(o.Without, ",")
	}
	return c + " -count=20"
}

// fails runs a seed up to four times, until it fails, and returns the kind of the first failure.
func fails(t *testing.T, o Options) (kind string, rounds int) {
	for range 4 {
		r := run(t, o)
		if rounds = max(rounds, r.Stats.Rounds); len(r.Failures) > 0 {
			kind, _, _ = strings.Cut(r.Failures[0].Error(), ":")
			if strings.HasPrefix(kind, "at ") { // what a checker does not tell begins with a time
				kind = "server"
			}
			return kind, rounds
		}
	}
	return "", rounds
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
				t.Logf("replay: %s", command(options(seed)))
				if *shrinkFlag > 0 {
					small := Shrink(options(seed), *shrinkFlag, func(o Options) (string, int) { return fails(t, o) })
					t.Logf("shrunk: %s", command(small))
				} else {
					t.Logf("shrink: %s -shrink=60", command(options(seed)))
				}
			}
		})
	}
}
