// Package report sums up many runs: what was done, what was injected, what was found.
package report

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// An Entry is one run.
type Entry struct {
	Name     string
	Took     time.Duration
	Nodes    int
	Driver   string
	Commit   string
	Counts   map[string]int // operations by what became of them
	Faults   map[string]int
	Gaps     map[string][]time.Duration // longest times without an answered write, by kind of fault
	Events   map[string]int             // of the servers' lives: starts, snapshots, installations
	Digests  int
	LongGap  time.Duration
	Checkers []Checker
	Troubles []string
	Again    string // the command that repeats a bad run; "" of a good one
}

// A Checker is what one checker has said of a run.
type Checker struct {
	Name                           string
	Checked, Violations, Undecided int
}

// A Summary sums up runs. It belongs to one goroutine.
type Summary struct {
	seed     uint64
	missing  map[string]string
	runs     map[string]int
	bad      []string
	failed   []string
	hours    float64 // of server processes
	counts   map[string]int
	faults   map[string]int
	gaps     map[string][]time.Duration
	events   map[string]int
	checkers map[string]Checker
	digests  int
	longest  time.Duration
	commit   string
	drivers  map[string]int
}

// New sums up nothing yet. missing are the faults that the machine cannot have, with the
// reasons.
func New(seed uint64, missing map[string]string) *Summary {
	return &Summary{
		seed: seed, missing: missing, runs: map[string]int{}, counts: map[string]int{}, faults: map[string]int{},
		gaps: map[string][]time.Duration{}, events: map[string]int{}, checkers: map[string]Checker{}, drivers: map[string]int{},
	}
}

// Add counts a run.
func (s *Summary) Add(e Entry) {
	s.runs[e.Name]++
	s.drivers[e.Driver]++
	s.commit = e.Commit
	s.hours += e.Took.Hours() * float64(e.Nodes)
	for k, n := range e.Counts {
		s.counts[k] += n
	}
	for k, n := range e.Faults {
		s.faults[k] += n
	}
	for k, list := range e.Gaps {
		s.gaps[k] = append(s.gaps[k], list...)
	}
	for k, n := range e.Events {
		s.events[k] += n
	}
	s.digests += e.Digests
	s.longest = max(s.longest, e.LongGap)
	for _, c := range e.Checkers {
		sum := s.checkers[c.Name]
		sum.Checked += c.Checked
		sum.Violations += c.Violations
		sum.Undecided += c.Undecided
		s.checkers[c.Name] = sum
	}
	if e.Again != "" {
		s.bad = append(s.bad, e.Again)
	}
}

// Failed counts a run that came to no verdict.
func (s *Summary) Failed(command string, err error) {
	s.failed = append(s.failed, fmt.Sprintf("%s: %v", command, err))
}

// Bad says whether any run has found something or came to no verdict.
func (s *Summary) Bad() bool { return len(s.bad)+len(s.failed) > 0 }

// Write writes the summary as Markdown.
func (s *Summary) Write(path string) error { return os.WriteFile(path, []byte(s.String()), 0o644) }

// String is the summary as Markdown.
func (s *Summary) String() string {
	var b strings.Builder
	runs := 0
	for _, n := range s.runs {
		runs += n
	}
	fmt.Fprintf(&b, "# %d runs, %.2f process hours, commit %s, seed %d\n\n", runs, s.hours, s.commit, s.seed)
	fmt.Fprintf(&b, "Operations: %s. Digests compared: %d. Longest time without an answered write: %v. Drivers: %s.\n\n",
		list(s.counts), s.digests, s.longest.Round(time.Millisecond), list(s.drivers))
	fmt.Fprintf(&b, "Runs: %s.\n\nServers: %s.\n\nFaults: %s.\n\n", list(s.runs), list(s.events), list(s.faults))
	b.WriteString("| checker | checked | violations | undecided |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.checkers)) {
		c := s.checkers[name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", name, c.Checked, c.Violations, c.Undecided)
	}
	if len(s.gaps) > 0 {
		b.WriteString("\nTime without an answered write, by the fault that it falls into (others may have been at work, too):\n\n")
		b.WriteString("| fault | injected | median | p99 | longest |\n|---|---|---|---|---|\n")
	}
	for _, name := range slices.Sorted(maps.Keys(s.gaps)) {
		all := slices.Sorted(slices.Values(s.gaps[name]))
		at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100].Round(time.Millisecond) }
		fmt.Fprintf(&b, "| %s | %d | %v | %v | %v |\n", name, len(all), at(50), at(99), at(100))
	}
	for _, name := range slices.Sorted(maps.Keys(s.missing)) {
		fmt.Fprintf(&b, "\nNot run: %s: %s.\n", name, s.missing[name])
	}
	for _, again := range s.bad {
		fmt.Fprintf(&b, "\n**Found something:** `%s`\n", again)
	}
	for _, f := range s.failed {
		fmt.Fprintf(&b, "\n**No verdict:** %s\n", f)
	}
	return b.String()
}

// list names counts, the largest first.
func list(m map[string]int) string {
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(a, b string) int { return m[b] - m[a] })
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(keys, ", ")
}
