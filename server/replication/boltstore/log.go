package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// Log is a raft.LogStore in a bbolt file, for those who want nothing but known parts. It
// costs two page writes per batch and is slower than the segments.
//
// The stored Data ends with the CRC32C of index, term, type, data and extensions.
type Log struct{ db }

var _ raft.LogStore = (*Log)(nil)

// OpenLog opens or makes the file at path.
func OpenLog(path string) (*Log, error) {
	d, err := open(path)
	if err != nil {
		return nil, err
	}
	return &Log{d}, nil
}

func logChecksum(l *raft.Log, data []byte) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	crc := crc32.Checksum(head[:], castagnoli)
	crc = crc32.Update(crc, castagnoli, data)
	return crc32.Update(crc, castagnoli, l.Extensions)
}

// FirstIndex is the index of the oldest entry, 0 if there is none.
func (l *Log) FirstIndex() (i uint64, err error) {
	err = l.guard(func() error { i, err = l.BoltStore.FirstIndex(); return err })
	return i, err
}

// LastIndex is the index of the newest entry, 0 if there is none.
func (l *Log) LastIndex() (i uint64, err error) {
	err = l.guard(func() error { i, err = l.BoltStore.LastIndex(); return err })
	return i, err
}

// GetLog reads an entry; raft.ErrLogNotFound if it is not there.
func (l *Log) GetLog(index uint64, out *raft.Log) error {
	return l.guard(func() error {
		if err := l.BoltStore.GetLog(index, out); err != nil {
			return err
		}
		n := len(out.Data) - 4
		if out.Index != index || n < 0 || binary.BigEndian.Uint32(out.Data[n:]) != logChecksum(out, out.Data[:n]) {
			return l.damaged(fmt.Sprintf("wrong checksum of log entry %d", index))
		}
		out.Data = out.Data[:n:n]
		return nil
	})
}

// StoreLog stores one entry durably.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries durably.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	sealed := make([]*raft.Log, len(entries))
	for i, e := range entries {
		c := *e
		c.Data = append(make([]byte, 0, len(e.Data)+4), e.Data...)
		c.Data = binary.BigEndian.AppendUint32(c.Data, logChecksum(e, e.Data))
		sealed[i] = &c
	}
	return l.guard(func() error { return l.BoltStore.StoreLogs(sealed) })
}

// DeleteRange deletes the entries from lo to hi, both included.
func (l *Log) DeleteRange(lo, hi uint64) error {
	return l.guard(func() error { return l.BoltStore.DeleteRange(lo, hi) })
}

// Bytes is the length of the file: bbolt gives no space back, it uses it again.
func (l *Log) Bytes() int64 { return l.Size() }

// CheckLog reads the whole log in the file at path without changing it. visit sees each
// entry in order.
func CheckLog(path string, visit func(*raft.Log) error) error {
	l := &Log{db{path: path}}
	return l.guard(func() error {
		s, err := raftboltdb.New(raftboltdb.Options{
			Path: path, BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: lockTimeout}, MsgpackUseNewTimeFormat: true,
		})
		if err != nil {
			return l.openError(err)
		}
		l.BoltStore = s
		defer s.Close()
		first, err1 := l.FirstIndex()
		last, err2 := l.LastIndex()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for i := first; first > 0 && i <= last; i++ {
			var e raft.Log
			if err := l.GetLog(i, &e); errors.Is(err, raft.ErrLogNotFound) {
				return l.damaged(fmt.Sprintf("log entry %d is missing", i))
			} else if err != nil {
				return err
			}
			if err := visit(&e); err != nil {
				return err
			}
		}
		return nil
	})
}
