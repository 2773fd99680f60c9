package zkdata

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/wire"
)

const alice, bob int64 = 0x100000000000001, 0x100000000000002

var bobsOwn = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "digest", ID: "bob:x"}}}

// snapshotOf is a snapshot of the database.
func snapshotOf(t testing.TB, db *Database) []byte {
	t.Helper()
	var out bytes.Buffer
	lists := [][]wire.ACL{bobsOwn}
	w := NewSnapshotWriter(&out, db.Sessions, lists)
	require.NoError(t, db.Walk(func(path string, n *Node) error {
		key := OpenACL
		if len(n.ACL) > 0 && n.ACL[0] == bobsOwn[0] {
			key = 1
		}
		w.Node(path, n.Data, key, n.Stat)
		return nil
	}))
	require.NoError(t, w.Close(db.Zxid, db.Digest()))
	return out.Bytes()
}

// logOf is a log of the transactions.
func logOf(txns ...Txn) []byte {
	b := AppendLogHeader(nil)
	for i := range txns {
		b = AppendLogEntry(b, &txns[i])
	}
	return b
}

// numbered gives the transactions zxids from first on, and a time.
func numbered(first int64, txns ...Txn) []Txn {
	for i := range txns {
		txns[i].Zxid, txns[i].TimeMs = first+int64(i), 1000*(first+int64(i))
	}
	return txns
}

func creation(path string, cversion int32) Txn {
	return Txn{Type: Create, Path: path, Data: []byte("data of " + path), ACL: openACL, ParentCversion: cversion}
}

func ephemeral(session int64, path string, cversion int32) Txn {
	t := creation(path, cversion)
	t.Session, t.Ephemeral = session, true
	return t
}

// everyType has a transaction of every type, which fit together.
func everyType() []Txn {
	ttl := creation("/ttl", 5)
	ttl.Type, ttl.TTLMs = CreateTTL, 60_000
	box := creation("/box", 6)
	box.Type = CreateContainer
	two := creation("/two", 7)
	two.Type = Create2
	return numbered(
		1,
		Txn{Type: CreateSession, Session: alice, TimeoutMs: 30_000},
		Txn{Type: CreateSession, Session: bob, TimeoutMs: 40_000},
		creation("/a", 1),
		creation("/a/b", 1),
		ephemeral(alice, "/mine", 2),
		ephemeral(bob, "/bobs", 3),
		ephemeral(bob, "/bobs-too", 4),
		ttl, box, two,
		Txn{Type: SetData, Path: "/a", Data: nil, Version: 1},
		Txn{Type: SetACL, Path: "/a", ACL: bobsOwn, Version: 1},
		Txn{Type: Delete, Path: "/a/b"},
		Txn{Type: DeleteContainer, Path: "/box"},
		Txn{Type: Failed, Code: -101},
		Txn{Type: Multi, Ops: []Txn{creation("/m", 8), {Type: Check, Path: "/a", Version: 1}, {Type: SetData, Path: "/m", Data: []byte("m"), Version: 1}}},
		Txn{Type: Multi, Ops: []Txn{creation("/void", 9), {Type: Failed, Code: -2}}},
		Txn{Type: Reconfig, Path: "/zookeeper/config", Data: []byte("version=0"), Version: -1},
		Txn{Type: CloseSession, Session: bob, Paths: []string{"/bobs", "/bobs-too"}},
	)
}

// paths are those of the tree, without the reserved ones.
func paths(t testing.TB, db *Database) []string {
	t.Helper()
	var all []string
	require.NoError(t, db.Walk(func(path string, _ *Node) error {
		switch path {
		case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		default:
			all = append(all, path)
		}
		return nil
	}))
	return all
}

// load loads files that lie in one directory, and returns what was noted.
func load(t testing.TB, files map[string][]byte, force bool) (db *Database, r Report, notes []string, err error) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, b := range files {
		fsys[name] = &fstest.MapFile{Data: b}
	}
	db, r, err = Load(Source{
		Snapshots: fsys, SnapshotsDir: "zk", Logs: fsys, LogsDir: "zk", Force: force,
		Note: func(n string) { notes = append(notes, n) },
	})
	return db, r, notes, err
}

// goodFiles are a fresh snapshot and a log of everyType.
func goodFiles(t testing.TB) map[string][]byte {
	t.Helper()
	return map[string][]byte{"snapshot.0": snapshotOf(t, NewDatabase()), "log.1": logOf(everyType()...)}
}
