package main

import (
	"os"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jepsen/cluster"
	"github.com/zkd-project/zkd/jepsen/nemesis"
)

// What a fault accounts for: how a process may end by it, and what it may say.
var excuses = map[string]struct {
	statuses []string // of processes that end
	lines    []string // a part of the lines with alarms
}{
	"full": {[]string{"exit status 3"}, []string{"no space left on device", "the disk is nearly full"}},
	// What is being written just then fails as on a broken device.
	"read-only": {[]string{"exit status 3"}, []string{"read-only file system", "input/output error"}},
	"eio":       {[]string{"exit status 3"}, []string{"injected"}},
	"failpoint": {[]string{"exit status 2", "exit status 3"}, []string{"panic: failpoint", "injected"}},
	// Damage is refused at the start; that data differ later is no way to find out.
	"damage":   {[]string{"exit status 3"}, []string{"damaged data", "lacks log entries that it has acknowledged"}},
	"old-copy": {[]string{"exit status 3"}, []string{"lacks log entries that it has acknowledged"}},
	"memory":   {[]string{"signal: killed"}, nil},
	"fds":      {[]string{"exit status 3"}, []string{"too many open files"}},
}

// judgeEnds judges processes that ended by themselves.
func (v *Verdict) judgeEnds(ends []cluster.End, nemeses []string) {
	for _, e := range ends {
		if !slices.ContainsFunc(nemeses, func(n string) bool { return slices.Contains(excuses[n].statuses, e.Status) }) {
			v.trouble("server %d ended by itself, %s: %s", e.Server, e.Status, e.Said)
		}
	}
}

// alarms are what no server may print.
var alarms = []string{"panic:", "fatal error:", "DATA RACE", "level=ERROR"}

// milestones are lines that are counted.
var milestones = map[string]string{
	"snapshots": `msg="snapshot taken"`,
	"installs":  `msg="a snapshot of another server was installed"`,
	"starts":    "msg=ready",
	"leaders":   `msg="this server leads"`,
}

// readLogs looks for alarms, and counts what the servers tell of their lives.
func (v *Verdict) readLogs(r *run) {
	v.Events = map[string]int{}
	for i := 1; i <= r.o.Nodes; i++ {
		b, err := os.ReadFile(r.c.LogFile(i))
		if err != nil {
			v.trouble("the log of server %d: %v", i, err)
			continue
		}
		for line := range strings.Lines(string(b)) {
			for name, part := range milestones {
				if strings.Contains(line, part) {
					v.Events[name]++
				}
			}
			if slices.ContainsFunc(alarms, func(a string) bool { return strings.Contains(line, a) }) && !explained(line, r.nemeses) {
				v.trouble("server %d printed: %s", i, strings.TrimSpace(line))
			}
		}
	}
}

// explained says whether the faults of the run account for a line with an alarm.
func explained(line string, nemeses []nemesis.Nemesis) bool {
	return slices.ContainsFunc(nemeses, func(n nemesis.Nemesis) bool {
		return slices.ContainsFunc(excuses[n.Name].lines, func(part string) bool { return strings.Contains(line, part) })
	})
}
