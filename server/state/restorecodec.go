package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A chunk of a restore holds nodes, parents before their children and siblings in order, as
// Tree.Walk has them. Each chunk can be read by itself:
//
//	per node:
//	    uvarint  bytes that the path shares with that of the node before; 0 in the first one
//	    string   the rest of the path
//	    uvarint  0: the data are null; else their length plus 1, and the data
//	    uvarint  0: the open list; else the number of a list of this chunk, from 1. The next
//	             number that was not used yet is followed by the list, a string as on the wire
//	    varint   version | varint version of the list | uvarint children ever created |
//	    varint   owner | varint ctime, ms | varint mtime - ctime

// A RestoredNode is a node on its way from a backup into the tree.
type RestoredNode struct {
	Path     string
	Data     []byte // nil: null
	ACL      []wire.ACL
	Version  int32
	Aversion int32
	Created  int64       // children ever created
	Owner    znode.Owner // not a session
	CtimeMs  int64
	MtimeMs  int64
}

// A RestoreEncoder makes chunks. The zero value is ready.
type RestoreEncoder struct {
	b     []byte
	last  string
	lists map[string]uint64
	list  []byte // scratch
}

// Len is the size of the chunk so far.
func (e *RestoreEncoder) Len() int { return len(e.b) }

// Take returns the chunk and begins the next one.
func (e *RestoreEncoder) Take() []byte {
	b := e.b
	*e = RestoreEncoder{list: e.list}
	return b
}

// Add appends a node. It must come behind the one before, as in Tree.Walk.
func (e *RestoreEncoder) Add(n *RestoredNode) {
	shared := 0
	for shared < min(len(e.last), len(n.Path)) && e.last[shared] == n.Path[shared] {
		shared++
	}
	e.last = n.Path
	b := binary.AppendUvarint(e.b, uint64(shared))
	b = appendString(b, n.Path[shared:])
	if n.Data == nil {
		b = binary.AppendUvarint(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(len(n.Data))+1)
		b = append(b, n.Data...)
	}
	b = e.appendList(b, n.ACL)
	b = binary.AppendVarint(b, int64(n.Version))
	b = binary.AppendVarint(b, int64(n.Aversion))
	b = binary.AppendUvarint(b, uint64(n.Created))
	b = binary.AppendVarint(b, int64(n.Owner))
	b = binary.AppendVarint(b, n.CtimeMs)
	e.b = binary.AppendVarint(b, n.MtimeMs-n.CtimeMs)
}

func (e *RestoreEncoder) appendList(b []byte, list []wire.ACL) []byte {
	if acl.IsOpen(list) {
		return binary.AppendUvarint(b, 0)
	}
	e.list = wire.AppendACLs(e.list[:0], list)
	number, known := e.lists[string(e.list)]
	if known {
		return binary.AppendUvarint(b, number)
	}
	if e.lists == nil {
		e.lists = map[string]uint64{}
	}
	number = uint64(len(e.lists) + 1)
	e.lists[string(e.list)] = number
	b = binary.AppendUvarint(b, number)
	b = binary.AppendUvarint(b, uint64(len(e.list)))
	return append(b, e.list...)
}

// A restoreDecoder reads the nodes of one chunk. in.err is what ended it too early.
type restoreDecoder struct {
	in     input
	node   RestoredNode // Data aliases the chunk
	before string       // path of the node before; "" if there is none
	last   string       // path of node; at first that before the chunk
	inside bool         // a node of this chunk has come
	lists  [][]wire.ACL
}

// next reads a node.
func (d *restoreDecoder) next() bool {
	in := &d.in
	if in.err != nil || in.pos == len(in.b) {
		return false
	}
	d.before = d.last
	shared := in.uvarint()
	if limit := uint64(len(d.last)); shared > limit || shared > 0 && !d.inside {
		in.fail("%d bytes are shared with the path before", shared)
		return false
	}
	n := &d.node
	n.Path = d.before[:shared] + string(in.bytes())
	n.Data = nil
	if length := in.uvarint(); length > 0 {
		if n.Data = in.take(length - 1); n.Data == nil {
			n.Data = []byte{}
		}
	}
	n.ACL = d.list(in.uvarint())
	n.Version, n.Aversion = in.int32(), in.int32()
	created := in.uvarint()
	if created > math.MaxInt64 {
		in.fail("%d children were created", created)
	}
	n.Created = int64(created)
	n.Owner = znode.Owner(in.varint())
	n.CtimeMs = in.varint()
	n.MtimeMs = n.CtimeMs + in.varint()
	if in.err != nil {
		return false
	}
	d.last, d.inside = n.Path, true
	return true
}

// list is the list with a number, which follows if it is new.
func (d *restoreDecoder) list(number uint64) []wire.ACL {
	known := uint64(len(d.lists))
	switch {
	case number == 0:
		return acl.Open()
	case number <= known:
		return d.lists[number-1]
	case number > known+1:
		d.in.fail("list %d comes after list %d", number, known)
		return nil
	}
	b := d.in.bytes()
	w := newDecoder(b)
	list := w.ACLs()
	if w.Err() != nil || !bytes.Equal(wire.AppendACLs(nil, list), b) {
		d.in.fail("list %d is none", number)
		return nil
	}
	d.lists = append(d.lists, list)
	return list
}

// follows says whether a node may come behind another, whose parents have come: it is a child of
// that one or of a node above it, and its name is behind the names of the siblings before.
func follows(before, path string) bool {
	parent, name, _ := znode.SplitPath(path)
	if parent == before {
		return true
	}
	if !within(before, parent) {
		return false
	}
	sibling := strings.TrimPrefix(before[len(parent):], "/")
	if i := strings.IndexByte(sibling, '/'); i >= 0 {
		sibling = sibling[:i]
	}
	return sibling < name
}

// The section of restores in a snapshot:
//
//	byte 1 if a restore has ended, then
//	    number (8 bytes) | varint code | varint zxid | varint time, ms |
//	    uvarint created | changed | deleted | kept | string path
//	byte 1 if one is under way, then
//	    number (8 bytes) | string path | varint time of the last piece, ms |
//	    uvarint number of chunks, and each as a string
func (rs *restores) appendLast(b []byte) []byte {
	l := rs.last
	if l == nil {
		return append(b, 0)
	}
	b = binary.BigEndian.AppendUint64(append(b, 1), uint64(l.ID))
	b = binary.AppendVarint(b, int64(l.Code))
	b = binary.AppendVarint(b, l.Zxid)
	b = binary.AppendVarint(b, l.TimeMs)
	for _, n := range [...]uint64{l.Created, l.Changed, l.Deleted, l.Kept} {
		b = binary.AppendUvarint(b, n)
	}
	return appendString(b, l.Path)
}

func (s *staging) appendHead(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.id))
	b = appendString(b, s.path)
	b = binary.AppendVarint(b, s.touchedMs)
	return binary.AppendUvarint(b, uint64(len(s.chunks)))
}

// write writes the section; rs is fixed.
func (rs *restores) write(w io.Writer) error {
	b := rs.appendLast(nil)
	if rs.now == nil {
		_, err := w.Write(append(b, 0))
		return err
	}
	b = rs.now.appendHead(append(b, 1))
	for _, chunk := range rs.now.chunks {
		b = binary.AppendUvarint(b, uint64(len(chunk)))
		for _, part := range [...][]byte{b, chunk} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		b = b[:0]
	}
	_, err := w.Write(b) // without a chunk the head is still there
	return err
}

var errRestores = errors.New("it cannot be decoded")

// readRestores reads what write has written.
func readRestores(r io.Reader) (*restores, error) {
	in := sectionInput{r: bufio.NewReaderSize(r, 64<<10)}
	rs := &restores{}
	if in.flag() {
		l := &Restored{ID: int64(in.fixed64()), Code: wire.Code(in.varint()), Zxid: in.varint(), TimeMs: in.varint()}
		for _, n := range [...]*uint64{&l.Created, &l.Changed, &l.Deleted, &l.Kept} {
			*n = in.uvarint()
		}
		l.Path = string(in.bytes())
		rs.last = l
	}
	if in.flag() {
		s := &staging{id: int64(in.fixed64()), path: string(in.bytes()), touchedMs: in.varint()}
		if in.err == nil && !restorable(s.path) {
			return nil, fmt.Errorf("%w: nothing can be restored to %q", errRestores, s.path)
		}
		for left := in.uvarint(); left > 0 && in.err == nil; left-- {
			chunk := in.bytes()
			if in.err == nil {
				in.err = s.add(chunk)
			}
		}
		rs.now = s
	}
	if in.err != nil {
		return nil, in.err
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errRestores, err)
	}
	return rs, nil
}

// A sectionInput reads fields of a section that need not fit in memory twice. The first error
// sticks.
type sectionInput struct {
	r   *bufio.Reader
	err error
}

func (in *sectionInput) flag() bool {
	if in.err != nil {
		return false
	}
	var b byte
	b, in.err = in.r.ReadByte()
	if in.err == nil && b > 1 {
		in.err = errRestores
	}
	return in.err == nil && b == 1
}

func (in *sectionInput) fixed64() uint64 {
	var b [8]byte
	if in.err == nil {
		_, in.err = io.ReadFull(in.r, b[:])
	}
	return binary.BigEndian.Uint64(b[:])
}

func (in *sectionInput) uvarint() (v uint64) {
	if in.err == nil {
		v, in.err = binary.ReadUvarint(in.r)
	}
	return v
}

func (in *sectionInput) varint() (v int64) {
	if in.err == nil {
		v, in.err = binary.ReadVarint(in.r)
	}
	return v
}

// bytes reads a string. Its length is believed only as far as bytes follow.
func (in *sectionInput) bytes() []byte {
	n := in.uvarint()
	if in.err != nil || n > math.MaxInt32 {
		in.err = errors.Join(in.err, errRestores)
		return nil
	}
	var b bytes.Buffer
	_, in.err = io.CopyN(&b, in.r, int64(n))
	return b.Bytes()
}
