package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jepsen/nemesis"
	"github.com/zkd-project/zkd/jepsen/report"
)

// allCommand runs pairs of workload and nemeses until the time is over. The first runs are each
// workload without a fault; from then on all is drawn.
func allCommand(ctx context.Context, args []string, out io.Writer) error {
	base := Options{}
	f := flags(&base)
	each := f.Duration("each", 40*time.Second, "how long one run is")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("all takes no argument %q", f.Arg(0))
	}
	if base.Scale > 1 {
		return errors.New("--scale is for a run of the workload bulk, and all has every workload")
	}
	if err := os.MkdirAll(base.Store, 0o755); err != nil {
		return err
	}
	if base.Binary == "" {
		base.Binary = filepath.Join(base.Store, fmt.Sprintf("zkd-%d", os.Getpid()))
		defer os.Remove(base.Binary)
		withAll := base
		withAll.Nemeses = append([]string{"clock"}, withPoints...) // so that every run can have them
		if err := buildServer(ctx, &withAll); err != nil {
			return err
		}
		base.Built = withAll.Built
	}
	possible, missing := available(&base)
	fmt.Fprintf(out, "seed %d; faults this machine cannot have: %v\n", base.Seed, missing)
	others := foreignClients()
	r := rand.New(rand.NewPCG(base.Seed, 0))
	sum := report.New(base.Seed, missing)
	deadline := time.Now().Add(base.Time)
	for n := 0; ctx.Err() == nil && time.Now().Before(deadline); n++ {
		o := base
		o.Time = min(*each, time.Until(deadline))
		o.Seed = r.Uint64() % 1_000_000
		o.Nodes = []int{3, 3, 3, 5}[r.IntN(4)]
		// Every eighth run has somebody else's client, where it is installed.
		if base.Client == "" && n >= len(workloads()) && len(others) > 0 && r.IntN(8) == 0 {
			o.Client = others[r.IntN(len(others))]
		}
		all := workloadsOf(o.Client)
		w := all[r.IntN(len(all))]
		if n < len(all) {
			w = all[n]
		} else {
			o.Nemeses = draw(r, slices.DeleteFunc(slices.Clone(possible), func(n string) bool {
				return slices.Contains(w.Without, n) || alone(n) && len(w.Nemeses) > 0
			}))
		}
		o.Workload = w.Name
		v, err := Run(ctx, o)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			sum.Failed(o.command(), err)
			fmt.Fprintln(out, o.command(), err)
			continue
		}
		v.Print(out)
		sum.Add(entry(v))
	}
	if err := sum.Write(filepath.Join(base.Store, "report.md")); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", sum)
	if sum.Bad() {
		return errViolated
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return nil
}

// draw picks one to three kinds of faults.
func draw(r *rand.Rand, possible []string) []string {
	var names []string
	for _, i := range r.Perm(len(possible))[:1+r.IntN(3)] {
		if alone(possible[i]) {
			return []string{possible[i]}
		}
		names = append(names, possible[i])
	}
	return names
}

// alone says whether a kind of fault bears no other one beside it.
func alone(name string) bool {
	found, err := nemesis.Find([]string{name})
	return err == nil && found[0].Alone
}

// available says which kinds of faults this machine can have, and why not others.
func available(o *Options) (possible []string, missing map[string]string) {
	missing = map[string]string{}
	netns := o.Driver == "netns" || (o.Driver == "" && noNetns() == "")
	for _, n := range nemesis.All() {
		why := n.Machine()
		switch {
		case (n.Name == "loss" || n.Name == "member") && !netns:
			why = "needs the driver netns: " + noNetns()
		case slices.Contains(withDisks, n.Name):
			why = noDisks(n.Name)
		}
		if why != "" {
			missing[n.Name] = why
			continue
		}
		possible = append(possible, n.Name)
	}
	return possible, missing
}

// entry is what the report needs of a verdict.
func entry(v *Verdict) report.Entry {
	e := report.Entry{
		Name: v.Options.Workload, Took: v.Took, Counts: v.Counts, Faults: v.Faults, Digests: v.Digests,
		Nodes: v.Options.Nodes, LongGap: v.LongGap, Commit: v.Commit, Driver: v.Options.Driver, Troubles: v.Troubles,
		Gaps: v.Gaps, Events: v.Events,
	}
	for _, r := range v.Results {
		e.Checkers = append(e.Checkers, report.Checker{
			Name: r.Checker, Checked: r.Checked, Violations: len(r.Violations) + r.More, Undecided: r.Undecided,
		})
	}
	if !v.OK() {
		e.Again = v.Options.command()
	}
	return e
}
