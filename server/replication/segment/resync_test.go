package segment

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

func TestSumsGiveTheChecksumOfAnyStretch(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	disk := newDisk()
	o := smallOptions(disk)
	o.SegmentBytes = 3 << 20 // more than is read at once
	l := mustOpen(t, o)
	defer l.Close()
	data := make([]byte, 5<<19)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	mustAppend(t, l, &raft.Log{Index: 1, Term: 1, Data: data})
	s := l.tail()
	base := int64(headerSize + recordSize)
	m, err := newSums(s, base)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		lo := rng.IntN(len(data)/8) * 8
		hi := lo + rng.IntN((len(data)-lo)/8+1)*8
		if rng.IntN(2) == 0 {
			hi = min(lo+rng.IntN(8)*8, hi)
		}
		crc := rng.Uint32()
		want := crc32.Update(crc, castagnoli, data[lo:hi])
		if got := m.update(crc, base+int64(lo), base+int64(hi)); got != want {
			t.Fatalf("bytes %d to %d: %08x, want %08x", lo, hi, got, want)
		}
	}
}

// Data that looks like headers of long records everywhere does not make the start slow: the
// file is read a few times, not once for each of them.
func TestForgedHeadersDoNotSlowTheStart(t *testing.T) {
	disk, stage := newDisk(), &stageFS{}
	stage.FS = disk
	o := smallOptions(stage)
	o.SegmentBytes = 2 << 20
	l := mustOpen(t, o)
	mustStore(t, l, entry(1, 1, 10))
	data := make([]byte, 3<<19)
	for i := 0; i < len(data); i += 256 { // lengths that reach beyond what is read at once
		h := data[i:]
		h[0] = 1
		binary.BigEndian.PutUint32(h[8:], 5<<18)
		h[14] = kindEntry
		binary.BigEndian.PutUint64(h[16:], 50)
		binary.BigEndian.PutUint64(h[32:], 50)
	}
	mustAppend(t, l, &raft.Log{Index: 2, Term: 1, Data: data})
	mustAppend(t, l, entry(3, 1, 10))
	s := l.tail()
	disk.Kill()
	disk.Damage(s.path, func(b []byte) []byte {
		b[s.offsets[1]] ^= 1
		return b
	})
	stage.read.Store(0)
	l = mustOpen(t, o)
	wantLog(t, l, entries(1, 1, 1, 10))
	l.Close()
	if n := stage.read.Load() >> 20; n > 20 {
		t.Fatalf("%d MiB were read of a file of 2 MiB", n)
	}
}
