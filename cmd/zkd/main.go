// Command zkd is a coordination server that any ZooKeeper client can use.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// The exit codes, as the README documents them.
const (
	exitOK     = 0
	exitUsage  = 1 // the command or the configuration is wrong
	exitBroken = 3 // the server could not keep its promises: a disk error, damaged data
)

// brokenError marks an error after which data or promises are at stake.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

func main() {
	tuneGC()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	root := &cobra.Command{
		Use:           "zkd",
		Short:         "A coordination server that any ZooKeeper client can use",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(serveCommand(), devCommand(), checkCommand(), certCommand(), cliCommand(), memberCommand(), recoverCommand(), importCommand(), exportCommand(), snapshotCommand(), entrypointCommand(), healthcheckCommand(), manCommand(), versionCommand())
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(os.Stderr, "zkd:", err)
	var broken *brokenError
	if errors.As(err, &broken) {
		return exitBroken
	}
	return exitUsage
}
