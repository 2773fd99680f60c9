package zkdata

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A Database is what ZooKeeper holds in memory: the tree and the sessions.
type Database struct {
	Sessions map[int64]int32 // from ids to timeouts in ms
	Zxid     int64           // of the last transaction that it has seen
	TimeMs   int64           // of the same

	nodes map[string]*Node          // by path; the root's is ""
	owned map[int64]map[string]bool // ephemeral nodes by session
	noted *TreeDigest               // the last digest that ZooKeeper has noted
}

// A Node is a node of a Database.
type Node struct {
	Data []byte // nil is null
	ACL  []wire.ACL
	Stat znode.Persisted

	children map[string]bool // by name
	noACL    bool            // the list is not known yet
}

var openACL = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}}

// newDatabase is empty: it has no root even.
func newDatabase() *Database {
	return &Database{
		Sessions: make(map[int64]int32), nodes: make(map[string]*Node), owned: make(map[int64]map[string]bool),
	}
}

// NewDatabase is the database of a ZooKeeper that starts for the first time.
func NewDatabase() *Database {
	db := newDatabase()
	db.mustPut("", &Node{Data: []byte{}, ACL: openACL})
	for _, path := range []string{znode.ZooKeeperPath, znode.QuotaPath} {
		db.mustPut(path, &Node{Data: []byte{}, ACL: openACL})
	}
	read := []wire.ACL{{Perms: wire.PermRead, ID: openACL[0].ID}}
	db.mustPut(znode.ConfigPath, &Node{Data: []byte{}, ACL: read, Stat: znode.Persisted{Aversion: -1}})
	return db
}

// Len is the number of nodes.
func (db *Database) Len() int { return len(db.nodes) }

// Node is the node at path, nil if there is none.
func (db *Database) Node(path string) *Node { return db.nodes[internal(path)] }

// internal is the path by which the node is kept.
func internal(path string) string {
	if path == "/" {
		return ""
	}
	return path
}

// Walk calls f for every node, parents before their children and siblings in order, until it
// fails. The root's path is "/".
func (db *Database) Walk(f func(path string, n *Node) error) error {
	if db.nodes[""] == nil {
		return nil
	}
	return db.walk("", f)
}

func (db *Database) walk(path string, f func(string, *Node) error) error {
	n := db.nodes[path]
	if err := f(max(path, "/"), n); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		if err := db.walk(path+"/"+name, f); err != nil {
			return err
		}
	}
	return nil
}

// Why a node could not be put or removed. In a replay both are expected.
var (
	errNoParent = errors.New("the parent is missing")
	errExists   = errors.New("the node is there")
)

// split divides a path into that of the parent and the name.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// put adds a node.
func (db *Database) put(path string, n *Node) error {
	if db.nodes[path] != nil {
		return errExists
	}
	if path != "" {
		dir, name := split(path)
		parent := db.nodes[dir]
		if parent == nil || path[0] != '/' {
			return errNoParent
		}
		if parent.children == nil {
			parent.children = make(map[string]bool, 1)
		}
		parent.children[name] = true
	}
	db.nodes[path] = n
	if o := n.Stat.Owner; o.Kind() == znode.Ephemeral {
		set := db.owned[o.Session()]
		if set == nil {
			set = make(map[string]bool, 1)
			db.owned[o.Session()] = set
		}
		set[path] = true
	}
	return nil
}

func (db *Database) mustPut(path string, n *Node) {
	if err := db.put(path, n); err != nil {
		panic("zkdata: " + path + ": " + err.Error())
	}
}

// remove takes a node away, with all below it, and raises the parent's pzxid, also where the
// node itself has gone already (DataTree.deleteNode).
func (db *Database) remove(path string, zxid int64) {
	if path == "" {
		return
	}
	dir, name := split(path)
	parent := db.nodes[dir]
	if parent == nil {
		return
	}
	parent.Stat.Pzxid = max(parent.Stat.Pzxid, zxid)
	delete(parent.children, name)
	db.drop(path)
}

func (db *Database) drop(path string) {
	n := db.nodes[path]
	if n == nil {
		return
	}
	for name := range n.children {
		db.drop(path + "/" + name)
	}
	delete(db.nodes, path)
	if o := n.Stat.Owner; o.Kind() == znode.Ephemeral {
		set := db.owned[o.Session()]
		if delete(set, path); len(set) == 0 {
			delete(db.owned, o.Session())
		}
	}
}

// CloseSession removes a session and its ephemeral nodes, at that zxid, and returns how many
// nodes these were.
func (db *Database) CloseSession(id, zxid int64) int {
	delete(db.Sessions, id)
	paths := slices.Sorted(maps.Keys(db.owned[id]))
	for _, path := range paths {
		db.remove(path, zxid)
	}
	return len(paths)
}

// DropOrphans removes the ephemeral nodes whose session does not exist, as ZooKeeper does when
// it has loaded its database, and returns how many these were.
func (db *Database) DropOrphans() int {
	var dropped int
	for _, id := range sortedIDs(db.owned) {
		if _, lives := db.Sessions[id]; !lives {
			dropped += db.CloseSession(id, db.Zxid)
		}
	}
	return dropped
}

func sortedIDs[V any](m map[int64]V) []int64 { return slices.Sorted(maps.Keys(m)) }

// Digest is the digest of the tree, version 2 (DigestCalculator in Apache ZooKeeper): the sum
// of the CRCs of all nodes that are not below /zookeeper.
func (db *Database) Digest() uint64 {
	var sum uint64
	var b []byte
	for path, n := range db.nodes {
		if strings.HasPrefix(path, znode.ZooKeeperPath+"/") {
			continue
		}
		b = append(append(b[:0], path...), n.Data...)
		s := &n.Stat
		for _, v := range [...]int64{s.Czxid, s.Mzxid, s.Pzxid, s.CtimeMs, s.MtimeMs} {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
		for _, v := range [...]int32{s.Version, s.Cversion, s.Aversion} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		b = binary.BigEndian.AppendUint64(b, uint64(s.Owner))
		sum += uint64(crc32.ChecksumIEEE(b))
	}
	return sum
}
