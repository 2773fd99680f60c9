package replication

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/state"
)

const snapSuffix = ".snap"

// snapName sorts by index.
func snapName(index, term uint64) string { return fmt.Sprintf("%020d-%d%s", index, term, snapSuffix) }

// A fileSnapshots is a raft.SnapshotStore with one file per snapshot. A file gets its name
// when it is complete and synced.
type fileSnapshots struct {
	fs  vfs.FS
	dir string
	now func() time.Time

	mu    sync.Mutex // guards what follows; not held across I/O but for reading heads
	files []snapFile // oldest first
	sinks int        // so many have been made
}

// snapFile is a complete snapshot on disk.
type snapFile struct {
	name string
	snapDescription
	bytes int64
}

// openSnapshots lists the snapshots of dir. Files that were never completed are removed.
// Only heads and tails are read; the newest must be in order, which is left to Open.
func openSnapshots(fsys vfs.FS, dir string, now func() time.Time) (*fileSnapshots, error) {
	s := &fileSnapshots{fs: fsys, dir: dir, now: now}
	names, leftovers, err := listSnapshots(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, name := range leftovers {
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("cannot remove an unfinished snapshot: %w", err)
		}
	}
	// A snapshot may have got its name just before the process was killed. The log that it
	// replaces must not be purged before that is durable.
	if err := fsys.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("cannot sync the snapshots: %w", err)
	}
	for _, name := range names {
		f := snapFile{name: name}
		fmt.Sscanf(name, "%d-%d", &f.index, &f.term)
		if r, err := s.read(name); err == nil {
			f.snapDescription = r.d
			r.Close()
		}
		if st, err := fsys.Stat(filepath.Join(dir, name)); err == nil {
			f.bytes = st.Size()
		}
		s.files = append(s.files, f)
	}
	return s, nil
}

// listSnapshots returns the names of the snapshots, oldest first, and those of unfinished
// ones.
func listSnapshots(fsys vfs.FS, dir string) (names, leftovers []string, err error) {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the snapshots: %w", err)
	}
	for _, e := range list {
		var index, term uint64
		name := e.Name()
		if strings.HasSuffix(name, snapSuffix+".tmp") {
			leftovers = append(leftovers, name)
			continue
		}
		if n, _ := fmt.Sscanf(name, "%d-%d.snap", &index, &term); n == 2 && name == snapName(index, term) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, leftovers, nil
}

// read opens a snapshot file.
func (s *fileSnapshots) read(name string) (*snapReader, error) {
	path := filepath.Join(s.dir, name)
	f, err := s.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open a snapshot: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot open a snapshot: %w", err)
	}
	r, err := openSnapshot(f, size, path)
	if err != nil {
		return nil, err
	}
	if snapName(r.d.index, r.d.term) != name {
		r.Close()
		return nil, r.damaged(-1, "it was written as "+snapName(r.d.index, r.d.term))
	}
	return r, nil
}

// all returns the snapshots, oldest first.
func (s *fileSnapshots) all() []snapFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.files)
}

// Create begins a snapshot. There may be two of the same entry at once, of raft and of a repair:
// each has a file of its own until it is complete, and the later takes the place of the earlier.
func (s *fileSnapshots) Create(_ raft.SnapshotVersion, index, term uint64, config raft.Configuration,
	configIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	name := snapName(index, term)
	path := filepath.Join(s.dir, s.unfinished(index, term))
	f, err := s.fs.Create(path)
	if err != nil {
		return nil, fmt.Errorf("cannot create a snapshot: %w", err)
	}
	w, err := newSnapWriter(&syncingFile{File: f}, snapDescription{
		index: index, term: term, config: config, configIndex: configIndex, created: s.now(),
	})
	if err != nil {
		f.Close()
		s.fs.Remove(path)
		return nil, fmt.Errorf("cannot write a snapshot: %w", err)
	}
	return &fileSink{snapSink: snapSink{w: w, id: name}, s: s, file: f, tmp: path}, nil
}

// unfinished is a name that no other file has. The next start goes by its end and removes it.
func (s *fileSnapshots) unfinished(index, term uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks++
	return fmt.Sprintf("%020d-%d.%d%s.tmp", index, term, s.sinks, snapSuffix)
}

// List returns the newest snapshot only: raft would fall back to an older one in silence,
// and acknowledged writes would be gone.
func (s *fileSnapshots) List() ([]*raft.SnapshotMeta, error) {
	files := s.all()
	if len(files) == 0 {
		return nil, nil
	}
	newest := files[len(files)-1]
	r, err := s.read(newest.name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return []*raft.SnapshotMeta{r.d.meta(newest.name)}, nil
}

func (d *snapDescription) meta(id string) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: id, Index: d.index, Term: d.term,
		Configuration: d.config, ConfigurationIndex: d.configIndex, Size: d.size,
	}
}

// Open opens a snapshot; the reader gives the container.
func (s *fileSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	r, err := s.read(id)
	if err != nil {
		return nil, nil, err
	}
	return r.d.meta(id), r, nil
}

// purge removes all but the newest retain snapshots.
func (s *fileSnapshots) purge(retain int) error {
	s.mu.Lock()
	n := max(len(s.files)-max(retain, 1), 0)
	old := s.files[:n:n]
	s.files = s.files[n:]
	s.mu.Unlock()
	var errs []error
	for _, f := range old {
		errs = append(errs, s.fs.Remove(filepath.Join(s.dir, f.name)))
	}
	return errors.Join(errs...)
}

// bytes is what the snapshots take on disk.
func (s *fileSnapshots) bytes() int64 {
	var n int64
	for _, f := range s.all() {
		n += f.bytes
	}
	return n
}

// snapSink is what the sinks of all stores have in common.
type snapSink struct {
	w    *snapWriter
	id   string
	head []byte // the first snapPeek bytes of the container
	done bool   // closed or cancelled
	err  error  // of Close
}

// snapPeek bytes of a container are enough to find its zxid.
const snapPeek = 4 << 10

// ID names the snapshot.
func (s *snapSink) ID() string { return s.id }

func (s *snapSink) Write(p []byte) (int, error) {
	if s.done {
		return 0, errors.New("the snapshot is closed")
	}
	if room := snapPeek - len(s.head); room > 0 {
		s.head = append(s.head, p[:min(room, len(p))]...)
	}
	return s.w.Write(p)
}

// setZxid is called before Close.
func (s *snapSink) setZxid(zxid int64) { s.w.d.zxid = zxid }

// finish completes what is written. raft, which stores a leader's snapshot here, knows of no
// zxid: it is read from the container. One that says none is left as it is.
func (s *snapSink) finish() error {
	if s.w.d.zxid == 0 {
		s.w.d.zxid, _ = state.SnapshotZxid(bytes.NewReader(s.head))
	}
	return s.w.finish()
}

// fileSink writes one snapshot file. Owner: the goroutine that writes.
type fileSink struct {
	snapSink
	s    *fileSnapshots
	file vfs.File
	tmp  string
}

// Close makes the snapshot durable under its name. A second call, as raft makes it, returns
// what the first did.
func (k *fileSink) Close() error {
	if k.done {
		return k.err
	}
	k.done = true
	if k.err = k.store(); k.err != nil {
		k.err = fmt.Errorf("cannot write a snapshot: %w", k.err)
		k.s.fs.Remove(k.tmp) // else the next start does it
	}
	return k.err
}

func (k *fileSink) store() error {
	err := k.finish()
	if err == nil {
		err = k.file.Sync()
	}
	var size int64
	if err == nil {
		size, err = k.file.Size()
	}
	if cerr := k.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := k.s.fs.Rename(k.tmp, filepath.Join(k.s.dir, k.id)); err != nil {
		return err
	}
	if err := k.s.fs.SyncDir(k.s.dir); err != nil {
		return err
	}
	k.s.add(snapFile{name: k.id, snapDescription: k.w.d, bytes: size})
	return nil
}

func (s *fileSnapshots) add(f snapFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = slices.DeleteFunc(s.files, func(old snapFile) bool { return old.name == f.name })
	s.files = append(s.files, f)
	slices.SortFunc(s.files, func(a, b snapFile) int { return strings.Compare(a.name, b.name) })
}

// Cancel drops the snapshot.
func (k *fileSink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	k.w.abandon()
	k.file.Close()
	return k.s.fs.Remove(k.tmp)
}
