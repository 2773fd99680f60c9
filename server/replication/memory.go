package replication

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// MemoryStores hold what a node in memory would have on disk. They outlive the node: hand
// them to the next one to go on with its data.
type MemoryStores struct {
	log   *raft.InmemStore // also term and vote
	snaps *memorySnapshots

	mu    sync.Mutex // guards what follows
	inUse bool
	ready bool // has been used before
	id    identity

	sickAt uint64 // see quarantine.go
}

// NewMemoryStores returns empty stores.
func NewMemoryStores() *MemoryStores {
	return &MemoryStores{log: raft.NewInmemStore(), snaps: &memorySnapshots{now: time.Now}}
}

// acquire takes the stores for one node.
func (m *MemoryStores) acquire() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse {
		return ErrLocked
	}
	m.inUse = true
	return nil
}

// Close releases the stores; their content stays.
func (m *MemoryStores) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inUse = false
	return nil
}

// memoryLog is a raft.InmemStore as logStore and stableStore.
type memoryLog struct{ *raft.InmemStore }

func (memoryLog) Close() error { return nil }
func (memoryLog) Bytes() int64 { return 0 }

// A memorySnapshots is a raft.SnapshotStore that keeps the newest snapshot, compressed as it
// would be on disk.
type memorySnapshots struct {
	mu   sync.Mutex // guards what follows
	now  func() time.Time
	d    snapDescription
	data []byte
}

func (s *memorySnapshots) setClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *memorySnapshots) all() []snapFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		return nil
	}
	return []snapFile{{name: snapName(s.d.index, s.d.term), snapDescription: s.d, bytes: int64(len(s.data))}}
}

// Create begins a snapshot.
func (s *memorySnapshots) Create(_ raft.SnapshotVersion, index, term uint64, config raft.Configuration,
	configIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	k := &memorySink{s: s, snapSink: snapSink{id: snapName(index, term)}}
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	var err error
	k.w, err = newSnapWriter(&k.buf, snapDescription{
		index: index, term: term, config: config, configIndex: configIndex, created: now(),
	})
	return k, err
}

// List returns the snapshot.
func (s *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{s.d.meta(snapName(s.d.index, s.d.term))}, nil
}

// nopCloser lets a bytes.Reader be a file.
type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// Open opens the snapshot.
func (s *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	d, data := s.d, s.data
	s.mu.Unlock()
	if data == nil || id != snapName(d.index, d.term) {
		return nil, nil, errors.New("no such snapshot in memory")
	}
	r, err := openSnapshot(nopCloser{bytes.NewReader(data)}, int64(len(data)), "memory")
	if err != nil {
		return nil, nil, err
	}
	return d.meta(id), r, nil
}

func (s *memorySnapshots) purge(int) error { return nil }
func (s *memorySnapshots) bytes() int64    { return 0 }

type memorySink struct {
	snapSink
	s   *memorySnapshots
	buf bytes.Buffer
}

// Close replaces the snapshot before, unless that is newer.
func (k *memorySink) Close() error {
	if k.done {
		return k.err
	}
	k.done = true
	if k.err = k.finish(); k.err != nil {
		return k.err
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	// One that a leader has sent may have come in between: the newer one stays.
	if k.s.data == nil || k.w.d.index >= k.s.d.index {
		k.s.d, k.s.data = k.w.d, bytes.Clone(k.buf.Bytes())
	}
	return nil
}

// Cancel drops the snapshot.
func (k *memorySink) Cancel() error {
	if !k.done {
		k.done = true
		k.w.abandon()
	}
	return nil
}
