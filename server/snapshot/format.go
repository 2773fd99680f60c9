package snapshot

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The format, integers big-endian:
//
//	file     head  block ...                      ends with the trailer block
//	head     "zkdsnap\n"  format (4)  CRC (4)
//	block    kind (1)  length (3)  CRC (4)  payload (length)
//
//	kind 1   section begins    payload: id (4)  version (4)
//	kind 2   data              payload: 1 to 262,144 bytes of the section
//	kind 3   section ends      payload: bytes in the section (8)
//	kind 4   trailer           payload: sections (4)  blocks before this one (8)  bytes in all sections (8)
//
// magic     ends with a line feed, which a transfer as text would damage.
// format    of the container; sections have versions of their own.
// CRC       is CRC-32C over all of the file up to and including this block, without the
// CRCs themselves. As each goes on from the last one, a block is good only in its place:
// swapped, repeated or foreign blocks are found like flipped bits.
// length    is at most 256 KiB, so it can be believed before it was verified.
// totals    are what the reader must have seen.
const (
	magic         = "zkdsnap\n"
	formatVersion = 1

	headBytes   = len(magic) + 4 + 4
	prefixBytes = 8 // kind, length and CRC of a block

	maxPayload = 256 << 10
)

// A kind is the type of a block.
type kind uint8

const (
	kindBegin   kind = 1
	kindData    kind = 2
	kindEnd     kind = 3
	kindTrailer kind = 4
)

// payloadBytes are the exact lengths of the payloads that are not data.
var payloadBytes = map[kind]int{kindBegin: 8, kindEnd: 8, kindTrailer: 20}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// totals is what the trailer says.
type totals struct {
	sections uint32
	blocks   uint64
	bytes    uint64
}

// ErrFormat is returned, wrapped, when the stream is no snapshot at all, or one of a format
// that this version does not know.
var ErrFormat = errors.New("not a snapshot that this version can read")

// A DamageError is returned when a snapshot is not what was written. Another one must be
// used.
type DamageError struct {
	Offset int64 // of the block that shows the damage
	Reason string
	err    error
}

// Error says where the damage is.
func (e *DamageError) Error() string {
	return fmt.Sprintf("snapshot is damaged at byte %d: %s; use another snapshot", e.Offset, e.Reason)
}

// Unwrap is io.ErrUnexpectedEOF if the snapshot is cut off.
func (e *DamageError) Unwrap() error { return e.err }

func cutOff(offset int64) error {
	return &DamageError{offset, "it ends in the middle", io.ErrUnexpectedEOF}
}
