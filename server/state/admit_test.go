package state

import (
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

func TestAdmissionRefusesWhatCannotBeDecoded(t *testing.T) {
	nullPath := []byte{0xff, 0xff, 0xff, 0xff}
	after := func(r record) []byte { return append(append([]byte(nil), nullPath...), r.Append(nil)[4+2:]...) }
	for _, tt := range []struct {
		name string
		op   wire.OpCode
		body []byte
		want wire.Code
	}{
		{"create", wire.OpCreate, create("/a", 0).Append(nil), wire.OK},
		{"create, odd values", wire.OpCreate2, (&wire.CreateRequest{Path: "", Flags: 99}).Append(nil), wire.OK},
		{"create, bytes left over", wire.OpCreate, append(create("/a", 0).Append(nil), 1, 2), wire.OK},
		{"create, null path", wire.OpCreate, after(create("/a", 0)), wire.MarshallingError},
		{"createContainer, null path", wire.OpCreateContainer, after(create("/a", 0)), wire.MarshallingError},
		{"createTTL without its ttl", wire.OpCreateTTL, create("/a", 5).Append(nil), wire.MarshallingError},
		{"createTTL", wire.OpCreateTTL, createTTL("/a", 5, 1).Append(nil), wire.OK},
		{"delete", wire.OpDelete, del("/a", 0).Append(nil), wire.OK},
		{"delete, null path", wire.OpDelete, after(del("/a", 0)), wire.MarshallingError},
		{"setData", wire.OpSetData, set("/a", "x", 0).Append(nil), wire.OK},
		{"setData, null path", wire.OpSetData, after(set("/a", "x", 0)), wire.OK}, // BadArguments when applied
		{"setACL, null path", wire.OpSetACL, after(setACL("/a", acl.Open(), 0)), wire.OK},
		{"setACL", wire.OpSetACL, setACL("/a", bobsOwn, 0).Append(nil), wire.OK},
		{"setACL, null list", wire.OpSetACL, []byte{0, 0, 0, 1, '/', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, wire.OK},
		{"setACL, negative count", wire.OpSetACL, []byte{0, 0, 0, 1, '/', 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0}, wire.OK},
		{"setACL, huge count", wire.OpSetACL, []byte{0, 0, 0, 1, '/', 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}, wire.MarshallingError},
		{"reconfig", wire.OpReconfig, (&wire.ReconfigRequest{}).Append(nil), wire.OK},
		{"reconfig, cut short", wire.OpReconfig, nullPath, wire.MarshallingError},
		{"multi", wire.OpMulti, wire.AppendMulti(nil, nil), wire.OK},
		{"nothing", wire.OpSetData, nil, wire.MarshallingError},
		{"negative length", wire.OpSetData, []byte{0xff, 0xff, 0xff, 0xfe}, wire.MarshallingError},
		{"a read", wire.OpGetData, nil, wire.Unimplemented},
	} {
		if got := CheckBody(tt.op, tt.body); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAdmissionDoesNotAllocate(t *testing.T) {
	body := (&wire.CreateRequest{Path: "/a", Data: []byte("x"), ACL: bobsOwn}).Append(nil)
	if n := testing.AllocsPerRun(100, func() { CheckBody(wire.OpCreate, body) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever a client sends, the machine stays sound, and admission and Apply agree on what
// can be decoded.
func FuzzWrite(f *testing.F) {
	f.Add(int32(wire.OpCreate), create("/a/n-", 2).Append(nil))
	f.Add(int32(wire.OpCreateTTL), createTTL("/t", 5, 9).Append(nil))
	f.Add(int32(wire.OpSetACL), setACL("/a", bobsOwn, 0).Append(nil))
	f.Add(int32(wire.OpDelete), del("/a", -1).Append(nil))
	f.Add(int32(wire.OpSetData), set("/a", "data", -1).Append(nil))
	f.Add(int32(wire.OpMulti), wire.AppendMulti(nil, []wire.MultiOp{
		opCreate(wire.OpCreate2, "/m", 0), opSet("/m", "x", 0), opCheck("/m", 1), opDelete("/m", 1), opDelete("/a", 7),
	}))
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		g := bareRig(t, New())
		g.open(alice)
		g.create("/a", 0)
		g.ids = []wire.ID{bobsID}
		want := CheckBody(wire.OpCode(op), body)
		before := g.contentDigest()
		r := g.doBody(alice, wire.OpCode(op), append([]byte(nil), body...))
		switch refused := want != wire.OK; {
		case refused && r.Code != want:
			t.Errorf("admission says %v, Apply %v", want, r.Code)
		case !refused && r.Code == wire.MarshallingError:
			t.Error("admitted, but not decodable")
		}
		if r.Outcome == Failed && g.contentDigest() != before {
			t.Error("a failed write has changed something")
		}
		r.AppendBody(nil)
		if err := g.m.Check(); err != nil {
			t.Error(err)
		}
		_, _ = g.m.MultiRead(nil, body, nil, 1<<20)
	})
}
