package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/backup"
)

func snapshotInspectCommand() *cobra.Command {
	var output string
	var subtrees int
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what is in a backup",
		Long: `Say what is in a backup, of which everything is verified.

FILE may also be a snapshot of a server, from the folder snapshots of its data directory.`,
		Example: "  zkd snapshot inspect /backup/monday.zkd\n  zkd snapshot inspect /backup/monday.zkd -o json --subtrees 50",
		Args:    oneArg("the backup, for example: zkd snapshot inspect /backup/monday.zkd"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			p := newProgress(c.ErrOrStderr())
			b, err := loadBackup(args[0], p)
			if err != nil {
				return err
			}
			i := inspectionOf(args[0], b, max(subtrees, 0))
			if output == "json" {
				return printJSON(c.OutOrStdout(), i)
			}
			return i.print(c.OutOrStdout())
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	c.Flags().IntVar(&subtrees, "subtrees", 10, "how many of the largest subtrees to tell of")
	return c
}

func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("-o %s: table or json is meant", output)
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// An inspection is what is said of a backup.
type inspection struct {
	File       string           `json:"file"`
	Scope      string           `json:"scope"`
	Zxid       string           `json:"zxid"`
	Created    string           `json:"created"`
	LastChange string           `json:"last_change"`
	Level      uint32           `json:"feature_level"`
	Znodes     int              `json:"znodes"`
	Ephemerals int              `json:"ephemerals"`
	Containers int              `json:"containers"`
	TTLs       int              `json:"ttl_nodes"`
	Sessions   int              `json:"sessions"`
	Lists      int              `json:"acls"`
	DataBytes  int64            `json:"data_bytes"`
	FileBytes  int64            `json:"file_bytes"`
	Digest     string           `json:"digest"`
	ZKDigest   string           `json:"zookeeper_digest"`
	Ensemble   string           `json:"ensemble"`
	Subtrees   []backup.Subtree `json:"subtrees"`
}

func inspectionOf(file string, b *loadedBackup, subtrees int) *inspection {
	s := backup.Summarize(b.machine, subtrees)
	_, size := b.Progress()
	i := &inspection{
		File: file, Scope: b.scope, Zxid: fmt.Sprintf("0x%x", uint64(s.Zxid)), Created: timeText(b.Created()),
		LastChange: timeText(time.UnixMilli(s.TimeMs)), Level: s.Level, Znodes: s.Znodes, Ephemerals: s.Ephemerals,
		Containers: s.Containers, TTLs: s.TTLs, Sessions: s.Sessions, Lists: s.Lists, DataBytes: s.DataBytes, FileBytes: size,
		Digest: fmt.Sprintf("%016x", s.Digest), ZKDigest: fmt.Sprintf("%016x", s.ZKDigest), Ensemble: s.Ensemble, Subtrees: s.Largest,
	}
	if i.Scope == "" {
		i.Scope = "/"
	}
	if i.Subtrees == nil {
		i.Subtrees = []backup.Subtree{}
	}
	return i
}

func (i *inspection) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range [...][2]string{
		{"file", fmt.Sprintf("%q, %s", i.File, humanBytes(i.FileBytes))},
		{"of", fmt.Sprintf("%q", i.Scope)},
		{"zxid", i.Zxid},
		{"created", i.Created},
		{"last change", i.LastChange},
		{"feature level", fmt.Sprint(i.Level)},
		{"znodes", fmt.Sprintf("%d: %d ephemeral, %d containers, %d with a TTL", i.Znodes, i.Ephemerals, i.Containers, i.TTLs)},
		{"sessions", fmt.Sprint(i.Sessions)},
		{"access control lists", fmt.Sprintf("%d, and the open one", i.Lists)},
		{"data", humanBytes(i.DataBytes)},
		{"digest", fmt.Sprintf("%s, of the tree as ZooKeeper computes it %s", i.Digest, i.ZKDigest)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	if len(i.Subtrees) > 0 {
		fmt.Fprintf(w, "\nSUBTREE\tZNODES\tDATA\n")
	}
	for _, s := range i.Subtrees {
		fmt.Fprintf(w, "%s\t%d\t%s\n", shownPath(s.Path), s.Nodes, humanBytes(s.Bytes))
	}
	return w.Flush()
}

// shownPath is a path on a line of its own: what could be taken for something else is quoted.
func shownPath(path string) string {
	if q := fmt.Sprintf("%q", path); q != `"`+path+`"` {
		return q
	}
	return path
}

func snapshotVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a backup: every checksum, and that it makes a tree with the digest that it had",
		Long: `Verify a backup: every checksum, and that it makes a tree with the digest that it had.

Exit code 0: all is well. 3: it is damaged; then the line says where.`,
		Example: "  zkd snapshot verify /backup/monday.zkd",
		Args:    oneArg("the backup, for example: zkd snapshot verify /backup/monday.zkd"),
		RunE: func(c *cobra.Command, args []string) error {
			p := newProgress(c.ErrOrStderr())
			b, err := loadBackup(args[0], p)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "all is well: %s at zxid 0x%x, %d znodes, digest %016x\n",
				b.what(), uint64(b.machine.Zxid()), b.machine.Tree().NodeCount(), b.machine.Digest())
			return nil
		},
	}
}
