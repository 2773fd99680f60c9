package wire

import (
	"encoding/binary"
	"fmt"
)

// A message in either direction is one frame:
//
//	int32 length | length bytes
//
// The first frame of a connection is a ConnectRequest, answered by a ConnectResponse; all
// later ones start with a RequestHeader or a ReplyHeader.

// FrameLengthSize is the size of the length in front of a frame body.
const FrameLengthSize = 4

// DefaultMaxFrame is the longest frame body that a server accepts by default, inclusive
// (jute.maxbuffer of Apache ZooKeeper). Java clients since 3.6.0 refuse longer replies.
const DefaultMaxFrame = 0xfffff

// FrameLength reads the length from the first FrameLengthSize bytes of prefix. A length
// that is negative or greater than max is an error; the connection cannot go on after it.
// Zero is a length: the decode of the missing header fails then.
func FrameLength(prefix []byte, max int) (int, error) {
	n := int(int32(binary.BigEndian.Uint32(prefix)))
	if n < 0 || n > max {
		return 0, fmt.Errorf("frame length %d is not between 0 and %d; raise jute.maxbuffer if the peer is sane", n, max)
	}
	return n, nil
}

// AppendFrame starts a frame: it reserves its length. The body follows by appending, and
// FinishFrame(b, mark) ends it.
func AppendFrame(b []byte) (b2 []byte, mark int) {
	return append(b, 0, 0, 0, 0), len(b)
}

// FinishFrame ends the frame that AppendFrame started at mark: everything in b after it is
// the body.
func FinishFrame(b []byte, mark int) {
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-FrameLengthSize))
}
