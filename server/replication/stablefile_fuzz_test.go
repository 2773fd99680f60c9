package replication

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// Term and vote: what decodes is the same again after encoding, also where only the checksum of what
// was damaged is right.
func FuzzStableFile(f *testing.F) {
	some := &stableFile{values: map[string][]byte{"CurrentTerm": {0, 0, 0, 0, 0, 0, 0, 7}, "LastVoteCand": []byte("2-ed20835f8e3c7bda")}}
	f.Add(some.encode())
	f.Add((&stableFile{}).encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &stableFile{values: map[string][]byte{}}
		if !s.decode(b) {
			if len(b) < 4 {
				return
			}
			b = append(append([]byte(nil), stableMagic...), b[:len(b)-4]...)
			b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
			s = &stableFile{values: map[string][]byte{}}
			if !s.decode(b) {
				return
			}
		}
		again := &stableFile{values: map[string][]byte{}}
		require.True(t, again.decode(s.encode()))
		require.Equal(t, s.values, again.values)
	})
}
