// Command zkd is a coordination server that any ZooKeeper client can use.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

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
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, c.CommandPath())
	})
	explainShells(root)
	c, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(os.Stderr, "zkd:", explained(c, err))
	var broken *brokenError
	if errors.As(err, &broken) {
		return exitBroken
	}
	return exitUsage
}

// explainShells makes an unknown shell an error: cobra prints the help and is content.
func explainShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() } // its Args allow none
	}
}

// explained puts what cobra says of an unknown command or a missing flag into one line, with what
// would be right.
func explained(c *cobra.Command, err error) error {
	text, names, _ := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if strings.HasPrefix(text, "required flag(s) ") {
		return fmt.Errorf("%s; %s --help lists the flags", text, c.CommandPath())
	}
	if !strings.HasPrefix(text, "unknown command ") {
		return err
	}
	if similar := strings.Fields(names); len(similar) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(similar, " or "))
	}
	return fmt.Errorf("%s; %s --help lists what there is", text, c.CommandPath())
}
