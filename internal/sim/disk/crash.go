package disk

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zkd-project/zkd/internal/sim/rng"
)

// AfterCrash returns the disk that a machine finds when the power has been cut now: all
// that was synced, and of the rest what the seed chooses. This disk stays as it is.
func (d *Disk) AfterCrash(seed uint64) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.afterCrash(seed)
}

func (d *Disk) afterCrash(seed uint64) *Disk {
	n := New()
	n.Sleep, n.SyncTime, n.capacity = d.Sleep, d.SyncTime, d.capacity
	c := &crash{d: n, rng: rng.New(seed), inodes: map[*inode]*inode{}, fate: map[*nameChange]bool{}}
	c.mood = c.rng.Weighted([]int{2, 2, 1, 5})
	n.root = c.dir(d.root)
	return n
}

// The moods of a crash. Extremes come often, since most bugs show there.
const (
	loseAll = iota
	keepAll
	keepInOrder // names as a journal would: a prefix of the changes
	choose
)

type crash struct {
	d      *Disk
	rng    *rng.Rand
	mood   int
	inodes map[*inode]*inode
	fate   map[*nameChange]bool // whether an unsynced change has reached the medium
}

// pick chooses one of n versions, the first of which is the synced one.
func (c *crash) pick(n int) int {
	switch c.mood {
	case loseAll:
		return 0
	case keepAll:
		return n - 1
	}
	return c.rng.Intn(n)
}

// dir copies a directory as it is after the crash.
func (c *crash) dir(old *dir) *dir {
	names := maps.Clone(old.durable)
	inOrder := true
	for _, change := range old.pending {
		survives, decided := c.fate[change]
		if !decided {
			survives = change.durable || c.pick(2) == 1
			if c.mood == keepInOrder {
				inOrder = inOrder && survives
				survives = inOrder
			}
			c.fate[change] = survives
		}
		if !survives {
			continue
		}
		for _, s := range change.set {
			if s.in != old {
				continue
			}
			if s.to.missing() {
				delete(names, s.name)
			} else {
				names[s.name] = s.to
			}
		}
	}
	n := newDir()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		e := names[name]
		if e.d != nil {
			e = entry{d: c.dir(e.d)}
		} else {
			e = entry{f: c.inode(e.f)}
		}
		n.names[name], n.durable[name] = e, e
	}
	return n
}

// inode copies a file as it is after the crash.
func (c *crash) inode(old *inode) *inode {
	if n := c.inodes[old]; n != nil {
		return n // a rename that has half arrived leads to it by two names
	}
	n := c.d.newInode()
	c.inodes[old] = n
	n.size = old.size
	if len(old.sizes) > 0 {
		n.size = old.sizes[c.pick(len(old.sizes))]
	}
	maps.Copy(n.sectors, old.sectors)
	for _, i := range slices.Sorted(maps.Keys(old.pending)) {
		list := old.pending[i].list
		if s := list[c.pick(len(list))]; s != nil {
			n.sectors[i] = s
		} else {
			delete(n.sectors, i)
		}
	}
	cutTail(n)
	c.d.used += n.size
	return n
}

// cutTail drops what lies beyond the length.
func cutTail(f *inode) {
	for i, s := range f.sectors {
		switch start := i * SectorSize; {
		case start >= f.size:
			delete(f.sectors, i)
		case start+SectorSize > f.size:
			cut := *s
			clear(cut[f.size-start:])
			f.sectors[i] = &cut
		}
	}
}

// AfterKill returns the disk that the next process finds when this one has been killed
// while the machine runs on: everything written is there to be read, and what was not
// synced can still be lost in a crash. This disk stays as it is.
func (d *Disk) AfterKill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := New()
	n.Sleep, n.SyncTime, n.capacity = d.Sleep, d.SyncTime, d.capacity
	k := kill{d: n, dirs: map[*dir]*dir{}, inodes: map[*inode]*inode{}, changes: map[*nameChange]*nameChange{}}
	n.root = k.dir(d.root)
	return n
}

// kill copies a disk with all that is undecided.
type kill struct {
	d       *Disk
	dirs    map[*dir]*dir
	inodes  map[*inode]*inode
	changes map[*nameChange]*nameChange
}

func (k kill) entry(e entry) entry {
	switch {
	case e.d != nil:
		return entry{d: k.dir(e.d)}
	case e.f != nil:
		return entry{f: k.inode(e.f)}
	}
	return e
}

func (k kill) dir(old *dir) *dir {
	if n := k.dirs[old]; n != nil {
		return n
	}
	n := newDir()
	k.dirs[old] = n
	for name, e := range old.names {
		n.names[name] = k.entry(e)
	}
	for name, e := range old.durable {
		n.durable[name] = k.entry(e)
	}
	for _, c := range old.pending {
		n.pending = append(n.pending, k.change(c))
	}
	return n
}

func (k kill) change(old *nameChange) *nameChange {
	if n := k.changes[old]; n != nil {
		return n
	}
	n := &nameChange{durable: old.durable}
	k.changes[old] = n
	for _, s := range old.set {
		n.set = append(n.set, nameSet{k.dir(s.in), s.name, k.entry(s.to)})
	}
	return n
}

func (k kill) inode(old *inode) *inode {
	if n := k.inodes[old]; n != nil {
		return n
	}
	n := k.d.newInode()
	k.inodes[old] = n
	n.size, n.doubtful, n.floor, n.unlinked = old.size, old.doubtful, old.floor, old.unlinked
	n.sizes = slices.Clone(old.sizes)
	maps.Copy(n.sectors, old.sectors)
	for i, v := range old.pending {
		n.pending[i] = &versions{list: slices.Clone(v.list), doubtful: v.doubtful}
	}
	if !n.unlinked {
		k.d.used += n.size
	}
	return n
}

// Flip changes bits of a file behind everybody's back, on the medium too: what a worn disk
// does.
func (d *Disk) Flip(name string, off int64, mask byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.find(name)
	if err != nil {
		return pathError("flip", name, err)
	}
	if e.f == nil || off < 0 || off >= e.f.size {
		return fmt.Errorf("disk: no byte %d in %s", off, name)
	}
	var s sector
	if old := e.f.sectors[off/SectorSize]; old != nil {
		s = *old
	}
	s[off%SectorSize] ^= mask
	e.f.sectors[off/SectorSize] = &s
	delete(e.f.pending, off/SectorSize)
	return nil
}

// Files lists all files with their lengths, sorted by path: for messages and tests.
func (d *Disk) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	var walk func(prefix string, in *dir)
	walk = func(prefix string, in *dir) {
		for _, name := range slices.Sorted(maps.Keys(in.names)) {
			if e := in.names[name]; e.d != nil {
				walk(prefix+"/"+name, e.d)
			} else {
				list = append(list, fmt.Sprintf("%s/%s %d", prefix, name, e.f.size))
			}
		}
	}
	walk("", d.root)
	return list
}
