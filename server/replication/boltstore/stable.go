package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// Stable is a raft.StableStore in a bbolt file: what this server has promised to others,
// durable before it says so.
//
// A value is the CRC32C of key and value, and the value: a value that has come under
// another key is noticed too.
type Stable struct{ db }

var _ raft.StableStore = (*Stable)(nil)

// OpenStable opens or makes the file at path.
func OpenStable(path string) (*Stable, error) {
	d, err := open(path)
	if err != nil {
		return nil, err
	}
	return &Stable{d}, nil
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// Set stores a value durably.
func (s *Stable) Set(key, value []byte) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(value)), checksum(key, value))
	return s.guard(func() error { return s.BoltStore.Set(key, append(b, value...)) })
}

// Get reads a value. The error of a missing key reads "not found", which raft expects.
func (s *Stable) Get(key []byte) (value []byte, err error) {
	err = s.guard(func() error {
		b, err := s.BoltStore.Get(key)
		if err != nil {
			return err
		}
		value, err = s.open(key, b)
		return err
	})
	return value, err
}

// open checks a stored value and takes the checksum off.
func (s *Stable) open(key, b []byte) ([]byte, error) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) != checksum(key, b[4:]) {
		return nil, s.damaged(fmt.Sprintf("wrong checksum of the value of %q", key))
	}
	return b[4:], nil
}

// SetUint64 stores a number durably.
func (s *Stable) SetUint64(key []byte, n uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 reads a number.
func (s *Stable) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, s.damaged(fmt.Sprintf("the value of %q has %d bytes, a number has 8", key, len(b)))
	}
	return binary.BigEndian.Uint64(b), nil
}

// IsNotFound says whether err is that of a key that has never been set.
func IsNotFound(err error) bool { return errors.Is(err, raftboltdb.ErrKeyNotFound) }

// confBucket is the name of raft-boltdb's bucket of the stable store.
var confBucket = []byte("conf")

// CheckStable verifies the pages and all values of the file at path without changing it,
// and returns how many values there are.
func CheckStable(path string) (values int, err error) {
	s := &Stable{db{path: path}}
	err = s.guard(func() error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		if st.Size() == 0 { // bbolt would write to it
			return s.damaged("the file is empty")
		}
		file, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout, PreLoadFreelist: true})
		if err != nil {
			return s.openError(err)
		}
		defer file.Close()
		return file.View(func(tx *bbolt.Tx) error {
			var first error
			for err := range tx.Check() {
				if first == nil {
					first = s.damaged(err.Error())
				}
			}
			if first != nil {
				return first
			}
			bucket := tx.Bucket(confBucket)
			if bucket == nil {
				return s.damaged("it holds no term and no vote")
			}
			return bucket.ForEach(func(k, v []byte) error {
				values++
				_, err := s.open(k, v)
				return err
			})
		})
	})
	return values, err
}
