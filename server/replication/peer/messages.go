package peer

import (
	"encoding/binary"

	"github.com/hashicorp/raft"
)

// Messages between transports, of which raft knows nothing.
//
//	hello    2 newest version  2 oldest version  1 kind  8 boot nonce of the sender
//	         2+n cluster id  2+n sender  2+n whom it is meant for
//	welcome  2 version to be spoken  8 boot nonce of the receiver
//	refusal  1 code  8 boot nonce of the receiver, or 0  2+n reason
//	end      8 bytes of the snapshot  4 CRC32C of them all
//	ask      8 call  8 boot nonce of the member in question, or 0  4 time to answer in ms
//	         2+n the member
//	sight    8 call  1 what is seen
const (
	welcomeBytes = 2 + 8
	refusalBytes = 1 + 8 + 2 + maxReasonBytes
	endBytes     = 8 + 4
	askBytes     = 8 + 8 + 4 + 2 + maxIDBytes
	sightBytes   = 8 + 1
)

// The versions of the protocol that this package speaks.
const (
	protocolVersion = 1
	oldestVersion   = 1
)

type hello struct {
	newest, oldest uint16
	kind           Kind
	boot           uint64
	cluster        string
	from, to       raft.ServerID
}

func appendHello(b []byte, h *hello) []byte {
	b = binary.BigEndian.AppendUint16(b, h.newest)
	b = binary.BigEndian.AppendUint16(b, h.oldest)
	b = append(b, byte(h.kind))
	b = binary.BigEndian.AppendUint64(b, h.boot)
	b = appendText(b, h.cluster, maxClusterBytes)
	b = appendText(b, string(h.from), maxIDBytes)
	return appendText(b, string(h.to), maxIDBytes)
}

// decodeHello takes what later versions append for what it is: not for this one.
func decodeHello(body []byte) (hello, error) {
	c := cursor{b: body}
	var h hello
	h.newest, h.oldest = c.u16(), c.u16()
	h.kind, h.boot = Kind(c.u8()), c.u64()
	h.cluster = c.text(maxClusterBytes)
	h.from = raft.ServerID(c.text(maxIDBytes))
	h.to = raft.ServerID(c.text(maxIDBytes))
	if c.bad || h.oldest > h.newest || h.boot == 0 || h.from == "" {
		return hello{}, errFormat
	}
	return h, nil
}

type welcome struct {
	version uint16
	boot    uint64
}

func appendWelcome(b []byte, w welcome) []byte {
	b = binary.BigEndian.AppendUint16(b, w.version)
	return binary.BigEndian.AppendUint64(b, w.boot)
}

func decodeWelcome(body []byte) (welcome, error) {
	c := cursor{b: body}
	w := welcome{version: c.u16(), boot: c.u64()}
	if w.boot == 0 {
		c.bad = true
	}
	return w, c.end()
}

func appendRefusal(b []byte, r *RefusedError) []byte {
	b = append(b, byte(r.Code))
	b = binary.BigEndian.AppendUint64(b, r.Boot)
	return appendText(b, r.Reason, maxReasonBytes)
}

func decodeRefusal(body []byte) (*RefusedError, error) {
	c := cursor{b: body}
	r := &RefusedError{Code: RefusalCode(c.u8()), Boot: c.u64(), Reason: c.text(maxReasonBytes)}
	return r, c.end()
}

type snapshotEnd struct {
	size uint64
	sum  uint32
}

func appendEnd(b []byte, e snapshotEnd) []byte {
	b = binary.BigEndian.AppendUint64(b, e.size)
	return binary.BigEndian.AppendUint32(b, e.sum)
}

func decodeEnd(body []byte) (snapshotEnd, error) {
	c := cursor{b: body}
	e := snapshotEnd{size: c.u64(), sum: c.u32()}
	return e, c.end()
}

type question struct {
	call   uint64
	boot   uint64
	waitMs uint32
	about  raft.ServerID
}

func appendAsk(b []byte, q *question) []byte {
	b = binary.BigEndian.AppendUint64(b, q.call)
	b = binary.BigEndian.AppendUint64(b, q.boot)
	b = binary.BigEndian.AppendUint32(b, q.waitMs)
	return appendText(b, string(q.about), maxIDBytes)
}

func decodeAsk(body []byte) (question, error) {
	c := cursor{b: body}
	q := question{call: c.u64(), boot: c.u64(), waitMs: c.u32()}
	q.about = raft.ServerID(c.text(maxIDBytes))
	if q.about == "" {
		c.bad = true
	}
	return q, c.end()
}

func appendSight(b []byte, call uint64, s Sight) []byte {
	return append(binary.BigEndian.AppendUint64(b, call), byte(s))
}

func decodeSight(body []byte) (call uint64, s Sight, err error) {
	c := cursor{b: body}
	call, s = c.u64(), Sight(c.u8())
	if s > Dead {
		c.bad = true
	}
	return call, s, c.end()
}
