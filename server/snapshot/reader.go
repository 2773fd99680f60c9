package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A Reader reads one snapshot. The first error sticks.
type Reader struct {
	r      io.Reader
	err    error
	offset int64 // of the next block
	crc    uint32
	sum    totals

	prefix [prefixBytes]byte
	block  []byte // room for one payload
	rest   []byte // what is unread of the last data block
	open   *sectionReader
	bytes  uint64 // of the open section
}

var errPassed = errors.New("snapshot: read of a section that was passed")

// NewReader reads a snapshot from r, which is read only as far as blocks are asked for, and
// after the trailer for one byte more.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: r}
}

// Next passes what is left of the section before and begins the next one: its id, its
// version, and its content, which is good until the next call. It returns io.EOF after the
// last section, when the trailer was verified and the stream has ended: only then is the
// snapshot known to be whole.
func (r *Reader) Next() (id, version uint32, content io.Reader, err error) {
	if err := r.next(); err != nil {
		return 0, 0, nil, err
	}
	begin := r.block
	r.sum.sections++
	r.open, r.bytes = &sectionReader{r}, 0
	return binary.BigEndian.Uint32(begin), binary.BigEndian.Uint32(begin[4:]), r.open, nil
}

// next reads up to the block that begins a section, or to the end.
func (r *Reader) next() error {
	for r.open != nil && r.err == nil {
		r.rest = nil
		r.advance()
	}
	if r.err != nil {
		return r.err
	}
	if r.offset == 0 {
		if r.err = r.head(); r.err != nil {
			return r.err
		}
	}
	start := r.offset
	k, err := r.readBlock()
	switch {
	case err != nil:
		r.err = err
	case k == kindTrailer:
		r.err = r.trailer(start)
	case k != kindBegin:
		r.err = &DamageError{Offset: start, Reason: fmt.Sprintf("a block of kind %d outside of a section", k)}
	}
	return r.err
}

// sectionReader is the content of a section.
type sectionReader struct{ r *Reader }

func (s *sectionReader) Read(p []byte) (int, error) {
	r := s.r
	if r.open != s && r.err == nil {
		if r.open == nil {
			return 0, io.EOF
		}
		return 0, errPassed
	}
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.open == nil {
			return 0, io.EOF
		}
		r.advance()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// advance reads the next block of the open section into rest, or its end.
func (r *Reader) advance() {
	start := r.offset
	k, err := r.readBlock()
	switch {
	case err != nil:
		r.err = err
	case k == kindData:
		r.rest = r.block
		r.bytes += uint64(len(r.block))
		r.sum.bytes += uint64(len(r.block))
	case k == kindEnd:
		if said := binary.BigEndian.Uint64(r.block); said != r.bytes {
			r.err = &DamageError{Offset: start, Reason: fmt.Sprintf("the section has %d bytes and should have %d", r.bytes, said)}
		}
		r.open = nil
	default:
		r.err = &DamageError{Offset: start, Reason: fmt.Sprintf("a block of kind %d inside of a section", k)}
	}
}

// readBlock reads and verifies one block; its payload is in r.block.
func (r *Reader) readBlock() (kind, error) {
	start := r.offset
	if err := r.read(r.prefix[:]); err != nil {
		return 0, err
	}
	word := binary.BigEndian.Uint32(r.prefix[:])
	k, n := kind(word>>24), int(word&0xffffff)
	if want, ok := payloadBytes[k]; ok && n != want || !ok && (k != kindData || n == 0 || n > maxPayload) {
		return 0, &DamageError{Offset: start, Reason: fmt.Sprintf("a block of kind %d and %d bytes cannot be", k, n)}
	}
	if cap(r.block) < n {
		r.block = make([]byte, n) // grows to the largest block
	}
	r.block = r.block[:n]
	if err := r.read(r.block); err != nil {
		return 0, err
	}
	r.crc = crc32.Update(r.crc, castagnoli, r.prefix[:4])
	r.crc = crc32.Update(r.crc, castagnoli, r.block)
	if said := binary.BigEndian.Uint32(r.prefix[4:]); said != r.crc {
		return 0, &DamageError{Offset: start, Reason: fmt.Sprintf("the checksum is %08x and should be %08x", r.crc, said)}
	}
	r.sum.blocks++
	return k, nil
}

func (r *Reader) head() error {
	var b [headBytes]byte
	if _, err := io.ReadFull(r.r, b[:len(magic)]); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if string(b[:len(magic)]) != magic {
		return fmt.Errorf("%w: it does not start with %q", ErrFormat, magic)
	}
	r.offset = int64(len(magic))
	if err := r.read(b[len(magic):]); err != nil {
		return err
	}
	r.crc = crc32.Checksum(b[:len(magic)+4], castagnoli)
	if binary.BigEndian.Uint32(b[len(magic)+4:]) != r.crc {
		return &DamageError{Reason: "the checksum of the head is wrong"}
	}
	if v := binary.BigEndian.Uint32(b[len(magic):]); v != formatVersion {
		return fmt.Errorf("%w: its format is %d, known is %d; use the version that wrote it", ErrFormat, v, formatVersion)
	}
	return nil
}

// trailer compares the totals, and makes sure that nothing follows.
func (r *Reader) trailer(start int64) error {
	said := totals{
		sections: binary.BigEndian.Uint32(r.block),
		blocks:   binary.BigEndian.Uint64(r.block[4:]),
		bytes:    binary.BigEndian.Uint64(r.block[12:]),
	}
	got := r.sum
	got.blocks-- // the trailer does not count itself
	if said != got {
		return &DamageError{Offset: start, Reason: fmt.Sprintf("it has %+v and should have %+v", got, said)}
	}
	var one [1]byte
	switch _, err := io.ReadFull(r.r, one[:]); err {
	case io.EOF:
		return io.EOF
	case nil:
		return &DamageError{Offset: r.offset, Reason: "something follows its end"}
	default:
		return fmt.Errorf("read snapshot: %w", err)
	}
}

// read fills b.
func (r *Reader) read(b []byte) error {
	n, err := io.ReadFull(r.r, b)
	r.offset += int64(n)
	switch err {
	case nil:
		return nil
	case io.EOF, io.ErrUnexpectedEOF:
		return cutOff(r.offset)
	}
	return fmt.Errorf("read snapshot at byte %d: %w", r.offset, err)
}
