package peer

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func acceptAll(n int) acceptor { return func(frameType) (int, bool) { return n, true } }

func TestFramesAreCutOutOfAConnection(t *testing.T) {
	var b []byte
	bodies := []string{"", "one", string(make([]byte, 100_000)), "four"}
	for i, body := range bodies {
		b = appendFrame(b, frameType(i), func(b []byte) []byte { return append(b, body...) })
	}
	r := newFrameReader(bytes.NewReader(b), 1<<10)
	buf := make([]byte, 10)
	for i, body := range bodies {
		f, got, err := r.next(acceptAll(1<<20), buf)
		require.NoError(t, err)
		require.Equal(t, frameType(i), f)
		require.Equal(t, body, string(got))
	}
	_, _, err := r.next(acceptAll(1<<20), buf)
	require.Equal(t, io.EOF, err)
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	good := appendFrame(nil, 7, func(b []byte) []byte { return append(b, "the body"...) })
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		_, _, err := newFrameReader(bytes.NewReader(bad), 1<<10).next(acceptAll(len("the body")), nil)
		require.Error(t, err, "bit %d", bit)
	}
}

func TestEveryTruncationIsNoticed(t *testing.T) {
	good := appendFrame(nil, 7, func(b []byte) []byte { return append(b, "the body"...) })
	for n := 1; n < len(good); n++ {
		_, _, err := newFrameReader(bytes.NewReader(good[:n]), 1<<10).next(acceptAll(100), nil)
		require.Equal(t, io.ErrUnexpectedEOF, err, "%d bytes", n)
	}
}

func TestForeignAndLongFramesAreRefusedByTheirHead(t *testing.T) {
	head := appendFrame(nil, frameChunk, nil)
	_, _, err := parseHead(head, acceptRaftAnswer)
	require.ErrorIs(t, err, errForeignFrame)
	binary.BigEndian.PutUint32(head, 0xffffffff)
	_, _, err = parseHead(head, acceptSnapshotBody)
	require.ErrorIs(t, err, errFrameTooLong)
	binary.BigEndian.PutUint32(head, chunkBytes)
	_, _, err = parseHead(head, acceptSnapshotBody)
	require.NoError(t, err)
	head[6] = 1
	_, _, err = parseHead(head, acceptSnapshotBody)
	require.ErrorIs(t, err, errForeignFrame, "a later format")
}

// A frame's length is a promise: memory follows the bytes that come.
func TestMemoryFollowsWhatArrives(t *testing.T) {
	const promised, sent = 1 << 30, 3 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readBody(io.LimitReader(zeros{}, sent), promised, nil)
	runtime.ReadMemStats(&after)
	require.Equal(t, io.ErrUnexpectedEOF, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*sent))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestHelloNeedsTheMagicFirst(t *testing.T) {
	h := hello{newest: 1, oldest: 1, kind: KindRaft, boot: 5, cluster: "c", from: "1-a", to: "2-b"}
	good := appendFrame([]byte(magic), frameHello, func(b []byte) []byte { return appendHello(b, &h) })
	got, err := readHello(bytes.NewReader(good))
	require.NoError(t, err)
	require.Equal(t, h, got)
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := readHello(bytes.NewReader(bad))
		require.Error(t, err, "bit %d", bit)
	}
	_, err = readHello(bytes.NewReader([]byte("GET / HTTP/1.1\r\nHost: member\r\n\r\n")))
	require.ErrorIs(t, err, errMagic)
}

// tardy gives some bytes and then runs into a deadline.
type tardy struct{ r io.Reader }

func (d tardy) Read(b []byte) (int, error) {
	if n, err := d.r.Read(b); err == nil {
		return n, nil
	}
	return 0, os.ErrDeadlineExceeded
}

// A deadline between two frames may pass; within one it ends the connection.
func TestADeadlineWithinAFrameIsNotTakenForIdleness(t *testing.T) {
	good := appendFrame(nil, 7, func(b []byte) []byte { return append(b, "the body"...) })
	for n := range good {
		_, _, err := newFrameReader(tardy{bytes.NewReader(good[:n])}, 1<<10).next(acceptAll(100), nil)
		if n == 0 {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			continue
		}
		require.ErrorIs(t, err, errHalfFrame, "%d bytes", n)
	}
}
