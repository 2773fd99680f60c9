package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// A Scenario is a bug that was found and repaired, as a run that showed it.
type Scenario struct {
	Name string
	// Bug is what was wrong; Last the commit at which it was last seen, "" if that was before
	// anything was committed.
	Bug, Last string
	Options   Options
	// Play is for those that no workload shows.
	Play func(ctx context.Context, o Options) error
}

// Scenarios are those of all bugs that show on real processes. Those that show only in the
// simulation have theirs there.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "last-sign-of-life", Last: "800d552",
			Bug:     "what a client had said within the last quarter of a tick before its connection ended was forgotten, so its session could be expired early",
			Options: Options{Workload: "ephemeral", Time: 10 * time.Second, Seed: 3},
		},
		{
			Name:    "leader-without-a-route",
			Bug:     "after a failed hand-over the leader had no route for commands, and nobody served",
			Options: Options{Workload: "counter", Nemeses: []string{"handover", "partition"}, Time: 12 * time.Second, Seed: 11},
		},
		{
			Name:    "route-to-an-old-leader",
			Bug:     "a route to an old leader that came late replaced the leader's own",
			Options: Options{Workload: "session-order", Nemeses: []string{"storm", "delay"}, Time: 12 * time.Second, Seed: 5},
		},
		{
			Name:    "removed-server-serves",
			Bug:     "a server that had been removed went on reporting and served old reads",
			Options: Options{Workload: "session-order", Nemeses: []string{"member"}, Time: 12 * time.Second, Seed: 7, Driver: "netns"},
		},
		{
			Name:    "same-snapshot-again",
			Bug:     "a server with a tail that nobody else had was sent the same snapshot again and again",
			Options: Options{Workload: "bulk", Nemeses: []string{"storm"}, Time: 12 * time.Second, Seed: 2},
		},
		{
			Name:    "read-overtakes-write",
			Bug:     "a read that was pipelined between two writes could show the later one",
			Options: Options{Workload: "session-order", Nemeses: []string{"cut"}, Time: 8 * time.Second, Seed: 4},
		},
		{
			Name: "exit-code-of-a-broken-disk", Last: "9756402",
			Bug:     "a server whose disk failed while it waited for a leader ended with the exit code of a wrong configuration",
			Options: Options{Workload: "set", Nemeses: []string{"full"}, Time: 12 * time.Second, Seed: 928332},
			Play:    brokenDiskAtStart,
		},
		{
			Name: "leader-that-believes-itself", Last: "dca568b",
			Bug:     "a leader that was cut off, and whose disk stood still, answered clients for a second after the next leader had ended their sessions",
			Options: Options{Workload: "lock", Nemeses: []string{"clock", "partition", "freeze"}, Time: 40 * time.Second, Seed: 862707, Driver: "netns"},
		},
		{
			Name: "leader-whose-disk-stands-still", Last: "8020496",
			Bug:     "a leader whose disk took no write, and did not fail either, led on for ever",
			Options: Options{Workload: "queue", Nemeses: []string{"fds", "freeze"}, Time: 40 * time.Second, Seed: 445341, Driver: "netns"},
		},
		{
			Name: "answer-after-the-end", Last: "cf5bf5a",
			Bug:     "a client that had been silent for its whole timeout was answered while the end of its session was on its way through the log",
			Options: Options{Workload: "lock", Client: "kazoo", Nemeses: []string{"old-copy"}, Time: 40 * time.Second, Seed: 992141, Driver: "netns"},
		},
	}
}

// regressCommand plays the scenarios.
func regressCommand(ctx context.Context, args []string, out io.Writer) error {
	base := Options{}
	f := flags(&base)
	only := f.String("only", "", "names of scenarios, separated by commas; all without it")
	if err := f.Parse(args); err != nil {
		return err
	}
	var seen []string
	for _, s := range Scenarios() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.Name) {
			continue
		}
		o := s.with(&base)
		if why := o.unavailable(); why != "" {
			fmt.Fprintf(out, "%-30s not played: %s\n", s.Name, why)
			continue
		}
		found, err := s.play(ctx, o)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", s.Name, err)
		case found != "":
			seen = append(seen, s.Name)
			fmt.Fprintf(out, "%-30s SEEN AGAIN: %s\n%s\n", s.Name, s.Bug, found)
		default:
			fmt.Fprintf(out, "%-30s not seen\n", s.Name)
		}
	}
	if len(seen) > 0 {
		return fmt.Errorf("bugs are back: %s", strings.Join(seen, ", "))
	}
	return nil
}

// with is the run of a scenario where base says what is not its own.
func (s *Scenario) with(base *Options) Options {
	o := s.Options
	o.Store, o.Binary, o.Nodes = base.Store, base.Binary, max(3, o.Nodes)
	if o.Driver == "" {
		o.Driver = base.Driver
	}
	return o
}

// play says what was found, "" if nothing.
func (s *Scenario) play(ctx context.Context, o Options) (found string, err error) {
	if s.Play != nil {
		if err := s.Play(ctx, o); err != nil {
			return err.Error(), nil
		}
		return "", nil
	}
	v, err := Run(ctx, o)
	if err != nil {
		return "", err
	}
	if v.OK() {
		return "", nil
	}
	var b strings.Builder
	v.Print(&b)
	return b.String(), nil
}

// brokenDiskAtStart has a server that has no leader yet fail to write its log.
func brokenDiskAtStart(ctx context.Context, o Options) (err error) {
	o.Nemeses = []string{"eio"} // for the failpoints; nothing is injected but what is here
	o.Time = time.Second
	r := &run{o: o}
	if err := r.open(ctx); err != nil {
		return errors.Join(err, r.tearDown())
	}
	defer func() { err = errors.Join(err, r.tearDown(), os.RemoveAll(r.dir)) }()
	for i := 1; i <= o.Nodes; i++ {
		r.c.Kill(i)
	}
	if err := r.c.Start(1); err != nil { // without the others it waits for a leader
		return err
	}
	// The snapshots are opened last: from then on there is nothing but a leader to wait for.
	opened := func() bool {
		passed, err := r.points.ask(1, "points")
		return err == nil && slices.Contains(passed, "disk.snapshots.syncdir.done")
	}
	if err := until(ctx, opened); err != nil {
		return fmt.Errorf("the server does not come up: %w", err)
	}
	if err := until(ctx, func() bool { return r.points.tell(1, "set disk.log.write error") == nil }); err != nil {
		return fmt.Errorf("the server cannot be told: %w", err)
	}
	if err := r.c.Start(2); err != nil { // now there will be one, and something to write
		return err
	}
	if err := until(ctx, func() bool { return r.c.PID(1) == 0 }); err != nil {
		return fmt.Errorf("the server does not end although it cannot write: %w", err)
	}
	for _, e := range r.c.Ends() {
		if e.Server == 1 && e.Status != "exit status 3" {
			return fmt.Errorf("%s instead of exit status 3: %s", e.Status, e.Said)
		}
	}
	return nil
}

// until waits for a condition, also on a machine that is busy with other things.
func until(ctx context.Context, f func() bool) error {
	limit, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for !f() {
		select {
		case <-limit.Done():
			return limit.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
