package session

import "encoding/binary"

// PasswordSize is the length of a session's password in bytes. The C client copies exactly
// so many.
const PasswordSize = 16

// Origin says which connection a session belongs to: its number and a nonce of the boot of
// the server that holds it. Two connections never share an Origin.
type Origin struct {
	Boot uint64
	Conn uint64
}

// Session is one entry of the Table. Only methods of the Table change it.
type Session struct {
	ID        int64
	Password  [PasswordSize]byte
	TimeoutMs int32  // as negotiated by the newest connection
	Epoch     uint32 // connection epoch: 1 after Create, one more after each Attach
	Origin    Origin // the connection that may write
	LastReq   uint64 // number of the last write that was applied in this epoch; 0: none

	slot uint32 // where the Table keeps it
}

// ValidID says whether a session may have the id: 0 asks for a new session in a connect
// request, and an owner of a znode with the top byte 0xff or with the top bit alone marks a
// TTL node or a container.
func ValidID(id int64) bool {
	return id != 0 && uint64(id) != 1<<63 && uint64(id)>>56 != 0xff
}

// LegacyPassword returns the password that Apache ZooKeeper gives to the session id: what
// an import stores, so that clients can go on with the sessions that they had there. It is
// the start of java.util.Random's output seeded from the id: a checksum, and no secret, so
// new sessions must not use it.
func LegacyPassword(id int64) [PasswordSize]byte {
	const (
		salt       = 0xB3415C00 // SessionTrackerImpl.superSecret
		multiplier = 0x5DEECE66D
		mask       = 1<<48 - 1
	)
	var p [PasswordSize]byte
	seed := (uint64(id) ^ salt ^ multiplier) & mask
	for i := 0; i < len(p); i += 4 {
		seed = (seed*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(seed>>16))
	}
	return p
}

// identityDigest covers all of s but LastReq.
func (s *Session) identityDigest() uint64 {
	h := mix(uint64(s.ID))
	h = mix(h ^ binary.BigEndian.Uint64(s.Password[:8]))
	h = mix(h ^ binary.BigEndian.Uint64(s.Password[8:]))
	h = mix(h ^ uint64(uint32(s.TimeoutMs))<<32 ^ uint64(s.Epoch))
	h = mix(h ^ s.Origin.Boot)
	return mix(h ^ s.Origin.Conn)
}

// requestDigest covers LastReq, apart from the rest because it changes with every write.
func (s *Session) requestDigest() uint64 {
	return mix(mix(^uint64(s.ID)) ^ s.LastReq)
}

// mix spreads every bit of x over all bits of the result (the finalizer of splitmix64,
// Steele, Lea and Flood 2014). The increment keeps zero from being a fixed point.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
