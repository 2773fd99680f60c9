package zkdata

import (
	"encoding/binary"
	"hash"
	"hash/adler32"
	"io"
	"strconv"

	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A snapshot, all numbers big-endian:
//
//	magic "ZKSN" | int version 2 | long dbid
//	int n | n × (long session, int timeout in ms)
//	int n | n × (long key, ACL list)
//	nodes: string path ("" is the root, which is the first) | buffer data | long ACL key | stat
//	string "/" | seal
//	from 3.6 on: long zxid | int version | long digest of the tree | seal
//	from 3.9 on: long zxid | seal
//
// A seal is the Adler-32 of all bytes before it, as a long, and the string "/".
const (
	snapshotMagic = "ZKSN"
	fileVersion   = 2
	// openKey is the ACL key of a node that everybody may do everything with.
	openKey = -1
	endPath = "/"
	// statBytes is the length of a persisted stat.
	statBytes = 60
	// digestVersion is the version of the digest of trees that is known here, that of
	// ZooKeeper 3.6 and later.
	digestVersion = 2
)

// A TreeDigest is a digest of the tree that ZooKeeper has noted at a zxid.
type TreeDigest struct {
	Zxid    int64
	Version int32
	Value   uint64
}

// ReadSnapshot reads a snapshot to its end. A faulty one is an *Error.
func ReadSnapshot(r io.Reader) (*Database, error) {
	s := snapshotReader{in: newInput(r), db: newDatabase(), lists: map[int64][]wire.ACL{openKey: openACL}}
	s.read()
	if s.in.err != nil {
		return nil, s.in.err
	}
	return s.db, nil
}

type snapshotReader struct {
	in    *input
	db    *Database
	lists map[int64][]wire.ACL
}

func (s *snapshotReader) read() {
	in := s.in
	var magic [4]byte
	in.full(magic[:])
	if string(magic[:]) != snapshotMagic {
		in.fail(0, "this is no snapshot of ZooKeeper: it begins with %q", magic[:])
	}
	if v := in.int32(); v != fileVersion {
		in.fail(4, "the version of the format is %d, and %d is known", v, fileVersion)
	}
	in.int64() // dbid
	for range in.count() {
		at := in.off
		id := in.int64()
		if timeout := in.int32(); in.err == nil {
			if _, twice := s.db.Sessions[id]; twice {
				in.fail(at, "session %#x comes twice", uint64(id))
			}
			s.db.Sessions[id] = timeout
		}
		if in.err != nil {
			return
		}
	}
	s.readLists()
	s.readNodes()
	s.seal()
	if in.atEnd() {
		return
	}
	s.digest()
	s.seal()
	if in.atEnd() {
		return
	}
	in.int64() // the last zxid: the name of the file has it, too
	s.seal()
	if !in.atEnd() {
		in.fail(in.off, "something follows the end")
	}
}

func (s *snapshotReader) readLists() {
	in := s.in
	for range in.count() {
		key := in.int64()
		var list []wire.ACL
		for range in.count() {
			a := wire.ACL{Perms: in.int32()}
			a.ID = wire.ID{Scheme: in.string(), ID: in.string()}
			if in.err != nil {
				return
			}
			list = append(list, a)
		}
		s.lists[key] = list
		if in.err != nil {
			return
		}
	}
}

func (s *snapshotReader) readNodes() {
	in := s.in
	var stat [8 + statBytes]byte
	for first := true; in.err == nil; first = false {
		at := in.off
		path := in.string()
		if in.err != nil || path == endPath {
			return
		}
		data := in.buffer()
		if !in.full(stat[:]) {
			return
		}
		if first != (path == "") {
			in.fail(at, "node %q is not where it should be: the root is the first one", path)
			return
		}
		n := &Node{Data: data, Stat: decodeStat(stat[8:])}
		key := int64(binary.BigEndian.Uint64(stat[:]))
		var known bool
		if n.ACL, known = s.lists[key]; !known {
			n.noACL = true // the node is younger than the table; the log has the list
		}
		switch s.db.put(path, n) {
		case errNoParent:
			in.fail(at, "node %q has no parent", path)
		case errExists:
			in.fail(at, "node %q comes twice", path)
		}
	}
}

func (s *snapshotReader) digest() {
	in := s.in
	d := TreeDigest{Zxid: in.int64(), Version: in.int32()}
	if d.Version < digestVersion {
		d.Value, _ = strconv.ParseUint(in.string(), 16, 64) // of an old version: not compared
	} else {
		d.Value = uint64(in.int64())
	}
	if in.err == nil && d != (TreeDigest{Version: d.Version}) {
		s.db.noted = &d
	}
}

// seal compares the sum with what was read.
func (s *snapshotReader) seal() {
	in := s.in
	want, at := int64(in.sum.Sum32()), in.off
	sum := in.int64()
	if in.err == nil && sum != want {
		in.fail(at, "the checksum of all before is %08x, and should be %08x: the file is damaged", want, uint64(sum))
	}
	at = in.off
	if end := in.string(); in.err == nil && end != endPath {
		in.fail(at, "%q is in the place of %q", end, endPath)
	}
}

func decodeStat(b []byte) znode.Persisted {
	long := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	short := func(i int) int32 { return int32(binary.BigEndian.Uint32(b[i:])) }
	return znode.Persisted{
		Czxid: long(0), Mzxid: long(8), CtimeMs: long(16), MtimeMs: long(24),
		Version: short(32), Cversion: short(36), Aversion: short(40),
		Owner: znode.Owner(long(44)), Pzxid: long(52),
	}
}

func appendStat(b []byte, s *znode.Persisted) []byte {
	for _, v := range [...]int64{s.Czxid, s.Mzxid, s.CtimeMs, s.MtimeMs} {
		b = wire.AppendInt64(b, v)
	}
	for _, v := range [...]int32{s.Version, s.Cversion, s.Aversion} {
		b = wire.AppendInt32(b, v)
	}
	b = wire.AppendInt64(b, int64(s.Owner))
	return wire.AppendInt64(b, s.Pzxid)
}

// A SnapshotWriter writes a snapshot as ZooKeeper 3.6 and later do. The first error sticks,
// and Close returns it.
type SnapshotWriter struct {
	w   io.Writer
	sum hash.Hash32
	buf []byte
	err error
}

const writeBuffer = 256 << 10

// NewSnapshotWriter begins a snapshot with the sessions, from ids to timeouts in ms, and the
// ACL lists. The list at index i has the key i+1.
func NewSnapshotWriter(w io.Writer, sessions map[int64]int32, lists [][]wire.ACL) *SnapshotWriter {
	s := &SnapshotWriter{w: w, sum: adler32.New()}
	b := wire.AppendInt32([]byte(snapshotMagic), fileVersion)
	b = wire.AppendInt64(b, -1)
	b = wire.AppendInt32(b, int32(len(sessions)))
	for _, id := range sortedIDs(sessions) {
		b = wire.AppendInt32(wire.AppendInt64(b, id), sessions[id])
	}
	b = wire.AppendInt32(b, int32(len(lists)))
	for i, l := range lists {
		b = wire.AppendACLs(wire.AppendInt64(b, int64(i+1)), l)
	}
	s.buf = b
	return s
}

// Node writes a node: the root, whose path is "/", is the first one, and parents come before
// their children. aclKey is that of its list, OpenACL where everybody may do everything.
func (s *SnapshotWriter) Node(path string, data []byte, aclKey int64, stat znode.Persisted) {
	if path == "/" {
		path = ""
	}
	b := wire.AppendString(s.buf, path)
	b = wire.AppendBuffer(b, data)
	b = wire.AppendInt64(b, aclKey)
	if s.buf = appendStat(b, &stat); len(s.buf) >= writeBuffer {
		s.flush()
	}
}

// OpenACL is the key of the list that allows everybody everything. It is not among the lists.
const OpenACL int64 = openKey

// Close ends the snapshot. digest is that of the tree at zxid, the last one that is in it.
func (s *SnapshotWriter) Close(zxid int64, digest uint64) error {
	s.buf = wire.AppendString(s.buf, endPath)
	s.seal()
	s.buf = wire.AppendInt64(s.buf, zxid)
	s.buf = wire.AppendInt32(s.buf, digestVersion)
	s.buf = wire.AppendInt64(s.buf, int64(digest))
	s.seal()
	s.flush()
	return s.err
}

func (s *SnapshotWriter) seal() {
	s.flush()
	s.buf = wire.AppendInt64(s.buf, int64(s.sum.Sum32()))
	s.buf = wire.AppendString(s.buf, endPath)
}

func (s *SnapshotWriter) flush() {
	s.sum.Write(s.buf)
	if s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	s.buf = s.buf[:0]
}
