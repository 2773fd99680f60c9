package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/replication"
)

func snapshotRestoreCommand() *cobra.Command {
	var f adminFlags
	r := restorer{flags: &f}
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup back: into a running cluster, or into a new data directory",
		Long: `Put a backup back: into a running cluster, or into a new data directory.

With --server the tree of the cluster, or with --path a part of it, becomes what it was: on all
servers at one zxid, which is above all that were, while clients are served. Who watches is
told. Ephemeral nodes of the backup do not come back; those of living sessions stay where they
still have a parent. --into names another place. A damaged backup changes nothing.

With --data-dir a new data directory is made, from which a new cluster begins: start one server
with it, and the others with empty directories. Servers of the old cluster cannot take part in
it. Zxids go on far above those that the old one can have used. Sessions end, and with them
ephemeral nodes, unless --keep-sessions is given.`,
		Example: `  zkd snapshot restore /backup/monday.zkd --server http://localhost:8080
  zkd snapshot restore /backup/monday.zkd --server https://zk1:8080 --path /app --yes
  zkd snapshot restore /backup/monday.zkd --server http://localhost:8080 --path /app --into /app-monday
  zkd snapshot restore /backup/monday.zkd --data-dir /var/lib/zkd`,
		Args: oneArg("the backup, for example: zkd snapshot restore /backup/monday.zkd --server " + defaultAdmin),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			r.file, r.p, r.out, r.in = args[0], newProgress(c.ErrOrStderr()), c.OutOrStdout(), c.InOrStdin()
			err := r.run(ctx)
			r.p.clear()
			return startError(err)
		},
	}
	l := c.Flags()
	l.StringVar(&f.server, "server", "", "URL of the admin server of any server of the cluster, for example "+defaultAdmin)
	l.StringVar(&r.from, "path", "", "restore this node of the backup and what is below it alone")
	l.StringVar(&r.into, "into", "", "the place for it, whose parent must exist; that from which it came by default")
	l.BoolVar(&r.yes, "yes", false, "do not ask")
	l.StringVar(&r.dataDir, "data-dir", "", "make this data directory, instead of --server; it must hold no database")
	l.StringVar(&r.logDir, "log-dir", "", "with --data-dir: folder of its log, where dataLogDir will be set")
	l.IntVar(&r.id, "id", 0, "with --data-dir: number of the server that gets the data; that in DIR/myid by default, or 1")
	l.BoolVar(&r.keepSessions, "keep-sessions", false, "with --data-dir: sessions go on, with their ephemeral nodes")
	f.register(c)
	return c
}

// A restorer puts one backup back.
type restorer struct {
	flags  *adminFlags
	file   string
	p      *progress
	out    io.Writer
	in     io.Reader
	from   string
	into   string
	yes    bool
	loaded *loadedBackup

	dataDir, logDir string
	id              int
	keepSessions    bool
}

func (r *restorer) run(ctx context.Context) error {
	online := r.flags.server != ""
	switch {
	case online == (r.dataDir != ""):
		return errors.New("say where to: --server URL of a running cluster, or --data-dir DIR for a new one")
	case !online && r.from+r.into != "":
		return errors.New("--path and --into are for a running cluster: start a new one, and restore into that")
	case online && (r.logDir != "" || r.id != 0 || r.keepSessions):
		return errors.New("--log-dir, --id and --keep-sessions are for a new data directory: --data-dir DIR")
	}
	if !online {
		if err := r.checkDir(); err != nil {
			return err
		}
	}
	b, err := loadBackup(r.file, r.p)
	if err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	r.loaded = b
	if !online {
		return r.intoDir()
	}
	return r.intoCluster(ctx)
}

// checkDir finds what is wrong with the directory before long work is done.
func (r *restorer) checkDir() error {
	i := importer{dataDir: r.dataDir, logDir: r.logDir, id: r.id}
	err := i.checkTarget()
	r.id = i.id
	return err
}

func (r *restorer) intoDir() error {
	b := r.loaded
	if b.scope != "" {
		return fmt.Errorf("it is a backup of %s alone: start a new cluster, and restore into that with --server", b.scope)
	}
	zxid := uint64(b.machine.Zxid())
	r.p.stage("writing " + r.dataDir)
	if err := replication.CreateFromBackup(replication.Options{Dir: r.dataDir, LogDir: r.logDir, MyID: r.id}, b.machine, r.keepSessions); err != nil {
		return err
	}
	r.p.clear()
	fmt.Fprintf(r.out, "restored into %s: %d znodes and %d sessions as of zxid 0x%x; the new cluster goes on from 0x%x. "+
		"Start server %d with it, and the others with empty data directories\n",
		r.dataDir, b.machine.Tree().NodeCount(), b.machine.SessionCount(), zxid, uint64(b.machine.Zxid()), r.id)
	return nil
}

func (r *restorer) intoCluster(ctx context.Context) error {
	b := r.loaded
	from, into, err := server.RestorePlace(b.machine, b.scope, r.from, r.into)
	if err != nil {
		return err
	}
	a, err := r.flags.connect()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s of the backup of %s (zxid 0x%x) takes the place of all that is at and below %s on %s\n",
		shownPath(from), timeText(b.Created()), uint64(b.machine.Zxid()), shownPath(into), a.commands)
	if !r.yes {
		if err := confirm(r.out, r.in, "restore "+into); err != nil {
			return err
		}
	}
	r.loaded, b.machine = nil, nil // the server makes its own
	return r.send(ctx, a, from, into)
}

// restoreAnswer is what a server says of a restore.
type restoreAnswer struct {
	Zxid      string `json:"last_zxid"`
	Created   int64
	Changed   int64
	Deleted   int64
	Kept      int64 `json:"ephemerals_kept"`
	ErrorText any   `json:"error"`
}

func (r *restorer) send(ctx context.Context, a *adminClient, from, into string) error {
	f, err := os.Open(r.file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	body := &countingReader{Reader: f, size: info.Size(), what: "sending " + r.file, next: "the cluster restores it", p: r.p}
	resp, err := a.do(ctx, http.MethodPost, "restore", url.Values{"path": {from}, "into": {into}}, body, info.Size())
	body.detach()
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer restoreAnswer
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAdminAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("the answer of the server cannot be read; zkd snapshot diff says what became of it: %w", err)
	}
	if answer.ErrorText != nil {
		return fmt.Errorf("the server refuses: %v", answer.ErrorText)
	}
	r.p.clear()
	fmt.Fprintf(r.out, "restored %s at zxid %s: %d znodes created, %d changed, %d deleted; %d ephemeral nodes of living sessions stay\n",
		shownPath(into), answer.Zxid, answer.Created, answer.Changed, answer.Deleted, answer.Kept)
	return nil
}
