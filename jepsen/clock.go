package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/jepsen/cluster"
	"github.com/zkd-project/zkd/jepsen/mutants"
)

// clockFiles gives each server a file with the shift of its wall clock, where a nemesis of the
// run needs it; nil where none does.
func clockFiles(r *run, o *cluster.Options) func(server int, by time.Duration) error {
	if !slices.Contains(r.o.Nemeses, "clock") {
		return nil
	}
	name := func(server int) string { return filepath.Join(r.dir, fmt.Sprintf("clock-%d", server)) }
	o.AddEnv(func(server int) string { return mutants.ClockFile + "=" + name(server) })
	return func(server int, by time.Duration) error {
		// In one step: a server must not read half of it.
		next := name(server) + ".next"
		if err := os.WriteFile(next, strconv.AppendInt(nil, by.Milliseconds(), 10), 0o600); err != nil {
			return err
		}
		return os.Rename(next, name(server))
	}
}
