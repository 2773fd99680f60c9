package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zkd-project/zkd/jepsen/history"
)

// readOptions reads what a run was.
func readOptions(dir string) (Options, error) {
	var o Options
	b, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	return o, err
}

// checkCommand judges a recorded history again. What was seen beside it (processes that ended,
// digests) is in verdict.json alone.
func checkCommand(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("say which folder of results")
	}
	o, err := readOptions(args[0])
	if err != nil {
		return err
	}
	w, err := findWorkload(o.Client, o.Workload)
	if err != nil {
		return err
	}
	ops, err := history.Read(filepath.Join(args[0], "history.jsonl"))
	if err != nil {
		return err
	}
	v := &Verdict{Options: o, Dir: args[0]}
	v.judge(w, ops)
	v.Print(out)
	if !v.OK() {
		return errViolated
	}
	return nil
}

// replayCommand runs the plan of a run again. The plan of faults and what clients draw are the
// same; how processes and packets interleave is not.
func replayCommand(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say which folder of results")
	}
	o, err := readOptions(args[0])
	if err != nil {
		return err
	}
	f := flags(&Options{})
	times := f.Int("times", 1, "how often")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	o.Store = filepath.Dir(args[0])
	for i := range *times {
		fmt.Fprintf(out, "run %d of %d\n", i+1, *times)
		if err := runOnce(ctx, o, out); err != nil {
			return err
		}
	}
	return nil
}
