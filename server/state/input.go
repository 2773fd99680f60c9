package state

import (
	"encoding/binary"
	"fmt"
	"math"
)

// An input reads fields of a log entry or of a snapshot's meta section. The first error
// sticks; after it every method returns the zero value.
type input struct {
	b   []byte
	pos int
	err error
}

func (in *input) fail(format string, args ...any) {
	if in.err == nil {
		in.err = &DamagedError{Offset: in.pos, Reason: fmt.Sprintf(format, args...)}
	}
}

// take returns the next n bytes; they alias the entry.
func (in *input) take(n uint64) []byte {
	if in.err != nil {
		return nil
	}
	if rest := uint64(len(in.b) - in.pos); n > rest {
		in.fail("%d bytes are left where %d are needed", rest, n)
		return nil
	}
	v := in.b[in.pos : in.pos+int(n) : in.pos+int(n)]
	in.pos += int(n)
	return v
}

func (in *input) byte() byte {
	if v := in.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (in *input) fixed64() uint64 {
	if v := in.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (in *input) uvarint() uint64 {
	if in.err != nil {
		return 0
	}
	v, n := binary.Uvarint(in.b[in.pos:])
	if n <= 0 {
		in.fail("a number is cut off or too long")
		return 0
	}
	in.pos += n
	return v
}

func (in *input) varint() int64 {
	if in.err != nil {
		return 0
	}
	v, n := binary.Varint(in.b[in.pos:])
	if n <= 0 {
		in.fail("a number is cut off or too long")
		return 0
	}
	in.pos += n
	return v
}

func (in *input) uint32() uint32 {
	v := in.uvarint()
	if v > math.MaxUint32 {
		in.fail("%d does not fit in 32 bits", v)
		return 0
	}
	return uint32(v)
}

func (in *input) int32() int32 {
	v := in.varint()
	if v != int64(int32(v)) {
		in.fail("%d does not fit in 32 bits", v)
		return 0
	}
	return int32(v)
}

// bytes reads a string without copying it.
func (in *input) bytes() []byte { return in.take(in.uvarint()) }

// settings reads what appendSettings has written; the switches that it does not write are off.
func (in *input) settings(s *Settings) {
	s.SingleVoter, s.MultiAddress = false, false
	bits := in.byte()
	s.ACL.SkipACL = bits&bitSkipACL != 0
	s.ACL.DigestDisabled = bits&bitDigestDisabled != 0
	s.ACL.SASLEnabled = bits&bitSASLEnabled != 0
	s.ACL.X509Enabled = bits&bitX509Enabled != 0
	s.EnforceQuota = bits&bitEnforceQuota != 0
	s.ExtendedTypes = bits&bitExtendedTypes != 0
	s.Reconfig = bits&bitReconfig != 0
	s.MaxNeverUsedMs = int64(in.uvarint())
	name := ""
	if bits&bitLetAnySASLUserDo != 0 {
		// The same name in every batch must not be copied each time.
		if b := in.bytes(); string(b) == s.ACL.LetAnySASLUserDo {
			name = s.ACL.LetAnySASLUserDo
		} else {
			name = string(b)
		}
	}
	s.ACL.LetAnySASLUserDo = name
}

// moreSettings reads the second byte of switches.
func (in *input) moreSettings(s *Settings) {
	bits := in.byte()
	if in.err == nil && bits&^knownMore != 0 {
		in.err = &UnsupportedError{"set of switches", uint64(bits), knownMore}
	}
	s.SingleVoter = bits&bitSingleVoter != 0
	s.MultiAddress = bits&bitMultiAddress != 0
}
