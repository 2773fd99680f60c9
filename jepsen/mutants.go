package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jepsen/mutants"
)

// buildServer builds the server of a run, with the planted bug and the clock that it asks for.
func buildServer(ctx context.Context, o *Options) error {
	o.Built = revision() // others may commit while runs go on
	var changes []mutants.Change
	if o.Mutant != "" {
		m, err := mutants.Find(o.Mutant)
		if err != nil {
			return err
		}
		changes = append(changes, m.Changes()...)
	}
	if slices.Contains(o.Nemeses, "clock") {
		changes = append(changes, mutants.Clock()...)
	}
	if len(changes) == 0 {
		return build(ctx, o.Binary, "", o.buildFlags())
	}
	dir, err := os.MkdirTemp("", "jepsen-overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	module, err := root()
	if err != nil {
		return err
	}
	overlay, err := mutants.Overlay(module, dir, changes)
	if err != nil {
		return err
	}
	return build(ctx, o.Binary, overlay, o.buildFlags())
}

// attempts at a mutant, each with another seed and twice as long as the one before, before it counts
// as not caught: what needs a rare moment gets the time for it.
const attempts = 4

// mutantsCommand plants every bug and has it caught.
func mutantsCommand(ctx context.Context, args []string, out io.Writer) error {
	base := Options{}
	f := flags(&base)
	only := f.String("only", "", "names of mutants, separated by commas; all without it")
	if err := f.Parse(args); err != nil {
		return err
	}
	var alive []string
	tried := 0
	for _, m := range mutants.All() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), m.Name) {
			continue
		}
		if slices.Contains(m.Nemeses, "power") && noDisks("power") != "" {
			fmt.Fprintf(out, "%-22s not tried: %s\n", m.Name, noDisks("power"))
			continue
		}
		tried++
		by, err := hunt(ctx, base, m)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if by == "" {
			alive = append(alive, m.Name)
			by = "NOBODY"
		}
		fmt.Fprintf(out, "%-22s caught by %s\n", m.Name, by)
	}
	fmt.Fprintf(out, "%d of %d mutants caught\n", tried-len(alive), tried)
	if len(alive) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(alive, ", "))
	}
	if tried == 0 {
		return errors.New("no mutant was tried")
	}
	return nil
}

// hunt runs a mutant against its workload; it returns what has caught it, "" if nothing.
func hunt(ctx context.Context, base Options, m mutants.Mutant) (by string, err error) {
	if m.Harness {
		return huntInHarness(ctx, base, m)
	}
	for i := range attempts {
		o := base
		o.Mutant, o.Workload, o.Nemeses = m.Name, m.Workload, m.Nemeses
		o.Seed += uint64(i)
		o.Time <<= i
		o.Quiet = true
		v, err := Run(ctx, o)
		if err != nil {
			return "", err
		}
		if !v.OK() {
			return fmt.Sprintf("%s, in run %d", caught(v), i+1), os.RemoveAll(v.Dir)
		}
	}
	return "", nil
}

// caught names what has found something.
func caught(v *Verdict) string {
	var names []string
	for _, r := range v.Results {
		if len(r.Violations) > 0 && !slices.Contains(names, r.Checker) {
			names = append(names, r.Checker)
		}
	}
	if len(names) == 0 {
		names = v.Troubles
	}
	return strings.Join(names, " and ")
}

// huntInHarness builds this program with the bug, and has it judge itself.
func huntInHarness(ctx context.Context, base Options, m mutants.Mutant) (by string, err error) {
	dir, err := os.MkdirTemp("", "jepsen-overlay-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	module, err := root()
	if err != nil {
		return "", err
	}
	overlay, err := mutants.Overlay(module, dir, m.Changes())
	if err != nil {
		return "", err
	}
	self := filepath.Join(dir, "jepsen")
	if err := buildProgram(ctx, "./jepsen", self, overlay, nil); err != nil {
		return "", err
	}
	for i := range attempts {
		cmd := exec.CommandContext(ctx, self, "run", m.Workload, "--time", base.Time.String(), "--seed", fmt.Sprint(base.Seed+uint64(i)),
			"--nodes", fmt.Sprint(base.Nodes), "--driver", base.Driver, "--store", filepath.Join(dir, "store"), "--binary", base.Binary)
		cmd.Dir = module
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && bytes.Contains(out, []byte("VIOLATIONS")):
			return fmt.Sprintf("%s, in run %d", m.Workload, i+1), nil
		case err != nil:
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	return "", nil
}
