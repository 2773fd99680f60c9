package zkdata

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/server/znode"
)

// A Source is where a database of ZooKeeper lies.
type Source struct {
	Snapshots    fs.FS  // version-2 in the dataDir
	SnapshotsDir string // its path, for messages
	Logs         fs.FS  // version-2 in the dataLogDir, often the same directory
	LogsDir      string

	// Force does without what a DoubtError reports.
	Force bool
	// Progress, where not nil, hears how much of a file has been read.
	Progress func(file string, done, size int64)
	// Note, where not nil, hears what an operator should know.
	Note func(string)
}

// A Report says what Load has found.
type Report struct {
	Snapshot     string // path; "" if there was none, with Force
	SnapshotZxid int64
	Logs         int
	Txns         int    // applied
	Epoch        int64  // the highest one that ZooKeeper has promised or begun
	Orphans      int    // ephemeral nodes without a session, which are gone
	Digest       uint64 // of the tree
	DigestProved bool   // ZooKeeper has noted the same
}

// Load reads the database in a directory. Faulty files are an *Error, and files that do not
// fit together a *DoubtError. ZooKeeper must not run meanwhile; Load notices if it does.
func Load(s Source) (*Database, Report, error) {
	if s.Progress == nil {
		s.Progress = func(string, int64, int64) {}
	}
	if s.Note == nil {
		s.Note = func(string) {}
	}
	l := loader{Source: s}
	for _, stage := range []func() error{l.list, l.snapshot, l.replay, l.epochs, l.settle, l.unchanged} {
		if err := stage(); err != nil {
			return nil, Report{}, err
		}
	}
	return l.db, l.report, nil
}

type loader struct {
	Source
	db        *Database
	report    Report
	snapshots []file
	logs      []file
}

// doubt is an error unless it is to be done without.
func (l *loader) doubt(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if l.Force {
		l.Note("forced: " + what)
		return nil
	}
	return &DoubtError{What: what}
}

func (l *loader) list() error {
	var err error
	if l.snapshots, err = list(l.Snapshots, l.SnapshotsDir, snapshotPrefix); err != nil {
		return err
	}
	if l.logs, err = list(l.Logs, l.LogsDir, logPrefix); err != nil {
		return err
	}
	if len(l.snapshots)+len(l.logs) == 0 {
		return fmt.Errorf("there are neither snapshots in %s nor logs in %s: name the dataDir of ZooKeeper, and its dataLogDir if it has one",
			l.SnapshotsDir, l.LogsDir)
	}
	if l.SnapshotsDir == l.LogsDir {
		return nil
	}
	stray, err := list(l.Snapshots, l.SnapshotsDir, logPrefix)
	if err == nil && len(stray) > 0 {
		err = l.doubt("%s lies where the snapshots are, and would be left out: move it to %s if it belongs there", stray[0].path(), l.LogsDir)
	}
	return err
}

// snapshot reads the newest complete one.
func (l *loader) snapshot() error {
	for _, f := range slices.Backward(l.snapshots) {
		whole, err := f.complete()
		if err != nil {
			return err
		}
		if !whole {
			l.Note(f.path() + " was not written to its end, and is left out, as ZooKeeper does")
			continue
		}
		err = f.read(l.Progress, func(r io.Reader) (err error) {
			l.db, err = ReadSnapshot(r)
			return err
		})
		if err != nil {
			return fmt.Errorf("%w; to begin with an older snapshot, move this one away", err)
		}
		l.db.Zxid = f.zxid
		l.report.Snapshot, l.report.SnapshotZxid = f.path(), f.zxid
		return nil
	}
	l.db = NewDatabase()
	return l.doubt("there is no complete snapshot in %s; ZooKeeper does not start so either", l.SnapshotsDir)
}

// replay applies the logs behind the snapshot.
func (l *loader) replay() error {
	from := l.report.SnapshotZxid
	first := 0
	for i, f := range l.logs {
		if f.zxid <= from+1 {
			first = i // it may reach beyond the snapshot
		}
	}
	if len(l.logs) == 0 { // also behind snapshot.0: ZooKeeper writes that one when it is installed
		if err := l.doubt("there are no transaction logs in %s: what was written after %s is missing, if anything was; "+
			"name the dataLogDir if ZooKeeper had one", l.LogsDir, l.report.Snapshot); err != nil {
			return err
		}
	}
	for _, f := range l.logs[min(first, len(l.logs)):] {
		if err := f.read(l.Progress, func(r io.Reader) error { return l.replayLog(&f, r) }); err != nil {
			return err
		}
		l.report.Logs++
	}
	return nil
}

func (l *loader) replayLog(f *file, r io.Reader) error {
	in, err := NewLogReader(r)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		t, offset, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first && t.Zxid != f.zxid {
			return &Error{Offset: offset, What: fmt.Sprintf("the first transaction is 0x%x, and not the one in the name of the file", t.Zxid)}
		}
		if t.Zxid <= l.report.SnapshotZxid {
			continue
		}
		if t.Zxid <= l.db.Zxid {
			return &Error{Offset: offset, What: fmt.Sprintf("transaction 0x%x comes after 0x%x", t.Zxid, l.db.Zxid)}
		}
		if !follows(t.Zxid, l.db.Zxid) {
			err := l.doubt("%s, offset %d: transaction 0x%x comes after 0x%x: those between them are missing, "+
				"and so may be a file", f.path(), offset, t.Zxid, l.db.Zxid)
			if err != nil {
				return err
			}
		}
		l.db.Apply(&t)
		l.report.Txns++
	}
}

// follows says whether a transaction can be the next one after last: a leader counts without
// gaps, and the first one of an epoch is 1.
func follows(zxid, last int64) bool {
	return zxid == last+1 || zxid>>32 > last>>32 && uint32(zxid) == 1
}

// epochs reads what an ensemble has noted.
func (l *loader) epochs() error {
	l.report.Epoch = l.db.Zxid >> 32
	for _, name := range []string{"currentEpoch", "acceptedEpoch"} {
		b, err := fs.ReadFile(l.Snapshots, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", l.SnapshotsDir, err)
		}
		f := file{dir: l.SnapshotsDir, name: name}
		const highest = 31 // bits: an epoch is the upper half of a zxid
		e, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, highest)
		if err != nil {
			return &Error{File: f.path(), What: fmt.Sprintf("%q is no epoch", b)}
		}
		l.report.Epoch = max(l.report.Epoch, int64(e))
	}
	return nil
}

// settle checks that nothing is missing, and does what ZooKeeper does at the end of its start.
func (l *loader) settle() error {
	last := l.db.Zxid
	var youngest string
	highest := last
	err := l.db.Walk(func(path string, n *Node) error {
		if n.noACL {
			return fmt.Errorf("%s: the list of permissions of %q is neither in the snapshot nor in the logs", l.report.Snapshot, path)
		}
		if z := max(n.Stat.Czxid, n.Stat.Mzxid, n.Stat.Pzxid); z > highest {
			youngest, highest = path, z
		}
		l.db.TimeMs = max(l.db.TimeMs, n.Stat.MtimeMs, n.Stat.CtimeMs)
		return nil
	})
	if err != nil {
		return err
	}
	if highest > last {
		err := l.doubt("the logs end with transaction 0x%x, and %q was changed by 0x%x: a log is missing", last, youngest, highest)
		if err != nil {
			return err
		}
		l.db.Zxid = highest
	}
	if err := l.compareDigest(last); err != nil {
		return err
	}
	l.report.Orphans = l.dropOrphans()
	return nil
}

// compareDigest compares the tree with the last digest that ZooKeeper has noted. What comes
// after it must have been failed requests, which have none; if it was noted in the snapshot,
// for a moment behind the last transaction of the logs, there is nothing to compare.
func (l *loader) compareDigest(last int64) error {
	l.report.Digest = l.db.Digest()
	d := l.db.noted
	if d == nil || d.Version != digestVersion || d.Zxid > last {
		return nil
	}
	if l.report.DigestProved = d.Value == l.report.Digest; !l.report.DigestProved {
		return l.doubt("the digest of the tree is %016x, and ZooKeeper has noted %016x at 0x%x: snapshot and logs do not fit together",
			l.report.Digest, d.Value, d.Zxid)
	}
	return nil
}

// dropOrphans removes ephemeral nodes without a session, and sessions whose id cannot be told
// from the mark of a TTL node, as those of server 255.
func (l *loader) dropOrphans() int {
	for id := range l.db.Sessions {
		if znode.SessionOwner(id).Kind() != znode.Ephemeral {
			l.Note(fmt.Sprintf("session 0x%x is left out: its id is that of no session", uint64(id)))
			delete(l.db.Sessions, id)
		}
	}
	return l.db.DropOrphans()
}

// unchanged notices a ZooKeeper that runs.
func (l *loader) unchanged() error {
	for _, before := range []struct {
		files []file
		fsys  fs.FS
		dir   string
		pre   string
	}{{l.snapshots, l.Snapshots, l.SnapshotsDir, snapshotPrefix}, {l.logs, l.Logs, l.LogsDir, logPrefix}} {
		now, err := list(before.fsys, before.dir, before.pre)
		if err != nil {
			return err
		}
		same := func(a, b file) bool { return a.name == b.name && a.size == b.size && a.mtime.Equal(b.mtime) }
		if !slices.EqualFunc(before.files, now, same) {
			return fmt.Errorf("the files in %s have changed meanwhile: stop ZooKeeper, or copy its files and import the copy", before.dir)
		}
	}
	return nil
}
