package boltstore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/zkd-project/zkd/server/replication/damage"
)

// lockTimeout bounds the wait for the lock of a bbolt file. The data directory has a lock
// of its own, so this one is free unless a tool has the file open.
const lockTimeout = time.Second

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// db is an open bbolt file.
type db struct {
	*raftboltdb.BoltStore
	path string
}

func open(path string) (d db, err error) {
	d = db{path: path}
	err = d.guard(func() error {
		s, err := raftboltdb.New(raftboltdb.Options{
			Path: path, BoltOptions: &bbolt.Options{Timeout: lockTimeout}, MsgpackUseNewTimeFormat: true,
		})
		d.BoltStore = s
		return err
	})
	if err != nil {
		return db{}, d.openError(err)
	}
	return d, nil
}

// openError tells a file that is no database any more from one that cannot be had.
func (d *db) openError(err error) error {
	var known *damage.Error
	var path *fs.PathError
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, bolterrors.ErrTimeout) || errors.As(err, &path) {
		return fmt.Errorf("cannot open %s: %w", d.path, err)
	}
	return d.damaged(err.Error())
}

// guard runs f and turns a panic of bbolt, or a fault in its memory map, into damage. A
// database whose opening has panicked stays locked until the process ends.
func (d *db) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = d.damaged(fmt.Sprintf("the database cannot be read: %v", p))
		}
	}()
	return f()
}

func (d *db) damaged(what string) error {
	return &damage.Error{File: d.path, Offset: -1, What: what, Repair: damage.Rejoin}
}

// Size is the length of the file.
func (d *db) Size() int64 {
	st, err := os.Stat(d.path)
	if err != nil {
		return 0
	}
	return st.Size()
}
