// Package vfstest is a disk in memory for tests of what is stored: it forgets at a crash
// what was not synced, and fails the N-th operation on demand.
//
// It is the smallest disk that can show a missing fsync, a missing directory fsync or an
// ignored error. It knows neither time nor damage.
package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
)

// ErrDown is what every operation returns after the one that Stop chose, until Crash, and
// what handles from before a crash return.
var ErrDown = errors.New("vfstest: the machine is down")

// sector is the unit in which an unsynced write survives a crash or not.
const sector = 512

// A Disk is a file system in memory. Every inode and every directory has what is there
// now and what would be there after a loss of power; Sync and SyncDir make them equal.
type Disk struct {
	mu     sync.Mutex
	dirs   map[string]*dir
	locks  map[string]bool
	boot   int // raised by Crash: older handles are dead
	ops    int // operations that change something, so far
	failAt int // the operation that fails; 0: none
	fail   error
	failed bool // the chosen operation has failed
	down   bool // after a failure with ErrDown
}

type dir struct {
	now     map[string]*inode
	durable map[string]*inode
	pending []func(map[string]*inode) // what SyncDir would make durable, in order
}

type inode struct {
	now     []byte
	durable []byte
	pending []change
}

// change is an unsynced write, or with data nil a truncation to off.
type change struct {
	off  int64
	data []byte
}

// New is an empty disk.
func New() *Disk {
	return &Disk{
		dirs:  map[string]*dir{".": newDir(), "/": newDir()},
		locks: map[string]bool{},
	}
}

func newDir() *dir {
	return &dir{now: map[string]*inode{}, durable: map[string]*inode{}}
}

// Fail lets the n-th operation from now that changes or syncs something fail with err:
// a write has written its first half then, and a Preallocate has grown the file half way, as on
// ext4. With ErrDown all later operations fail too.
// n = 0 switches it off.
func (d *Disk) Fail(n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failAt, d.fail, d.failed = 0, err, false
	if n > 0 {
		d.failAt = d.ops + n
	}
}

// Failed says whether the operation that Fail has chosen was reached.
func (d *Disk) Failed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Ops is the number of operations so far that changed or synced something.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// Crash cuts the power and boots again: what was synced is there, and of the rest what
// rng chooses, by sector; with rng nil nothing. All open files and locks are gone.
func (d *Disk) Crash(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot++
	d.down, d.failAt = false, 0
	d.locks = map[string]bool{}
	names := make([]string, 0, len(d.dirs))
	for name := range d.dirs {
		names = append(names, name)
	}
	sort.Strings(names)
	seen := map[*inode]bool{}
	for _, name := range names {
		dd := d.dirs[name]
		for _, op := range dd.pending {
			if rng != nil && rng.IntN(2) == 0 {
				op(dd.durable)
			}
		}
		dd.pending = nil
		dd.now = clone(dd.durable)
		for _, file := range sortedNames(dd.now) {
			if ino := dd.now[file]; !seen[ino] {
				seen[ino] = true
				ino.crash(rng)
			}
		}
	}
}

// Kill ends the process but not the machine: everything written stays, synced or not;
// open files and locks are gone.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot++
	d.down, d.failAt = false, 0
	d.locks = map[string]bool{}
}

// Damage replaces the content of a file by what change makes of it, behind the back of
// whoever uses it, as a failing disk does. It says whether there is such a file.
func (d *Disk) Damage(name string, change func(b []byte) []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino := d.find(name)
	if ino == nil {
		return false
	}
	ino.pending = nil
	ino.durable = change(append([]byte(nil), ino.now...))
	ino.now = append([]byte(nil), ino.durable...)
	return true
}

// Clone is an independent copy of the disk as it is now, synced or not.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := New()
	for name, dd := range d.dirs {
		nd := newDir()
		for file, ino := range dd.now {
			b := append([]byte(nil), ino.now...)
			nd.now[file] = &inode{now: b, durable: append([]byte(nil), b...)}
		}
		nd.durable = clone(nd.now)
		c.dirs[name] = nd
	}
	return c
}

func (ino *inode) crash(rng *rand.Rand) {
	if rng != nil {
		for _, c := range ino.pending {
			if c.data == nil {
				if rng.IntN(2) == 0 {
					ino.durable = resize(ino.durable, c.off)
				}
				continue
			}
			for len(c.data) > 0 {
				n := min(int64(len(c.data)), sector-c.off%sector)
				if rng.IntN(2) == 0 {
					ino.durable = write(ino.durable, c.data[:n], c.off)
				}
				c.off, c.data = c.off+n, c.data[n:]
			}
		}
	}
	ino.pending = nil
	ino.now = append([]byte(nil), ino.durable...)
}

func (ino *inode) sync() {
	for _, c := range ino.pending {
		if c.data == nil {
			ino.durable = resize(ino.durable, c.off)
		} else {
			ino.durable = write(ino.durable, c.data, c.off)
		}
	}
	ino.pending = nil
}

func write(b, p []byte, off int64) []byte {
	if end := off + int64(len(p)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[off:], p)
	return b
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	if size <= int64(cap(b)) {
		grown := b[:size]
		clear(grown[len(b):])
		return grown
	}
	grown := make([]byte, size, size+size/4)
	copy(grown, b)
	return grown
}

func clone(m map[string]*inode) map[string]*inode {
	c := make(map[string]*inode, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func sortedNames(m map[string]*inode) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// step counts an operation that changes something and says whether it fails. Called with
// d.mu held.
func (d *Disk) step() error {
	if d.down {
		return ErrDown
	}
	d.ops++
	if d.failAt > 0 && d.ops >= d.failAt {
		d.failAt, d.failed = 0, true
		d.down = errors.Is(d.fail, ErrDown)
		return d.fail
	}
	return nil
}

func (d *Disk) dirOf(name string) (*dir, string) {
	name = filepath.Clean(name)
	return d.dirs[filepath.Dir(name)], filepath.Base(name)
}

func (d *Disk) find(name string) *inode {
	if dd, base := d.dirOf(name); dd != nil {
		return dd.now[base]
	}
	return nil
}

// change does op to the entries of dd, now, and at the next SyncDir durably.
func (dd *dir) change(op func(map[string]*inode)) {
	op(dd.now)
	dd.pending = append(dd.pending, op)
}

func pathErr(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open opens a file for reading.
func (d *Disk) Open(name string) (vfs.File, error) { return d.OpenFile(name, os.O_RDONLY, 0) }

// Create makes an empty file.
func (d *Disk) Create(name string) (vfs.File, error) {
	return d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// OpenFile opens a file.
func (d *Disk) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, pathErr("open", name, ErrDown)
	}
	dd, base := d.dirOf(name)
	if dd == nil {
		return nil, pathErr("open", name, fs.ErrNotExist)
	}
	ino := dd.now[base]
	switch {
	case ino == nil && flag&os.O_CREATE == 0:
		return nil, pathErr("open", name, fs.ErrNotExist)
	case ino != nil && flag&os.O_EXCL != 0:
		return nil, pathErr("open", name, fs.ErrExist)
	case ino == nil:
		if err := d.step(); err != nil {
			return nil, pathErr("open", name, err)
		}
		ino = &inode{}
		dd.change(func(m map[string]*inode) { m[base] = ino })
	case flag&os.O_TRUNC != 0:
		if err := d.step(); err != nil {
			return nil, pathErr("open", name, err)
		}
		ino.truncate(0)
	}
	return &file{d: d, ino: ino, name: name, boot: d.boot}, nil
}

// Remove removes a file or an empty directory.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	clean := filepath.Clean(name)
	if dd := d.dirs[clean]; dd != nil {
		if len(dd.now) > 0 {
			return pathErr("remove", name, errors.New("directory not empty"))
		}
		delete(d.dirs, clean)
		return nil
	}
	dd, base := d.dirOf(name)
	if dd == nil || dd.now[base] == nil {
		return pathErr("remove", name, fs.ErrNotExist)
	}
	if err := d.step(); err != nil {
		return pathErr("remove", name, err)
	}
	dd.change(func(m map[string]*inode) { delete(m, base) })
	return nil
}

// Rename moves a file within its directory.
func (d *Disk) Rename(oldName, newName string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dd, from := d.dirOf(oldName)
	to, base := d.dirOf(newName)
	if dd == nil || dd.now[from] == nil {
		return pathErr("rename", oldName, fs.ErrNotExist)
	}
	if dd != to {
		return pathErr("rename", newName, errors.New("vfstest moves files within a directory only"))
	}
	if err := d.step(); err != nil {
		return pathErr("rename", oldName, err)
	}
	ino := dd.now[from]
	dd.change(func(m map[string]*inode) {
		m[base] = ino
		if m[from] == ino {
			delete(m, from)
		}
	})
	return nil
}

// ReadDir lists a directory.
func (d *Disk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clean := filepath.Clean(name)
	dd := d.dirs[clean]
	if dd == nil {
		return nil, pathErr("readdir", name, fs.ErrNotExist)
	}
	var list []fs.DirEntry
	for file, ino := range dd.now {
		list = append(list, fs.FileInfoToDirEntry(info{name: file, size: int64(len(ino.now))}))
	}
	for sub := range d.dirs {
		if sub != clean && filepath.Dir(sub) == clean {
			list = append(list, fs.FileInfoToDirEntry(info{name: filepath.Base(sub), dir: true}))
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name() < list[j].Name() })
	return list, nil
}

// MkdirAll makes a directory and its parents; they are durable at once.
func (d *Disk) MkdirAll(name string, _ fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return pathErr("mkdir", name, ErrDown)
	}
	clean := filepath.Clean(name)
	path := ""
	if strings.HasPrefix(clean, "/") {
		path = "/"
	}
	for _, part := range strings.Split(clean, "/") {
		path = filepath.Join(path, part)
		if path != "" && d.dirs[path] == nil {
			d.dirs[path] = newDir()
		}
	}
	return nil
}

// SyncDir makes the entries of a directory durable.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dd := d.dirs[filepath.Clean(name)]
	if dd == nil {
		return pathErr("syncdir", name, fs.ErrNotExist)
	}
	if err := d.step(); err != nil {
		return pathErr("syncdir", name, err)
	}
	dd.durable = clone(dd.now)
	dd.pending = nil
	return nil
}

// Stat describes a file or directory.
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs[filepath.Clean(name)] != nil {
		return info{name: filepath.Base(name), dir: true}, nil
	}
	ino := d.find(name)
	if ino == nil {
		return nil, pathErr("stat", name, fs.ErrNotExist)
	}
	return info{name: filepath.Base(name), size: int64(len(ino.now))}, nil
}

// Lock locks a name.
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, vfs.ErrLocked
	}
	d.locks[name] = true
	boot := d.boot
	return closerFunc(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.boot == boot {
			delete(d.locks, name)
		}
		return nil
	}), nil
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

type info struct {
	name string
	size int64
	dir  bool
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
