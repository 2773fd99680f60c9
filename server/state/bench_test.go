package state

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

// benchRig is a machine with 10,000 nodes of 100 bytes under /bench, and the next request
// number of a session.
type benchRig struct {
	m *Machine
	h BatchHeader
	c Command
	r Result
}

func newBenchRig(tb testing.TB) *benchRig {
	g := &benchRig{m: New(), h: BatchHeader{TimeMs: 1000, Term: 1}}
	g.m.BeginBatch(&g.h)
	g.c = Command{Kind: KindCreateSession, Session: alice, TimeoutMs: 1000}
	g.m.Apply(&g.h, &g.c, &g.r)
	g.c = Command{
		Kind: KindWrite, Session: alice, Epoch: 1, Op: wire.OpCreate,
		IDs: []wire.ID{{Scheme: "ip", ID: "10.0.0.1"}},
	}
	g.run(tb, wire.OpCreate, (&wire.CreateRequest{Path: "/bench", ACL: acl.Open()}).Append(nil))
	for i := range 10000 {
		g.run(tb, wire.OpCreate, (&wire.CreateRequest{Path: fmt.Sprintf("/bench/node-%d", i), Data: make([]byte, 100), ACL: acl.Open()}).Append(nil))
	}
	return g
}

func (g *benchRig) run(tb testing.TB, op wire.OpCode, body []byte) {
	g.c.Req++
	g.c.Op, g.c.Body = op, body
	if g.m.Apply(&g.h, &g.c, &g.r); g.r.Code != wire.OK || g.r.Outcome != Applied {
		tb.Fatalf("%+v", g.r)
	}
}

func BenchmarkApplySetData100B(b *testing.B) {
	g := newBenchRig(b)
	var bodies [64][]byte
	for i := range bodies {
		bodies[i] = (&wire.SetDataRequest{Path: fmt.Sprintf("/bench/node-%d", i*100), Data: make([]byte, 100), Version: -1}).Append(nil)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		g.run(b, wire.OpSetData, bodies[i&63])
		i++
	}
}

func BenchmarkApplyCreateDelete100B(b *testing.B) {
	for name, list := range map[string][]wire.ACL{"open": acl.Open(), "digest": bobsOwn} {
		b.Run(name, func(b *testing.B) {
			g := newBenchRig(b)
			create := (&wire.CreateRequest{Path: "/bench/new", Data: make([]byte, 100), ACL: list}).Append(nil)
			del := (&wire.DeleteRequest{Path: "/bench/new", Version: -1}).Append(nil)
			b.ReportAllocs()
			for b.Loop() {
				g.run(b, wire.OpCreate, create)
				g.run(b, wire.OpDelete, del)
			}
		})
	}
}

func BenchmarkApplyCreateSequential(b *testing.B) {
	g := newBenchRig(b)
	body := (&wire.CreateRequest{Path: "/bench/n-", Data: make([]byte, 100), ACL: acl.Open(), Flags: wire.FlagPersistentSequential}).Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		g.run(b, wire.OpCreate, body)
	}
}

func BenchmarkApplyMulti(b *testing.B) {
	g := newBenchRig(b)
	body := wire.AppendMulti(nil, []wire.MultiOp{
		opCheck("/bench/node-1", -1), opSet("/bench/node-2", "data", -1), opSet("/bench/node-3", "data", -1),
	})
	b.ReportAllocs()
	for b.Loop() {
		g.run(b, wire.OpMulti, body)
	}
}

func BenchmarkReads(b *testing.B) {
	g := newBenchRig(b)
	reads := map[string]func([]byte, string, []wire.ID) ([]byte, wire.Code){
		"getData": g.m.GetData, "exists": g.m.Exists, "getACL": g.m.GetACL,
	}
	for name, read := range reads {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				if _, code := read(buf, "/bench/node-77", g.c.IDs); code != wire.OK {
					b.Fatal(code)
				}
			}
		})
	}
	b.Run("getChildren of 10,000", func(b *testing.B) {
		var buf []byte
		b.ReportAllocs()
		for b.Loop() {
			buf, _ = g.m.GetChildren(buf[:0], "/bench", g.c.IDs)
		}
	})
}

func BenchmarkCheckBody(b *testing.B) {
	create := (&wire.CreateRequest{Path: "/bench/new", Data: make([]byte, 100), ACL: bobsOwn}).Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if CheckBody(wire.OpCreate, create) != wire.OK {
			b.Fatal("refused")
		}
	}
}

// What a hot write must allocate is its path, for the event and the reply, once more with
// the suffix if it is sequential, and the data, which the tree keeps with the name.
func TestHotWritesAllocateLittle(t *testing.T) {
	g := newBenchRig(t)
	body := (&wire.SetDataRequest{Path: "/bench/node-5", Data: make([]byte, 100), Version: -1}).Append(nil)
	if n := testing.AllocsPerRun(100, func() { g.run(t, wire.OpSetData, body) }); n > 2 {
		t.Errorf("setData: %v allocations", n)
	}
	seq := (&wire.CreateRequest{Path: "/bench/n-", ACL: acl.Open(), Flags: wire.FlagPersistentSequential}).Append(nil)
	if n := testing.AllocsPerRun(100, func() { g.run(t, wire.OpCreate, seq) }); n > 3 {
		t.Errorf("sequential create: %v allocations", n)
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	g := newBenchRig(t)
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		g.m.GetData(buf, "/bench/node-5", g.c.IDs)
		g.m.Exists(buf, "/bench/node-5", g.c.IDs)
		g.m.GetACL(buf, "/bench/node-5", g.c.IDs)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
