package disk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
)

// SectorSize is the unit that the medium writes in one piece.
const SectorSize = 512

type sector [SectorSize]byte

// inode is the content of a file.
//
// sectors is what the running system reads; a sector that is not there is all zeros.
// Beyond the length everything is zero. pending has, for each sector written since it was
// last synced, all that the medium may hold of it: first what was synced, then each
// version since. sizes is the same for the length, empty when the length is synced.
type inode struct {
	id       int
	size     int64
	sectors  map[int64]*sector // never changed in place: crash images share them
	pending  map[int64]*versions
	sizes    []int64
	doubtful bool  // a Sync says nothing of sizes: one has failed since the last change
	floor    int64 // end of what has been written since then, which a Sync does speak of
	unlinked bool
}

// versions is what the medium may hold of one sector; nil stands for zeros. doubtful says
// that a Sync has failed since the last write: a later Sync says nothing of this sector.
type versions struct {
	list     []*sector
	doubtful bool
}

func (d *Disk) newInode() *inode {
	d.nextID++
	return &inode{id: d.nextID, sectors: map[int64]*sector{}, pending: map[int64]*versions{}}
}

// put gives a sector a new content.
func (f *inode) put(i int64, s *sector) {
	v := f.pending[i]
	if v == nil {
		v = &versions{list: []*sector{f.sectors[i]}}
		f.pending[i] = v
	}
	v.list = append(v.list, s)
	v.doubtful = false
	if s == nil {
		delete(f.sectors, i)
	} else {
		f.sectors[i] = s
	}
}

// write changes bytes inside the length.
func (f *inode) write(p []byte, off int64) {
	f.floor = max(f.floor, off+int64(len(p)))
	for len(p) > 0 {
		i, at := off/SectorSize, off%SectorSize
		var s sector
		if old := f.sectors[i]; old != nil {
			s = *old
		}
		n := copy(s[at:], p)
		f.put(i, &s)
		p, off = p[n:], off+int64(n)
	}
}

func (f *inode) read(p []byte, off int64) int {
	p = p[:min(int64(len(p)), max(f.size-off, 0))]
	for n := 0; n < len(p); {
		i, at := (off+int64(n))/SectorSize, (off+int64(n))%SectorSize
		rest := p[n:min(len(p), n+int(SectorSize-at))]
		clear(rest)
		if s := f.sectors[i]; s != nil {
			copy(rest, s[at:])
		}
		n += len(rest)
	}
	return len(p)
}

// resize sets the length; what is cut off is zero when the file grows again.
func (d *Disk) resize(f *inode, size int64) {
	if size < f.size {
		for i := range maps.Clone(f.sectors) {
			switch start := i * SectorSize; {
			case start >= size:
				f.put(i, nil)
			case start+SectorSize > size:
				s := *f.sectors[i]
				clear(s[size-start:])
				f.put(i, &s)
			}
		}
	}
	if len(f.sizes) == 0 {
		f.sizes = []int64{f.size}
	}
	f.sizes = append(f.sizes, size)
	f.doubtful = false
	if !f.unlinked {
		d.used += size - f.size
	}
	f.size = size
}

// A moment says what was pending when a Sync began.
type moment struct {
	versions map[int64]int // by sector: the length of its list
	sizes    int
	floor    int64
}

func (f *inode) moment() moment {
	m := moment{versions: make(map[int64]int, len(f.pending)), sizes: len(f.sizes), floor: f.floor}
	for i, v := range f.pending {
		m.versions[i] = len(v.list)
	}
	return m
}

// sync makes everything durable that was pending at that moment, but what is doubtful. What was
// written since then stays undecided, as it does beside a Sync that takes its time.
func (f *inode) sync(m moment) {
	for i, n := range m.versions {
		v := f.pending[i]
		switch {
		case v == nil || v.doubtful || n > len(v.list):
		case n == len(v.list):
			delete(f.pending, i)
		default:
			v.list = v.list[n-1:]
		}
	}
	n := min(m.sizes, len(f.sizes))
	before, since := f.sizes[:n:n], f.sizes[n:]
	if n > 0 && !f.doubtful {
		before = before[n-1:]
		if len(since) == 0 {
			before = nil
		}
	}
	before = slices.DeleteFunc(slices.Clone(before), func(size int64) bool { return size < m.floor })
	f.sizes = append(before, since...)
}

// syncFailed leaves everything that is pending undecided for ever.
func (f *inode) syncFailed() {
	for _, v := range f.pending {
		v.doubtful = true
	}
	f.doubtful = len(f.sizes) > 0
	f.floor = 0
}

// file is an open file; its position is guarded by the disk's mutex.
type file struct {
	d        *Disk
	f        *inode
	name     string
	pos      int64
	readOnly bool
	closed   bool
}

// enter begins an operation on an open file.
func (h *file) enter(op Op) error {
	if h.closed {
		return fs.ErrClosed
	}
	return h.d.enter(op, h.name)
}

func (h *file) Name() string { return h.name }

func (h *file) Close() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.closed {
		return pathError("close", h.name, fs.ErrClosed)
	}
	h.closed = true
	return nil
}

func (h *file) Read(p []byte) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	n, err := h.readAt(p, h.pos)
	h.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (h *file) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.readAt(p, off)
}

func (h *file) readAt(p []byte, off int64) (int, error) {
	if err := h.enter(OpRead); err != nil {
		return 0, pathError("read", h.name, err)
	}
	n := h.f.read(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *file) Write(p []byte) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	n, err := h.writeAt(p, h.pos)
	h.pos += int64(n)
	return n, err
}

func (h *file) WriteAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.writeAt(p, off)
}

// writeAt writes as much as the faults and the capacity let it.
func (h *file) writeAt(p []byte, off int64) (int, error) {
	if h.readOnly {
		return 0, pathError("write", h.name, syscall.EBADF)
	}
	err := h.enter(OpWrite)
	n := len(p)
	if err != nil {
		n = h.d.shortened(err, n)
	}
	if end := off + int64(n); end > h.f.size {
		if room := h.d.room(h.f); end > room {
			n, err = int(max(room-off, 0)), syscall.ENOSPC
			h.d.failures++
		}
		if end = off + int64(n); n > 0 && end > h.f.size {
			h.d.resize(h.f, end)
		}
	}
	h.f.write(p[:n], off)
	if err != nil {
		return n, pathError("write", h.name, err)
	}
	return n, nil
}

// room is the length that a file may grow to.
func (d *Disk) room(f *inode) int64 {
	if d.capacity == 0 {
		return 1<<63 - 1
	}
	return f.size + max(d.capacity-d.used, 0)
}

func (h *file) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	began := h.f.moment()
	err := h.enter(OpSync)
	if err == nil && h.d.SyncTime > 0 {
		err = h.d.wait(h.d.SyncTime)
	}
	if err != nil {
		if !errors.Is(err, ErrPowerCut) { // then it was not even tried
			h.f.syncFailed()
		}
		return pathError("sync", h.name, err)
	}
	h.f.sync(began)
	return nil
}

func (h *file) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.readOnly {
		return pathError("truncate", h.name, syscall.EBADF)
	}
	if err := h.enter(OpTruncate); err != nil {
		return pathError("truncate", h.name, err)
	}
	switch {
	case size == h.f.size:
		return nil
	case size > h.d.room(h.f):
		h.d.failures++
		return pathError("truncate", h.name, syscall.ENOSPC)
	}
	h.d.resize(h.f, size)
	return nil
}

// Preallocate grows as far as the faults and the capacity let it: ext4 leaves it there.
func (h *file) Preallocate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.readOnly {
		return pathError("preallocate", h.name, syscall.EBADF)
	}
	err := h.enter(OpTruncate)
	more := max(size-h.f.size, 0)
	if err != nil {
		more = int64(h.d.shortened(err, int(more)))
	}
	if room := h.d.room(h.f) - h.f.size; more > room {
		more, err = room, syscall.ENOSPC
		h.d.failures++
	}
	if more > 0 {
		h.d.resize(h.f, h.f.size+more)
	}
	if err != nil {
		return pathError("preallocate", h.name, err)
	}
	return nil
}

func (h *file) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.enter(OpStat); err != nil {
		return 0, pathError("stat", h.name, err)
	}
	return h.f.size, nil
}
