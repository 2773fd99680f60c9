package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"
)

// After the eight bytes of magic that open a connection (handshake.go) everything is a
// frame, in both directions, numbers big endian:
//
//	 0   4  length of the body: a frame beyond the limit of its type ends the connection
//	 4   1  type
//	 5   3  zero; another value is a later format
//	 8   4  CRC32C of bytes 0–7 and the body, since TCP's own checksum lets one broken
//	        segment in some millions pass, and what passes here goes into the log
//	12   …  body
type frameType uint8

const headerBytes = 12

// The types. A connection takes only those of its kind and direction; see the accept* tables.
const (
	frameHello   frameType = 1 // the first of a connection, from who dialed
	frameWelcome frameType = 2 // its answer
	frameRefusal frameType = 3 // or this one, and the end
	frameBye     frameType = 4 // the end is in order: nobody has died
	// 5 is frameIntroduction

	frameVote       frameType = 16
	framePreVote    frameType = 17
	frameAppend     frameType = 18
	frameTimeoutNow frameType = 19
	frameReply      frameType = 20 // raft's answer to any of them
	frameFailure    frameType = 21 // or an error

	frameInstall frameType = 32 // the header of a snapshot
	frameChunk   frameType = 33 // some of its bytes
	frameEnd     frameType = 34 // all were sent
	frameWorking frameType = 35 // from the receiver, while raft installs it

	frameAsk   frameType = 48 // how do you see that member?
	frameSight frameType = 49 // so

	frameMessage frameType = 64 // of a Stream
)

// Errors of a frame.
var (
	errForeignFrame = errors.New("a frame that does not belong here")
	errFrameTooLong = errors.New("a frame beyond its limit")
	errChecksum     = errors.New("a frame with a wrong checksum")
	errFormat       = errors.New("a frame that cannot be decoded")
	errHalfFrame    = errors.New("the rest of a frame did not come in time")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An acceptor says how long a frame of a type may be here; false: it does not belong here.
type acceptor func(frameType) (maxBytes int, ok bool)

// buffers are for frames that are written, and given back when they are. What is read into
// a log entry never comes from here.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBytes keeps single large frames from staying in memory.
const maxPooledBytes = 2 * splitBytes

func getBuffer() *[]byte {
	return buffers.Get().(*[]byte)
}

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooledBytes {
		buffers.Put(b)
	}
}

// appendFrame appends a frame, whose body fill appends.
func appendFrame(b []byte, t frameType, fill func([]byte) []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(t), 0, 0, 0, 0, 0, 0, 0)
	if fill != nil {
		b = fill(b)
	}
	f := b[start:]
	binary.BigEndian.PutUint32(f, uint32(len(f)-headerBytes))
	binary.BigEndian.PutUint32(f[8:], frameSum(f[:8], f[headerBytes:]))
	return b
}

func frameSum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
}

// A frameReader cuts frames out of a connection. Not safe for concurrent use.
type frameReader struct {
	r    io.Reader
	head [headerBytes]byte
}

func newFrameReader(r io.Reader, bufferBytes int) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, bufferBytes)}
}

// next reads a frame. Its body is read into buf if that is large enough, else into memory of
// its own, which belongs to the caller. io.EOF means that the other side closed between two
// frames, and os.ErrDeadlineExceeded that none began.
func (f *frameReader) next(accept acceptor, buf []byte) (frameType, []byte, error) {
	if k, err := io.ReadFull(f.r, f.head[:]); err != nil {
		if k > 0 {
			err = inFrame(err)
		}
		return 0, nil, err
	}
	t, n, err := parseHead(f.head[:], accept)
	if err != nil {
		return 0, nil, err
	}
	body, err := readBody(f.r, n, buf)
	if err != nil {
		return 0, nil, err
	}
	if frameSum(f.head[:8], body) != binary.BigEndian.Uint32(f.head[8:]) {
		return 0, nil, errChecksum
	}
	return t, body, nil
}

// parseHead checks type and length before anything is allocated for the frame.
func parseHead(head []byte, accept acceptor) (frameType, int, error) {
	t := frameType(head[4])
	if head[5]|head[6]|head[7] != 0 {
		return 0, 0, fmt.Errorf("%w: of a later format", errForeignFrame)
	}
	limit, ok := accept(t)
	if !ok {
		return 0, 0, fmt.Errorf("%w: type %d", errForeignFrame, t)
	}
	n := binary.BigEndian.Uint32(head)
	if uint64(n) > uint64(limit) {
		return 0, 0, fmt.Errorf("%w: %d bytes of type %d, at most %d are taken", errFrameTooLong, n, t, limit)
	}
	return t, int(n), nil
}

// readBody reads n bytes. Beyond growBytes, memory is taken as the bytes arrive, not as the
// header promises them.
func readBody(r io.Reader, n int, buf []byte) ([]byte, error) {
	b := buf[:0]
	for len(b) < n {
		step := min(n-len(b), max(growBytes, len(b), cap(b)-len(b)))
		have := len(b)
		b = slices.Grow(b, step)[:have+step]
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			return nil, inFrame(err)
		}
	}
	return b, nil
}

// inFrame makes of an error within a frame one that is not taken for one between two: after
// it the connection cannot be used.
func inFrame(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errHalfFrame
	default:
		return err
	}
}
