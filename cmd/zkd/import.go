package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/zkdata"
	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
)

// zkSubdir is the folder of its directories in which ZooKeeper keeps the files.
const zkSubdir = "version-2"

// An importer is what the flags of `zkd import` say.
type importer struct {
	zkDir, zkLogDir string
	dataDir, logDir string
	id              int
	force, dryRun   bool
}

func importCommand() *cobra.Command {
	var i importer
	c := &cobra.Command{
		Use:   "import ZKDATADIR --data-dir DIR",
		Short: "Make a data directory from one of Apache ZooKeeper",
		Long: `Make a data directory from one of Apache ZooKeeper, which must not run.

ZKDATADIR is the dataDir of its zoo.cfg. Of an ensemble take the server that was stopped last, or
the leader. Snapshots and transaction logs of all versions since 3.4 are read: nodes with their
stat, permissions, quotas, containers, TTL nodes, and sessions with their ephemeral nodes, which
live clients go on with. Nothing in ZKDATADIR is changed.

What is damaged is named with file and offset; then nothing is written. A list of members in
/zookeeper/config is not taken over: the members of zkd are those of its own configuration.`,
		Example: "  zkd import /var/lib/zookeeper --data-dir /var/lib/zkd\n" +
			"  zkd import /var/lib/zookeeper --zk-log-dir /var/log/zookeeper --data-dir /var/lib/zkd\n" +
			"  zkd import /var/lib/zookeeper --dry-run",
		Args: oneArg("the dataDir of ZooKeeper, for example: zkd import /var/lib/zookeeper --data-dir /var/lib/zkd"),
		RunE: func(c *cobra.Command, args []string) error {
			i.zkDir = args[0]
			p := newProgress(c.ErrOrStderr())
			text, err := i.run(p)
			p.clear()
			if err != nil {
				return importError(err)
			}
			fmt.Fprintln(c.OutOrStdout(), text)
			return nil
		},
	}
	c.Flags().StringVar(&i.dataDir, "data-dir", "", "the data directory to make; it must hold no database")
	c.Flags().StringVar(&i.logDir, "log-dir", "", "folder of its log, where dataLogDir will be set for zkd")
	c.Flags().StringVar(&i.zkLogDir, "zk-log-dir", "", "ZooKeeper's dataLogDir, where that is set")
	c.Flags().IntVar(&i.id, "id", 0, "number of the server that gets the data; that in DIR/myid by default, or 1")
	c.Flags().BoolVar(&i.force, "force", false, "go on where transactions may be missing, as ZooKeeper would")
	c.Flags().BoolVar(&i.dryRun, "dry-run", false, "only read and verify")
	return c
}

// importError adds the way out to an error, and tells damage from a wrong use.
func importError(err error) error {
	var fault *zkdata.Error
	var doubt *zkdata.DoubtError
	switch {
	case errors.As(err, &fault):
		return &brokenError{fmt.Errorf("nothing was imported: %w", err)}
	case errors.As(err, &doubt):
		return &brokenError{fmt.Errorf("nothing was imported: %w; --force goes on with what there is", err)}
	}
	return startError(err)
}

func (i *importer) run(p *progress) (string, error) {
	if err := i.checkTarget(); err != nil {
		return "", err
	}
	source := zkdata.Source{Force: i.force, Progress: p.file, Note: p.note}
	source.SnapshotsDir = zkFolder(i.zkDir)
	source.LogsDir = source.SnapshotsDir
	if i.zkLogDir != "" {
		source.LogsDir = zkFolder(i.zkLogDir)
	}
	source.Snapshots, source.Logs = os.DirFS(source.SnapshotsDir), os.DirFS(source.LogsDir)
	db, report, err := zkdata.Load(source)
	if err != nil {
		return "", err
	}
	if report.Orphans > 0 {
		p.note(fmt.Sprintf("%d ephemeral nodes of sessions that have ended are left out", report.Orphans))
	}
	p.stage("building the tree")
	m, err := machineOf(db, report.Epoch, time.Now().UnixMilli(), p.note)
	if err != nil {
		return "", fmt.Errorf("%s: %w", source.SnapshotsDir, err)
	}
	text := fmt.Sprintf("%d znodes and %d sessions at zxid 0x%x, from %s and %d transactions; ZooKeeper's digest of the tree %016x",
		m.Tree().NodeCount(), m.SessionCount(), db.Zxid, base(report.Snapshot), report.Txns, report.Digest)
	if report.DigestProved {
		text += ", as it had noted"
	}
	if i.dryRun {
		return "all is well: " + text, nil
	}
	p.stage("writing " + i.dataDir)
	if err := replication.Create(replication.Options{Dir: i.dataDir, LogDir: i.logDir, MyID: i.id}, m); err != nil {
		return "", err
	}
	return fmt.Sprintf("imported into %s: %s", i.dataDir, text), nil
}

func base(path string) string {
	if path == "" {
		return "no snapshot"
	}
	return filepath.Base(path)
}

// checkTarget finds what is wrong with the flags before long work is done.
func (i *importer) checkTarget() error {
	if i.dryRun {
		return nil
	}
	if i.dataDir == "" {
		return errors.New("name the data directory to be made: --data-dir DIR (or --dry-run)")
	}
	_, err := replication.CheckDir(i.dataDir, i.logDir, nil)
	switch {
	case err == nil:
		return fmt.Errorf("%s holds a database already: name a new directory", i.dataDir)
	case errors.Is(err, replication.ErrZooKeeperData):
		return fmt.Errorf("%s is ZooKeeper's own: name a new directory, ZooKeeper's stays as it is", i.dataDir)
	}
	from := "--id"
	if i.id == 0 {
		from = filepath.Join(i.dataDir, "myid")
		if i.id, err = myID(i.dataDir); err != nil {
			return err
		}
	}
	if i.id < 1 || i.id > ensemble.MaxID { // else no server could ever be started with the data
		return fmt.Errorf("%s %d: allowed: 1 to %d, the number of the server that gets the data", from, i.id, ensemble.MaxID)
	}
	return nil
}

// myID reads the file myid, if there is one.
func myID(dir string) (int, error) {
	path := filepath.Join(dir, "myid")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no number", path, strings.TrimSpace(string(b)))
	}
	return n, nil
}

// zkFolder is where ZooKeeper keeps its files in a directory, which may be that folder itself.
func zkFolder(dir string) string {
	if filepath.Base(filepath.Clean(dir)) == zkSubdir {
		return filepath.Clean(dir)
	}
	return filepath.Join(dir, zkSubdir)
}

// machineOf is the machine that goes on from where ZooKeeper was: its epoch was the highest one
// that any of its servers promised.
func machineOf(db *zkdata.Database, epoch, nowMs int64, note func(string)) (*state.Machine, error) {
	m := state.New()
	for id, timeoutMs := range db.Sessions {
		if err := m.ImportSession(id, session.LegacyPassword(id), timeoutMs); err != nil {
			return nil, err
		}
	}
	err := db.Walk(func(path string, n *zkdata.Node) error {
		data, stat := n.Data, n.Stat
		if path == znode.ConfigPath && len(data) > 0 {
			note(fmt.Sprintf("the members in %s are those of ZooKeeper, and are left out: %q", path, data))
			data, stat = []byte{}, znode.Persisted{Aversion: stat.Aversion}
		}
		imported, err := m.ImportNode(path, data, n.ACL, stat)
		if err == nil && !imported {
			err = fmt.Errorf("node %q belongs to session 0x%x, which does not exist", path, uint64(stat.Owner))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	// A clock that was ahead must not hold back that of zkd for long: no time is later than now.
	m.FinishImport(max(db.Zxid, epoch<<32), min(db.TimeMs, nowMs))
	if got, want := m.Tree().ZKDigest(), db.Digest(); got != want {
		return nil, fmt.Errorf("the digest of the imported tree is %016x, and that of the source %016x: please report this", got, want)
	}
	return m, m.Check()
}

// A progress shows a person how far a long command is, on a line that is written over, and
// tells everything else in lines of a log.
type progress struct {
	out      io.Writer
	terminal bool
	log      *slog.Logger
	now      func() time.Time
	shown    time.Time // when the last line was
	open     bool      // a line is to be written over
}

// The pause between two lines about the same file.
const (
	terminalPause = 100 * time.Millisecond
	logPause      = 5 * time.Second
)

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, log: slog.New(slog.NewTextHandler(out, nil)), now: time.Now}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// file says how much of a file has been read. The end is always said.
func (p *progress) file(path string, done, size int64) {
	pause := logPause
	if p.terminal {
		pause = terminalPause
	}
	now := p.now()
	if done < size && now.Sub(p.shown) < pause {
		return
	}
	percent := int64(100)
	if size > 0 {
		percent = min(done*100/size, 100)
	}
	if done < size {
		p.shown = now
	}
	if !p.terminal {
		p.log.Info("reading", "file", path, "percent", percent)
		return
	}
	fmt.Fprintf(p.out, "\r\x1b[Kreading %s: %d %%", path, percent)
	p.open = true
	if done >= size {
		p.clear()
	}
}

// stage says what is being done.
func (p *progress) stage(what string) {
	if !p.terminal {
		p.log.Info(what)
		return
	}
	p.clear()
	fmt.Fprint(p.out, what, " …")
	p.open = true
}

// note says what an operator should know.
func (p *progress) note(what string) {
	if !p.terminal {
		p.log.Warn(what)
		return
	}
	p.clear()
	fmt.Fprintln(p.out, "note:", what)
}

// clear ends the line that would be written over.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
}
