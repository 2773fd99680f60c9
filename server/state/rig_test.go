package state

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
)

// tb is what rig needs of a *testing.T, *testing.F or *rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A rig is a machine with clients. What they do goes through the encoding of the log.
type rig struct {
	tb
	m    *Machine
	h    BatchHeader
	ids  []wire.ID        // identities of the next commands
	reqs map[int64]uint64 // last request number by session
	dec  BatchDecoder
	r    Result

	// applied, if set, hears of every entry of the log and what became of it.
	applied func(entry []byte, term uint64, r *Result)
}

const (
	alice int64 = 0x0100000000000001 // the sessions of most tests
	bob   int64 = 0x0100000000000002
)

// newRig returns a machine with the sessions of alice and bob, with all invariants checked
// when the test ends.
func newRig(t *testing.T) *rig {
	t.Helper()
	g := bareRig(t, New())
	t.Cleanup(func() {
		if err := g.m.Check(); err != nil {
			t.Error(err)
		}
	})
	g.open(alice)
	g.open(bob)
	return g
}

func bareRig(t tb, m *Machine) *rig {
	return &rig{
		tb: t, m: m, reqs: map[int64]uint64{},
		h: BatchHeader{TimeMs: 1000, Term: 1, Settings: Settings{ExtendedTypes: true}},
	}
}

// apply puts a command through the log. The result is valid until the next command.
func (g *rig) apply(c *Command) *Result {
	g.Helper()
	entry := AppendCommand(AppendHeader(nil, &g.h, 1), c)
	h := BatchHeader{Term: g.h.Term}
	var decoded Command
	if err := g.dec.Reset(entry, &h); err != nil {
		g.Fatalf("reset: %v", err)
	}
	if !g.dec.Next(&decoded) {
		g.Fatalf("next: %v", g.dec.Err())
	}
	g.m.BeginBatch(&h)
	g.m.Apply(&h, &decoded, &g.r)
	if g.applied != nil {
		g.applied(entry, h.Term, &g.r)
	}
	clear(entry) // who has kept something that aliases the entry will be seen
	return &g.r
}

func password(id int64) (p [16]byte) {
	copy(p[:], fmt.Sprintf("secret of %d", id))
	return p
}

func (g *rig) open(id int64) *Result {
	g.Helper()
	return g.apply(&Command{
		Kind: KindCreateSession, Session: id, Password: password(id), TimeoutMs: 10000,
		Origin: session.Origin{Boot: 1, Conn: uint64(id)},
	})
}

// a record is the body of a request.
type record interface{ Append([]byte) []byte }

// do sends the next write of a session.
func (g *rig) do(id int64, op wire.OpCode, req record) *Result {
	g.Helper()
	return g.doBody(id, op, req.Append(nil))
}

func (g *rig) doBody(id int64, op wire.OpCode, body []byte) *Result {
	g.Helper()
	epoch := uint32(1)
	if s := g.m.Session(id); s != nil {
		epoch = s.Epoch
	}
	g.reqs[id]++
	return g.apply(&Command{
		Kind: KindWrite, Session: id, Epoch: epoch, Req: g.reqs[id], Op: op, Body: body, IDs: g.ids,
	})
}

// must is do for writes that succeed.
func (g *rig) must(id int64, op wire.OpCode, req record) *Result {
	g.Helper()
	r := g.do(id, op, req)
	if r.Outcome != Applied || r.Code != wire.OK {
		g.Fatalf("%v %+v gives outcome %d, %v", op, req, r.Outcome, r.Code)
	}
	return r
}

// create makes a node with data and the open list.
func (g *rig) create(path string, flags int32) string {
	g.Helper()
	return g.must(alice, wire.OpCreate, create(path, flags)).Path
}

func (g *rig) multi(id int64, ops ...wire.MultiOp) *Result {
	g.Helper()
	return g.doBody(id, wire.OpMulti, wire.AppendMulti(nil, ops))
}

// stat returns what clients see of a node.
func (g *rig) stat(path string) wire.Stat {
	g.Helper()
	n := g.m.Tree().Lookup(path)
	if n == nil {
		g.Fatalf("%s does not exist", path)
	}
	return n.Stat()
}

func (g *rig) exists(path string) bool { return g.m.Tree().Lookup(path) != nil }

// contentDigest is the digest of what a failed write must not change.
func (g *rig) contentDigest() [2]uint64 {
	return [2]uint64{g.m.tree.Digest(), g.m.acls.TableDigest()}
}

// Requests.

func create(path string, flags int32) *wire.CreateRequest {
	return &wire.CreateRequest{Path: path, Data: []byte("x"), ACL: acl.Open(), Flags: flags}
}

func createWith(path string, list []wire.ACL) *wire.CreateRequest {
	return &wire.CreateRequest{Path: path, ACL: list}
}

func createTTL(path string, flags int32, ttlMs int64) *wire.CreateTTLRequest {
	return &wire.CreateTTLRequest{Path: path, ACL: acl.Open(), Flags: flags, TTLMs: ttlMs}
}

func del(path string, version int32) *wire.DeleteRequest {
	return &wire.DeleteRequest{Path: path, Version: version}
}

func set(path, data string, version int32) *wire.SetDataRequest {
	return &wire.SetDataRequest{Path: path, Data: []byte(data), Version: version}
}

func setACL(path string, list []wire.ACL, version int32) *wire.SetACLRequest {
	return &wire.SetACLRequest{Path: path, ACL: list, Version: version}
}

// Operations of a multi.

func opCreate(op wire.OpCode, path string, flags int32) wire.MultiOp {
	return wire.MultiOp{Op: op, Create: *create(path, flags)}
}

func opDelete(path string, version int32) wire.MultiOp {
	return wire.MultiOp{Op: wire.OpDelete, Delete: *del(path, version)}
}

func opSet(path, data string, version int32) wire.MultiOp {
	return wire.MultiOp{Op: wire.OpSetData, SetData: *set(path, data, version)}
}

func opCheck(path string, version int32) wire.MultiOp {
	return wire.MultiOp{Op: wire.OpCheck, Check: wire.CheckRequest{Path: path, Version: version}}
}

// Lists and identities.

func list(perms int32, scheme, id string) []wire.ACL {
	return []wire.ACL{{Perms: perms, ID: wire.ID{Scheme: scheme, ID: id}}}
}

var (
	worldRead = list(wire.PermRead, "world", "anyone")
	bobsID    = wire.ID{Scheme: "digest", ID: "bob:hash"}
	bobsOwn   = list(wire.PermAll, "digest", "bob:hash")
)

// nothing is a list that gives no right to anybody.
var nothing = list(0, "world", "anyone")
