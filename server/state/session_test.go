package state

import (
	"math"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
)

func attach(id int64, epoch uint32, conn uint64) *Command {
	return &Command{
		Kind: KindAttach, Session: id, Epoch: epoch, Password: password(id), TimeoutMs: 20000,
		Origin: session.Origin{Boot: 2, Conn: conn},
	}
}

// outcome applies a command and compares what becomes of it and whether it takes a zxid.
func (g *rig) outcome(t *testing.T, name string, c *Command, want Outcome, takesZxid bool) *Result {
	t.Helper()
	before := g.m.Zxid()
	r := g.apply(c)
	if r.Outcome != want {
		t.Errorf("%s: outcome %d, want %d", name, r.Outcome, want)
	}
	if took := r.Zxid != before; took != takesZxid || g.m.Zxid() != r.Zxid {
		t.Errorf("%s: zxid %#x after %#x", name, r.Zxid, before)
	}
	if r.Outcome != Applied && (len(r.Events) > 0 || r.Closed != 0) {
		t.Errorf("%s: events %v, closed %#x", name, r.Events, r.Closed)
	}
	return r
}

func TestSessionIsCreatedOnce(t *testing.T) {
	g := newRig(t)
	const id = 0x0100000000000009
	c := &Command{Kind: KindCreateSession, Session: id, Password: password(id), TimeoutMs: 7000, Origin: session.Origin{Boot: 1, Conn: 9}}
	if r := g.outcome(t, "first", c, Applied, true); r.Session != id || r.Epoch != 1 || r.TimeoutMs != 7000 {
		t.Errorf("result %+v", r)
	}
	if r := g.outcome(t, "repeat", c, Duplicate, false); r.Session != id || r.Epoch != 1 {
		t.Errorf("result %+v", r)
	}
	c.Password[0]++
	g.outcome(t, "somebody else", c, SessionTaken, false)
	for _, reserved := range []int64{0, math.MinInt64, -1} {
		c.Session = reserved
		g.outcome(t, "reserved id", c, SessionTaken, false)
	}
}

func TestAttachMovesTheSession(t *testing.T) {
	g := newRig(t)
	g.outcome(t, "unknown session", attach(5, 1, 7), NoSession, false)
	wrong := attach(alice, 1, 7)
	wrong.Password[3]++
	g.outcome(t, "wrong password", wrong, NoSession, false)
	if r := g.outcome(t, "right", attach(alice, 1, 7), Applied, false); r.Epoch != 2 || r.TimeoutMs != 20000 || r.Session != alice {
		t.Errorf("result %+v", r)
	}
	if r := g.outcome(t, "repeat", attach(alice, 1, 7), Duplicate, false); r.Epoch != 2 {
		t.Errorf("result %+v", r)
	}
	if r := g.outcome(t, "late", attach(alice, 1, 8), Stale, false); r.Epoch != 2 {
		t.Errorf("result %+v", r)
	}
	g.outcome(t, "again", attach(alice, 2, 9), Applied, false)
	g.outcome(t, "repeat of one that has been replaced", attach(alice, 1, 7), Stale, false)
}

func write(id int64, epoch uint32, req uint64, path string) *Command {
	return &Command{
		Kind: KindWrite, Session: id, Epoch: epoch, Req: req, Op: wire.OpCreate, Body: create(path, 0).Append(nil),
	}
}

func TestWriteIsAppliedExactlyOnceAndInOrder(t *testing.T) {
	g := newRig(t)
	g.outcome(t, "second before first", write(alice, 1, 2, "/b"), Gap, false)
	g.outcome(t, "first", write(alice, 1, 1, "/a"), Applied, true)
	g.outcome(t, "first again", write(alice, 1, 1, "/a"), Duplicate, false)
	g.outcome(t, "number zero", write(alice, 1, 0, "/z"), Duplicate, false)
	g.outcome(t, "second", write(alice, 1, 2, "/b"), Applied, true)
	g.outcome(t, "fourth", write(alice, 1, 4, "/d"), Gap, false)
	g.outcome(t, "failing third", write(alice, 1, 3, "/a"), Failed, true)
	g.outcome(t, "failing third again", write(alice, 1, 3, "/a"), Duplicate, false)
	g.outcome(t, "unknown session", write(77, 1, 1, "/x"), NoSession, false)
	if g.exists("/d") || g.exists("/z") || g.exists("/x") {
		t.Error("something was applied that must not be")
	}
}

// A server that still holds the old connection may have writes under way.
func TestLateWriteThroughTheOldConnectionIsRefused(t *testing.T) {
	g := newRig(t)
	g.outcome(t, "before the move", write(alice, 1, 1, "/a"), Applied, true)
	g.apply(attach(alice, 1, 7))
	g.outcome(t, "old connection", write(alice, 1, 2, "/late"), Moved, false)
	g.outcome(t, "old connection, close", &Command{Kind: KindCloseSession, Session: alice, Epoch: 1, Req: 2}, Moved, false)
	g.outcome(t, "new connection starts from 1", write(alice, 2, 1, "/b"), Applied, true)
	if g.exists("/late") {
		t.Error("the late write was applied")
	}
}

func TestCloseDeletesAllEphemeralsAtOneZxid(t *testing.T) {
	g := newRig(t)
	g.create("/p", 0)
	for _, p := range []string{"/p/z", "/p/a", "/m", "/p-x"} {
		g.create(p, wire.FlagEphemeral)
	}
	g.must(alice, wire.OpCreate, &wire.CreateRequest{Path: "/own", ACL: bobsOwn, Flags: wire.FlagEphemeral})
	g.must(bob, wire.OpCreate, create("/bobs", wire.FlagEphemeral))
	r := g.outcome(t, "close", &Command{Kind: KindCloseSession, Session: alice, Epoch: 1, Req: g.reqs[alice] + 1}, Applied, true)
	var paths []string
	for _, e := range r.Events {
		paths = append(paths, e.Path)
		if e.Type != wire.EventNodeDeleted || e.Zxid != r.Zxid || len(e.ACL) == 0 || len(e.ParentACL) == 0 {
			t.Errorf("event %+v", e)
		}
	}
	if want := []string{"/m", "/own", "/p-x", "/p/a", "/p/z"}; !slices.Equal(paths, want) {
		t.Errorf("deleted in the order %v", paths)
	}
	if r.Closed != alice || r.Code != wire.OK || r.Op != wire.OpCloseSession || g.m.Session(alice) != nil {
		t.Errorf("result %+v", r)
	}
	if p := g.stat("/p"); p.Pzxid != r.Zxid || p.NumChildren != 0 || p.Cversion != 4 {
		t.Errorf("parent %+v", p)
	}
	if !g.exists("/bobs") {
		t.Error("another session's node is gone")
	}
	g.outcome(t, "close again", &Command{Kind: KindCloseSession, Session: alice, Epoch: 1, Req: 99}, NoSession, false)
	g.outcome(t, "write after it", write(alice, 1, 99, "/x"), NoSession, false)
}

func TestExpiryCannotKillASessionThatHasComeBack(t *testing.T) {
	g := newRig(t)
	g.create("/e", wire.FlagEphemeral)
	expire := func(epoch uint32) *Command { return &Command{Kind: KindExpire, Session: alice, Epoch: epoch} }
	g.apply(attach(alice, 1, 7))
	g.outcome(t, "of the epoch before", expire(1), Stale, false)
	if !g.exists("/e") {
		t.Fatal("the node is gone")
	}
	if r := g.outcome(t, "of this epoch", expire(2), Applied, true); r.Closed != alice || len(r.Events) != 1 {
		t.Errorf("result %+v", r)
	}
	g.outcome(t, "again", expire(2), NoSession, false)
}

func TestEphemeralOutlivesTheConnection(t *testing.T) {
	g := newRig(t)
	g.create("/e", wire.FlagEphemeral)
	g.apply(attach(alice, 1, 7))
	if g.stat("/e").EphemeralOwner != alice {
		t.Error("the owner has changed")
	}
}

func TestInternalCommandsTakeNoZxid(t *testing.T) {
	g := newRig(t)
	g.outcome(t, "sync", &Command{Kind: KindSync, Session: alice, Req: 3}, Applied, false)
	g.outcome(t, "level", &Command{Kind: KindLevel, Level: CurrentLevel}, Applied, false)
	if g.m.Level() != CurrentLevel {
		t.Errorf("level %d", g.m.Level())
	}
	g.outcome(t, "lower level", &Command{Kind: KindLevel, Level: 0}, Applied, false)
	if g.m.Level() != CurrentLevel {
		t.Errorf("level fell to %d", g.m.Level())
	}
}

func TestTermStartsANewEpoch(t *testing.T) {
	g := newRig(t)
	g.h.Term = 5
	g.m.BeginBatch(&g.h)
	first := g.m.Zxid()
	if first != 2<<32 {
		t.Errorf("epoch starts at %#x", first)
	}
	if r := g.must(alice, wire.OpCreate, create("/a", 0)); r.Zxid != first+1 {
		t.Errorf("first transaction %#x", r.Zxid)
	}
	g.m.BeginBatch(&g.h)
	if g.m.Zxid() != first+1 {
		t.Error("the same term began twice")
	}
}

func TestCounterOverflowStartsANewEpoch(t *testing.T) {
	g := newRig(t)
	g.m.zxid = 7<<32 | 0xfffffffe
	for _, want := range []int64{7<<32 | 0xffffffff, 8<<32 | 1, 8<<32 | 2} {
		if r := g.do(alice, wire.OpDelete, del("/missing", -1)); r.Zxid != want {
			t.Errorf("zxid %#x, want %#x", r.Zxid, want)
		}
	}
}

func TestReapDeletesOnlyWhatIsStillDue(t *testing.T) {
	g := newRig(t)
	reap := func(path string) *Command { return &Command{Kind: KindReap, Path: path} }
	g.must(alice, wire.OpCreateContainer, create("/c", wire.FlagContainer))
	g.must(alice, wire.OpCreateTTL, createTTL("/t", wire.FlagPersistentTTL, 500))
	g.create("/plain", 0)
	g.create("/eph", wire.FlagEphemeral)
	for _, tt := range []struct {
		name, path string
		code       wire.Code
	}{
		{"missing", "/missing", wire.NoNode},
		{"ordinary node", "/plain", wire.BadVersion},
		{"ephemeral", "/eph", wire.BadVersion},
		{"never used container", "/c", wire.BadVersion},
		{"young TTL node", "/t", wire.BadVersion},
		{"root", "/", wire.NotEmpty},
		{"reserved", "/zookeeper/config", wire.BadVersion},
	} {
		if r := g.outcome(t, tt.name, reap(tt.path), Failed, true); r.Code != tt.code {
			t.Errorf("%s: %v", tt.name, r.Code)
		}
	}
	g.create("/c/kid", 0)
	g.create("/t/kid", 0)
	g.h.TimeMs = 2000
	for _, p := range []string{"/c", "/t"} {
		if r := g.outcome(t, "with a child", reap(p), Failed, true); r.Code != wire.NotEmpty {
			t.Errorf("%s: %v", p, r.Code)
		}
		g.must(alice, wire.OpDelete, del(p+"/kid", -1))
	}
	if got := g.m.Reapable(2000, 0, 10); !slices.Equal(got, []string{"/c", "/t"}) {
		t.Errorf("reapable: %v", got)
	}
	for _, p := range []string{"/c", "/t"} {
		if r := g.outcome(t, "due", reap(p), Applied, true); len(r.Events) != 1 || r.Events[0].Path != p || g.exists(p) {
			t.Errorf("%s: events %v", p, r.Events)
		}
	}
}

func TestNeverUsedContainerIsReapedWhereConfigured(t *testing.T) {
	g := newRig(t)
	g.must(alice, wire.OpCreateContainer, create("/c", wire.FlagContainer))
	g.h.Settings.MaxNeverUsedMs = 100
	g.h.TimeMs = 1100
	g.outcome(t, "too early", &Command{Kind: KindReap, Path: "/c"}, Failed, true)
	g.h.TimeMs = 1101
	g.outcome(t, "due", &Command{Kind: KindReap, Path: "/c"}, Applied, true)
}

func TestSessionsAreListedInOrder(t *testing.T) {
	g := newRig(t)
	var ids []int64
	for s := range g.m.Sessions() {
		ids = append(ids, s.ID)
	}
	if !slices.Equal(ids, []int64{alice, bob}) || g.m.SessionCount() != 2 {
		t.Errorf("sessions %x", ids)
	}
}

func TestEphemeralOfAnotherSessionIsVisibleToAll(t *testing.T) {
	g := newRig(t)
	g.create("/e", wire.FlagEphemeral)
	b, code := g.m.GetEphemerals(nil, bob, "")
	if d := wire.NewDecoder(b); code != wire.OK || len(d.Strings()) != 0 {
		t.Errorf("bob's ephemerals: %x", b)
	}
	if _, code := g.m.Exists(nil, "/e", []wire.ID{acl.Super}); code != wire.OK {
		t.Errorf("exists: %v", code)
	}
}
