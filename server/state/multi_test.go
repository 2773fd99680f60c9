package state

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

func codes(r *Result) []wire.Code {
	var out []wire.Code
	for _, m := range r.Multi {
		out = append(out, m.Code)
	}
	return out
}

func TestMultiSeesItsOwnEffects(t *testing.T) {
	g := newRig(t)
	r := g.multi(alice,
		opCreate(wire.OpCreate, "/a", 0), opCreate(wire.OpCreate, "/a/b", 0), opSet("/a/b", "y", 0), opCheck("/a/b", 1),
		opDelete("/a/b", 1), opDelete("/a", 0), opCreate(wire.OpCreate, "/a", wire.FlagEphemeral))
	if r.Outcome != Applied || r.Code != wire.OK || g.stat("/a").EphemeralOwner != alice {
		t.Errorf("%+v", r)
	}
	if s := g.stat("/a"); s.Czxid != r.Zxid || s.CtimeMs != 1000 {
		t.Errorf("%+v", s)
	}
	for _, e := range r.Events {
		if e.Zxid != r.Zxid {
			t.Errorf("event at %#x of a transaction at %#x", e.Zxid, r.Zxid)
		}
	}
	if len(r.Events) != 6 {
		t.Errorf("%d events", len(r.Events))
	}
}

func TestMultiResultTypes(t *testing.T) {
	g := newRig(t)
	ttl := wire.MultiOp{Op: wire.OpCreateTTL, CreateTTL: *createTTL("/ttl", wire.FlagPersistentTTL, 5)}
	r := g.multi(alice,
		opCreate(wire.OpCreate, "/a", 0), opCreate(wire.OpCreate2, "/b-", wire.FlagPersistentSequential),
		opCreate(wire.OpCreateContainer, "/c", 0), ttl, opSet("/a", "y", -1), opCheck("/a", -1), opDelete("/a", -1))
	var types []wire.OpCode
	for _, m := range r.Multi {
		types = append(types, m.Op)
	}
	// create2, containers and TTL nodes alike answer as create2 (ZooKeeper 3.7.2, 3.8.2, 3.9).
	want := []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpCreate2, wire.OpCreate2, wire.OpSetData, wire.OpCheck, wire.OpDelete}
	if !reflect.DeepEqual(types, want) {
		t.Errorf("types %v", types)
	}
	if r.Multi[1].Path != "/b-0000000001" || r.Multi[1].Stat.Czxid != r.Zxid || r.Multi[3].Stat.EphemeralOwner != 0 {
		t.Errorf("%+v", r.Multi)
	}
}

func TestFailedMultiAnswersForEveryOperation(t *testing.T) {
	g := newRig(t)
	r := g.multi(alice, opCreate(wire.OpCreate, "/a", 0), opCreate(wire.OpCreate, "/b", 0), opCheck("/missing", -1),
		opCreate(wire.OpCreate, "/c", 0), opDelete("/nope", 0))
	want := []wire.Code{0, 0, wire.NoNode, wire.RuntimeInconsistency, wire.RuntimeInconsistency}
	if !reflect.DeepEqual(codes(r), want) {
		t.Errorf("%v", codes(r))
	}
	if r.Outcome != Failed || r.Code != wire.OK || len(r.Events) != 0 || g.exists("/a") {
		t.Errorf("%+v", r)
	}
	b := r.AppendBody(nil)
	d := wire.NewDecoder(b)
	results, err := wire.DecodeMultiResults(&d)
	if err != nil || len(results) != 5 || results[2].Op != wire.OpError {
		t.Errorf("%v %+v", err, results)
	}
}

func TestEmptyMultiSucceedsAndTakesAZxid(t *testing.T) {
	g := newRig(t)
	before := g.m.Zxid()
	r := g.multi(alice)
	if r.Outcome != Applied || r.Zxid != before+1 || !reflect.DeepEqual(r.AppendBody(nil), wire.AppendMultiEnd(nil)) {
		t.Errorf("%+v", r)
	}
}

// A multi that fails at any place leaves nothing: no node, no list, no number used up.
func TestMultiFailingAnywhereChangesNothing(t *testing.T) {
	g := newRig(t)
	for _, p := range []string{"/p", "/q", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"} {
		g.create(p, 0)
	}
	g.ids = []wire.ID{bobsID}
	g.must(alice, wire.OpCreate, createWith("/p/own", bobsOwn))
	seq := wire.FlagPersistentSequential
	creator := wire.MultiOp{Op: wire.OpCreate, Create: *createWith("/p/new", list(7, "auth", ""))}
	ops := []wire.MultiOp{
		opCreate(wire.OpCreate, "/p/n-", seq), opCreate(wire.OpCreate2, "/p/n-", seq), creator,
		opDelete("/p/own", -1), opCreate(wire.OpCreate, "/p/own", wire.FlagEphemeral), opSet("/q", "longer", -1),
		opCreate(wire.OpCreate, "/q/x", 0), opDelete("/zookeeper/quota/q/zookeeper_limits", -1),
		opCreate(wire.OpCreateContainer, "/p/c", 0), opDelete("/p/new", -1),
	}
	for i := range len(ops) + 1 {
		before, refs := g.contentDigest(), g.m.acls.Len()
		failing := append(append(append([]wire.MultiOp(nil), ops[:i]...), opCheck("/missing", -1)), ops[i:]...)
		r := g.multi(alice, failing...)
		if got := codes(r); r.Outcome != Failed || got[i] != wire.NoNode {
			t.Fatalf("failing at %d: %v", i, got)
		}
		if g.contentDigest() != before || g.m.acls.Len() != refs {
			t.Errorf("failing at %d left something", i)
		}
		if err := g.m.Check(); err != nil {
			t.Errorf("failing at %d: %v", i, err)
		}
	}
	r := g.multi(alice, ops...)
	if r.Outcome != Applied || r.Multi[0].Path != "/p/n-0000000001" || r.Multi[1].Path != "/p/n-0000000002" {
		t.Errorf("%+v", r)
	}
}

func TestListOfADeletedNodeComesBackWithIt(t *testing.T) {
	g := newRig(t)
	g.create("/p", 0)
	g.must(alice, wire.OpCreate, createWith("/p/own", bobsOwn))
	g.multi(alice, opDelete("/p/own", -1), opCheck("/missing", -1))
	if got := g.m.acls.List(g.m.tree.Lookup("/p/own").ACL()); !reflect.DeepEqual(got, bobsOwn) {
		t.Errorf("%v", got)
	}
}

func TestMultiIsRefusedAsAWhole(t *testing.T) {
	g := newRig(t)
	good := opCreate(wire.OpCreate, "/a", 0)
	flags := opCreate(wire.OpCreate, "/b", 9)
	whole := wire.AppendMulti(nil, []wire.MultiOp{good})
	for name, body := range map[string][]byte{
		"no end marker": whole[:len(whole)-9],
		"cut short":     whole[:len(whole)-1],
		"unknown flags": wire.AppendMulti(nil, []wire.MultiOp{good, flags}),
		"a read":        wire.AppendMulti(nil, []wire.MultiOp{good, {Op: wire.OpGetData, Path: wire.PathWatchRequest{Path: "/"}}}),
	} {
		if code := CheckBody(wire.OpMulti, body); code != wire.MarshallingError {
			t.Errorf("%s: admitted with %v", name, code)
		}
		if r := g.doBody(alice, wire.OpMulti, body); r.Code != wire.MarshallingError || g.exists("/a") {
			t.Errorf("%s: %v", name, r.Code)
		}
	}
}

func TestMultiHasALimitOfOperations(t *testing.T) {
	g := newRig(t)
	ops := make([]wire.MultiOp, MaxMultiOps)
	for i := range ops {
		ops[i] = opCheck("/", -1)
	}
	if r := g.multi(alice, ops...); r.Outcome != Applied {
		t.Errorf("the most that is allowed: %v", r.Code)
	}
	if code := CheckBody(wire.OpMulti, wire.AppendMulti(nil, append(ops, ops[0]))); code != wire.MarshallingError {
		t.Errorf("one more: %v", code)
	}
}

func TestMultiMayChangeModeErrorsPerOperation(t *testing.T) {
	g := newRig(t)
	ttl := wire.MultiOp{Op: wire.OpCreateTTL, CreateTTL: *createTTL("/t", wire.FlagPersistent, -1)}
	if r := g.multi(alice, ttl); !reflect.DeepEqual(codes(r), []wire.Code{wire.BadArguments}) {
		t.Errorf("a TTL create without TTL flags: %v", codes(r))
	}
}

func TestQuotaHoldsInsideAMulti(t *testing.T) {
	g := newRig(t)
	g.create("/q", 0)
	g.create("/zookeeper/quota/q", 0)
	g.must(alice, wire.OpCreate, &wire.CreateRequest{
		Path: "/zookeeper/quota/q/zookeeper_limits", ACL: acl.Open(), Data: []byte("count=-1,bytes=-1=;countHardLimit=2"),
	})
	g.create("/zookeeper/quota/q/zookeeper_stats", 0)
	g.h.Settings.EnforceQuota = true
	r := g.multi(alice, opCreate(wire.OpCreate, "/q/a", 0), opCreate(wire.OpCreate, "/q/b", 0))
	if fmt.Sprint(codes(r)) != fmt.Sprint([]wire.Code{0, wire.QuotaExceeded}) || g.exists("/q/a") {
		t.Errorf("%v", codes(r))
	}
	if r := g.multi(alice, opCreate(wire.OpCreate, "/q/a", 0), opDelete("/q/a", -1), opCreate(wire.OpCreate, "/q/b", 0)); r.Outcome != Applied {
		t.Errorf("room that the multi itself makes: %v", codes(r))
	}
}

// Each operation of a multi may be about a node with a list as long as a frame. That is judged once:
// it took minutes, in which every server of the cluster stood still.
func TestLongListIsJudgedOnceInAMulti(t *testing.T) {
	g := newRig(t)
	long := make([]wire.ACL, 20_000)
	for i := range long {
		long[i] = wire.ACL{Perms: wire.PermRead, ID: wire.ID{Scheme: "digest", ID: fmt.Sprintf("u:%027d=", i)}}
	}
	long = append(long, acl.Open()...)
	g.must(alice, wire.OpCreate, createWith("/n", long))
	for i := range 300 {
		g.ids = append(g.ids, wire.ID{Scheme: "digest", ID: fmt.Sprintf("w:%027d=", i)})
	}
	const n = 2000
	checks, reads := make([]wire.MultiOp, n), make([]wire.MultiOp, n)
	for i := range checks {
		checks[i] = opCheck("/n", -1)
		reads[i] = wire.MultiOp{Op: wire.OpGetData, Path: wire.PathWatchRequest{Path: "/n"}}
	}
	var once time.Duration // what one judgement takes on this machine, now
	for range 5 {
		start := time.Now()
		acl.Allowed(&g.h.Settings.ACL, long, wire.PermRead, g.ids)
		once = max(once, time.Since(start))
	}
	start := time.Now()
	if r := g.multi(alice, checks...); r.Outcome != Applied || len(r.Multi) != n {
		t.Errorf("outcome %d, %d results", r.Outcome, len(r.Multi))
	}
	if _, code := g.m.MultiRead(nil, wire.AppendMulti(nil, reads), g.ids, 8<<20); code != wire.OK {
		t.Error(code)
	}
	if took := time.Since(start); took > n/4*once {
		t.Errorf("%d operations took %v, a judgement takes %v", 2*n, took, once)
	}
}

// What is remembered of a list is what it says of the permission that is asked for.
func TestMultiJudgesEachListAndPermission(t *testing.T) {
	g := newRig(t)
	g.must(alice, wire.OpCreate, createWith("/r", list(wire.PermRead, "world", "anyone")))
	g.must(alice, wire.OpCreate, createWith("/w", list(wire.PermWrite, "world", "anyone")))
	for _, tt := range []struct {
		ops  []wire.MultiOp
		want []wire.Code
	}{
		{[]wire.MultiOp{opCheck("/r", -1), opCheck("/r", -1), opSet("/r", "x", -1)}, []wire.Code{wire.OK, wire.OK, wire.NoAuth}},
		{[]wire.MultiOp{opSet("/w", "x", -1), opSet("/w", "x", -1), opCheck("/w", -1)}, []wire.Code{wire.OK, wire.OK, wire.NoAuth}},
		{[]wire.MultiOp{opSet("/w", "x", -1), opCheck("/r", -1), opSet("/r", "x", -1)}, []wire.Code{wire.OK, wire.OK, wire.NoAuth}},
		// A list that is made anew in the multi has another place than one that it gives up.
		{[]wire.MultiOp{
			opCheck("/r", -1), opDelete("/r", -1),
			{Op: wire.OpCreate, Create: *createWith("/r", list(wire.PermCreate, "world", "anyone"))},
			opCheck("/r", -1),
		}, []wire.Code{wire.OK, wire.OK, wire.OK, wire.NoAuth}},
	} {
		if got := codes(g.multi(bob, tt.ops...)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
}
