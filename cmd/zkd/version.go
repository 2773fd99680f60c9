package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/version"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintln(c.OutOrStdout(), version.Get())
		},
	}
}
