package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// resync looks through what lies at and behind off, where no valid record was found, for
// one that proves entry index to have been durable. torn is how far behind off there is
// anything but zeros.
func resync(s *segment, off int64, index uint64) (torn int64, damaged bool, err error) {
	w := window{s: s}
	start := off
	var m *sums // made when there is a use for them, which is rare
	for off < s.size {
		b, err := w.bytes(off, 8)
		if err != nil {
			return 0, false, fmt.Errorf("cannot read a log segment: %w", err)
		}
		if n := zeros(b); n > 0 {
			off += n
			continue
		}
		torn = min(off+8, s.size) - start
		if len(b) < recordSize {
			if b, err = w.bytes(off, recordSize); err != nil {
				return 0, false, fmt.Errorf("cannot read a log segment: %w", err)
			}
		}
		if n := recordLen(b); n > 0 && n <= s.size-off && mayVouch(b, index, s.size) {
			if m == nil {
				if m, err = newSums(s, off); err != nil {
					return 0, false, fmt.Errorf("cannot read a log segment: %w", err)
				}
			}
			crc := crc32.Update(s.crc0, castagnoli, b[4:8])
			if m.update(crc, off+8, off+n) == binary.BigEndian.Uint32(b) {
				return torn, true, nil
			}
		}
		off += 8
	}
	return torn, false, nil
}

// mayVouch says whether the record in b, if it is one, says that entry index was durable; it
// is in a file of that size, behind that entry.
func mayVouch(b []byte, index uint64, size int64) bool {
	at, durable := binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[32:])
	return durable >= index && at >= durable && at-index <= uint64(size/recordSize)
}

// zeros is how many bytes at the start of b are zero, rounded down to a multiple of 8.
func zeros(b []byte) int64 {
	n := 0
	for n+8 <= len(b) && binary.NativeEndian.Uint64(b[n:]) == 0 {
		n += 8
	}
	if n+8 > len(b) { // a file may end inside the last eight
		rest := b[n:]
		for _, c := range rest {
			if c != 0 {
				return int64(n)
			}
		}
		if n == 0 {
			return int64(len(rest))
		}
	}
	return int64(n)
}

// sums are the checksums of a file from base up to each multiple of 8 behind it. With them
// the checksum of any stretch takes the same short time. Without them the time to read
// through a torn tail grows with the square of its length, if a client has filled it with
// what looks like headers of long records: 49 s were measured for 4 MiB.
type sums struct {
	base int64
	upTo []uint32
}

func newSums(s *segment, base int64) (*sums, error) {
	m := &sums{base: base, upTo: make([]uint32, 1, (s.size-base)/8+1)}
	w := window{s: s}
	crc := uint32(0)
	for off := base; off+8 <= s.size; {
		b, err := w.bytes(off, 8)
		if err != nil {
			return nil, err
		}
		for ; len(b) >= 8; b = b[8:] {
			crc = crc32.Update(crc, castagnoli, b[:8])
			m.upTo = append(m.upTo, crc)
			off += 8
		}
	}
	return m, nil
}

// update is crc32.Update with the bytes of the file from lo to hi, both multiples of 8 away
// from base. A checksum is linear: Update(c, AB) = pass(Update(c, A), len(B)) ^ Update(0, B).
func (m *sums) update(crc uint32, lo, hi int64) uint32 {
	return m.upTo[(hi-m.base)/8] ^ pass(m.upTo[(lo-m.base)/8]^crc, hi-lo)
}

// pass is what n bytes, a multiple of 8, make of a difference of checksums before them: the
// product with x^8n modulo the polynomial of the checksum.
func pass(crc uint32, n int64) uint32 {
	for n, k := n/8, 0; n > 0; n, k = n>>1, k+1 {
		if n&1 != 0 {
			crc = multiply(crc, powers[k])
		}
	}
	return crc
}

// powers are x^64, x^128, x^256 and so on; the last stands for more than a file can hold.
var powers = func() (p [48]uint32) {
	x := uint32(1) << 30 // the highest bit is the coefficient of x^0
	for range 6 {
		x = multiply(x, x)
	}
	for k := range p {
		p[k] = x
		x = multiply(x, x)
	}
	return p
}()

// multiply is the product of two polynomials modulo that of the checksum.
func multiply(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		p ^= b & -(a >> 31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return p
}
