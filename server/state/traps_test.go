package state

import (
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/wire"
)

// What implementers of ZooKeeper's protocol fall into, and bugs of ZooKeeper itself. Traps
// that other tests hold by their name are not repeated: the order of checks in order_test,
// failed multis in multi_test, sequence numbers in write_test.

func TestCversionCountsCreationsAndDeletions(t *testing.T) {
	g := newRig(t)
	if r := g.stat("/"); r.Cversion != -1 || r.NumChildren != 1 {
		t.Errorf("fresh root %+v", r)
	}
	if z := g.stat("/zookeeper"); z.Cversion != -2 || z.NumChildren != 2 {
		t.Errorf("fresh /zookeeper %+v", z)
	}
	g.create("/p", 0)
	g.create("/p/a", 0)
	g.create("/p/b", 0)
	r := g.must(alice, wire.OpDelete, del("/p/a", -1))
	if p := g.stat("/p"); p.Cversion != 3 || p.NumChildren != 1 || p.Pzxid != r.Zxid {
		t.Errorf("%+v", p)
	}
}

func TestConfigNodeIsReadOnlyToAllButTheSuperUser(t *testing.T) {
	g := newRig(t)
	if c := g.stat("/zookeeper/config"); c.Aversion != -1 || c.Version != 0 {
		t.Errorf("%+v", c)
	}
	b, _ := g.m.GetACL(nil, "/zookeeper/config", nil)
	d := wire.NewDecoder(b)
	if l := d.ACLs(); len(l) != 1 || l[0] != worldRead[0] {
		t.Errorf("list %v", l)
	}
}

// ZooKeeper dies of this request when it applies it, and again at each restart.
func TestCreateTTLWithoutTTLFlagsCannotStopTheServer(t *testing.T) {
	g := newRig(t)
	for flags := wire.FlagPersistent; flags <= wire.FlagContainer; flags++ {
		g.expect(t, "createTTL", wire.OpCreateTTL, createTTL("/a", flags, -1), wire.BadArguments)
	}
}

// ZooKeeper 3.8.0 writes a log entry for it that it cannot read again.
func TestCheckAloneIsNotAWrite(t *testing.T) {
	if code := CheckBody(wire.OpCheck, (&wire.CheckRequest{Path: "/"}).Append(nil)); code != wire.Unimplemented {
		t.Errorf("%v", code)
	}
}

func TestInternalOpcodesAreNotWrites(t *testing.T) {
	for _, op := range []wire.OpCode{wire.OpCreateSession, wire.OpCloseSession, wire.OpError, wire.OpDeleteContainer, 0} {
		if code := CheckBody(op, nil); code != wire.Unimplemented {
			t.Errorf("%v: %v", op, code)
		}
	}
}

func TestMalformedQuotaDoesNotBlockTheSubtree(t *testing.T) {
	g := newRig(t)
	for _, p := range []string{"/q", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"} {
		g.create(p, 0)
	}
	g.h.Settings.EnforceQuota = true
	g.must(alice, wire.OpSetData, set("/zookeeper/quota/q/zookeeper_limits", "garbage=;,", -1))
	g.create("/q/a", 0)
	g.must(alice, wire.OpSetData, set("/q/a", "longer", -1))
}

func TestHashesAreShownToAdministratorsOnly(t *testing.T) {
	g := newRig(t)
	both := append(list(wire.PermRead, "world", "anyone"), bobsOwn...)
	g.must(alice, wire.OpCreate, createWith("/n", both))
	for want, ids := range map[string][]wire.ID{"bob:x": nil, "bob:hash": {bobsID}} {
		b, code := g.m.GetACL(nil, "/n", ids)
		d := wire.NewDecoder(b)
		if l := d.ACLs(); code != wire.OK || len(l) != 2 || l[1].ID.ID != want {
			t.Errorf("%v sees %v (%v)", ids, l, code)
		}
	}
}

func TestReadsWithoutPermission(t *testing.T) {
	g := newRig(t)
	g.must(alice, wire.OpCreate, createWith("/n", bobsOwn))
	if _, code := g.m.GetData(nil, "/n", nil); code != wire.NoAuth {
		t.Errorf("a stranger: %v", code)
	}
	if _, code := g.m.GetData(nil, "/n", []wire.ID{bobsID}); code != wire.OK {
		t.Errorf("the owner: %v", code)
	}
	g.h.Settings.ACL.DigestDisabled = true
	g.create("/other", 0)
	if _, code := g.m.GetData(nil, "/n", []wire.ID{bobsID}); code != wire.NoAuth {
		t.Errorf("with digest switched off: %v", code)
	}
}

func TestChildrenAreSortedNames(t *testing.T) {
	g := newRig(t)
	for _, p := range []string{"/p", "/p/c", "/p/a", "/p/b", "/p/a/deep"} {
		g.create(p, 0)
	}
	b, _ := g.m.GetChildren2(nil, "/p", nil)
	d := wire.NewDecoder(b)
	if names := d.Strings(); len(names) != 3 || names[0] != "a" || names[2] != "c" || d.Stat() != g.stat("/p") {
		t.Errorf("%v", names)
	}
	b, _ = g.m.GetAllChildrenNumber(nil, "/p", nil)
	if d := wire.NewDecoder(b); d.Int32() != 4 {
		t.Errorf("descendants %x", b)
	}
	fresh := New()
	if b, _ := fresh.GetAllChildrenNumber(nil, "/", nil); b[3] != 3 {
		t.Errorf("a fresh server has %x nodes below the root", b)
	}
}

func TestEphemeralsByPrefix(t *testing.T) {
	g := newRig(t)
	for _, p := range []string{"/ge2", "/ge", "/other"} {
		g.create(p, wire.FlagEphemeral)
	}
	for prefix, want := range map[string]int{"": 3, "/": 3, "  ": 3, "/ge": 2, "/ge2": 1, "/x": 0, "ge": 0} {
		b, code := g.m.GetEphemerals(nil, alice, prefix)
		d := wire.NewDecoder(b)
		if got := d.Strings(); code != wire.OK || len(got) != want {
			t.Errorf("%q finds %v", prefix, got)
		}
	}
}

func TestMultiReadAnswersEachReadByItself(t *testing.T) {
	g := newRig(t)
	g.create("/a", 0)
	g.must(alice, wire.OpCreate, createWith("/closed", nothing))
	read := func(op wire.OpCode, path string) wire.MultiOp {
		return wire.MultiOp{Op: op, Path: wire.PathWatchRequest{Path: path, Watch: true}}
	}
	body := wire.AppendMulti(nil, []wire.MultiOp{
		read(wire.OpGetData, "/a"), read(wire.OpGetData, "/missing"), read(wire.OpGetChildren, "/"), read(wire.OpGetChildren, "/closed"),
	})
	b, code := g.m.MultiRead(nil, body, nil, 1<<20)
	d := wire.NewDecoder(b)
	results, err := wire.DecodeMultiResults(&d)
	if code != wire.OK || err != nil || len(results) != 4 || d.Len() != 0 {
		t.Fatalf("%v %v %+v", code, err, results)
	}
	if string(results[0].Data) != "x" || results[0].Stat != g.stat("/a") || len(results[2].Children) != 3 {
		t.Errorf("%+v", results)
	}
	if results[1].Code != wire.NoNode || results[3].Code != wire.NoAuth {
		t.Errorf("%+v", results)
	}
	if b, code := g.m.MultiRead([]byte("head"), body, nil, 100); code != wire.MarshallingError || string(b) != "head" {
		t.Errorf("too long: %v, %d bytes", code, len(b))
	}
}

// ZooKeeper appends a stray body to this error.
func TestMultiReadWithAWriteIsRefusedWithoutABody(t *testing.T) {
	g := newRig(t)
	body := wire.AppendMulti(nil, []wire.MultiOp{opDelete("/a", -1)})
	if b, code := g.m.MultiRead(nil, body, nil, 1<<20); code != wire.MarshallingError || len(b) != 0 {
		t.Errorf("%v %x", code, b)
	}
}

func TestRewatchComparesMzxidForDataAndPzxidForChildren(t *testing.T) {
	g := newRig(t)
	for _, p := range []string{"/quiet", "/set", "/kids", "/again"} {
		g.create(p, 0)
	}
	g.must(alice, wire.OpSetACL, setACL("/quiet", acl.Open(), -1))
	seen := g.m.Zxid()
	g.must(alice, wire.OpSetData, set("/set", "x", -1))
	g.create("/kids/a", 0)
	g.must(alice, wire.OpDelete, del("/again", -1))
	g.create("/again", 0)
	all := []string{"/quiet", "/set", "/kids", "/again", "/gone"}
	got := map[string]wire.EventType{}
	added := map[string]watch.Kind{}
	rewatch := func(req wire.SetWatches2) {
		clear(got)
		clear(added)
		req.RelativeZxid = seen
		g.m.Rewatch(&req,
			func(p string, k watch.Kind) { added[p] = k },
			func(e wire.EventType, p string) { got[p] = e })
	}
	check := func(list string, events map[string]wire.EventType, kind watch.Kind) {
		t.Helper()
		for _, p := range all {
			if got[p] != events[p] || (events[p] == 0) != (added[p] == kind) {
				t.Errorf("%s: %s fires %v and is added as %v", list, p, got[p], added[p])
			}
		}
	}
	rewatch(wire.SetWatches2{DataWatches: all})
	check("data", map[string]wire.EventType{
		"/set": wire.EventNodeDataChanged, "/again": wire.EventNodeDataChanged, "/gone": wire.EventNodeDeleted,
	}, watch.Data)
	rewatch(wire.SetWatches2{ExistWatches: all})
	check("exist", map[string]wire.EventType{
		"/quiet": wire.EventNodeCreated, "/set": wire.EventNodeCreated, "/kids": wire.EventNodeCreated, "/again": wire.EventNodeCreated,
	}, watch.Data)
	rewatch(wire.SetWatches2{ChildWatches: all})
	check("child", map[string]wire.EventType{
		"/kids": wire.EventNodeChildrenChanged, "/again": wire.EventNodeChildrenChanged, "/gone": wire.EventNodeDeleted,
	}, watch.Child)
	rewatch(wire.SetWatches2{PersistentWatches: all})
	check("persistent", nil, watch.Persistent)
	rewatch(wire.SetWatches2{PersistentRecursiveWatches: all})
	check("recursive", nil, watch.Recursive)
}
