package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/boltstore"
	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/replication/segment"
	"github.com/zkd-project/zkd/server/state"
)

// A Report is what CheckDir has found in an undamaged directory.
type Report struct {
	ServerID      string
	ClusterID     string
	Snapshots     int
	SnapshotIndex uint64 // of the newest, 0 without one
	FirstIndex    uint64 // of the log
	LastIndex     uint64
	Commands      int // in the log behind the newest snapshot
	TornBytes     int64
	Zxid          int64 // with all of the log applied
	Nodes         int
	Sessions      int
	Digest        uint64
}

// String is the report in one or two lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "all is well: zxid 0x%x, %d znodes, %d sessions, digest %016x; %d snapshots, log from %d to %d",
		r.Zxid, r.Nodes, r.Sessions, r.Digest, r.Snapshots, r.FirstIndex, r.LastIndex)
	if r.TornBytes > 0 {
		fmt.Fprintf(&b, "\nthe log ends in %d bytes of an unfinished write, left by a crash; the next start cuts them off", r.TornBytes)
	}
	return b.String()
}

// CheckDir verifies a data directory that is not in use, without changing anything: every
// checksum, that snapshots and log fit together, and that all snapshots, and the newest one
// with the log behind it, give a machine that is in order. logDir is "" unless the log is
// elsewhere. progress, where not nil, hears what is being done. Damage is a *DamageError.
func CheckDir(dir, logDir string, progress func(string)) (Report, error) {
	if logDir == "" {
		logDir = dir
	}
	if progress == nil {
		progress = func(string) {}
	}
	c := &checker{fs: vfs.OS, dir: dir, logDir: logDir, say: progress}
	err := c.run()
	return c.report, err
}

type checker struct {
	fs     vfs.FS
	dir    string
	logDir string
	say    func(string)
	report Report
	id     identity
	m      *state.Machine // as of the newest snapshot, then with the log
}

func (c *checker) run() error {
	if err := refuseForeign(c.fs, c.dir, c.logDir); err != nil {
		return err
	}
	if _, err := c.fs.Stat(filepath.Join(c.dir, lockName)); err == nil { // do not make one
		l, err := lockDir(c.fs, c.dir)
		if err != nil {
			return err
		}
		defer l.Close()
	}
	var found bool
	var err error
	if c.id, found, err = readIdentity(c.fs, c.dir); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is no data directory of zkd: the file %s is missing", c.dir, formatName)
	}
	if c.id.state != stateReady {
		return fmt.Errorf("%s was never used: its first start did not get to the end, and the next one begins anew", c.dir)
	}
	c.report.ServerID, c.report.ClusterID = string(c.id.serverID()), c.id.cluster
	s := &stores{id: c.id}
	for _, step := range []func() error{
		func() error { return s.checkParts(c.fs, c.dir, c.logDir) },
		c.stable, c.snapshots, c.log,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	c.report.Zxid, c.report.Digest = c.m.Zxid(), c.m.Digest()
	c.report.Nodes, c.report.Sessions = c.m.Tree().NodeCount(), c.m.SessionCount()
	return nil
}

func (c *checker) stable() error {
	if c.fs != vfs.OS {
		_, err := openStableFile(c.fs, c.dir)
		return err
	}
	path := filepath.Join(c.dir, stableName)
	n, err := boltstore.CheckStable(path)
	if err == nil {
		c.say(fmt.Sprintf("%s: term and vote, %d values", path, n))
	}
	return err
}

// snapshots restores every one of them.
func (c *checker) snapshots() error {
	dir := filepath.Join(c.dir, snapshotsName)
	names, _, err := listSnapshots(c.fs, dir)
	if err != nil {
		return err
	}
	store := &fileSnapshots{fs: c.fs, dir: dir}
	c.m = state.New()
	for _, name := range names {
		r, err := store.read(name)
		if err == nil {
			c.m, err = r.machine()
			r.Close()
		}
		path := filepath.Join(dir, name)
		if err == nil {
			err = checkMachine(path, c.m)
		}
		// raft, which writes what another server has sent, does not know the zxid: then it is 0.
		if err == nil && r.d.zxid != 0 && c.m.Zxid() != r.d.zxid {
			err = r.damaged(-1, fmt.Sprintf("the machine in it has zxid 0x%x, the file says 0x%x", c.m.Zxid(), r.d.zxid))
		}
		if err != nil {
			return fmt.Errorf("snapshot %s: %w", name, err)
		}
		c.report.SnapshotIndex = r.d.index
		c.say(fmt.Sprintf("%s: zxid 0x%x, %d znodes", path, c.m.Zxid(), c.m.Tree().NodeCount()))
	}
	c.report.Snapshots = len(names)
	return nil
}

// checkMachine verifies the machine's invariants.
func checkMachine(path string, m *state.Machine) error {
	if err := m.Check(); err != nil {
		return &damage.Error{File: path, Offset: -1, What: err.Error(), Repair: damage.Rejoin}
	}
	return nil
}

// log reads all of the log and applies what is behind the newest snapshot.
func (c *checker) log() error {
	dir := filepath.Join(c.logDir, logName)
	var d state.BatchDecoder
	visit := func(e *raft.Log) error {
		if c.report.FirstIndex == 0 {
			c.report.FirstIndex = e.Index
		}
		c.report.LastIndex = e.Index
		if e.Type != raft.LogCommand {
			return nil
		}
		return c.apply(&d, e)
	}
	if err := c.readLog(dir, visit); err != nil {
		return err
	}
	if err := continuity(dir, c.report.SnapshotIndex, c.report.FirstIndex, c.report.LastIndex); err != nil {
		return err
	}
	c.say(fmt.Sprintf("%s: entries %d to %d", dir, c.report.FirstIndex, c.report.LastIndex))
	return checkMachine(dir, c.m)
}

// apply decodes an entry, and applies it if the machine has not seen it.
func (c *checker) apply(d *state.BatchDecoder, e *raft.Log) error {
	h := state.BatchHeader{Term: e.Term, Index: e.Index}
	behind := e.Index > c.report.SnapshotIndex
	err := d.Reset(e.Data, &h)
	if err == nil && behind {
		c.m.BeginBatch(&h)
	}
	var cmd state.Command
	var result state.Result
	for err == nil && d.Next(&cmd) {
		if behind {
			c.m.Apply(&h, &cmd, &result)
			c.report.Commands++
		}
	}
	if err = errors.Join(err, d.Err()); err != nil {
		return fmt.Errorf("log entry %d: %w", e.Index, err)
	}
	return nil
}

func (c *checker) readLog(dir string, visit func(*raft.Log) error) error {
	if c.id.logStore == logStoreSegment {
		r, err := segment.Check(c.fs, dir, visit)
		c.report.TornBytes = r.Torn
		return err
	}
	path := filepath.Join(dir, boltLogName)
	if _, err := c.fs.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &damage.Error{File: path, Offset: -1, What: "the log is lost", Repair: damage.Rejoin}
	}
	return boltstore.CheckLog(path, visit)
}
