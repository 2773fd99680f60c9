package disk

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A Disk is a simulated file system. New makes an empty one.
type Disk struct {
	// Sleep is how a slow operation waits; time.Sleep by default, which inside a
	// testing/synctest bubble takes no time. Set it before the first use.
	Sleep func(time.Duration)
	// SyncTime is how long every Sync takes. Set it before the first use.
	SyncTime time.Duration

	mu       sync.Mutex // guards all below, and every inode and directory
	root     *dir
	nextID   int
	locks    map[string]bool
	faults   []*armedFault
	ops      int // mutating operations so far
	failures int // operations that a fault has failed
	cut      bool
	capacity int64 // 0: no limit
	used     int64
	observe  func(Boundary)
}

// Boundary is the moment before a mutating operation.
type Boundary struct {
	Op   Op
	Name string
	disk *Disk
}

// AfterCrash is Disk.AfterCrash of this moment.
func (b Boundary) AfterCrash(seed uint64) *Disk { return b.disk.afterCrash(seed) }

// entry is what a name leads to: a directory or a file.
type entry struct {
	d *dir
	f *inode
}

func (e entry) missing() bool { return e.d == nil && e.f == nil }

// dir is a directory. names is what the running system sees; durable is what SyncDir has
// put on the medium; pending is what lies between the two, in order.
type dir struct {
	names   map[string]entry
	durable map[string]entry
	pending []*nameChange
}

// nameChange is one step in one or, for a rename across directories, two directories. It
// is durable once any directory that it touches has been synced.
type nameChange struct {
	set     []nameSet
	durable bool
}

// nameSet gives name in dir a new meaning; the zero entry removes it.
type nameSet struct {
	in   *dir
	name string
	to   entry
}

// New returns an empty disk.
func New() *Disk {
	return &Disk{Sleep: time.Sleep, root: newDir(), locks: map[string]bool{}}
}

func newDir() *dir {
	return &dir{names: map[string]entry{}, durable: map[string]entry{}}
}

// Observe has f called before every mutating operation, for a test that looks at what a
// crash would leave at each such boundary. f must not use the disk but through Boundary.
func (d *Disk) Observe(f func(Boundary)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observe = f
}

// Ops is how many mutating operations there have been.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// SetCapacity limits the sum of the lengths of all files; what exceeds it fails with
// ENOSPC. 0 is no limit.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// Space returns the free and the total bytes; without a limit there is plenty.
func (d *Disk) Space() (free, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.capacity == 0 {
		return plenty - d.used, plenty
	}
	return max(d.capacity-d.used, 0), d.capacity
}

// plenty is what a disk without a limit says that it holds.
const plenty = 1 << 40

// PowerCut makes every later operation fail. What is on the disk is for AfterCrash to say.
func (d *Disk) PowerCut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// split finds the directory that name is in. The base of the root is "".
func (d *Disk) split(name string) (parent *dir, base string, err error) {
	clean := filepath.Clean("/" + filepath.ToSlash(name))
	parent = d.root
	for {
		rest := clean[1:]
		i := slices.Index([]byte(rest), '/')
		if i < 0 {
			return parent, rest, nil
		}
		next := parent.names[rest[:i]]
		switch {
		case next.missing():
			return nil, "", fs.ErrNotExist
		case next.d == nil:
			return nil, "", syscall.ENOTDIR
		}
		parent, clean = next.d, rest[i:]
	}
}

// find returns what name leads to.
func (d *Disk) find(name string) (entry, error) {
	parent, base, err := d.split(name)
	if err != nil {
		return entry{}, err
	}
	if base == "" {
		return entry{d: d.root}, nil
	}
	e := parent.names[base]
	if e.missing() {
		return entry{}, fs.ErrNotExist
	}
	return e, nil
}

// change carries out one step of the name space. It stays undecided until a SyncDir.
func (d *Disk) change(sets ...nameSet) {
	c := &nameChange{set: sets}
	for i, s := range sets {
		if s.to.missing() {
			delete(s.in.names, s.name)
		} else {
			s.in.names[s.name] = s.to
		}
		if i == 0 || sets[i-1].in != s.in {
			s.in.pending = append(s.in.pending, c)
		}
	}
}

// sync puts the first n pending steps of a directory on the medium. A step that touches
// another directory takes along what that one had pending before it: steps never overtake
// each other under one name.
func (x *dir) sync(n int) {
	changes := x.pending[:n]
	x.pending = slices.Clone(x.pending[n:])
	for _, c := range changes {
		if c.durable {
			continue
		}
		c.durable = true
		for _, s := range c.set {
			if i := slices.Index(s.in.pending, c); i >= 0 {
				s.in.sync(i + 1)
			}
			if s.to.missing() {
				delete(s.in.durable, s.name)
			} else {
				s.in.durable[s.name] = s.to
			}
		}
	}
}

// Open implements vfs.FS.
func (d *Disk) Open(name string) (vfs.File, error) { return d.OpenFile(name, os.O_RDONLY, 0) }

// Create implements vfs.FS.
func (d *Disk) Create(name string) (vfs.File, error) {
	return d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// OpenFile implements vfs.FS.
func (d *Disk) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(OpOpen, name); err != nil {
		return nil, pathError("open", name, err)
	}
	parent, base, err := d.split(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	e := parent.names[base]
	switch {
	case base == "" || e.d != nil:
		return nil, pathError("open", name, syscall.EISDIR)
	case e.missing() && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case !e.missing() && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathError("open", name, fs.ErrExist)
	case e.missing():
		if err := d.enter(OpCreate, name); err != nil {
			return nil, pathError("open", name, err)
		}
		e = entry{f: d.newInode()}
		d.change(nameSet{parent, base, e})
	case flag&os.O_TRUNC != 0 && e.f.size > 0:
		if err := d.enter(OpTruncate, name); err != nil {
			return nil, pathError("open", name, err)
		}
		d.resize(e.f, 0)
	}
	return &file{d: d, f: e.f, name: name, readOnly: flag&(os.O_RDWR|os.O_WRONLY) == 0}, nil
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(OpRemove, name); err != nil {
		return pathError("remove", name, err)
	}
	parent, base, err := d.split(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	e := parent.names[base]
	if e.missing() {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if e.d != nil && len(e.d.names) > 0 {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	d.change(nameSet{parent, base, entry{}})
	d.release(e)
	return nil
}

// release gives the space of a file back that has lost its name.
func (d *Disk) release(e entry) {
	if e.f != nil && !e.f.unlinked {
		e.f.unlinked = true
		d.used -= e.f.size
	}
}

// Rename implements vfs.FS.
func (d *Disk) Rename(oldName, newName string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(OpRename, newName); err != nil {
		return pathError("rename", oldName, err)
	}
	from, oldBase, err := d.split(oldName)
	if err != nil {
		return pathError("rename", oldName, err)
	}
	to, newBase, err := d.split(newName)
	if err != nil {
		return pathError("rename", newName, err)
	}
	e, over := from.names[oldBase], to.names[newBase]
	switch {
	case e.missing():
		return pathError("rename", oldName, fs.ErrNotExist)
	case over == e:
		return nil
	case over.d != nil && (e.d == nil || len(over.d.names) > 0):
		return pathError("rename", newName, fs.ErrExist)
	case e.d != nil && over.f != nil:
		return pathError("rename", newName, syscall.ENOTDIR)
	}
	d.change(nameSet{from, oldBase, entry{}}, nameSet{to, newBase, e})
	d.release(over)
	return nil
}

// ReadDir implements vfs.FS.
func (d *Disk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(OpReadDir, name); err != nil {
		return nil, pathError("readdir", name, err)
	}
	e, err := d.find(name)
	if err == nil && e.d == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	var list []fs.DirEntry
	for _, base := range slices.Sorted(maps.Keys(e.d.names)) {
		list = append(list, fs.FileInfoToDirEntry(infoOf(base, e.d.names[base])))
	}
	return list, nil
}

// MkdirAll implements vfs.FS.
func (d *Disk) MkdirAll(name string, _ fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var made string
	for _, part := range splitAll(name) {
		made += "/" + part
		e, err := d.find(made)
		if err == nil && e.d == nil {
			err = syscall.ENOTDIR
		}
		if err == nil {
			continue
		}
		if !os.IsNotExist(err) {
			return pathError("mkdir", made, err)
		}
		if err := d.enter(OpMkdir, made); err != nil {
			return pathError("mkdir", made, err)
		}
		parent, base, err := d.split(made)
		if err != nil {
			return pathError("mkdir", made, err)
		}
		d.change(nameSet{parent, base, entry{d: newDir()}})
	}
	return nil
}

func splitAll(name string) []string {
	clean := filepath.Clean("/" + filepath.ToSlash(name))
	var parts []string
	for clean != "/" {
		parts = append(parts, filepath.Base(clean))
		clean = filepath.Dir(clean)
	}
	slices.Reverse(parts)
	return parts
}

// SyncDir implements vfs.FS.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(OpSyncDir, name); err != nil {
		return pathError("syncdir", name, err)
	}
	e, err := d.find(name)
	if err == nil && e.d == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("syncdir", name, err)
	}
	e.d.sync(len(e.d.pending))
	return nil
}

// Stat implements vfs.FS.
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(OpStat, name); err != nil {
		return nil, pathError("stat", name, err)
	}
	e, err := d.find(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return infoOf(filepath.Base(name), e), nil
}

// Lock implements vfs.FS. A lock ends with its Closer or with the disk.
func (d *Disk) Lock(name string) (io.Closer, error) {
	f, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	key := filepath.Clean("/" + filepath.ToSlash(name))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[key] {
		return nil, pathError("lock", name, vfs.ErrLocked)
	}
	d.locks[key] = true
	return &lock{d: d, key: key, File: f}, nil
}

type lock struct {
	vfs.File
	d   *Disk
	key string
}

func (l *lock) Close() error {
	l.d.mu.Lock()
	delete(l.d.locks, l.key)
	l.d.mu.Unlock()
	return l.File.Close()
}

// info describes a file or directory. The disk keeps no times and no permissions.
type info struct {
	name string
	size int64
	dir  bool
}

func infoOf(name string, e entry) info {
	if e.d != nil {
		return info{name: name, dir: true}
	}
	return info{name: name, size: e.f.size}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
