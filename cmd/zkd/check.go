package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/replication"
)

func checkCommand() *cobra.Command {
	var logDir string
	c := &cobra.Command{
		Use:   "check DIR",
		Short: "Verify a data directory that is not in use; nothing is changed",
		Long: `Verify a data directory that is not in use; nothing is changed.

Every checksum is verified, the newest snapshot is loaded and its invariants are checked, and
log and snapshots must fit together. Exit code 0: all is well. 3: something is damaged.`,
		Example: "  zkd check ./zkd-data\n  zkd check /var/lib/zkd --log-dir /var/log/zkd",
		Args:    oneArg("the data directory, for example: zkd check /var/lib/zkd"),
		RunE: func(c *cobra.Command, args []string) error {
			out := c.OutOrStdout()
			report, err := replication.CheckDir(args[0], logDir, func(line string) { fmt.Fprintln(out, line) })
			if err != nil {
				return startError(err)
			}
			fmt.Fprintln(out, report)
			return nil
		},
	}
	c.Flags().StringVar(&logDir, "log-dir", "", "folder of the log, where dataLogDir is set")
	return c
}
