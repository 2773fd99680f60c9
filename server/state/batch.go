package state

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
)

// A batch is one log entry: a header and any number of commands.
//
//	byte     format version, 1 or 2
//	varint   time, ms
//	settings
//	uvarint  number of commands
//	per command:
//	    byte   kind
//	    fields of the kind, in the order of the constants below
//
// Settings are a byte of switches, MaxNeverUsedMs as uvarint, and, if the last switch says
// so, LetAnySASLUserDo as string. A string is its length as uvarint and its bytes. Version 2
// has a second byte of switches behind the settings; it is used only where one of them is on,
// so that servers that do not know them can read the log of those that do not use them.
//
// A command has no length of its own: an unknown kind stops the server anyway. A batch of
// one setData has some 30 bytes besides the request.

// The format versions.
const (
	batchVersion     = 1
	batchVersionMore = 2 // with a second byte of switches
)

// fields is a set of fields of a Command.
type fields uint16

// The fields, in the order in which they are encoded.
const (
	hasSession  fields = 1 << iota // 8 bytes; ids are random, a varint would be longer
	hasEpoch                       // uvarint
	hasReq                         // uvarint
	hasOp                          // varint
	hasPassword                    // 16 bytes
	hasTimeout                     // varint, ms
	hasOrigin                      // boot: 8 bytes; connection: uvarint
	hasPath                        // string
	hasLevel                       // uvarint
	hasIDs                         // string that holds per identity two strings, scheme and id
	hasBody                        // string
	hasMembers                     // byte
	hasTarget                      // varint
	hasCode                        // varint
	hasRestore                     // byte
)

// fieldsOf says which fields a kind has.
var fieldsOf = [...]fields{
	KindWrite:         hasSession | hasEpoch | hasReq | hasOp | hasIDs | hasBody,
	KindCreateSession: hasSession | hasPassword | hasTimeout | hasOrigin,
	KindAttach:        hasSession | hasEpoch | hasPassword | hasTimeout | hasOrigin,
	KindCloseSession:  hasSession | hasEpoch | hasReq,
	KindExpire:        hasSession | hasEpoch,
	KindReap:          hasPath,
	KindSync:          hasSession | hasEpoch | hasReq,
	KindLevel:         hasLevel,
	KindMembers:       hasReq | hasBody | hasMembers | hasTarget | hasCode,
	KindRestore:       hasReq | hasPath | hasBody | hasTarget | hasRestore,
}

// Bits of the byte of switches.
const (
	bitSkipACL = 1 << iota
	bitDigestDisabled
	bitSASLEnabled
	bitX509Enabled
	bitEnforceQuota
	bitExtendedTypes
	bitReconfig
	bitLetAnySASLUserDo
)

// Bits of the second byte of switches.
const (
	bitSingleVoter = 1 << iota
	bitMultiAddress

	knownMore = bitSingleVoter | bitMultiAddress
)

// AppendHeader appends the header of a batch of count commands. The commands follow, each
// as AppendCommand encodes it.
func AppendHeader(b []byte, h *BatchHeader, count int) []byte {
	more := h.Settings.more()
	if more == 0 {
		b = append(b, batchVersion)
	} else {
		b = append(b, batchVersionMore)
	}
	b = binary.AppendVarint(b, h.TimeMs)
	b = appendSettings(b, &h.Settings)
	if more != 0 {
		b = append(b, more)
	}
	return binary.AppendUvarint(b, uint64(count))
}

// AppendCommand appends a command. Its encoding does not depend on its place: it can be
// done once, when the command is queued.
func AppendCommand(b []byte, c *Command) []byte {
	b = append(b, byte(c.Kind))
	f := fieldsOf[c.Kind]
	if f&hasSession != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(c.Session))
	}
	if f&hasEpoch != 0 {
		b = binary.AppendUvarint(b, uint64(c.Epoch))
	}
	if f&hasReq != 0 {
		b = binary.AppendUvarint(b, c.Req)
	}
	if f&hasOp != 0 {
		b = binary.AppendVarint(b, int64(c.Op))
	}
	if f&hasPassword != 0 {
		b = append(b, c.Password[:]...)
	}
	if f&hasTimeout != 0 {
		b = binary.AppendVarint(b, int64(c.TimeoutMs))
	}
	if f&hasOrigin != 0 {
		b = binary.BigEndian.AppendUint64(b, c.Origin.Boot)
		b = binary.AppendUvarint(b, c.Origin.Conn)
	}
	if f&hasPath != 0 {
		b = appendString(b, c.Path)
	}
	if f&hasLevel != 0 {
		b = binary.AppendUvarint(b, uint64(c.Level))
	}
	if f&hasIDs != 0 {
		b = appendIDs(b, c.IDs)
	}
	if f&hasBody != 0 {
		b = binary.AppendUvarint(b, uint64(len(c.Body)))
		b = append(b, c.Body...)
	}
	if f&hasMembers != 0 {
		b = append(b, byte(c.Members))
	}
	if f&hasTarget != 0 {
		b = binary.AppendVarint(b, c.Target)
	}
	if f&hasCode != 0 {
		b = binary.AppendVarint(b, int64(c.Code))
	}
	if f&hasRestore != 0 {
		b = append(b, byte(c.Restore))
	}
	return b
}

func appendSettings(b []byte, s *Settings) []byte {
	var bits byte
	for _, sw := range [...]struct {
		on  bool
		bit byte
	}{
		{s.ACL.SkipACL, bitSkipACL},
		{s.ACL.DigestDisabled, bitDigestDisabled},
		{s.ACL.SASLEnabled, bitSASLEnabled},
		{s.ACL.X509Enabled, bitX509Enabled},
		{s.EnforceQuota, bitEnforceQuota},
		{s.ExtendedTypes, bitExtendedTypes},
		{s.Reconfig, bitReconfig},
		{s.ACL.LetAnySASLUserDo != "", bitLetAnySASLUserDo},
	} {
		if sw.on {
			bits |= sw.bit
		}
	}
	b = append(b, bits)
	b = binary.AppendUvarint(b, uint64(s.MaxNeverUsedMs))
	if s.ACL.LetAnySASLUserDo != "" {
		b = appendString(b, s.ACL.LetAnySASLUserDo)
	}
	return b
}

// more is the second byte of switches.
func (s *Settings) more() (bits byte) {
	if s.SingleVoter {
		bits |= bitSingleVoter
	}
	if s.MultiAddress {
		bits |= bitMultiAddress
	}
	return bits
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendIDs(b []byte, ids []wire.ID) []byte {
	size := 0
	for i := range ids {
		size += stringSize(ids[i].Scheme) + stringSize(ids[i].ID)
	}
	b = binary.AppendUvarint(b, uint64(size))
	for i := range ids {
		b = appendString(b, ids[i].Scheme)
		b = appendString(b, ids[i].ID)
	}
	return b
}

// stringSize is the number of bytes that appendString appends.
func stringSize(s string) int {
	n := len(s) + 1
	for l := len(s); l >= 0x80; l >>= 7 {
		n++
	}
	return n
}

// A BatchDecoder reads batches, one after another. It remembers lists of identities, so
// that the requests of a connection share one, and allocates nothing per command but for
// new lists and paths.
//
// Owner: whoever calls it; it is not safe for concurrent use.
type BatchDecoder struct {
	in   input
	left uint64
	ids  map[string][]wire.ID // by their encoding
	size int                  // bytes of the keys of ids
}

// maxIDBytes bounds what a BatchDecoder remembers; beyond it, it starts anew.
const maxIDBytes = 4 << 20

// Reset starts with an entry and decodes its header into h. Term and Index are left alone.
func (d *BatchDecoder) Reset(entry []byte, h *BatchHeader) error {
	d.in = input{b: entry}
	d.left = 0
	version := d.in.byte()
	if d.in.err == nil && version != batchVersion && version != batchVersionMore {
		return d.fail(&UnsupportedError{What: "batch format", Number: uint64(version), Highest: batchVersionMore})
	}
	h.TimeMs = d.in.varint()
	d.in.settings(&h.Settings)
	if version == batchVersionMore {
		d.in.moreSettings(&h.Settings)
	}
	d.left = d.in.uvarint()
	// Every command has at least two bytes.
	if rest := uint64(len(entry) - d.in.pos); d.in.err == nil && d.left > rest/2 {
		d.in.fail("%d commands do not fit in %d bytes", d.left, rest)
	}
	return d.in.err
}

// Left returns how many commands Next has still to return.
func (d *BatchDecoder) Left() int { return int(d.left) }

// Err returns what ended the iteration too early: a *DamagedError or an *UnsupportedError.
func (d *BatchDecoder) Err() error { return d.in.err }

// Next decodes the next command into c, and returns false after the last one or an error.
// Body aliases the entry; IDs are shared and must not be changed.
func (d *BatchDecoder) Next(c *Command) bool {
	if d.in.err != nil {
		return false
	}
	if d.left == 0 {
		if d.in.pos != len(d.in.b) {
			d.in.fail("%d bytes follow the last command", len(d.in.b)-d.in.pos)
		}
		return false
	}
	d.left--
	*c = Command{Kind: Kind(d.in.byte())}
	if d.in.err != nil {
		return false
	}
	if int(c.Kind) >= len(fieldsOf) || fieldsOf[c.Kind] == 0 {
		d.fail(&UnsupportedError{What: "command kind", Number: uint64(c.Kind), Highest: uint64(len(fieldsOf) - 1)})
		return false
	}
	d.fields(c, fieldsOf[c.Kind])
	if c.Level > CurrentLevel {
		d.fail(&UnsupportedError{What: "feature level", Number: uint64(c.Level), Highest: uint64(CurrentLevel)})
	}
	if c.Members > MembersAborted {
		d.fail(&UnsupportedError{What: "step of a membership", Number: uint64(c.Members), Highest: uint64(MembersAborted)})
	}
	if c.Restore > RestoreAbort {
		d.fail(&UnsupportedError{What: "step of a restore", Number: uint64(c.Restore), Highest: uint64(RestoreAbort)})
	}
	return d.in.err == nil
}

func (d *BatchDecoder) fail(err error) error {
	d.in.err = err
	return err
}

// fields decodes the fields of f into c.
func (d *BatchDecoder) fields(c *Command, f fields) {
	in := &d.in
	if f&hasSession != 0 {
		c.Session = int64(in.fixed64())
	}
	if f&hasEpoch != 0 {
		c.Epoch = in.uint32()
	}
	if f&hasReq != 0 {
		c.Req = in.uvarint()
	}
	if f&hasOp != 0 {
		c.Op = wire.OpCode(in.int32())
	}
	if f&hasPassword != 0 {
		copy(c.Password[:], in.take(uint64(len(c.Password))))
	}
	if f&hasTimeout != 0 {
		c.TimeoutMs = in.int32()
	}
	if f&hasOrigin != 0 {
		c.Origin = session.Origin{Boot: in.fixed64(), Conn: in.uvarint()}
	}
	if f&hasPath != 0 {
		c.Path = string(in.bytes())
	}
	if f&hasLevel != 0 {
		c.Level = in.uint32()
	}
	if f&hasIDs != 0 {
		c.IDs = d.idList(in.bytes())
	}
	if f&hasBody != 0 {
		c.Body = in.bytes()
	}
	if f&hasMembers != 0 {
		if c.Members = MembersStep(in.byte()); c.Members == 0 {
			in.fail("a membership without a step")
		}
	}
	if f&hasTarget != 0 {
		c.Target = in.varint()
	}
	if f&hasCode != 0 {
		c.Code = wire.Code(in.int32())
	}
	if f&hasRestore != 0 {
		if c.Restore = RestoreStep(in.byte()); c.Restore == 0 {
			in.fail("a restore without a step")
		}
	}
}

// idList returns the identities that b encodes, the same slice for the same bytes.
func (d *BatchDecoder) idList(b []byte) []wire.ID {
	if len(b) == 0 {
		return nil
	}
	if ids, ok := d.ids[string(b)]; ok {
		return ids
	}
	var ids []wire.ID
	list := input{b: b}
	for list.pos < len(b) && list.err == nil {
		ids = append(ids, wire.ID{Scheme: string(list.bytes()), ID: string(list.bytes())})
	}
	if list.err != nil {
		d.in.fail("a list of identities ends within an identity")
		return nil
	}
	if d.ids == nil || d.size+len(b) > maxIDBytes {
		d.ids, d.size = make(map[string][]wire.ID), 0
	}
	d.ids[string(b)] = ids
	d.size += len(b)
	return ids
}
