package zkdata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// A snappyReader reads what SnappyOutputStream of snappy-java writes, which is not the usual
// framing:
//
//	magic 82 "SNAPPY" 00 | int version | int lowest compatible version
//	blocks: int length | that many bytes, compressed
type snappyReader struct {
	r     io.Reader
	off   int64 // in the compressed stream
	block []byte
	rest  []byte // of the block, not read yet
	err   error
}

const (
	snappyMagic = "\x82SNAPPY\x00"
	// maxSnappyBlock bounds a block. The writer's are 32 KiB; some let it be configured.
	maxSnappyBlock = 64 << 20
)

func newSnappyReader(r io.Reader) (io.Reader, error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:8]) != snappyMagic {
		return nil, &Error{What: "this is not compressed by snappy-java, as the name of the file says"}
	}
	return &snappyReader{r: r, off: int64(len(head))}, nil
}

// Read implements io.Reader.
func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		s.err = s.next()
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next reads a block. Its faults name the offset in the compressed file.
func (s *snappyReader) next() error {
	var head [4]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return &Error{Offset: s.off, What: "the compressed file ends in the middle of a block"}
		}
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxSnappyBlock {
		return &Error{Offset: s.off, What: fmt.Sprintf("a compressed block of %d bytes: the file is damaged", n)}
	}
	packed, err := io.ReadAll(io.LimitReader(s.r, int64(n)))
	if err != nil {
		return err
	}
	if len(packed) < int(n) {
		return &Error{Offset: s.off, What: "the compressed file ends in the middle of a block"}
	}
	if size, err := snappy.DecodedLen(packed); err != nil || size > maxSnappyBlock {
		return &Error{Offset: s.off, What: "a compressed block does not say how long it is: the file is damaged"}
	}
	if s.block, err = snappy.Decode(s.block, packed); err != nil {
		return &Error{Offset: s.off, What: fmt.Sprintf("a compressed block cannot be read: %v", err)}
	}
	s.off += int64(len(head)) + int64(n)
	s.rest = s.block
	return nil
}
