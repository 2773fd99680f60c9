package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/backup"
	"github.com/zkd-project/zkd/server/znode"
)

func snapshotDiffCommand() *cobra.Command {
	var f adminFlags
	var d differ
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two backups, or a backup with what a running cluster has",
		Long: `Compare two backups, or a backup with what a running cluster has: A and B are files, or URLs
of admin servers.

A line per node: + B alone has it, - A alone has it, ~ they differ, and in what: data, acl, kind,
owner; with --stat also in zxids, versions and times. Exit code 0: they are alike. 1: they differ.
3: they could not be compared.`,
		Example: `  zkd snapshot diff /backup/monday.zkd /backup/tuesday.zkd
  zkd snapshot diff /backup/monday.zkd http://localhost:8080 --path /app --persistent`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name two backups, or a backup and a server: zkd snapshot diff /backup/monday.zkd %s", defaultAdmin)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			d.flags, d.p = &f, newProgress(c.ErrOrStderr())
			if err := checkOutput(d.output); err != nil {
				return err
			}
			found, err := d.run(ctx, args[0], args[1])
			d.p.clear()
			if err != nil {
				return &brokenError{fmt.Errorf("nothing was compared: %w", err)}
			}
			return d.tell(c.OutOrStdout(), args, found)
		},
	}
	l := c.Flags()
	l.StringVar(&d.path, "path", "", "compare this node and what is below it alone")
	l.BoolVar(&d.rules.Persistent, "persistent", false, "leave ephemeral nodes out")
	l.BoolVar(&d.rules.Stat, "stat", false, "zxids, versions and times count, too")
	l.StringVarP(&d.output, "output", "o", "table", "table or json")
	f.register(c)
	return c
}

// A differ compares two backups.
type differ struct {
	flags  *adminFlags
	p      *progress
	path   string
	output string
	rules  backup.Rules
}

func (d *differ) run(ctx context.Context, first, second string) ([]backup.Difference, error) {
	a, err := d.load(ctx, first)
	if err != nil {
		return nil, err
	}
	b, err := d.load(ctx, second)
	if err != nil {
		return nil, err
	}
	if d.rules.Path, err = d.place(a, b); err != nil {
		return nil, err
	}
	var found []backup.Difference
	backup.Compare(a.machine, b.machine, d.rules, func(x backup.Difference) { found = append(found, x) })
	return found, nil
}

// place is what both have: a backup of a subtree says nothing about the rest.
func (d *differ) place(a, b *loadedBackup) (string, error) {
	path := "/"
	for _, part := range []string{a.scope, b.scope, d.path} {
		switch {
		case part == "" || path == part || strings.HasPrefix(path, part+"/") || part == "/":
		case path == "/" || strings.HasPrefix(part, path+"/"):
			path = part
		default:
			return "", fmt.Errorf("they have nothing in common: one is of %q, the other of %q", path, part)
		}
	}
	if d.path != "" && d.path != "/" && (znode.CheckPath(d.path) != nil || path != d.path) {
		return "", fmt.Errorf("--path %s is not in both of them", d.path)
	}
	return path, nil
}

// load reads a file, or what a server has.
func (d *differ) load(ctx context.Context, name string) (*loadedBackup, error) {
	if !strings.HasPrefix(name, "http://") && !strings.HasPrefix(name, "https://") {
		return loadBackup(name, d.p)
	}
	d.flags.server = name
	a, err := d.flags.connect()
	if err != nil {
		return nil, err
	}
	d.p.stage("asking for a snapshot")
	resp, err := a.do(ctx, http.MethodGet, "snapshot", nil, nil, 0)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	temporary, err := writeBeside(os.TempDir(), func(f *os.File) error {
		_, err := io.Copy(f, &countingReader{Reader: resp.Body, size: resp.ContentLength, what: "reading " + name, p: d.p})
		return err
	})
	if err != nil {
		return nil, err
	}
	defer os.Remove(temporary)
	return loadBackup(temporary, d.p)
}

// tell prints what was found. That there is anything is an error, as for the shell.
func (d *differ) tell(out io.Writer, names []string, found []backup.Difference) error {
	count := map[backup.Kind]int{}
	lines := []map[string]string{}
	for _, x := range found {
		count[x.Kind]++
		if d.output == "json" {
			lines = append(lines, map[string]string{"kind": string(x.Kind), "path": x.Path, "what": x.What})
			continue
		}
		fmt.Fprintf(out, "%c %s", x.Kind, shownPath(x.Path))
		if x.What != "" {
			fmt.Fprintf(out, "  (%s)", x.What)
		}
		fmt.Fprintln(out)
	}
	if d.output == "json" {
		if err := printJSON(out, lines); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s and %s differ: %d added, %d removed, %d changed",
		names[0], names[1], count[backup.Added], count[backup.Removed], count[backup.Changed])
}
