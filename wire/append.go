package wire

import "encoding/binary"

// AppendBool appends a boolean: one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt32 appends an int.
func AppendInt32(b []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(v))
}

// AppendInt64 appends a long.
func AppendInt64(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(v))
}

// AppendString appends a string. There is no null string in Go: "" has length 0.
func AppendString(b []byte, v string) []byte {
	b = AppendInt32(b, int32(len(v)))
	return append(b, v...)
}

// AppendBuffer appends a buffer; nil is null (length -1), and an empty one is not.
func AppendBuffer(b, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, -1)
	}
	b = AppendInt32(b, int32(len(v)))
	return append(b, v...)
}

// AppendStrings appends a vector of strings; nil is empty, not null, because a client of
// getChildren takes null for a fault.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// AppendACLs appends a vector of ACL entries; nil is empty, not null.
func AppendACLs(b []byte, v []ACL) []byte {
	b = AppendInt32(b, int32(len(v)))
	for i := range v {
		b = v[i].Append(b)
	}
	return b
}

// AppendClientInfos appends a vector of ClientInfo, the response of whoAmI; nil is empty,
// not null.
func AppendClientInfos(b []byte, v []ClientInfo) []byte {
	b = AppendInt32(b, int32(len(v)))
	for i := range v {
		b = v[i].Append(b)
	}
	return b
}
