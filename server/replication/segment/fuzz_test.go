package segment

import (
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A header that decodes is the same again after encoding; with the right checksum, all are.
func FuzzHeader(f *testing.F) {
	f.Add((&header{flags: 1, first: 7, salt: 99, prev: 3, reserved: 1 << 20, seq: 2}).encode())
	f.Add([]byte("ZKDLOG"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h header
		if h.decode(b) != nil {
			if len(b) < headerSize {
				return
			}
			b = append([]byte(nil), b...)
			copy(b, magic[:])
			binary.BigEndian.PutUint32(b[8:], formatVersion)
			binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
			require.NoError(t, h.decode(b))
		}
		var again header
		require.NoError(t, again.decode(h.encode()))
		require.Equal(t, h, again)
	})
}

// A name is that of one segment at most.
func FuzzFileName(f *testing.F) {
	f.Add(fileName(1, 1))
	f.Add("00000001-00000000000000000001.log")
	f.Add("1-1.log")
	f.Add("x")
	f.Fuzz(func(t *testing.T, name string) {
		if seq, first, ok := parseName(name); ok {
			require.Equal(t, name, fileName(seq, first))
		}
	})
}

// Whatever stands in a segment, a log opens with the entries before it, or says what is wrong.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	options := func(dir string) Options {
		return Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler), Dir: dir, SegmentBytes: 1 << 12, Rand: rand.NewChaCha8([32]byte{}), Create: true}
	}
	l, err := Open(options(dir))
	require.NoError(f, err)
	for i := uint64(1); i <= 3; i++ {
		require.NoError(f, l.StoreLogs([]*raft.Log{{Index: i, Term: 1, Data: []byte{byte(i)}}}))
	}
	require.NoError(f, l.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(f, err)
	require.Len(f, files, 1)
	good, err := os.ReadFile(files[0])
	require.NoError(f, err)
	name := filepath.Base(files[0])
	for _, cut := range []int{len(good), len(good) - 5, headerSize, headerSize - 1, 0} {
		f.Add(good[:cut])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		l, err := Open(options(dir))
		if err != nil {
			return
		}
		defer l.Close()
		first, err := l.FirstIndex()
		require.NoError(t, err)
		last, err := l.LastIndex()
		require.NoError(t, err)
		for i := first; i != 0 && i <= last; i++ {
			var e raft.Log
			if l.GetLog(i, &e) == nil {
				require.Equal(t, i, e.Index)
			}
		}
	})
}
