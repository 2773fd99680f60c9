package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
)

// errKeyNotFound is what raft expects for a key that was never set.
var errKeyNotFound = errors.New("not found")

// A stableFile is a raft.StableStore in one small file that is replaced at each change. It
// is used where bbolt cannot be, since that needs the file system of the machine.
//
//	magic "zkdstbl\n", then per key, sorted: uvarint length, key, uvarint length, value; then
//	the CRC32C of all before.
type stableFile struct {
	fs   vfs.FS
	dir  string
	path string

	mu     vfs.Gate // raft writes from one goroutine; held across I/O, which is that one's
	values map[string][]byte
}

var _ raft.StableStore = (*stableFile)(nil)

var stableMagic = []byte("zkdstbl\n")

// openStableFile reads the file, or begins an empty one if there is none.
func openStableFile(fsys vfs.FS, dir string) (*stableFile, error) {
	s := &stableFile{
		fs: fsys, dir: dir, path: filepath.Join(dir, stableFileName), mu: vfs.NewGate(), values: map[string][]byte{},
	}
	b, err := vfs.ReadFile(fsys, s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read term and vote: %w", err)
	}
	if !s.decode(b) {
		return nil, &damage.Error{File: s.path, Offset: -1, What: "wrong checksum", Repair: damage.Rejoin}
	}
	return s, nil
}

func (s *stableFile) encode() []byte {
	b := slices.Clone(stableMagic)
	for _, k := range slices.Sorted(maps.Keys(s.values)) {
		b = binary.AppendUvarint(b, uint64(len(k)))
		b = append(b, k...)
		b = binary.AppendUvarint(b, uint64(len(s.values[k])))
		b = append(b, s.values[k]...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (s *stableFile) decode(b []byte) bool {
	n := len(b) - 4
	if n < len(stableMagic) || string(b[:len(stableMagic)]) != string(stableMagic) ||
		binary.BigEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return false
	}
	b = b[len(stableMagic):n]
	next := func() ([]byte, bool) {
		l, k := binary.Uvarint(b)
		if k <= 0 || l > uint64(len(b)-k) {
			return nil, false
		}
		v := b[k : k+int(l)]
		b = b[k+int(l):]
		return v, true
	}
	for len(b) > 0 {
		k, ok1 := next()
		v, ok2 := next()
		if !ok1 || !ok2 {
			return false
		}
		s.values[string(k)] = v
	}
	return true
}

// Set stores a value durably.
func (s *stableFile) Set(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[string(key)] = slices.Clone(value)
	return vfs.WriteFileAtomic(s.fs, s.dir, s.path, s.encode(), 0o600)
}

// Get reads a value.
func (s *stableFile) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[string(key)]
	if !ok {
		return nil, errKeyNotFound
	}
	return slices.Clone(v), nil
}

// SetUint64 stores a number durably.
func (s *stableFile) SetUint64(key []byte, n uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 reads a number.
func (s *stableFile) GetUint64(key []byte) (uint64, error) {
	v, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("the value of %q in %s is no number", key, s.path)
	}
	return binary.BigEndian.Uint64(v), nil
}

// Close has nothing to do.
func (s *stableFile) Close() error { return nil }
