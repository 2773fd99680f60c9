package znode

import (
	"math"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

const configACL acl.Ref = 7

// contentDigest stands for the digest of a list's content.
func contentDigest(r acl.Ref) uint64 { return (uint64(r) + 1) * 0x9e3779b97f4a7c15 }

// newTree returns a fresh tree that is checked when the test ends.
func newTree(tb testing.TB) *Tree {
	tb.Helper()
	return checked(tb, New(configACL, contentDigest))
}

func checked(tb testing.TB, t *Tree) *Tree {
	tb.Cleanup(func() {
		if err := t.Check(); err != nil {
			tb.Errorf("invariants at the end: %v", err)
		}
	})
	return t
}

func mustCheck(tb testing.TB, t *Tree) {
	tb.Helper()
	if err := t.Check(); err != nil {
		tb.Fatal(err)
	}
}

func TestFreshTreeIsZooKeepers(t *testing.T) {
	tree := newTree(t)
	if got := tree.ZKDigest(); got != 1371985504 {
		t.Errorf("ZKDigest of an empty tree is %d, ZooKeeper 3.8.0 has 1371985504", got)
	}
	if tree.Len() != 4 || tree.NodeCount() != 5 || tree.ApproximateDataSize() != 44 {
		t.Errorf("Len %d, NodeCount %d, size %d; want 4, 5, 44", tree.Len(), tree.NodeCount(), tree.ApproximateDataSize())
	}
	if n := tree.Descendants(tree.Root()); n != 3 {
		t.Errorf("%d descendants of the root, want 3", n)
	}
	tests := []struct {
		path                 string
		cversion, aversion   int32
		children             []string
		ref                  acl.Ref
		numChildren, dataLen int32
	}{
		{"/", -1, 0, []string{"zookeeper"}, 0, 1, 0},
		{"/zookeeper", -2, 0, []string{"config", "quota"}, 0, 2, 0},
		{"/zookeeper/quota", 0, 0, nil, 0, 0, 0},
		{"/zookeeper/config", 0, -1, nil, configACL, 0, 0},
	}
	for _, tt := range tests {
		n := tree.Lookup(tt.path)
		want := wire.Stat{Cversion: tt.cversion, Aversion: tt.aversion, NumChildren: tt.numChildren}
		if got := n.Stat(); got != want {
			t.Errorf("%s: stat %+v, want %+v", tt.path, got, want)
		}
		if got := tree.AppendChildren(nil, n); !slices.Equal(got, tt.children) {
			t.Errorf("%s: children %q, want %q", tt.path, got, tt.children)
		}
		if n.ACL() != tt.ref || n.Data() == nil || n.Kind() != Persistent || tree.Path(n) != tt.path {
			t.Errorf("%s: ACL %d, data %v, kind %d, path %q", tt.path, n.ACL(), n.Data(), n.Kind(), tree.Path(n))
		}
	}
}

func TestLookupFindsOnlyExactPaths(t *testing.T) {
	tree := newTree(t)
	tree.Create("/a", nil, 0, NoOwner, 1, 1)
	b := tree.Create("/a/b", nil, 0, NoOwner, 2, 2)
	for _, path := range []string{"a", "/a/", "//a", "/a//b", "/a/b/", "/b", "/a/b/c", "//", "/a/./b", "\x00"} {
		if tree.Lookup(path) != nil {
			t.Errorf("Lookup(%q) found something", path)
		}
	}
	if tree.Lookup("") != tree.Root() || tree.Lookup("/") != tree.Root() || tree.Lookup("/a/b") != b {
		t.Error("the root or /a/b was not found")
	}
	if tree.Parent(b) != tree.Lookup("/a") || tree.Parent(tree.Root()) != nil || tree.Child(tree.Root(), "a") != tree.Parent(b) {
		t.Error("Parent or Child is wrong")
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	tree := newTree(t)
	tree.Create("/app", nil, 0, NoOwner, 1, 1)
	tree.Create("/app/n0000000123", []byte("x"), 0, NoOwner, 2, 2)
	got := testing.AllocsPerRun(100, func() {
		n := tree.Lookup("/app/n0000000123")
		if n.Stat().DataLength != 1 || len(n.Data()) != 1 || tree.Lookup("/app/none") != nil {
			t.Fatal("wrong node")
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestStatFollowsChanges(t *testing.T) {
	tree := newTree(t)
	tree.Create("/a", []byte("x"), 3, NoOwner, 10, 1000)
	check := func(path string, want wire.Stat) {
		t.Helper()
		if got := tree.Lookup(path).Stat(); got != want {
			t.Errorf("%s: stat %+v, want %+v", path, got, want)
		}
	}
	st := wire.Stat{Czxid: 10, Mzxid: 10, Pzxid: 10, CtimeMs: 1000, MtimeMs: 1000, DataLength: 1}
	check("/a", st)

	tree.SetData(tree.Lookup("/a"), []byte("xyz"), 11, 1001)
	st.Mzxid, st.MtimeMs, st.Version, st.DataLength = 11, 1001, 1, 3
	check("/a", st)

	tree.SetACL(tree.Lookup("/a"), 4)
	st.Aversion = 1
	check("/a", st)

	tree.Create("/a/b", nil, 0, SessionOwner(77), 12, 1002)
	st.Pzxid, st.Cversion, st.NumChildren = 12, 1, 1
	check("/a", st)
	check("/a/b", wire.Stat{Czxid: 12, Mzxid: 12, Pzxid: 12, CtimeMs: 1002, MtimeMs: 1002, EphemeralOwner: 77})

	tree.Delete(tree.Lookup("/a/b"), 13)
	st.Pzxid, st.Cversion, st.NumChildren = 13, 2, 0
	check("/a", st)
	if got := tree.Lookup("/").Stat(); got.Pzxid != 10 || got.Cversion != 0 || got.NumChildren != 2 {
		t.Errorf("root: %+v", got)
	}
}

func TestSequenceSurvivesDelete(t *testing.T) {
	tree := newTree(t)
	tree.Create("/q", nil, 0, NoOwner, 1, 1)
	for want := range int64(3) {
		if got := tree.NextSequence(tree.Lookup("/q")); got != want {
			t.Fatalf("NextSequence is %d, want %d", got, want)
		}
		n := tree.Create("/q/n", nil, 0, NoOwner, want, 1)
		tree.Delete(n, want)
	}
	if tree.NextSequence(tree.Root()) != 1 {
		t.Error("the reserved nodes count in the root's sequence")
	}
}

// Clients see the low 32 bits, the counter goes on beyond them.
func TestSequenceCounterHas64Bits(t *testing.T) {
	tree := newTree(t)
	q := tree.Create("/q", nil, 0, NoOwner, 1, 1)
	tree.change(q)
	q.needDir().created = 1<<32 + 5
	tree.changed(q)
	small := tree.Digest()
	tree.change(q)
	q.dir.created = 5
	tree.changed(q)
	if tree.Digest() == small {
		t.Error("the digest does not see the upper half of the counter")
	}
	tree.change(q)
	q.dir.created = 1<<31 - 1
	tree.changed(q)
	tree.Create("/q/x", nil, 0, NoOwner, 1, 1)
	if got := tree.NextSequence(q); got != 1<<31 {
		t.Errorf("NextSequence is %d, want 1<<31", got)
	}
	if st := q.Stat(); st.Cversion != -1 {
		t.Errorf("visible cversion is %d, want -1 (2^32 - 1 wrapped)", st.Cversion)
	}
	if p := q.Persisted(); p.Cversion != math.MinInt32 {
		t.Errorf("persisted cversion is %d", p.Cversion)
	}
}

func TestVersionsSkipMinusOne(t *testing.T) {
	tests := []struct{ from, to int32 }{
		{0, 1},
		{math.MaxInt32 - 1, math.MaxInt32},
		{math.MaxInt32, math.MinInt32},
		{-3, -2},
		{-2, 0},
		{-1, 0},
	}
	tree := newTree(t)
	n := tree.Create("/v", nil, 0, NoOwner, 1, 1)
	for _, tt := range tests {
		tree.change(n)
		n.version, n.aversion = tt.from, tt.from
		tree.changed(n)
		tree.SetData(n, nil, 2, 2)
		tree.SetACL(n, 0)
		if n.Version() != tt.to || n.Aversion() != tt.to {
			t.Errorf("after %d: version %d, aversion %d, want %d", tt.from, n.Version(), n.Aversion(), tt.to)
		}
	}
}

func TestNullAndEmptyDataDiffer(t *testing.T) {
	tree := newTree(t)
	n := tree.Create("/a", nil, 0, NoOwner, 1, 1)
	null := tree.Digest()
	if n.Data() != nil {
		t.Error("null became empty")
	}
	tree.change(n)
	n.setNull(false)
	tree.changed(n)
	if n.Data() == nil || len(n.Data()) != 0 {
		t.Error("empty became null")
	}
	if tree.Digest() == null {
		t.Error("the digest does not tell null from empty")
	}
}

func TestDataIsCopiedAndStays(t *testing.T) {
	tree := newTree(t)
	in := []byte("old")
	n := tree.Create("/a", in, 0, NoOwner, 1, 1)
	in[0] = 'X'
	old := n.Data()
	tree.SetData(n, []byte("new"), 2, 2)
	if string(old) != "old" || string(n.Data()) != "new" || n.Name() != "a" {
		t.Errorf("data %q, before %q, name %q", n.Data(), old, n.Name())
	}
}

func TestSetConfigHasVersionMinusOne(t *testing.T) {
	tree := newTree(t)
	n := tree.SetConfig([]byte("version=1"), 5, 50)
	want := wire.Stat{Mzxid: 5, MtimeMs: 50, Version: -1, Aversion: -1, DataLength: 9}
	if got := n.Stat(); got != want || tree.Path(n) != ConfigPath {
		t.Errorf("stat %+v of %q", got, tree.Path(n))
	}
	tree.SetData(n, nil, 6, 60)
	if n.Version() != 0 {
		t.Errorf("version %d after a write by hand, want 0", n.Version())
	}
}

func TestOwnersSayTheKind(t *testing.T) {
	tests := []struct {
		owner   Owner
		kind    Kind
		session int64
		ttl     int64
		valid   bool
	}{
		{NoOwner, Persistent, 0, 0, true},
		{ContainerOwner, Container, 0, 0, true},
		{SessionOwner(0x0100001d586d0000), Ephemeral, 0x0100001d586d0000, 0, true},
		{SessionOwner(-0x7f00000000000000), Ephemeral, -0x7f00000000000000, 0, true},
		{TTLOwner(1), TTL, 0, 1, true},
		{TTLOwner(MaxTTLMs), TTL, 0, MaxTTLMs, true},
		{-0x00fffe0000000001, TTL, 0, 0xffffffffff, false},
		{-0x0100000000000000, TTL, 0, 0, false},
		{math.MinInt64 + 1, Ephemeral, math.MinInt64 + 1, 0, true},
	}
	for _, tt := range tests {
		o := tt.owner
		if o.Kind() != tt.kind || o.Session() != tt.session || o.TTLMs() != tt.ttl || o.valid() != tt.valid {
			t.Errorf("%#x: kind %d, session %#x, ttl %d, valid %v", uint64(o), o.Kind(), o.Session(), o.TTLMs(), o.valid())
		}
	}
	if got := uint64(TTLOwner(0x1234)); got != 0xff00000000001234 {
		t.Errorf("TTLOwner(0x1234) is %#x", got)
	}
}

func TestMisuseOfTheTreePanics(t *testing.T) {
	tree := New(configACL, contentDigest) // not checked: a panic may leave it in pieces
	tree.Create("/e", nil, 0, SessionOwner(1), 1, 1)
	tree.Create("/p", nil, 0, NoOwner, 1, 1)
	tree.Create("/p/c", nil, 0, NoOwner, 1, 1)
	tests := map[string]func(){
		"create without parent":  func() { tree.Create("/x/y", nil, 0, NoOwner, 1, 1) },
		"create twice":           func() { tree.Create("/p", nil, 0, NoOwner, 1, 1) },
		"child of an ephemeral":  func() { tree.Create("/e/c", nil, 0, NoOwner, 1, 1) },
		"bad owner":              func() { tree.Create("/b", nil, 0, TTLOwner(0), 1, 1) },
		"delete with children":   func() { tree.Delete(tree.Lookup("/p"), 1) },
		"delete a reserved node": func() { tree.Delete(tree.Lookup(QuotaPath), 1) },
		"commit without begin":   tree.Commit,
		"rollback without begin": tree.Rollback,
		"nested begin":           func() { tree.Begin(); defer tree.Rollback(); tree.Begin() },
		"snapshot in a multi":    func() { tree.Begin(); defer tree.Rollback(); tree.Snapshot() },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestEphemeralsBySession(t *testing.T) {
	tree := newTree(t)
	tree.Create("/ge", nil, 0, SessionOwner(5), 1, 1)
	tree.Create("/d", nil, 0, NoOwner, 1, 1)
	tree.Create("/d/x", nil, 0, SessionOwner(5), 1, 1)
	tree.Create("/ge2", nil, 0, SessionOwner(5), 1, 1)
	tree.Create("/other", nil, 0, SessionOwner(math.MinInt64+9), 1, 1)
	tests := []struct {
		session int64
		prefix  string
		want    []string
	}{
		{5, "", []string{"/d/x", "/ge", "/ge2"}},
		{5, "/", []string{"/d/x", "/ge", "/ge2"}},
		{5, "/ge", []string{"/ge", "/ge2"}},
		{5, "/none", nil},
		{math.MinInt64 + 9, "", []string{"/other"}},
		{6, "", nil},
	}
	for _, tt := range tests {
		if got := tree.Ephemerals(tt.session, tt.prefix); !slices.Equal(got, tt.want) {
			t.Errorf("Ephemerals(%d, %q) = %q, want %q", tt.session, tt.prefix, got, tt.want)
		}
	}
	all := tree.AllEphemerals()
	if len(all) != 2 || all[0].Session != math.MinInt64+9 || all[1].Session != 5 || len(all[1].Paths) != 3 || tree.EphemeralCount() != 4 {
		t.Errorf("AllEphemerals = %v, count %d", all, tree.EphemeralCount())
	}
	for _, p := range tree.Ephemerals(5, "") {
		tree.Delete(tree.Lookup(p), 2)
	}
	if tree.EphemeralCount() != 1 || len(tree.AllEphemerals()) != 1 {
		t.Error("deleted ephemerals are still listed")
	}
}

func TestReapable(t *testing.T) {
	const now = 1_000_000
	tests := []struct {
		name     string
		owner    Owner
		mtimeMs  int64
		children int // 0 never, -1 had one, 1 has one
		maxNever int64
		due      bool
	}{
		{"persistent", NoOwner, 0, -1, 1, false},
		{"ephemeral", SessionOwner(3), 0, 0, 1, false},
		{"container with a child", ContainerOwner, 0, 1, 1, false},
		{"container whose child has gone", ContainerOwner, now, -1, 0, true},
		{"container never used, no limit", ContainerOwner, 0, 0, 0, false},
		{"container never used, at the limit", ContainerOwner, now - 300, 0, 300, false},
		{"container never used, beyond the limit", ContainerOwner, now - 301, 0, 300, true},
		{"ttl at its limit", TTLOwner(100), now - 100, 0, 0, false},
		{"ttl beyond it", TTLOwner(100), now - 101, 0, 0, true},
		{"ttl with a child", TTLOwner(100), 0, 1, 0, false},
		{"ttl whose child has gone", TTLOwner(100), now, -1, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := newTree(t)
			n := tree.Create("/n", nil, 0, tt.owner, 1, tt.mtimeMs)
			if tt.children != 0 {
				tree.Create("/n/c", nil, 0, NoOwner, 2, now)
			}
			if tt.children < 0 {
				tree.Delete(tree.Lookup("/n/c"), 3)
			}
			if n.Due(now, tt.maxNever) != tt.due {
				t.Errorf("Due is %v", !tt.due)
			}
			got := tree.Reapable(now, tt.maxNever, 10)
			if tt.due != slices.Equal(got, []string{"/n"}) || !tt.due && got != nil {
				t.Errorf("Reapable = %q", got)
			}
		})
	}
}

func TestReapableStopsAtItsLimit(t *testing.T) {
	tree := newTree(t)
	for _, p := range []string{"/c", "/b", "/a"} {
		tree.Create(p, nil, 0, TTLOwner(1), 1, 0)
	}
	if got := tree.Reapable(100, 0, 2); len(got) != 2 {
		t.Errorf("Reapable = %q, want two", got)
	}
	tree.SetData(tree.Lookup("/c"), nil, 2, 100)
	if got := tree.Reapable(100, 0, 10); !slices.Equal(got, []string{"/b", "/a"}) {
		t.Errorf("Reapable = %q after /c was renewed", got)
	}
}
