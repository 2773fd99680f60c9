package session

import (
	"fmt"
	"slices"
)

// chunkLen is how many sessions share a chunk: 4 KiB, so the first write to a chunk after a
// snapshot copies that much, and a snapshot of 100,000 sessions copies 1,600 pointers.
const chunkLen = 64

// A chunk holds sessions; one whose ID is 0 is free. A chunk belongs to the Table if its
// generation is the Table's, else snapshots may be reading it and it must not change.
type chunk struct {
	gen      uint64
	sessions [chunkLen]Session
}

// A Table is the replicated set of sessions.
//
// Sessions live in chunks that snapshots share until the next write to them: a snapshot
// costs one copy of the list of chunks, and memory grows only by the chunks that are
// written while it lives.
//
// Invariants; check verifies them:
//
//	S1  slots maps exactly the ids of the used slots, each to its own;
//	S2  every used slot has a valid id, an epoch of at least 1, and knows its slot;
//	S3  free lists exactly the unused slots;
//	S4  digest is the sum over all sessions of their two digests: it depends on what the
//	    sessions are and not on how they came to be.
//
// Owner: the apply loop. Any number of readers may look between its writes.
type Table struct {
	slots  map[int64]uint32
	chunks []*chunk
	free   []uint32
	gen    uint64 // raised by Snapshot
	digest uint64
}

// New returns an empty Table.
func New() *Table { return &Table{slots: map[int64]uint32{}} }

// Len returns the number of sessions.
func (t *Table) Len() int { return len(t.slots) }

// Digest returns a 64-bit digest of the sessions, equal for equal sessions.
func (t *Table) Digest() uint64 { return t.digest }

// Get returns the session, nil if there is none. It must not be written to, and is valid
// until the Table changes.
func (t *Table) Get(id int64) *Session {
	slot, ok := t.slots[id]
	if !ok {
		return nil
	}
	return &t.chunks[slot/chunkLen].sessions[slot%chunkLen]
}

// Create adds a session with epoch 1, held by the connection o. That the id is valid and
// not taken is the caller's to check. The result is as that of Get.
func (t *Table) Create(id int64, password [PasswordSize]byte, timeoutMs int32, o Origin) *Session {
	return t.insert(Session{ID: id, Password: password, TimeoutMs: timeoutMs, Epoch: 1, Origin: o})
}

// Attach gives the session to the connection o: it raises the epoch, so that whatever the
// connection before still sends is refused, and starts the numbers of writes anew. Nil if
// there is no such session; that the password is right is the caller's to check. The
// result is as that of Get.
func (t *Table) Attach(id int64, timeoutMs int32, o Origin) *Session {
	s := t.writable(id)
	if s == nil {
		return nil
	}
	t.digest -= s.identityDigest() + s.requestDigest()
	s.TimeoutMs = timeoutMs
	s.Epoch++
	s.Origin = o
	s.LastReq = 0
	t.digest += s.identityDigest() + s.requestDigest()
	return s
}

// SetLastReq records that the write req of the session is applied. It does nothing if
// there is no such session.
func (t *Table) SetLastReq(id int64, req uint64) {
	s := t.writable(id)
	if s == nil {
		return
	}
	t.digest -= s.requestDigest()
	s.LastReq = req
	t.digest += s.requestDigest()
}

// Remove removes the session and says whether there was one.
func (t *Table) Remove(id int64) bool {
	s := t.writable(id)
	if s == nil {
		return false
	}
	t.digest -= s.identityDigest() + s.requestDigest()
	t.free = append(t.free, s.slot)
	delete(t.slots, id)
	*s = Session{}
	return true
}

// Range calls f for every session in the order of ids until f returns false. f must not
// change the Table nor the session.
func (t *Table) Range(f func(s *Session) bool) {
	ids := make([]int64, 0, len(t.slots))
	for id := range t.slots {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if !f(t.Get(id)) {
			return
		}
	}
}

// insert adds s in a free slot.
func (t *Table) insert(s Session) *Session {
	if !ValidID(s.ID) {
		panic(fmt.Sprintf("session: id %#x is reserved", uint64(s.ID)))
	}
	if _, taken := t.slots[s.ID]; taken {
		panic(fmt.Sprintf("session: %#x exists already", uint64(s.ID)))
	}
	if len(t.free) == 0 {
		t.grow()
	}
	s.slot = t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.slots[s.ID] = s.slot
	t.digest += s.identityDigest() + s.requestDigest()
	p := t.own(s.slot)
	*p = s
	return p
}

// grow adds a chunk. Its slots become free so that the lowest is taken first.
func (t *Table) grow() {
	first := uint32(len(t.chunks) * chunkLen)
	t.chunks = append(t.chunks, &chunk{gen: t.gen})
	for i := uint32(chunkLen); i > 0; i-- {
		t.free = append(t.free, first+i-1)
	}
}

// writable returns the session for writing, nil if there is none.
func (t *Table) writable(id int64) *Session {
	slot, ok := t.slots[id]
	if !ok {
		return nil
	}
	return t.own(slot)
}

// own returns the slot for writing: in a copy of its chunk, if a snapshot may read it.
func (t *Table) own(slot uint32) *Session {
	c := t.chunks[slot/chunkLen]
	if c.gen != t.gen {
		clone := *c
		clone.gen = t.gen
		c = &clone
		t.chunks[slot/chunkLen] = c
	}
	return &c.sessions[slot%chunkLen]
}
