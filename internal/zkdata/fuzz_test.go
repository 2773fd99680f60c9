package zkdata

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/znode"
)

// What is read as a transaction means the same when it has been written and read again.
func FuzzTxn(f *testing.F) {
	all := everyType()
	all[3].Digest = &TreeDigest{Zxid: all[3].Zxid, Version: digestVersion, Value: 1}
	all[18].NoPaths, all[18].Paths = true, nil
	for i := range all {
		f.Add(all[i].Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		txn, err := DecodeTxn(b)
		if err != nil {
			return
		}
		again, err := DecodeTxn(txn.Append(nil))
		require.NoError(t, err)
		require.Equal(t, txn.Append(nil), again.Append(nil))
		NewDatabase().Apply(&txn)
	})
}

// A log ends, with transactions that stay the same when they are written and read again.
func FuzzLog(f *testing.F) {
	b := logOf(everyType()...)
	f.Add(b)
	f.Add(append(b, make([]byte, 100)...))
	f.Add(b[:len(b)-3])
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := NewLogReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		db := NewDatabase()
		for {
			txn, offset, err := l.Next()
			if err != nil {
				var fault *Error
				require.True(t, errors.Is(err, io.EOF) || errors.As(err, &fault), "%v", err)
				return
			}
			require.Less(t, offset, int64(len(b)))
			db.Apply(&txn)
			checkDatabase(t, db)
		}
	})
}

// A snapshot that is read is a tree, and is the same when it has been written and read again.
func FuzzSnapshot(f *testing.F) {
	db := NewDatabase()
	all := everyType()
	for i := range all {
		db.Apply(&all[i])
	}
	f.Add(snapshotOf(f, NewDatabase()))
	f.Add(snapshotOf(f, db))
	f.Fuzz(func(t *testing.T, b []byte) {
		db, err := ReadSnapshot(bytes.NewReader(b))
		if err != nil {
			var fault *Error
			require.ErrorAs(t, err, &fault)
			if db, _ = readUnsealed(b); db.Node("/") == nil { // so that the checksums hide nothing
				return
			}
		}
		checkDatabase(t, db)
		again, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, db)))
		require.NoError(t, err)
		require.Equal(t, db.Digest(), again.Digest())
		require.Equal(t, db.Sessions, again.Sessions)
	})
}

func FuzzSnappy(f *testing.F) {
	f.Add([]byte(snappyMagic + "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x03\x01\x00a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := newSnappyReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		_, err = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		var fault *Error
		require.True(t, err == nil || errors.As(err, &fault), "%v", err)
	})
}

// checkDatabase checks that children, nodes and owners agree.
func checkDatabase(t *testing.T, db *Database) {
	t.Helper()
	walked, owned := 0, 0
	require.NoError(t, db.Walk(func(path string, n *Node) error {
		require.NotNil(t, n, path)
		walked++
		if n.Stat.Owner.Kind() == znode.Ephemeral {
			require.True(t, db.owned[n.Stat.Owner.Session()][internal(path)], path)
			owned++
		}
		return nil
	}))
	require.Equal(t, len(db.nodes), walked)
	for _, set := range db.owned {
		require.NotEmpty(t, set)
		owned -= len(set)
	}
	require.Zero(t, owned)
}
