package session

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// The encoding of a Table, all integers big-endian:
//
//	byte   version, 1
//	uint64 number of sessions
//	per session, in the order of ids (signed):
//	    int64    id
//	    [16]byte password
//	    int32    timeout in ms
//	    uint32   connection epoch
//	    uint64   origin: boot
//	    uint64   origin: connection
//	    uint64   last request
//	uint64 digest of the sessions: what was read must be what was written, also when a
//	       later version of this code computes the digest of the machine
//
// Records have a fixed size so that a reader never reads beyond the end.

const (
	encodingVersion = 1
	recordSize      = 56
	recordsAtOnce   = 256 // read and written together: 14 KiB
)

// A Snapshot is what the Table was when Table.Snapshot was called. It may be used by
// another goroutine than the Table, and needs no closing.
type Snapshot struct {
	chunks []*chunk
	n      int
	digest uint64
}

// Snapshot returns the Table as it is now. It takes microseconds; the Table may change
// while the Snapshot is written.
func (t *Table) Snapshot() *Snapshot {
	t.gen++ // from now on a write to a chunk copies it first
	return &Snapshot{chunks: slices.Clone(t.chunks), n: len(t.slots), digest: t.digest}
}

// Len returns the number of sessions.
func (s *Snapshot) Len() int { return s.n }

// Write writes the sessions to w.
func (s *Snapshot) Write(w io.Writer) error {
	sorted := make([]*Session, 0, s.n)
	for _, c := range s.chunks {
		for i := range c.sessions {
			if c.sessions[i].ID != 0 {
				sorted = append(sorted, &c.sessions[i])
			}
		}
	}
	slices.SortFunc(sorted, func(a, b *Session) int {
		if a.ID < b.ID {
			return -1
		}
		return 1 // ids are unique
	})

	b := make([]byte, 0, 1+8+recordsAtOnce*recordSize+8)
	b = append(b, encodingVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(len(sorted)))
	for len(sorted) > 0 {
		n := min(len(sorted), recordsAtOnce)
		for _, p := range sorted[:n] {
			b = p.append(b)
		}
		sorted = sorted[n:]
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write sessions: %w", err)
		}
		b = b[:0]
	}
	b = binary.BigEndian.AppendUint64(b, s.digest)
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write sessions: %w", err)
	}
	return nil
}

// Restore reads a Table that Snapshot.Write has written. It reads not a byte more.
func Restore(r io.Reader) (*Table, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read sessions: %w", noEOF(err))
	}
	if head[0] != encodingVersion {
		return nil, fmt.Errorf("read sessions: encoding version %d, this server reads only %d; use the version that wrote it", head[0], encodingVersion)
	}
	t := New()
	left := binary.BigEndian.Uint64(head[1:])
	buf := make([]byte, recordsAtOnce*recordSize)
	var last int64
	for left > 0 {
		n := min(left, recordsAtOnce) // the count may be damaged: allocate as records arrive
		b := buf[:n*recordSize]
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("read sessions: %d are missing: %w", left, noEOF(err))
		}
		for ; len(b) > 0; b = b[recordSize:] {
			s := decode(b)
			if !ValidID(s.ID) || s.Epoch == 0 || (t.Len() > 0 && s.ID <= last) {
				return nil, fmt.Errorf("read sessions: record %d (id %#x, epoch %d) is damaged", t.Len(), uint64(s.ID), s.Epoch)
			}
			last = s.ID
			t.insert(s)
		}
		left -= n
	}
	if _, err := io.ReadFull(r, head[:8]); err != nil {
		return nil, fmt.Errorf("read sessions: %w", noEOF(err))
	}
	if want := binary.BigEndian.Uint64(head[:8]); want != t.digest {
		return nil, fmt.Errorf("read sessions: digest is %016x and should be %016x: the data is damaged", t.digest, want)
	}
	return t, nil
}

// append appends the record of s to b.
func (s *Session) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.ID))
	b = append(b, s.Password[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(s.TimeoutMs))
	b = binary.BigEndian.AppendUint32(b, s.Epoch)
	b = binary.BigEndian.AppendUint64(b, s.Origin.Boot)
	b = binary.BigEndian.AppendUint64(b, s.Origin.Conn)
	return binary.BigEndian.AppendUint64(b, s.LastReq)
}

// decode reads the record at the start of b.
func decode(b []byte) Session {
	s := Session{
		ID:        int64(binary.BigEndian.Uint64(b)),
		TimeoutMs: int32(binary.BigEndian.Uint32(b[24:])),
		Epoch:     binary.BigEndian.Uint32(b[28:]),
		Origin:    Origin{Boot: binary.BigEndian.Uint64(b[32:]), Conn: binary.BigEndian.Uint64(b[40:])},
		LastReq:   binary.BigEndian.Uint64(b[48:]),
	}
	copy(s.Password[:], b[8:24])
	return s
}

// noEOF says that an end in the middle is unexpected, whichever way the reader put it.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
