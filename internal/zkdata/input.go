package zkdata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"strings"
)

const (
	inputBuffer = 256 << 10
	// step is how much is allocated at a time for a length that may be a lie.
	step = 64 << 10
)

// An input reads the numbers, strings and buffers of a file and sums them up. The first error
// sticks: after it every method returns the zero value.
type input struct {
	r   *bufio.Reader
	off int64 // of the next byte
	sum hash.Hash32
	err error
	num [8]byte
}

func newInput(r io.Reader) *input {
	return &input{r: bufio.NewReaderSize(r, inputBuffer), sum: adler32.New()}
}

// fail notes what is wrong at the offset.
func (in *input) fail(offset int64, format string, args ...any) {
	if in.err == nil {
		in.err = &Error{Offset: offset, What: fmt.Sprintf(format, args...)}
	}
}

// full fills b.
func (in *input) full(b []byte) bool {
	if in.err != nil {
		return false
	}
	n, err := io.ReadFull(in.r, b)
	in.sum.Write(b[:n])
	in.off += int64(n)
	switch {
	case err == nil:
		return true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		in.fail(in.off, "the file ends here, in the middle of something")
	default:
		in.err = fmt.Errorf("offset %d: %w", in.off, err)
	}
	return false
}

func (in *input) int32() int32 {
	if !in.full(in.num[:4]) {
		return 0
	}
	return int32(binary.BigEndian.Uint32(in.num[:4]))
}

func (in *input) int64() int64 {
	if !in.full(in.num[:8]) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(in.num[:8]))
}

// buffer reads a buffer; null is nil, and an empty one is not.
func (in *input) buffer() []byte {
	at := in.off
	n := int(in.int32())
	if in.err != nil || n == -1 {
		return nil
	}
	if n < 0 {
		in.fail(at, "the length %d is negative", n)
		return nil
	}
	b := make([]byte, 0, min(n, step))
	for len(b) < n {
		k := min(n-len(b), max(step, len(b)))
		b = append(b, make([]byte, k)...)
		if !in.full(b[len(b)-k:]) {
			return nil
		}
	}
	return b
}

// string reads a string. What is no UTF-8 becomes U+FFFD, as in Java.
func (in *input) string() string {
	return strings.ToValidUTF8(string(in.buffer()), "\uFFFD")
}

// count reads the number of elements of a list; null is 0.
func (in *input) count() int {
	at := in.off
	n := in.int32()
	if n < -1 {
		in.fail(at, "the number of elements %d is negative", n)
	}
	return int(max(n, 0))
}

// atEnd says that nothing follows.
func (in *input) atEnd() bool {
	if in.err != nil {
		return true
	}
	_, err := in.r.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		in.err = fmt.Errorf("offset %d: %w", in.off, err)
	}
	return err != nil
}
