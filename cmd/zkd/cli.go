package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/cli"
)

// cliCommand hands its arguments on as they are: zkCli's options have one dash and a word
// (-server), which the flags of the other commands cannot express.
func cliCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cli [-server HOSTS] [COMMAND …]",
		Short: "The shell of ZooKeeper's zkCli, and more; zkd cli -help lists all",
		Example: "  zkd cli ls /\n  zkd cli -server a:2181,b:2181 get -s /config\n" +
			"  zkd cli -o json stat /config\n  zkd cli < script\n  zkd cli",
		DisableFlagParsing: true,
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			directive := cobra.ShellCompDirectiveNoFileComp
			if strings.HasPrefix(word, "/") {
				directive |= cobra.ShellCompDirectiveNoSpace // a path may go on
			}
			return cli.Complete(args, word), directive
		},
		Run: func(_ *cobra.Command, args []string) {
			// Its exit codes are its own (docs/cli.md), so they do not pass through run.
			os.Exit(cli.Main(cli.Process{
				Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, StateDir: stateDir(),
				Interrupts: func(to chan<- os.Signal) func() {
					signal.Notify(to, os.Interrupt)
					return func() { signal.Stop(to) }
				},
			}))
		},
	}
}

// stateDir is where the history of the shell is kept, as the XDG base directories have it; ""
// where there is no home.
func stateDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "zkd")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "zkd")
}
