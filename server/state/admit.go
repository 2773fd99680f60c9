package state

import "github.com/zkd-project/zkd/wire"

// CheckBody judges the record of a write before it gets into the log: MarshallingError if
// it cannot be decoded, is a multi of more than MaxMultiOps, or a multi with an operation
// or flags that mean nothing; Unimplemented if op is no write that a client may send. All
// else is for Apply to judge. It allocates nothing but for a multi.
func CheckBody(op wire.OpCode, body []byte) wire.Code {
	d := newDecoder(body)
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		skipPath(&d)
		d.Buffer()
		skipACLs(&d)
		d.Int32()
		if op == wire.OpCreateTTL {
			d.Int64()
		}
	case wire.OpDelete:
		skipPath(&d)
		d.Int32()
	case wire.OpSetData:
		d.StringBytes()
		d.Buffer()
		d.Int32()
	case wire.OpSetACL:
		d.StringBytes()
		skipACLs(&d)
		d.Int32()
	case wire.OpReconfig:
		for range 3 {
			d.StringBytes()
		}
		d.Int64()
	case wire.OpMulti:
		_, code := decodeMulti(body)
		return code
	default:
		return wire.Unimplemented
	}
	if d.Err() != nil {
		return wire.MarshallingError
	}
	return wire.OK
}

// skipPath reads a path that must not be null.
func skipPath(d *wire.Decoder) {
	if d.StringBytes() == nil {
		d.Reset(nil) // and nothing that follows can be read
	}
}

// skipACLs reads a vector of entries.
func skipACLs(d *wire.Decoder) {
	for n := d.Int32(); n > 0 && d.Err() == nil; n-- {
		d.Int32()
		d.StringBytes()
		d.StringBytes()
	}
}
