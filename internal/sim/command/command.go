// Package command turns the command line of `jepsen sim` into a run of the simulation's tests:
// virtual time (testing/synctest) exists in tests alone, so that is what a user's command has to be.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const clusters = "github.com/zkd-project/zkd/internal/sim/cluster"

// Sim returns the command for arguments as
//
//	--seed 7 --virtual 10m
//	--seeds 1-500
//	--seed 7 --skip 1,2 --without watch --shrink 60 --history FILE
//
// It is to be run inside the module, prints what the seeds come to, and fails if one of them does.
func Sim(ctx context.Context, args []string) (*exec.Cmd, error) {
	f := flag.NewFlagSet("sim", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	seed := f.Uint64("seed", 1, "")
	seeds := f.String("seeds", "", "")
	virtual := f.Duration("virtual", time.Minute, "")
	skip, without, history := f.String("skip", "", ""), f.String("without", "", ""), f.String("history", "", "")
	shrink := f.Int("shrink", 0, "")
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("sim: %w; there are --seed, --seeds FROM-TO, --virtual, --skip, --without, --shrink and --history", err)
	}
	first, count := *seed, uint64(1)
	if *seeds != "" {
		last, err := uint64(0), error(nil)
		if first, last, err = span(*seeds); err != nil {
			return nil, err
		}
		count = last - first + 1
	}
	if first == 0 {
		return nil, errors.New("sim: seeds begin with 1")
	}
	// Time runs thirty to a hundred times as fast on an idle machine.
	limit := 5*time.Minute + time.Duration(count)*(time.Minute+*virtual/4)
	run := []string{
		"test", clusters, "-run=TestClustersKeepTheirPromises", "-count=1", "-v", "-timeout=" + limit.String(),
		"-seed=" + strconv.FormatUint(first, 10), "-seeds=" + strconv.FormatUint(count, 10), "-virtual=" + virtual.String(),
	}
	for name, value := range map[string]string{"skip": *skip, "without": *without, "history": *history} {
		if value != "" {
			run = append(run, "-"+name+"="+value)
		}
	}
	if *shrink > 0 {
		run = append(run, "-shrink="+strconv.Itoa(*shrink))
	}
	return exec.CommandContext(ctx, "go", run...), nil
}

// span reads "1-500".
func span(text string) (first, last uint64, err error) {
	a, b, found := strings.Cut(text, "-")
	first, err1 := strconv.ParseUint(a, 10, 32)
	last, err2 := strconv.ParseUint(b, 10, 32)
	if !found || err1 != nil || err2 != nil || last < first {
		return 0, 0, fmt.Errorf("sim: --seeds is FROM-TO, as 1-500, and not %q", text)
	}
	return first, last, nil
}
