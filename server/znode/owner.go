package znode

import "math"

// A Kind is what ends the life of a node.
type Kind uint8

// The kinds.
const (
	Persistent Kind = iota // lives until it is deleted
	Ephemeral              // lives as long as its session; never has children
	Container              // is reaped when its last child has gone
	TTL                    // is reaped when it is childless and its data has not changed for a time
)

// An Owner is the ephemeralOwner of a node as ZooKeeper stores it (EphemeralType): 0 for a
// persistent node, the smallest number for a container, ff 00 00 and 40 bits of
// milliseconds for a TTL node, and otherwise the session that owns the node.
type Owner int64

// The owners of persistent and container nodes.
const (
	NoOwner        Owner = 0
	ContainerOwner Owner = math.MinInt64
)

// MaxTTLMs is the longest time to live, in milliseconds (34 years).
const MaxTTLMs = 0xffffffffff

const ttlMark = 0xff << 56 // top byte of a TTL owner; no session id has it

// SessionOwner is the owner of an ephemeral node of the session.
func SessionOwner(session int64) Owner { return Owner(session) }

// TTLOwner is the owner of a node that lives ttlMs (1 to MaxTTLMs) after its last change.
func TTLOwner(ttlMs int64) Owner {
	mark := uint64(ttlMark)
	return Owner(mark | uint64(ttlMs)&MaxTTLMs)
}

// Kind is what the owner says about the node.
func (o Owner) Kind() Kind {
	switch {
	case o == NoOwner:
		return Persistent
	case o == ContainerOwner:
		return Container
	case uint64(o)>>56 == 0xff:
		return TTL
	}
	return Ephemeral
}

// Session is the session that owns the node, 0 unless it is ephemeral.
func (o Owner) Session() int64 {
	if o.Kind() != Ephemeral {
		return 0
	}
	return int64(o)
}

// TTLMs is the time to live, 0 unless it is a TTL node.
func (o Owner) TTLMs() int64 {
	if o.Kind() != TTL {
		return 0
	}
	return int64(o) & MaxTTLMs
}

// valid says whether o is one of the forms above: a TTL owner has two zero bytes after its
// mark and a time that is not zero.
func (o Owner) valid() bool {
	return o.Kind() != TTL || uint64(o)>>40 == 0xff0000 && o.TTLMs() > 0
}
