package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/workload"
)

// A Verdict is what a run has shown.
type Verdict struct {
	Options  Options        `json:"options"`
	Dir      string         `json:"-"`
	Commit   string         `json:"commit"`
	Go       string         `json:"go"`
	Began    time.Time      `json:"began"`
	Took     time.Duration  `json:"took"`
	Recovery time.Duration  `json:"recovery"` // from the last fault to the final reads
	Counts   map[string]int `json:"counts"`   // operations by what became of them
	Faults   map[string]int `json:"faults"`   // by kind
	Events   map[string]int `json:"events"`   // of the servers' lives, by kind
	Digests  int            `json:"digests"`  // compared
	PeakMiB  int            `json:"peak_mib"` // most memory that a process has used
	LongGap  time.Duration  `json:"long_gap"` // longest time without an answered write
	// Gaps are the longest times without an answered write during each fault, by kind.
	Gaps     map[string][]time.Duration `json:"gaps"`
	Results  []check.Result             `json:"results"`
	Troubles []string                   `json:"troubles"` // of the run as a whole
}

// OK says whether nothing was found.
func (v *Verdict) OK() bool {
	return len(v.Troubles) == 0 && !slices.ContainsFunc(v.Results, func(r check.Result) bool { return !r.OK() })
}

func (v *Verdict) trouble(format string, args ...any) {
	v.Troubles = append(v.Troubles, fmt.Sprintf(format, args...))
}

func (v *Verdict) violation(checker, what string) {
	v.Results = append(v.Results, check.Result{Checker: checker, Violations: []check.Violation{{What: what}}})
}

// settle judges the history of a run.
func (v *Verdict) settle(r *run) error {
	v.Took = time.Since(v.Began)
	ops, err := r.rec.Ops()
	if err != nil {
		return err
	}
	v.readLogs(r)
	v.judge(r.w, ops)
	v.Faults = map[string]int{}
	for _, f := range r.log.Faults() {
		v.Faults[f.Kind]++
		if f.Err != "" {
			v.trouble("the fault %s could not be done: %s", f.Kind, f.Err)
		}
	}
	v.Gaps = gaps(ops, r.log.Faults())
	if err := errors.Join(v.draw(ops), writeCharts(v.Dir, ops, r.log.Faults())); err != nil {
		return err
	}
	return writeTimeline(filepath.Join(v.Dir, "timeline.html"), v, ops, r.log.Faults())
}

// draw shows the keys whose operations have no order.
func (v *Verdict) draw(ops []history.Op) error {
	for _, r := range v.Results {
		if r.Checker != "register" {
			continue
		}
		for i, x := range r.Violations {
			f, err := os.Create(filepath.Join(v.Dir, fmt.Sprintf("linear-%d.html", i)))
			if err != nil {
				return err
			}
			if err := errors.Join(check.DrawRegister(f, ops, x.Ops[0].Key), f.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// nothingShown is what a run has come to in which the servers, or the machine, had no time.
const nothingShown = "no operation was answered: the run has shown nothing"

// judge runs the checkers.
func (v *Verdict) judge(w workload.Workload, ops []history.Op) {
	v.Counts = map[string]int{}
	var last, over int64
	for i := range ops {
		o := &ops[i]
		v.Counts[string(o.Kind)]++
		over = max(over, o.Begin)
	}
	for _, end := range append(answered(ops), min(over, int64(v.Options.Time))) {
		v.LongGap = max(v.LongGap, time.Duration(end-last))
		last = end
	}
	if v.Counts[string(history.OK)] == 0 {
		v.trouble(nothingShown)
	}
	for _, c := range w.Judges() {
		v.Results = append(v.Results, c(ops))
	}
}

// writes are the operations that change something.
var writes = []string{"set", "create", "delete", "multi", "take", "fenced-set", "create-ttl", "create-container", "acl-create", "acl-set", "acquire", "release"}

// answered are the times at which writes were answered, in order.
func answered(ops []history.Op) []int64 {
	var ends []int64
	for i := range ops {
		if o := &ops[i]; o.Kind == history.OK && slices.Contains(writes, o.F) {
			ends = append(ends, o.End)
		}
	}
	slices.Sort(ends)
	return ends
}

// peakAllowedMiB is far more than the limits of the server add up to with what these runs
// write: more means that something grows without a bound. A run of a Scale may have as many times as much.
const peakAllowedMiB = 1024

// measure reads how much memory the processes that run now have used at most.
func (v *Verdict) measure(r *run) {
	for i := 1; i <= r.o.Nodes; i++ {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.c.PID(i)))
		if err != nil {
			continue // not Linux, or it ends just now
		}
		for line := range strings.Lines(string(b)) {
			var kib int
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
				v.PeakMiB = max(v.PeakMiB, kib>>10)
			}
		}
	}
	if v.PeakMiB > peakAllowedMiB*max(1, v.Options.Scale) && !v.Options.Race {
		v.trouble("a server has used %d MiB of memory", v.PeakMiB)
	}
}

// keep writes the verdict, and throws away what is of no use after a good run.
func (v *Verdict) keep() error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(v.Dir, "verdict.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	b, err = json.MarshalIndent(v.Options, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(v.Dir, "run.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	if !v.OK() {
		return nil
	}
	if v.Options.Quiet {
		return os.RemoveAll(v.Dir)
	}
	_ = os.Remove(filepath.Join(v.Dir, "zkd"))
	for i := 1; i <= v.Options.Nodes; i++ {
		_ = os.RemoveAll(filepath.Join(v.Dir, fmt.Sprintf("server-%d", i), "data"))
	}
	return nil
}

// Print shows the verdict; the last line of a bad one is the command that plays it again.
func (v *Verdict) Print(w io.Writer) {
	c := v.Counts
	fmt.Fprintf(w, "%s, %d servers on %s, %v, seed %d: %d ok, %d failed, %d unknown; faults %v; %v; %d digests; longest gap between writes %v; back after %v; at most %d MiB\n",
		v.Options.Workload, v.Options.Nodes, v.Options.Driver, v.Options.Time, v.Options.Seed,
		c["ok"], c["fail"], c["unknown"], v.Faults, v.Events, v.Digests, v.LongGap.Round(time.Millisecond), v.Recovery.Round(time.Millisecond), v.PeakMiB)
	for i := range v.Results {
		r := &v.Results[i]
		verdict := "ok"
		if !r.OK() {
			verdict = fmt.Sprintf("%d VIOLATIONS, %d undecided", len(r.Violations)+r.More, r.Undecided)
		}
		fmt.Fprintf(w, "  %-14s %7d checked  %s", r.Checker, r.Checked, verdict)
		for _, f := range r.Figures {
			fmt.Fprintf(w, ", %s %v", f.Name, f.Value)
		}
		fmt.Fprintln(w)
		for _, x := range r.Violations[:min(3, len(r.Violations))] {
			fmt.Fprintf(w, "    %s\n%s", x.What, check.Describe(x.Ops))
		}
	}
	for _, t := range v.Troubles {
		fmt.Fprintln(w, "  TROUBLE:", t)
	}
	if !v.OK() {
		fmt.Fprintf(w, "results in %s; again with\n%s\n", v.Dir, v.Options.command())
	}
}
