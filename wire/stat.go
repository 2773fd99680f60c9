package wire

import "encoding/binary"

// statSize is the size of a Stat on the wire.
const statSize = 68

// Append appends the 68 bytes of the stat to b.
func (r *Stat) Append(b []byte) []byte {
	b = AppendInt64(b, r.Czxid)
	b = AppendInt64(b, r.Mzxid)
	b = AppendInt64(b, r.CtimeMs)
	b = AppendInt64(b, r.MtimeMs)
	b = AppendInt32(b, r.Version)
	b = AppendInt32(b, r.Cversion)
	b = AppendInt32(b, r.Aversion)
	b = AppendInt64(b, r.EphemeralOwner)
	b = AppendInt32(b, r.DataLength)
	b = AppendInt32(b, r.NumChildren)
	return AppendInt64(b, r.Pzxid)
}

// Decode reads the stat. It looks at the length once, since nearly every reply has one.
func (r *Stat) Decode(d *Decoder) {
	if len(d.b) < statSize {
		d.short(statSize)
		*r = Stat{}
		return
	}
	b := d.b[:statSize]
	r.Czxid = int64(binary.BigEndian.Uint64(b[0:]))
	r.Mzxid = int64(binary.BigEndian.Uint64(b[8:]))
	r.CtimeMs = int64(binary.BigEndian.Uint64(b[16:]))
	r.MtimeMs = int64(binary.BigEndian.Uint64(b[24:]))
	r.Version = int32(binary.BigEndian.Uint32(b[32:]))
	r.Cversion = int32(binary.BigEndian.Uint32(b[36:]))
	r.Aversion = int32(binary.BigEndian.Uint32(b[40:]))
	r.EphemeralOwner = int64(binary.BigEndian.Uint64(b[44:]))
	r.DataLength = int32(binary.BigEndian.Uint32(b[52:]))
	r.NumChildren = int32(binary.BigEndian.Uint32(b[56:]))
	r.Pzxid = int64(binary.BigEndian.Uint64(b[60:]))
	d.b = d.b[statSize:]
}
