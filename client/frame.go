package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode"

	"github.com/zkd-project/zkd/wire"
)

// A frameReader cuts a stream into frames.
type frameReader struct {
	src  io.Reader
	buf  []byte // buf[r:w] is read and not used
	r, w int
	max  int    // longest body
	seen func() // called after every read that brought something; may be nil
}

func newFrameReader(src io.Reader, max int) *frameReader {
	return &frameReader{src: src, buf: make([]byte, readBufferBytes), max: max}
}

// next returns the body of the next frame. It is valid until the next call.
func (f *frameReader) next() ([]byte, error) {
	if err := f.fill(wire.FrameLengthSize); err != nil {
		return nil, err
	}
	head := f.buf[f.r : f.r+wire.FrameLengthSize]
	n, err := wire.FrameLength(head, f.max)
	if err != nil {
		long := int(int32(binary.BigEndian.Uint32(head)))
		return nil, &frameLengthError{bytes: long, max: f.max, err: fmt.Errorf("%w%s", err, hint(f.buf[f.r:f.w]))}
	}
	if err := f.fill(wire.FrameLengthSize + n); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	body := f.buf[f.r+wire.FrameLengthSize : f.r+wire.FrameLengthSize+n]
	f.r += wire.FrameLengthSize + n
	return body, nil
}

// A frameLengthError is a length beyond what is accepted, or below 0. The frame has not been taken:
// beginning shows how it begins, and skip leaves it out.
type frameLengthError struct {
	bytes, max int
	err        error
}

func (e *frameLengthError) Error() string { return e.err.Error() }

// beginning returns the first n bytes of the body of the frame that is next, if it has so many.
// They are valid until the next call.
func (f *frameReader) beginning(n int) ([]byte, error) {
	if err := f.fill(wire.FrameLengthSize + n); err != nil {
		return nil, err
	}
	return f.buf[f.r+wire.FrameLengthSize : f.r+wire.FrameLengthSize+n], nil
}

// skip leaves out the frame that is next, without keeping it.
func (f *frameReader) skip() error {
	if err := f.fill(wire.FrameLengthSize); err != nil {
		return err
	}
	for left := wire.FrameLengthSize + int(binary.BigEndian.Uint32(f.buf[f.r:])); left > 0; {
		if err := f.fill(1); err != nil {
			return err
		}
		n := min(left, f.w-f.r)
		f.r += n
		left -= n
	}
	return nil
}

// fill reads until n bytes are there. The buffer grows with what has arrived, not with what a
// length promises, and shrinks when a long frame is over.
func (f *frameReader) fill(n int) error {
	for f.w-f.r < n {
		switch {
		case f.r == f.w && len(f.buf) > readBufferBytes && n <= readBufferBytes:
			f.buf, f.r, f.w = make([]byte, readBufferBytes), 0, 0
		case f.r == f.w:
			f.r, f.w = 0, 0
		case f.r+n > len(f.buf) && f.r > 0:
			f.w = copy(f.buf, f.buf[f.r:f.w])
			f.r = 0
		}
		if f.w == len(f.buf) {
			grown := make([]byte, min(n, 2*len(f.buf)))
			f.w = copy(grown, f.buf[f.r:f.w])
			f.buf, f.r = grown, 0
		}
		m, err := f.src.Read(f.buf[f.w:])
		f.w += m
		if m > 0 && f.seen != nil {
			f.seen()
		}
		if err != nil && f.w-f.r < n {
			if err == io.EOF && f.w > f.r {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// hint helps whoever dialled the wrong port: the first bytes often tell who answered.
func hint(b []byte) string {
	if len(b) >= 3 && (b[0] == 0x15 || b[0] == 0x16) && b[1] == 3 {
		return "; the server speaks TLS, use WithTLS"
	}
	b = b[:min(len(b), 24)]
	for _, c := range b {
		if c > unicode.MaxASCII || c < ' ' && c != '\r' && c != '\n' {
			return ""
		}
	}
	return fmt.Sprintf("; this is no ZooKeeper port, it says %q", b)
}
