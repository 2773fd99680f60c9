package model

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/wire"
)

// maxLen is the longest string or buffer inside a request: twice jute.maxbuffer.
const maxLen = 2 * 0xfffff

// reader takes a request record apart. After the first error bad stays set and everything
// reads as zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

// buffer returns nil for null (length -1) and an empty slice for length 0.
func (r *reader) buffer() []byte {
	n := r.int32()
	if n == -1 || r.bad {
		return nil
	}
	if n > maxLen {
		r.bad = true
		return nil
	}
	return append([]byte{}, r.take(int(n))...)
}

// string reads null as "". Every byte that is not UTF-8 becomes U+FFFD.
func (r *reader) string() string {
	return string([]rune(string(r.buffer())))
}

// path is string, except that null is an error.
func (r *reader) path() string {
	if len(r.b) >= 4 && int32(binary.BigEndian.Uint32(r.b)) == -1 {
		r.bad = true
	}
	return r.string()
}

func (r *reader) acls() []wire.ACL {
	n := r.int32()
	var list []wire.ACL
	for i := int32(0); i < n && !r.bad; i++ {
		var a wire.ACL
		a.Perms = r.int32()
		a.ID.Scheme = r.string()
		a.ID.ID = r.string()
		list = append(list, a)
	}
	return list
}

// op is one write, alone or inside a multi: the fields of all request records together.
type op struct {
	code    wire.OpCode
	path    string
	data    []byte
	acl     []wire.ACL
	flags   int32
	ttlMs   int64
	version int32
}

// op reads the record of the opcode; known is false if it is none of a write.
func (r *reader) op(code wire.OpCode) (o op, known bool) {
	o = op{code: code, ttlMs: -1}
	switch code {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		o.path, o.data, o.acl, o.flags = r.path(), r.buffer(), r.acls(), r.int32()
		if code == wire.OpCreateTTL {
			o.ttlMs = r.int64()
		}
	case wire.OpDelete:
		o.path, o.version = r.path(), r.int32()
	case wire.OpCheck:
		o.path, o.version = r.string(), r.int32()
	case wire.OpSetData:
		o.path, o.data, o.version = r.string(), r.buffer(), r.int32()
	case wire.OpSetACL:
		o.path, o.acl, o.version = r.string(), r.acls(), r.int32()
	default:
		return o, false
	}
	return o, true
}

// multi reads a whole multi. It is bad if anything in it is: a foreign opcode, a missing
// end marker, a create whose flags have no meaning.
func (r *reader) multi() []op {
	var list []op
	for !r.bad {
		code := wire.OpCode(r.int32())
		done := r.bool()
		r.int32()
		if r.bad {
			break
		}
		if done {
			return list
		}
		o, known := r.op(code)
		if !known || code == wire.OpSetACL || (o.isCreate() && !knownFlags(o.flags)) {
			r.bad = true
		}
		list = append(list, o)
	}
	return nil
}

func (o op) isCreate() bool {
	switch o.code {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return true
	}
	return false
}
