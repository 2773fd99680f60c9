package model

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// Body is what follows the reply header of a write: nothing after an error, except that
// a failed multi is a list of codes under a header that says OK; and nothing while a reconfig waits.
func Body(r *state.Result) []byte {
	if r.Code != wire.OK || r.Deferred {
		return nil
	}
	var b []byte
	switch r.Op {
	case wire.OpCreate:
		return putBuffer(b, []byte(r.Path))
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return putStat(putBuffer(b, []byte(r.Path)), r.Stat)
	case wire.OpSetData, wire.OpSetACL:
		return putStat(b, r.Stat)
	case wire.OpReconfig:
		return putStat(putBuffer(b, r.Data), r.Stat)
	case wire.OpMulti:
		for i := range r.Multi {
			b = putMultiResult(b, &r.Multi[i])
		}
		return putMultiHeader(b, wire.OpError, true, -1)
	}
	return nil
}

func putMultiHeader(b []byte, op wire.OpCode, done bool, code wire.Code) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	if done {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

func putMultiResult(b []byte, r *wire.MultiResult) []byte {
	b = putMultiHeader(b, r.Op, false, r.Code)
	switch r.Op {
	case wire.OpError:
		return binary.BigEndian.AppendUint32(b, uint32(r.Code))
	case wire.OpCreate:
		return putBuffer(b, []byte(r.Path))
	case wire.OpCreate2:
		return putStat(putBuffer(b, []byte(r.Path)), r.Stat)
	case wire.OpSetData:
		return putStat(b, r.Stat)
	}
	return b
}
