package zkdata

import (
	"fmt"
	"math"

	"github.com/zkd-project/zkd/wire"
)

// A Type says what a transaction does.
type Type int32

// The types of transactions.
const (
	CreateSession   Type = -10
	CloseSession    Type = -11
	Failed          Type = -1 // a request that was refused
	Create          Type = 1
	Delete          Type = 2
	SetData         Type = 5
	SetACL          Type = 7
	Check           Type = 13 // only in a Multi
	Multi           Type = 14
	Create2         Type = 15
	Reconfig        Type = 16 // changes the data of /zookeeper/config
	CreateContainer Type = 19
	DeleteContainer Type = 20
	CreateTTL       Type = 21
)

// A Txn is a transaction. It has results, not requests: whole paths, expanded lists, the new
// versions. Which fields count depends on the type.
//
//	header           long session | int cxid | long zxid | long time in ms | int type
//	CreateSession    int timeout
//	CloseSession     strings paths; nothing before 3.6
//	Create, Create2  string path | buffer data | list | bool ephemeral | int cversion
//	                 of the parent, which is missing in 3.3 and before
//	CreateContainer  string path | buffer data | list | int cversion of the parent
//	CreateTTL        the same | long ttl in ms
//	Delete…          string path
//	SetData, Reconfig string path | buffer data | int version
//	SetACL           string path | list | int aversion
//	Check            string path | int version
//	Failed           int code
//	Multi            n × (int type | buffer with one of the above, without header)
//	then, ≥ 3.6      int version | long digest of the tree; not behind a Failed
type Txn struct {
	Session        int64 // 0 for what the server does by itself
	Cxid           int32
	Zxid           int64
	TimeMs         int64
	Type           Type
	Path           string
	Data           []byte
	ACL            []wire.ACL
	Ephemeral      bool
	ParentCversion int32 // -1: one more than it was
	TTLMs          int64
	Version        int32 // the new one; that of the list for SetACL
	TimeoutMs      int32
	Code           int32
	Paths          []string // the ephemeral nodes of a session that is closed
	NoPaths        bool     // they are not in the log: all are meant
	Ops            []Txn    // of a Multi; only type and record count

	Digest *TreeDigest // of the tree after it, nil if it was not noted
}

const (
	txnHeaderBytes = 32
	txnDigestBytes = 12
)

// DecodeTxn reads a transaction. Data in it aliases b.
func DecodeTxn(b []byte) (Txn, error) {
	d := wire.NewDecoder(b)
	d.SetMaxLen(math.MaxInt32)
	t := Txn{Session: d.Int64(), Cxid: d.Int32(), Zxid: d.Int64(), TimeMs: d.Int64(), Type: Type(d.Int32())}
	if d.Err() == nil {
		if err := t.decodeRecord(&d, true); err != nil {
			return t, err
		}
	}
	if d.Len() == txnDigestBytes {
		t.Digest = &TreeDigest{Zxid: t.Zxid, Version: d.Int32(), Value: uint64(d.Int64())}
	}
	if d.Err() == nil && d.Len() > 0 {
		return t, fmt.Errorf("%d bytes follow a transaction of type %d", d.Len(), t.Type)
	}
	return t, d.Err()
}

// decodeRecord reads what follows the type. An error of d is left there.
func (t *Txn) decodeRecord(d *wire.Decoder, top bool) error {
	switch t.Type {
	case CreateSession:
		t.TimeoutMs = d.Int32()
	case CloseSession:
		t.closing(d)
	case Create, Create2, CreateContainer, CreateTTL:
		t.creating(d)
	case Delete, DeleteContainer:
		t.Path = d.String()
	case SetData, Reconfig:
		t.Path, t.Data, t.Version = d.String(), d.Buffer(), d.Int32()
	case SetACL:
		t.Path, t.ACL, t.Version = d.String(), d.ACLs(), d.Int32()
	case Check:
		t.Path, t.Version = d.String(), d.Int32()
	case Failed:
		t.Code = d.Int32()
	case Multi:
		if !top {
			return fmt.Errorf("a multi is inside of another one")
		}
		return t.ops(d)
	default:
		return fmt.Errorf("transactions of type %d are unknown", t.Type)
	}
	return nil
}

func (t *Txn) creating(d *wire.Decoder) {
	t.Path, t.Data, t.ACL = d.String(), d.Buffer(), d.ACLs()
	if t.Type == Create || t.Type == Create2 {
		t.Ephemeral = d.Bool()
		if d.Err() == nil && d.Len() == 0 {
			t.ParentCversion = -1
			return
		}
	}
	t.ParentCversion = d.Int32()
	if t.Type == CreateTTL {
		t.TTLMs = d.Int64()
	}
}

// closing reads the record of a CloseSession, which is missing before 3.6, and where
// closeSessionTxn.enabled=false. A digest alone begins with its version: as a list it would
// have two paths in eight bytes, which are too few.
func (t *Txn) closing(d *wire.Decoder) {
	ahead := *d
	t.NoPaths = d.Len() == 0 || d.Len() == txnDigestBytes && ahead.Int32() == digestVersion
	if !t.NoPaths {
		t.Paths = d.Strings()
	}
}

func (t *Txn) ops(d *wire.Decoder) error {
	n := d.Int32()
	for i := int32(0); i < n && d.Err() == nil; i++ {
		op := Txn{Type: Type(d.Int32())}
		sub := wire.NewDecoder(d.Buffer())
		sub.SetMaxLen(math.MaxInt32)
		if d.Err() != nil {
			break
		}
		if err := op.decodeRecord(&sub, false); err != nil {
			return fmt.Errorf("operation %d of a multi: %w", i, err)
		}
		if err := sub.Err(); err != nil {
			return fmt.Errorf("operation %d of a multi: %w", i, err)
		}
		t.Ops = append(t.Ops, op)
	}
	return nil
}

// Append appends the transaction as DecodeTxn reads it.
func (t *Txn) Append(b []byte) []byte {
	b = wire.AppendInt64(b, t.Session)
	b = wire.AppendInt32(b, t.Cxid)
	b = wire.AppendInt64(b, t.Zxid)
	b = wire.AppendInt64(b, t.TimeMs)
	b = wire.AppendInt32(b, int32(t.Type))
	b = t.appendRecord(b)
	if t.Digest != nil {
		b = wire.AppendInt32(b, t.Digest.Version)
		b = wire.AppendInt64(b, int64(t.Digest.Value))
	}
	return b
}

func (t *Txn) appendRecord(b []byte) []byte {
	switch t.Type {
	case CreateSession:
		return wire.AppendInt32(b, t.TimeoutMs)
	case CloseSession:
		if t.NoPaths {
			return b
		}
		return wire.AppendStrings(b, t.Paths)
	case Failed:
		return wire.AppendInt32(b, t.Code)
	case Multi:
		b = wire.AppendInt32(b, int32(len(t.Ops)))
		for i := range t.Ops {
			b = wire.AppendInt32(b, int32(t.Ops[i].Type))
			b = wire.AppendBuffer(b, t.Ops[i].appendRecord([]byte{}))
		}
		return b
	}
	b = wire.AppendString(b, t.Path)
	switch t.Type {
	case Create, Create2, CreateContainer, CreateTTL:
		b = wire.AppendACLs(wire.AppendBuffer(b, t.Data), t.ACL)
		if t.Type == Create || t.Type == Create2 {
			b = wire.AppendBool(b, t.Ephemeral)
		}
		b = wire.AppendInt32(b, t.ParentCversion)
		if t.Type == CreateTTL {
			b = wire.AppendInt64(b, t.TTLMs)
		}
	case SetData, Reconfig:
		b = wire.AppendInt32(wire.AppendBuffer(b, t.Data), t.Version)
	case SetACL:
		b = wire.AppendInt32(wire.AppendACLs(b, t.ACL), t.Version)
	case Check:
		b = wire.AppendInt32(b, t.Version)
	}
	return b
}
