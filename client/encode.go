package client

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/wire"
)

// A request frame as it is built here:
//
//	int32 length | int32 xid | int32 opcode | record
//
// The xid stays 0 until the writer takes the request: numbers must rise in the order in which
// requests are sent, not in which they are made. The flag that asks for a watch is the last
// byte of its record and is set at the same moment (see watchTable.flag).
const (
	xidOffset  = wire.FrameLengthSize
	headerSize = wire.FrameLengthSize + 8

	replyHeaderBytes = 16 // xid, zxid, code
)

// pingFrame is the whole frame of a ping.
var pingFrame = finish(wire.AppendInt32(wire.AppendInt32([]byte{0, 0, 0, 0}, wire.XidPing), int32(wire.OpPing)))

// appendHeader starts a frame in b, which is emptied.
func appendHeader(b []byte, op wire.OpCode) []byte {
	b = append(b[:0], 0, 0, 0, 0, 0, 0, 0, 0)
	return wire.AppendInt32(b, int32(op))
}

// finish fills in the length of the frame that is all of b.
func finish(b []byte) []byte {
	wire.FinishFrame(b, 0)
	return b
}

// setXid numbers a frame.
func setXid(frame []byte, xid int32) {
	binary.BigEndian.PutUint32(frame[xidOffset:], uint32(xid))
}

// appendPath appends the server's path of a path within root, without building it.
func appendPath(b []byte, root, path string) []byte {
	if root != "" && path == "/" {
		path = ""
	}
	b = wire.AppendInt32(b, int32(len(root)+len(path)))
	b = append(b, root...)
	return append(b, path...)
}

// appendPathWatch is the whole frame of exists, getData, getChildren and getChildren2.
func appendPathWatch(b []byte, op wire.OpCode, root, path string) []byte {
	b = appendHeader(b, op)
	b = appendPath(b, root, path)
	return finish(wire.AppendBool(b, false))
}

// appendPathOnly is the whole frame of getACL, sync, getEphemerals and getAllChildrenNumber.
func appendPathOnly(b []byte, op wire.OpCode, root, path string) []byte {
	return finish(appendPath(appendHeader(b, op), root, path))
}

// appendCreate is the whole frame of create, create2 and createContainer.
func appendCreate(b []byte, op wire.OpCode, root, path string, data []byte, acl []ACL, flags int32) []byte {
	b = appendPath(appendHeader(b, op), root, path)
	b = wire.AppendBuffer(b, data)
	b = wire.AppendACLs(b, acl)
	return finish(wire.AppendInt32(b, flags))
}

// appendCreateTTL is the whole frame of createTTL.
func appendCreateTTL(b []byte, root, path string, data []byte, acl []ACL, flags int32, ttlMs int64) []byte {
	b = appendPath(appendHeader(b, wire.OpCreateTTL), root, path)
	b = wire.AppendBuffer(b, data)
	b = wire.AppendACLs(b, acl)
	b = wire.AppendInt32(b, flags)
	return finish(wire.AppendInt64(b, ttlMs))
}

// appendDelete is the whole frame of delete.
func appendDelete(b []byte, root, path string, version int32) []byte {
	b = appendPath(appendHeader(b, wire.OpDelete), root, path)
	return finish(wire.AppendInt32(b, version))
}

// appendSet is the whole frame of setData.
func appendSet(b []byte, root, path string, data []byte, version int32) []byte {
	b = appendPath(appendHeader(b, wire.OpSetData), root, path)
	b = wire.AppendBuffer(b, data)
	return finish(wire.AppendInt32(b, version))
}

// appendSetACL is the whole frame of setACL.
func appendSetACL(b []byte, root, path string, acl []ACL, version int32) []byte {
	b = appendPath(appendHeader(b, wire.OpSetACL), root, path)
	b = wire.AppendACLs(b, acl)
	return finish(wire.AppendInt32(b, version))
}

// appendPathNumber is the whole frame of addWatch (number: mode) and removeWatches (type).
func appendPathNumber(b []byte, op wire.OpCode, path string, number int32) []byte {
	b = wire.AppendString(appendHeader(b, op), path)
	return finish(wire.AppendInt32(b, number))
}

// appendAuth is the whole frame of auth.
func appendAuth(b []byte, c *credential) []byte {
	p := wire.AuthPacket{Scheme: c.scheme, Auth: c.auth}
	return finish(p.Append(appendHeader(b, wire.OpAuth)))
}

// appendToken is the whole frame of sasl.
func appendToken(b, token []byte) []byte {
	if token == nil {
		token = []byte{} // empty, not null: null makes ZooKeeper's reader fail
	}
	return finish(wire.AppendBuffer(appendHeader(b, wire.OpSASL), token))
}

// appendNullable appends a string of reconfig, where an empty list must be null: an empty text
// would be an empty configuration.
func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return wire.AppendInt32(b, -1)
	}
	return wire.AppendString(b, s)
}
