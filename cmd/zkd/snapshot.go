package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
)

func snapshotCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Save a running cluster, and look into, compare and restore what was saved",
		Long: `Save a running cluster, and look into, compare and restore what was saved.

A backup is a file of the format in which servers keep their own snapshots: compressed, with
checksums, all of it of one zxid. Saving and restoring ask the admin server of any server of the
cluster (admin.serverPort, 8080) as the super user, whose password comes from the file of
--password-file or from ZKD_SUPER_PASSWORD in the environment; his certificate (--tls-cert) does
as well. docs/backup.md tells more.`,
		Example: `  zkd snapshot save /backup/monday.zkd
  zkd snapshot verify /backup/monday.zkd
  zkd snapshot inspect /backup/monday.zkd
  zkd snapshot diff /backup/monday.zkd http://localhost:8080
  zkd snapshot restore /backup/monday.zkd --path /app --server http://localhost:8080
  zkd snapshot restore /backup/monday.zkd --data-dir /var/lib/zkd`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(snapshotSaveCommand(), snapshotInspectCommand(), snapshotVerifyCommand(), snapshotRestoreCommand(), snapshotDiffCommand())
	return c
}

// openBackup opens a backup. What is no ordinary file would be read in vain.
func openBackup(path string) (*replication.Backup, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no ordinary file: save what comes from a pipe into one first", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return replication.OpenBackup(f, info.Size(), path)
}

// A loadedBackup is a backup of which everything was verified.
type loadedBackup struct {
	*replication.Backup
	machine *state.Machine
	scope   string // the subtree of which alone it is; "": of everything
}

func loadBackup(path string, p *progress) (*loadedBackup, error) {
	b, err := openBackup(path)
	if err != nil {
		return nil, startError(err)
	}
	defer b.Close()
	stop := p.follow("reading "+path, b.Progress)
	m, scope, err := b.Machine()
	stop()
	if err != nil {
		return nil, startError(err)
	}
	return &loadedBackup{b, m, scope}, nil
}

// what says of which part of the tree it is.
func (b *loadedBackup) what() string {
	if b.scope == "" {
		return "the whole tree"
	}
	return b.scope + " and what is below it"
}
