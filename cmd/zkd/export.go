package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/zkdata"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

func exportCommand() *cobra.Command {
	var dataDir, logDir string
	c := &cobra.Command{
		Use:   "export --data-dir DIR ZKDATADIR",
		Short: "Make a data directory of Apache ZooKeeper from one that is not in use",
		Long: `Make a data directory of Apache ZooKeeper from one of zkd that is not in use.

A snapshot is written into the folder version-2 of ZKDATADIR, which must hold no data. ZooKeeper
3.6 and later starts from it; name ZKDATADIR as its dataDir. Nothing in DIR is changed. Of a
cluster take the server that was stopped last, or the leader.

Sessions go along, with their ephemeral nodes. ZooKeeper computes the passwords of sessions, so
only the clients of sessions that were imported from it can go on with them; the others get
a new session, and their ephemeral nodes go when the old one expires.`,
		Example: "  zkd export --data-dir /var/lib/zkd /var/lib/zookeeper",
		Args:    oneArg("the directory to make, for example: zkd export --data-dir /var/lib/zkd /var/lib/zookeeper"),
		RunE: func(c *cobra.Command, args []string) error {
			// The copy that is worked on would stay behind if the signal just ended the process. A
			// second one does.
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			defer context.AfterFunc(ctx, stop)()
			p := newProgress(c.ErrOrStderr())
			text, err := export(ctx, dataDir, logDir, args[0], p)
			p.clear()
			if err != nil {
				return startError(err)
			}
			fmt.Fprintln(c.OutOrStdout(), text)
			return nil
		},
	}
	c.Flags().StringVar(&dataDir, "data-dir", "", "the data directory to read")
	c.Flags().StringVar(&logDir, "log-dir", "", "folder of its log, where dataLogDir is set")
	return c
}

func export(ctx context.Context, dataDir, logDir, target string, p *progress) (string, error) {
	if dataDir == "" {
		return "", errors.New("name the data directory to be read: --data-dir DIR")
	}
	folder := zkFolder(target)
	if err := checkEmpty(folder); err != nil {
		return "", err
	}
	m, err := loadMachine(ctx, dataDir, logDir, target, p)
	if err != nil {
		return "", err
	}
	e := exporter{m: m, keys: map[acl.Ref]int64{acl.OpenRef: zkdata.OpenACL}}
	path := filepath.Join(folder, zkdata.SnapshotName(m.Zxid()))
	p.stage("writing " + path)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	if err := e.writeFiles(ctx, folder, path); err != nil {
		return "", err
	}
	e.notes(p.note)
	return fmt.Sprintf("exported into %s: %d znodes and %d sessions at zxid 0x%x; ZooKeeper's digest of the tree %016x",
		path, m.Tree().NodeCount(), m.SessionCount(), m.Zxid(), m.Tree().ZKDigest()), nil
}

// loadMachine is the machine of a data directory: newest snapshot and all of the log. It is made
// from a copy, because opening a directory changes it; the copy lies where the export will, as
// there must be room for that.
func loadMachine(ctx context.Context, dataDir, logDir, target string, p *progress) (m *state.Machine, err error) {
	report, err := replication.CheckDir(dataDir, logDir, p.stage)
	if err != nil {
		return nil, err
	}
	id, _, _ := strings.Cut(report.ServerID, "-")
	o := replication.Options{Settings: func() state.Settings { return state.Settings{} }, Observer: deaf{}}
	if o.MyID, err = strconv.Atoi(id); err != nil {
		return nil, fmt.Errorf("%s belongs to server %q, which is no number: please report this", dataDir, report.ServerID)
	}
	above := filepath.Dir(filepath.Clean(target))
	if err := os.MkdirAll(above, 0o750); err != nil {
		return nil, err
	}
	if o.Dir, err = os.MkdirTemp(above, ".zkd-export-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	p.stage("copying " + dataDir)
	if logDir == "" {
		logDir = dataDir
	}
	for _, part := range []string{"format", "stable.db", "snapshots"} {
		if err := copyInto(ctx, o.Dir, dataDir, part); err != nil {
			return nil, err
		}
	}
	if err := copyInto(ctx, o.Dir, logDir, "log"); err != nil {
		return nil, err
	}
	if list, _ := filepath.Glob(filepath.Join(o.Dir, "log", "*.db")); len(list) > 0 {
		o.LogStore = "bolt"
	}
	n, _, err := replication.Open(o)
	if err != nil {
		return nil, err
	}
	m, err = n.Preview(ctx)
	return m, errors.Join(err, n.Close())
}

// copyInto copies a file, or a folder of files, from one directory to another.
func copyInto(ctx context.Context, to, from, name string) error {
	source, target := filepath.Join(from, name), filepath.Join(to, name)
	if info, err := os.Stat(source); err != nil {
		return err
	} else if info.IsDir() {
		return os.CopyFS(target, stoppable{os.DirFS(source), ctx})
	}
	b, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, b, 0o600)
}

// A stoppable file system opens no more files when its context has ended.
type stoppable struct {
	fs.FS
	ctx context.Context
}

func (s stoppable) Open(name string) (fs.File, error) {
	if s.ctx.Err() != nil {
		return nil, fmt.Errorf("nothing was exported: %w", context.Cause(s.ctx))
	}
	return s.FS.Open(name)
}

// A stoppableWriter takes no more when its context has ended.
type stoppableWriter struct {
	io.Writer
	ctx context.Context
}

func (w stoppableWriter) Write(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, fmt.Errorf("nothing was exported: %w", context.Cause(w.ctx))
	}
	return w.Writer.Write(b)
}

// deaf is the observer of a node that nobody uses.
type deaf struct{}

func (deaf) Applied(*state.Command, *state.Result) {}
func (deaf) BatchDone()                            {}
func (deaf) BatchReleased()                        {}
func (deaf) Routed(uint64)                         {}
func (deaf) Restored()                             {}
func (deaf) Quarantined()                          {}

// checkEmpty refuses a folder with data: ZooKeeper would mix them with ours.
func checkEmpty(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "snapshot.") || strings.HasPrefix(e.Name(), "log.") {
			return fmt.Errorf("%s holds data of ZooKeeper (%s): name a new directory, or move them away", folder, e.Name())
		}
	}
	return err
}

// An exporter writes a machine as ZooKeeper's snapshot.
type exporter struct {
	m     *state.Machine
	keys  map[acl.Ref]int64
	lists [][]wire.ACL
	ttls  int
}

// writeFiles writes the epochs and the snapshot, which is there when it is complete.
func (e *exporter) writeFiles(ctx context.Context, folder, path string) (err error) {
	epoch := fmt.Appendf(nil, "%d", e.m.Zxid()>>32)
	for _, name := range []string{"currentEpoch", "acceptedEpoch"} {
		if err := vfs.WriteFileAtomic(vfs.OS, folder, filepath.Join(folder, name), epoch, 0o640); err != nil {
			return err
		}
	}
	temporary := filepath.Join(folder, "zkd-export.tmp")
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(stoppableWriter{f, ctx}, 1<<20)
	err = errors.Join(e.write(out), out.Flush(), f.Sync())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return vfs.OS.SyncDir(folder)
}

func (e *exporter) write(w io.Writer) error {
	tree := e.m.Tree()
	tree.Walk(func(_ string, n *znode.Node) bool {
		if _, known := e.keys[n.ACL()]; !known {
			e.lists = append(e.lists, e.m.ACLs().List(n.ACL()))
			e.keys[n.ACL()] = int64(len(e.lists))
		}
		return true
	})
	sessions := make(map[int64]int32, e.m.SessionCount())
	for s := range e.m.Sessions() {
		sessions[s.ID] = s.TimeoutMs
	}
	out := zkdata.NewSnapshotWriter(w, sessions, e.lists)
	_, _, ensemble := e.m.Ensemble()
	tree.Walk(func(path string, n *znode.Node) bool {
		data, stat := n.Data(), n.Persisted()
		if path == znode.ConfigPath && ensemble { // ZooKeeper has members of its own
			data, stat = []byte{}, znode.Persisted{Aversion: stat.Aversion}
		}
		if n.Kind() == znode.TTL {
			e.ttls++
		}
		out.Node(path, data, e.keys[n.ACL()], stat)
		return true
	})
	return out.Close(e.m.Zxid(), tree.ZKDigest())
}

// notes says what will be different on ZooKeeper.
func (e *exporter) notes(note func(string)) {
	if e.ttls > 0 {
		note(fmt.Sprintf("%d TTL nodes: set extendedTypesEnabled=true in zoo.cfg, or ZooKeeper deletes them", e.ttls))
	}
	var strangers int
	for s := range e.m.Sessions() {
		if s.Password != session.LegacyPassword(s.ID) {
			strangers++
		}
	}
	if strangers > 0 {
		note(fmt.Sprintf("the clients of %d sessions get new ones on ZooKeeper: the old ones expire", strangers))
	}
}
