package wire

import (
	"encoding/binary"
	"fmt"
)

// DefaultMaxLen is the longest string or buffer that a Decoder accepts unless SetMaxLen
// says otherwise: twice the default frame limit, because ZooKeeper allows jute.maxbuffer
// plus as much again for what a transaction adds to a request.
const DefaultMaxLen = 2 * DefaultMaxFrame

// A MalformedError says why bytes are not the record that was asked for. A server answers
// it with MarshallingError; a client gives the connection up.
type MalformedError struct {
	Offset int    // where in the frame body the bad field starts
	Reason string // in lower case, without the offset
}

// Error implements error.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("malformed record at byte %d: %s", e.Offset, e.Reason)
}

// A Decoder reads the fields of one frame body, front to back. The first error sticks:
// from then on every method returns the zero value, and Err says what was wrong, so a
// record is decoded without looking at errors in between.
//
// Byte slices that it returns alias the frame: copy them before the frame is reused.
// Strings are copies. The zero value is a Decoder of an empty body.
//
// No method allocates more than a small multiple of what the frame holds: a length is
// compared with what is left before anything is allocated.
type Decoder struct {
	b   []byte // what is left
	n   int    // length of the whole body, for the offset in errors
	max int    // 0: DefaultMaxLen
	err error
}

// NewDecoder returns a Decoder of the frame body b.
func NewDecoder(b []byte) Decoder { return Decoder{b: b, n: len(b)} }

// Reset makes d a Decoder of the frame body b. The limit set by SetMaxLen stays.
func (d *Decoder) Reset(b []byte) { *d = Decoder{b: b, n: len(b), max: d.max} }

// SetMaxLen limits strings and buffers to n bytes each; 0 means DefaultMaxLen. The limit
// matters only where a body can be longer than it.
func (d *Decoder) SetMaxLen(n int) { d.max = n }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Len returns how many bytes are left; after an error 0.
func (d *Decoder) Len() int { return len(d.b) }

// Rest returns what is left without consuming it. It aliases the frame.
func (d *Decoder) Rest() []byte { return d.b }

// fail records the first error, and drops the rest so that nothing decodes after it.
func (d *Decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &MalformedError{Offset: d.n - len(d.b), Reason: fmt.Sprintf(format, args...)}
	}
	d.b = nil
}

// short is fail for a field of fixed size, apart so that the readers can be inlined.
func (d *Decoder) short(size int) {
	d.fail("%d bytes are left where %d are needed", len(d.b), size)
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if len(d.b) < 1 {
		d.short(1)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// Bool reads one byte; any but 0 is true.
func (d *Decoder) Bool() bool { return d.Byte() != 0 }

// Int32 reads an int.
func (d *Decoder) Int32() int32 {
	if len(d.b) < 4 {
		d.short(4)
		return 0
	}
	v := int32(binary.BigEndian.Uint32(d.b))
	d.b = d.b[4:]
	return v
}

// Int64 reads a long.
func (d *Decoder) Int64() int64 {
	if len(d.b) < 8 {
		d.short(8)
		return 0
	}
	v := int64(binary.BigEndian.Uint64(d.b))
	d.b = d.b[8:]
	return v
}

// Buffer reads a buffer. Null is nil, and an empty buffer is not. The result aliases the
// frame.
func (d *Decoder) Buffer() []byte {
	if len(d.b) < 4 {
		d.short(4)
		return nil
	}
	n := int(int32(binary.BigEndian.Uint32(d.b)))
	switch {
	case n == -1:
		d.b = d.b[4:]
		return nil
	case n < 0:
		d.fail("length %d is negative and not -1", n)
		return nil
	case n > len(d.b)-4:
		d.fail("length %d exceeds the %d bytes that are left", n, len(d.b)-4)
		return nil
	case n > d.maxLen():
		d.fail("length %d exceeds the limit of %d", n, d.maxLen())
		return nil
	}
	v := d.b[4 : 4+n : 4+n] // capped: an append by the caller must not write into the frame
	d.b = d.b[4+n:]
	return v
}

func (d *Decoder) maxLen() int {
	if d.max == 0 {
		return DefaultMaxLen
	}
	return d.max
}

// StringBytes reads a string without copying it: for looking something up where a string
// would be thrown away at once. The result aliases the frame and is valid as long as the
// frame is. A null string is nil, an empty one is not. Malformed UTF-8 is left as it is;
// no path of a node contains it.
func (d *Decoder) StringBytes() []byte { return d.Buffer() }

// String reads a string; null reads as "". Malformed UTF-8 is replaced by U+FFFD as Java
// does it.
func (d *Decoder) String() string { return lenientString(d.Buffer()) }

// path is String for the requests that cannot do without: ZooKeeper answers a null path
// there with MarshallingError, while "" is another name of the root for reads.
func (d *Decoder) path() string {
	before := *d
	b := d.StringBytes()
	if b == nil && d.err == nil {
		*d = before
		d.fail("path is null; send an absolute path")
	}
	return lenientString(b)
}

// count reads the number of elements of a vector. Null and any other negative count read
// as empty, as in Java. size is the least that one element takes on the wire: a count that
// cannot fit is refused before anything is allocated for it.
func (d *Decoder) count(size int) int {
	before := *d
	n := int(d.Int32())
	if n <= 0 {
		return 0
	}
	if n > len(d.b)/size {
		left := len(d.b)
		*d = before
		d.fail("%d elements of at least %d bytes do not fit in the %d that are left", n, size, left)
		return 0
	}
	return n
}

// Strings reads a vector of strings; null and empty are nil.
func (d *Decoder) Strings() []string {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, d.String())
	}
	if d.err != nil {
		return nil
	}
	return v
}

// ACLs reads a vector of ACL entries; null and empty are nil.
func (d *Decoder) ACLs() []ACL {
	n := d.count(12)
	if n == 0 {
		return nil
	}
	v := make([]ACL, n)
	for i := range v {
		v[i].Decode(d)
	}
	if d.err != nil {
		return nil
	}
	return v
}

// ClientInfos reads a vector of ClientInfo, the response of whoAmI; null and empty are nil.
func (d *Decoder) ClientInfos() []ClientInfo {
	n := d.count(8)
	if n == 0 {
		return nil
	}
	v := make([]ClientInfo, n)
	for i := range v {
		v[i].Decode(d)
	}
	if d.err != nil {
		return nil
	}
	return v
}

// Stat reads a Stat.
func (d *Decoder) Stat() Stat {
	var s Stat
	s.Decode(d)
	return s
}

// PathWatch reads a PathWatchRequest without copying the path, which aliases the frame as
// that of StringBytes does: the body of exists, getData, getChildren and getChildren2.
func (d *Decoder) PathWatch() (path []byte, watch bool) {
	before := *d
	path = d.StringBytes()
	if path == nil && d.err == nil {
		*d = before
		d.fail("path is null; send an absolute path")
	}
	watch = d.Bool()
	return path, watch
}
