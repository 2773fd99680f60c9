package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"
)

// shortestRun is what a run is not made shorter than.
const shortestRun = 2 * time.Second

// shrinkCommand looks for a smaller run that still finds something: with fewer kinds of faults,
// fewer servers, less time. Processes do not replay, so each candidate gets several attempts, and
// one that finds nothing in all of them may have been unlucky: the result is small, not smallest.
func shrinkCommand(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say which folder of results")
	}
	o, err := readOptions(args[0])
	if err != nil {
		return err
	}
	f := flags(&Options{})
	times := f.Int("times", 3, "attempts at each candidate")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	o.Store, o.Quiet = filepath.Dir(filepath.Clean(args[0])), true
	small, err := shrink(o, func(o Options) (bool, error) {
		for i := range *times {
			v, err := Run(ctx, o)
			if err != nil {
				return false, err
			}
			if !v.OK() {
				fmt.Fprintf(out, "still: %s\n", o.command())
				return true, nil
			}
			o.Seed += uint64(i) + 1
		}
		fmt.Fprintf(out, "no more: %s\n", o.command())
		return false, nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the smallest that was found:\n%s\n", small.command())
	return nil
}

// shrink returns the smallest options on which it comes by steps of which each still finds
// something.
func shrink(o Options, finds func(Options) (bool, error)) (Options, error) {
	for {
		smaller := false
		for _, c := range candidates(o) {
			yes, err := finds(c)
			if err != nil {
				return o, err
			}
			if yes {
				o, smaller = c, true
				break
			}
		}
		if !smaller {
			return o, nil
		}
	}
}

// candidates are the next smaller runs, the smallest first.
func candidates(o Options) (all []Options) {
	if len(o.Nemeses) > 1 {
		for i := range o.Nemeses {
			c := o
			c.Nemeses = []string{o.Nemeses[i]}
			all = append(all, c)
		}
	}
	for i := range o.Nemeses {
		c := o
		c.Nemeses = slices.Delete(slices.Clone(o.Nemeses), i, i+1)
		all = append(all, c)
	}
	if o.Nodes > 3 {
		c := o
		c.Nodes = 3
		all = append(all, c)
	}
	if o.Time/2 >= shortestRun {
		c := o
		c.Time /= 2
		all = append(all, c)
	}
	return all
}
