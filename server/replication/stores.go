package replication

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/boltstore"
	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/replication/segment"
)

type logStore interface {
	raft.LogStore
	Bytes() int64 // in use
	Close() error
}

type stableStore interface {
	raft.StableStore
	Close() error
}

type snapshotStore interface {
	raft.SnapshotStore
	all() []snapFile // oldest first
	purge(retain int) error
	bytes() int64
}

// keyCurrentTerm is raft's name for the term, which it has stored since the bootstrap.
var keyCurrentTerm = []byte("CurrentTerm")

// stores are what a node keeps its data in.
type stores struct {
	id     identity
	isNew  bool
	log    logStore
	stable stableStore
	snaps  snapshotStore
	sick   sickNote
	locks  []io.Closer
	commit func() error // says durably that a new directory is complete
}

// close closes what is open. The locks come last: nobody may come in before.
func (s *stores) close() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.stable != nil {
		errs = append(errs, s.stable.Close())
	}
	for _, l := range s.locks {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func openStores(o *Options) (*stores, error) {
	if o.Memory {
		return openMemory(o)
	}
	s := &stores{}
	if err := s.openDir(o); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func openMemory(o *Options) (*stores, error) {
	m := o.Stores
	if m == nil {
		m = NewMemoryStores()
	}
	if err := m.acquire(); err != nil {
		return nil, err
	}
	m.snaps.setClock(o.Now)
	s := &stores{
		id: m.id, isNew: !m.ready, log: memoryLog{m.log}, stable: memoryLog{m.log}, snaps: m.snaps,
		sick: memoryNote{m}, locks: []io.Closer{m},
	}
	if s.isNew {
		var err error
		if m.id.incarnation == "" || m.id.myID != o.MyID {
			m.id, err = newIdentity(o)
		}
		if err != nil {
			s.close()
			return nil, err
		}
		s.id = m.id // also if it was begun before: others may have been told of it
	}
	s.commit = func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.id.state = stateReady
		m.id, m.ready = s.id, true
		return nil
	}
	return s, nil
}

// openDir opens the stores on disk, or makes them in an empty directory.
func (s *stores) openDir(o *Options) error {
	s.sick = fileNote{o.FS, o.Dir}
	if err := refuseForeign(o.FS, o.Dir, o.LogDir); err != nil {
		return err
	}
	if err := s.makeAndLock(o); err != nil {
		return err
	}
	id, found, err := readIdentity(o.FS, o.Dir)
	if err != nil {
		return err
	}
	if found && id.state == stateReady {
		s.id = id
		return s.openReady(o)
	}
	if err := s.mayBegin(o, found); err != nil {
		return err
	}
	if found && id.myID == o.MyID && id.logStore == o.LogStore {
		// Others may have been told of this incarnation. It has never been anything but empty.
		s.id = id
	} else if s.id, err = newIdentity(o); err != nil {
		return err
	}
	return s.begin(o)
}

// makeAndLock makes the directories if they are missing.
func (s *stores) makeAndLock(o *Options) error {
	dirs := []string{o.Dir}
	if o.LogDir != o.Dir {
		dirs = append(dirs, o.LogDir)
	}
	for _, dir := range dirs {
		_, err := o.FS.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if o.NoAutocreate {
				return fmt.Errorf("the directory %s does not exist and is not to be created: mount or create it", dir)
			}
			err = o.FS.MkdirAll(dir, 0o700)
		}
		if err != nil {
			return fmt.Errorf("cannot use the data directory: %w", err)
		}
		l, err := lockDir(o.FS, dir)
		if err != nil {
			return err
		}
		s.locks = append(s.locks, l)
	}
	return nil
}

// mayBegin says what speaks against a new database in the directory. begun: one was begun
// there before and never completed.
func (s *stores) mayBegin(o *Options, begun bool) error {
	if begun {
		return nil
	}
	if left := s.remains(o); left != "" {
		return &damage.Error{
			File: filepath.Join(o.Dir, formatName), Offset: -1,
			What:   "the file is missing, although there is " + left,
			Repair: "put it back from a backup, or name another directory",
		}
	}
	if o.NoNewDatabase {
		if _, err := o.FS.Stat(filepath.Join(o.Dir, initializeName)); err != nil {
			return fmt.Errorf("%s is empty, and db.autocreate is off: mount the right disk, or create a file %s in it to begin a new database",
				o.Dir, initializeName)
		}
	}
	return nil
}

// remains names a file that a database consists of, "" if there is none. Other files, also
// myid and initialize, do not count.
func (s *stores) remains(o *Options) string {
	for _, name := range []string{stableName, stableFileName} {
		path := filepath.Join(o.Dir, name)
		if _, err := o.FS.Stat(path); err == nil {
			return path
		}
	}
	for _, dir := range []string{filepath.Join(o.Dir, snapshotsName), filepath.Join(o.LogDir, logName)} {
		for _, path := range ownFiles(o.FS, dir) {
			return path
		}
	}
	return ""
}

// ownFiles are the files in a directory that are made by this package, going by the name.
func ownFiles(fsys vfs.FS, dir string) []string {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return nil
	}
	var own []string
	for _, e := range list {
		name := strings.TrimSuffix(e.Name(), ".tmp")
		if strings.HasSuffix(name, snapSuffix) || strings.HasSuffix(name, ".log") || name == boltLogName || name == formatName {
			own = append(own, filepath.Join(dir, e.Name()))
		}
	}
	return own
}

// begin makes the stores in a directory that holds none, or an incomplete new one.
func (s *stores) begin(o *Options) error {
	s.isNew = true
	if err := writeIdentity(o.FS, o.Dir, &s.id); err != nil {
		return fmt.Errorf("cannot begin a new database: %w", err)
	}
	logDir := filepath.Join(o.LogDir, logName)
	snapDir := filepath.Join(o.Dir, snapshotsName)
	old := []string{filepath.Join(o.Dir, stableName), filepath.Join(o.Dir, stableFileName), filepath.Join(o.Dir, quarantineName)}
	for _, dir := range []string{logDir, snapDir} {
		if err := o.FS.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("cannot begin a new database: %w", err)
		}
		old = append(old, ownFiles(o.FS, dir)...)
	}
	for _, path := range old {
		if err := o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot begin a new database: %w", err)
		}
	}
	// The log directory can be elsewhere, so it says whose it is.
	if err := writeIdentity(o.FS, logDir, &s.id); err != nil {
		return fmt.Errorf("cannot begin a new database: %w", err)
	}
	for _, dir := range []string{o.LogDir, filepath.Dir(filepath.Clean(o.LogDir)), filepath.Dir(filepath.Clean(o.Dir))} {
		// Above the directories of the server it may have no rights; then it has not made
		// anything there either.
		if err := o.FS.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("cannot begin a new database: %w", err)
		}
	}
	if err := s.openParts(o, true); err != nil {
		return err
	}
	s.commit = func() error {
		s.id.state = stateReady
		if err := writeIdentity(o.FS, o.Dir, &s.id); err != nil {
			return fmt.Errorf("cannot begin a new database: %w", err)
		}
		err := o.FS.Remove(filepath.Join(o.Dir, initializeName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the file %s: %w", initializeName, err)
		}
		return nil
	}
	return nil
}

// openReady opens the stores of a database.
func (s *stores) openReady(o *Options) error {
	if err := s.id.matches(o); err != nil {
		return err
	}
	if err := s.checkParts(o.FS, o.Dir, o.LogDir); err != nil {
		return err
	}
	// The format file may have got its content just before the process was killed.
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return fmt.Errorf("cannot sync the data directory: %w", err)
	}
	if err := s.openParts(o, false); err != nil {
		return err
	}
	return s.settleStable(o.Dir)
}

// settleStable makes term and vote durable. They are read back from the page cache, and need
// not be on the disk if their sync has failed or never came; but from now on others will be
// told of them. Storing one rewrites all: they share a page, or a file.
func (s *stores) settleStable(dir string) error {
	term, err := s.stable.GetUint64(keyCurrentTerm)
	if err != nil {
		var d *damage.Error
		if errors.As(err, &d) {
			return err
		}
		return &damage.Error{File: dir, Offset: -1, What: "term and vote are lost: " + err.Error(), Repair: damage.Rejoin}
	}
	if err := s.stable.SetUint64(keyCurrentTerm, term); err != nil {
		return fmt.Errorf("cannot store the term: %w", err)
	}
	return nil
}

// checkParts looks whether all parts of a database are where they should be.
func (s *stores) checkParts(fsys vfs.FS, dir, logDir string) error {
	logDir = filepath.Join(logDir, logName)
	stamp, found, err := readIdentity(fsys, logDir)
	if err != nil {
		return err
	}
	if !found {
		return &damage.Error{
			File: logDir, Offset: -1, What: "the log is not there",
			Repair: "if the log is somewhere else, name its place as dataLogDir, or move the folder log here",
		}
	}
	if stamp.incarnation != s.id.incarnation {
		if next, found, err := readRecovering(fsys, dir); err == nil && found && next.incarnation == stamp.incarnation {
			return fmt.Errorf("a recovery of %s was interrupted, and the data are between the old cluster and the new one: run zkd recover again, "+
				"it goes on where it stopped", dir)
		}
		return fmt.Errorf("the log in %s belongs to another data directory than %s: correct dataDir or dataLogDir", logDir, dir)
	}
	name := stableName
	if fsys != vfs.OS {
		name = stableFileName
	}
	path := filepath.Join(dir, name)
	if st, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 {
		return &damage.Error{File: path, Offset: -1, What: "term and vote are lost", Repair: damage.Rejoin}
	}
	path = filepath.Join(dir, snapshotsName)
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &damage.Error{File: path, Offset: -1, What: "the snapshots are not there", Repair: damage.Rejoin}
	}
	return nil
}

// openParts opens log, stable store and snapshots.
func (s *stores) openParts(o *Options, create bool) error {
	logDir := filepath.Join(o.LogDir, logName)
	var err error
	if o.LogStore == logStoreBolt {
		s.log, err = assign[logStore](boltstore.OpenLog(filepath.Join(logDir, boltLogName)))
	} else {
		s.log, err = assign[logStore](segment.Open(segment.Options{
			FS: o.FS, Dir: logDir, SegmentBytes: o.SegmentBytes, Rand: o.Rand, Logger: o.Logger, Create: create,
		}))
	}
	if err != nil {
		return err
	}
	if o.FS == vfs.OS {
		s.stable, err = assign[stableStore](boltstore.OpenStable(filepath.Join(o.Dir, stableName)))
	} else {
		s.stable, err = assign[stableStore](openStableFile(o.FS, o.Dir))
	}
	if err != nil {
		return err
	}
	s.snaps, err = assign[snapshotStore](openSnapshots(o.FS, filepath.Join(o.Dir, snapshotsName), o.Now))
	return err
}

// assign keeps a nil pointer from becoming an interface that is not nil.
func assign[I any, T any](v T, err error) (I, error) {
	if err != nil {
		var none I
		return none, err
	}
	return any(v).(I), nil
}
