package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// A log is a row of segment files, "<sequence>-<first index>.log", ordered by sequence. A
// segment is a header and then records; behind the last record it is zeros up to the
// length that was reserved when the file was made.
//
//	header                                             why
//	 0  8  magic "zkdlog\n\0"                          names the file for file(1) and people
//	 8  4  version, now 1                              a later format must be refused, not misread
//	12  4  flags                                       see flagBegins, flagCut
//	16  8  first index                                 of the first entry; also in the name
//	24  8  salt, random                                seed of the checksums: bytes that a client
//	                                                   chose can not be taken for a record
//	32  4  prev                                        checksum of the last record of the segment
//	                                                   before, so that foreign files are noticed
//	36  4  zero
//	40  8  reserved length, as much as there was room  a shorter file has lost its end
//	48  8  sequence                                    a renamed file is noticed
//	56  4  zero
//	60  4  CRC32C of bytes 0–59
//
//	record, at a multiple of 8                         why
//	 0  4  CRC32C of salt and bytes 4–end              damage
//	 4  4  prev: that of the record before             a record of an older history can not follow
//	 8  4  length of the data
//	12  2  length of the extensions
//	14  1  kind: entry, mark, close, seal
//	15  1  type of the entry                           raft.LogType
//	16  8  index                                       of the entry; else that of the last entry
//	24  8  term
//	32  8  durable                                     see below
//	40  8  time of the append, ns since 1970, or 0     raft.Log.AppendedAt
//	48     data, extensions, zeros up to a multiple of 8
//
// The durable mark. A crash while a batch is written leaves a torn tail: some sectors of
// the batch are there and some are not. A failing disk leaves the same picture in the
// middle of what had been synced and acknowledged. Cutting the log is right for the first
// and loses acknowledged writes for the second. So each record names the highest index
// that had been synced when it was written. If the record of index k is unreadable and any
// readable record behind it has a mark of k or more, then k was durable once: that is
// damage. If there is none, k was never acknowledged: the tail is torn. For what was synced
// last there is no later record, so closing appends one, and opening does.
//
// Several batches may be written before they are synced, and of their sectors a crash keeps
// any. Cutting at the first unreadable record k is right also if good records follow it:
//
//   - They were not durable either. What is synced is all that was written up to some
//     point; if k was not, nothing behind it was.
//   - They do not vouch for k: none of them carries more than what was durable when it was
//     written, which was less than k.
//   - They do not come back. Opening overwrites them with zeros and syncs that before it
//     takes entries. Should one survive on a disk that has lied, it names as prev a record
//     that is no longer the one before it. If it is, being the same byte for byte, then both
//     are what was written there, in that order and of that history.
//   - Records that DeleteRange has cut off are in another file, and those of other segments
//     have another salt.
//
// This needs marks that are true: an entry's mark is never the entry before it, unless that
// is synced.
//
// Kinds. A mark has no other purpose than its mark. A close is a mark written by Close,
// which then gives back the space behind it: a file that is shorter than reserved must end
// with a close, which zeros may follow, or a seal, or its end is lost. A seal ends a segment that has a
// successor: if the last segment has one, its successor is lost.
const (
	headerSize    = 64
	recordSize    = 48
	formatVersion = 1

	// flagBegins: the log begins here; whatever lies in files before is left over.
	flagBegins = 1
	// flagCut: the tail was cut here; files that do not continue this one are left over.
	flagCut = 2

	kindEntry = 1
	kindMark  = 2
	kindClose = 3
	kindSeal  = 4
)

var (
	magic      = [8]byte{'z', 'k', 'd', 'l', 'o', 'g', '\n', 0}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	zeroPad    [8]byte

	errRecord = errors.New("no valid record")
)

type header struct {
	flags    uint32
	first    uint64
	salt     uint64
	prev     uint32
	reserved int64
	seq      uint64
}

func (h *header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, magic[:])
	binary.BigEndian.PutUint32(b[8:], formatVersion)
	binary.BigEndian.PutUint32(b[12:], h.flags)
	binary.BigEndian.PutUint64(b[16:], h.first)
	binary.BigEndian.PutUint64(b[24:], h.salt)
	binary.BigEndian.PutUint32(b[32:], h.prev)
	binary.BigEndian.PutUint64(b[40:], uint64(h.reserved))
	binary.BigEndian.PutUint64(b[48:], h.seq)
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

func (h *header) decode(b []byte) error {
	if len(b) < headerSize || [8]byte(b[:8]) != magic {
		return errors.New("no segment header")
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return errors.New("wrong checksum of the segment header")
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != formatVersion {
		return fmt.Errorf("segment format %d, this zkd knows %d", v, formatVersion)
	}
	h.flags = binary.BigEndian.Uint32(b[12:])
	h.first = binary.BigEndian.Uint64(b[16:])
	h.salt = binary.BigEndian.Uint64(b[24:])
	h.prev = binary.BigEndian.Uint32(b[32:])
	h.reserved = int64(binary.BigEndian.Uint64(b[40:]))
	h.seq = binary.BigEndian.Uint64(b[48:])
	return nil
}

// seed is the checksum of the salt, with which those of the records go on.
func (h *header) seed() uint32 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h.salt)
	return crc32.Checksum(b[:], castagnoli)
}

func fileName(seq, first uint64) string { return fmt.Sprintf("%08d-%020d.log", seq, first) }

// parseName is false for files that are none of ours.
func parseName(name string) (seq, first uint64, ok bool) {
	base, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return 0, 0, false
	}
	s, f, ok := strings.Cut(base, "-")
	if !ok {
		return 0, 0, false
	}
	seq, err1 := strconv.ParseUint(s, 10, 64)
	first, err2 := strconv.ParseUint(f, 10, 64)
	return seq, first, err1 == nil && err2 == nil && fileName(seq, first) == name
}

// record is a decoded record; data and ext alias the bytes that it was decoded from.
type record struct {
	crc     uint32
	prev    uint32
	kind    uint8
	typ     raft.LogType
	index   uint64
	term    uint64
	durable uint64
	atNs    int64
	data    []byte
	ext     []byte
}

func align8(n int) int { return (n + 7) &^ 7 }

// encodedSize is the space that a log entry takes.
func encodedSize(l *raft.Log) int {
	return recordSize + align8(len(l.Data)+len(l.Extensions))
}

// append encodes the record behind b and returns its checksum, which is the prev of the
// next one.
func (r *record) append(b []byte, seed uint32) ([]byte, uint32) {
	start := len(b)
	b = append(b, make([]byte, recordSize)...)
	h := b[start:]
	binary.BigEndian.PutUint32(h[4:], r.prev)
	binary.BigEndian.PutUint32(h[8:], uint32(len(r.data)))
	binary.BigEndian.PutUint16(h[12:], uint16(len(r.ext)))
	h[14] = r.kind
	h[15] = uint8(r.typ)
	binary.BigEndian.PutUint64(h[16:], r.index)
	binary.BigEndian.PutUint64(h[24:], r.term)
	binary.BigEndian.PutUint64(h[32:], r.durable)
	binary.BigEndian.PutUint64(h[40:], uint64(r.atNs))
	b = append(b, r.data...)
	b = append(b, r.ext...)
	n := len(r.data) + len(r.ext)
	b = append(b, zeroPad[:align8(n)-n]...)
	crc := crc32.Update(seed, castagnoli, b[start+4:])
	binary.BigEndian.PutUint32(b[start:], crc)
	return b, crc
}

// recordLen is the length that the record header in b claims, 0 if it is not one.
func recordLen(b []byte) int64 {
	if len(b) < recordSize || b[14] < kindEntry || b[14] > kindSeal {
		return 0
	}
	n := int64(binary.BigEndian.Uint32(b[8:])) + int64(binary.BigEndian.Uint16(b[12:]))
	return recordSize + (n+7)&^7
}

// decode reads the record at the start of b, which may go on behind it. The checksum is
// checked, the chain is not: that is the caller's, who knows what came before.
func (r *record) decode(b []byte, seed uint32) error {
	n := recordLen(b)
	if n == 0 || n > int64(len(b)) {
		return errRecord
	}
	r.crc = binary.BigEndian.Uint32(b)
	if crc32.Update(seed, castagnoli, b[4:n]) != r.crc {
		return errRecord
	}
	dataEnd := recordSize + int64(binary.BigEndian.Uint32(b[8:]))
	extEnd := dataEnd + int64(binary.BigEndian.Uint16(b[12:]))
	r.prev = binary.BigEndian.Uint32(b[4:])
	r.kind = b[14]
	r.typ = raft.LogType(b[15])
	r.index = binary.BigEndian.Uint64(b[16:])
	r.term = binary.BigEndian.Uint64(b[24:])
	r.durable = binary.BigEndian.Uint64(b[32:])
	r.atNs = int64(binary.BigEndian.Uint64(b[40:]))
	r.data = b[recordSize:dataEnd:dataEnd]
	r.ext = b[dataEnd:extEnd:extEnd]
	return nil
}

// toLog fills in a log entry; its Data aliases the record's.
func (r *record) toLog(l *raft.Log) {
	*l = raft.Log{Index: r.index, Term: r.term, Type: r.typ}
	if len(r.data) > 0 {
		l.Data = r.data
	}
	if len(r.ext) > 0 {
		l.Extensions = r.ext
	}
	if r.atNs != 0 {
		l.AppendedAt = time.Unix(0, r.atNs)
	}
}

func fromLog(l *raft.Log, durable uint64) record {
	r := record{
		kind: kindEntry, typ: l.Type, index: l.Index, term: l.Term, durable: durable,
		data: l.Data, ext: l.Extensions,
	}
	if !l.AppendedAt.IsZero() {
		r.atNs = l.AppendedAt.UnixNano()
	}
	return r
}
