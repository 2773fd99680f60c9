package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
	"pgregory.net/rapid"
)

// pieces are the commands of a restore, with chunks of about so many bytes.
func pieces(m *Machine, id int64, from, into string, chunkBytes int) []Command {
	cmd := func(step RestoreStep) Command {
		return Command{Kind: KindRestore, Restore: step, Target: id, Body: []byte{}}
	}
	begin := cmd(RestoreBegin)
	begin.Path = into
	all := []Command{begin}
	var e RestoreEncoder
	var sum, nodes uint64
	flush := func() {
		c := cmd(RestoreChunk)
		c.Req, c.Body = uint64(len(all)), e.Take()
		sum = RestoreSum(sum, c.Body)
		all = append(all, c)
	}
	m.Restorable(from, into, func(n *RestoredNode) bool {
		if e.Add(n); e.Len() >= chunkBytes {
			flush()
		}
		nodes++
		return true
	})
	if e.Len() > 0 {
		flush()
	}
	commit := cmd(RestoreCommit)
	commit.Req, commit.Body = nodes, binary.BigEndian.AppendUint64(nil, sum)
	return append(all, commit)
}

// restore applies all pieces of one and returns what became of the commit.
func (g *rig) restore(m *Machine, from, into string, chunkBytes int) *Result {
	g.Helper()
	id := g.m.Zxid()<<16 | int64(len(into))
	var r *Result
	for _, c := range pieces(m, id, from, into, chunkBytes) {
		r = g.apply(&c)
	}
	return r
}

// atLevel raises the level.
func (g *rig) atLevel(level uint32) *rig {
	g.apply(&Command{Kind: KindLevel, Level: level})
	return g
}

// content is what of a tree a restore is to bring back: everything but times and numbers.
func content(m *Machine) (lasting, ephemeral map[string]string) {
	lasting, ephemeral = map[string]string{}, map[string]string{}
	m.tree.Walk(func(path string, n *znode.Node) bool {
		text := fmt.Sprintf("%q %v %v %d", n.Data(), n.Data() == nil, m.acls.List(n.ACL()), n.RawOwner())
		switch {
		case within(path, znode.ConfigPath) || znode.IsUsage(path):
		case n.Kind() == znode.Ephemeral:
			ephemeral[path] = text
		default:
			lasting[path] = text
		}
		return true
	})
	return lasting, ephemeral
}

func TestRestoreGivesBackWhatWasSaved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := bareRig(t, New()).atLevel(LevelRestore)
		s := newScriptor(t, g.m)
		run := func(what string) {
			for range rapid.IntRange(0, 40).Draw(t, what) {
				c := s.command()
				g.h = s.header()
				g.apply(&c)
			}
		}
		run("before")
		saved := restored(t, written(t, g.m))
		run("since")
		want, _ := content(saved)
		before, zxid := stats(g.m), g.m.Zxid()
		_, ephemerals := content(g.m)
		for path, text := range ephemerals { // they stay where there is a place for them
			parent, _, _ := znode.SplitPath(path)
			if _, ok := want[parent]; ok && want[path] == "" {
				want[path] = text
			}
		}
		b := &replica{m: restored(t, written(t, g.m))}
		limit := rapid.IntRange(1, 200).Draw(t, "chunk")
		var r *Result
		for _, c := range pieces(saved, 5, "/", "/", limit) {
			entry := encode(&g.h, []Command{c})
			r = g.apply(&c)
			b.apply(t, entry, g.h.Term)
			if rapid.IntRange(0, 9).Draw(t, "snapshot") == 0 { // halfway, on one of the servers
				b.m = restored(t, written(t, b.m))
			}
			if b.m.Digest() != g.m.Digest() {
				t.Fatalf("digests differ after step %d", c.Restore)
			}
		}
		if r.Outcome != Applied || r.Code != wire.OK || g.m.Zxid() <= zxid {
			t.Fatalf("outcome %d, code %d, zxid %x after %x", r.Outcome, r.Code, g.m.Zxid(), zxid)
		}
		lasting, kept := content(g.m)
		for path, text := range kept {
			lasting[path] = text
		}
		if !reflect.DeepEqual(lasting, want) {
			t.Fatalf("restored\n%v\nsaved\n%v", lasting, want)
		}
		if err := g.m.Check(); err != nil {
			t.Fatal(err)
		}
		checkNothingFell(t, before, g.m)
		tree := g.m.tree.Digest()
		if r := g.restore(restored(t, written(t, g.m)), "/", "/", limit); r.Outcome != Applied || len(r.Events) > 0 || g.m.tree.Digest() != tree {
			t.Fatalf("what is as in the backup was touched: %+v", r)
		}
	})
}

func stats(m *Machine) map[string]wire.Stat {
	all := map[string]wire.Stat{}
	m.tree.Walk(func(path string, n *znode.Node) bool {
		all[path] = n.Stat()
		return true
	})
	return all
}

// checkNothingFell compares what clients hold with what they find.
func checkNothingFell(t *rapid.T, before map[string]wire.Stat, m *Machine) {
	for path, now := range stats(m) {
		was, ok := before[path]
		if !ok || was.Czxid != now.Czxid {
			if ok && now.Czxid < was.Czxid {
				t.Fatalf("%s: czxid %x after %x", path, now.Czxid, was.Czxid)
			}
			continue
		}
		if now.Version < was.Version || now.Aversion < was.Aversion || now.Cversion < was.Cversion || now.Mzxid < was.Mzxid || now.Pzxid < was.Pzxid {
			t.Fatalf("%s: %+v after %+v", path, now, was)
		}
	}
}

func TestRestoreTellsWatchersAndKeepsOrder(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	for _, path := range []string{"/p", "/p/gone", "/p/gone/below", "/p/same", "/p/set"} {
		g.create(path, 0)
	}
	g.must(alice, wire.OpCreate, createWith("/p/own", bobsOwn))
	saved := restored(t, written(t, g.m))
	same := g.stat("/p/same")
	g.must(alice, wire.OpSetData, set("/p/set", "other", -1))
	g.must(alice, wire.OpDelete, del("/p/gone/below", -1))
	g.must(alice, wire.OpDelete, del("/p/gone", -1))
	g.ids = []wire.ID{bobsID}
	g.must(alice, wire.OpSetACL, setACL("/p/own", worldRead, -1))
	g.create("/p/new", 0)
	g.create("/p/new/below", 0)
	g.create("/q", 0)
	zxid, parent := g.m.Zxid(), g.stat("/p")
	r := g.restore(saved, "/p", "/p", 1)
	var told []string
	for _, e := range r.Events {
		if e.Zxid != zxid+1 {
			t.Errorf("%s at zxid %x, not %x", e.Path, e.Zxid, zxid+1)
		}
		told = append(told, fmt.Sprint(e.Type, " ", e.Path))
	}
	want := []string{
		fmt.Sprint(wire.EventNodeDeleted, " /p/new/below"), fmt.Sprint(wire.EventNodeDeleted, " /p/new"),
		fmt.Sprint(wire.EventNodeCreated, " /p/gone"), fmt.Sprint(wire.EventNodeCreated, " /p/gone/below"),
		fmt.Sprint(wire.EventNodeDataChanged, " /p/set"),
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	if got := g.stat("/p/same"); got != same {
		t.Errorf("a node that was as in the backup became %+v", got)
	}
	if got := g.stat("/p/gone"); got.Czxid != zxid+1 || got.Cversion != 1 {
		t.Errorf("a node that came back is %+v", got)
	}
	if got := g.stat("/p"); got.Pzxid != zxid+1 || got.Cversion <= parent.Cversion {
		t.Errorf("its parent is %+v after %+v", got, parent)
	}
	if got := g.m.acls.List(g.m.tree.Lookup("/p/own").ACL()); !reflect.DeepEqual(got, bobsOwn) {
		t.Errorf("the list is %v", got)
	}
	last, _ := g.m.LastRestore()
	if !g.exists("/q") || last.Created != 2 || last.Changed != 2 || last.Deleted != 2 || last.Zxid != zxid+1 {
		t.Errorf("%+v", last)
	}
}

func TestRestoreAndEphemeralNodes(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	g.create("/p", 0)
	g.create("/p/lasting", 0)
	g.must(bob, wire.OpCreate, create("/p/bobs", wire.FlagEphemeral))
	g.create("/p/dropped", wire.FlagEphemeral)
	saved := restored(t, written(t, g.m))
	g.must(alice, wire.OpDelete, del("/p/dropped", -1)) // alice lives and has given it up
	g.apply(&Command{Kind: KindExpire, Session: bob, Epoch: 1})
	g.create("/p/mine", wire.FlagEphemeral)
	g.create("/p/later", 0)
	g.create("/p/later/mine", wire.FlagEphemeral)
	g.must(alice, wire.OpDelete, del("/p/lasting", -1))
	g.create("/p/lasting", wire.FlagEphemeral)
	r := g.restore(saved, "/", "/", 100)
	for path, exists := range map[string]bool{
		"/p/bobs": false, "/p/dropped": false, "/p/mine": true, "/p/later": false, "/p/later/mine": false, "/p/lasting": true,
	} {
		if g.exists(path) != exists {
			t.Errorf("%s exists: %v", path, !exists)
		}
	}
	if owner := g.stat("/p/lasting").EphemeralOwner; owner != 0 {
		t.Errorf("the lasting node belongs to %x", owner)
	}
	last, ok := g.m.LastRestore()
	if !ok || last.Kept != 1 || last.Deleted != 3 || last.Created != 1 {
		t.Errorf("%+v %+v", last, r)
	}
}

func TestNumbersGivenOnceStayBehind(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	g.create("/q", 0)
	g.create("/q/n-", wire.FlagPersistentSequential)
	saved := restored(t, written(t, g.m))
	g.create("/q/n-", wire.FlagPersistentSequential)
	g.must(alice, wire.OpSetData, set("/q", "1", -1))
	g.must(alice, wire.OpSetData, set("/q", "2", -1))
	g.restore(saved, "/q", "/q", 100)
	if path := g.create("/q/n-", wire.FlagPersistentSequential); path != "/q/n-0000000002" {
		t.Errorf("the next one is %s", path)
	}
	if r := g.do(alice, wire.OpSetData, set("/q", "stale", 2)); r.Code != wire.BadVersion {
		t.Errorf("a conditional write from before the restore gives %v", r.Code)
	}
	g.restore(saved, "/q", "/r", 100)
	if path := g.create("/r/n-", wire.FlagPersistentSequential); path != "/r/n-0000000001" {
		t.Errorf("at another place the next one is %s", path)
	}
}

func TestTTLBeginsAnew(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	g.create("/p", 0)
	g.must(alice, wire.OpCreateTTL, createTTL("/p/t", 5, 100))
	saved := restored(t, written(t, g.m))
	g.h.TimeMs += 5000
	g.apply(&Command{Kind: KindReap, Path: "/p/t"})
	ctime := g.stat("/p").CtimeMs
	g.restore(saved, "/", "/", 100)
	if due := g.m.Reapable(g.h.TimeMs+50, 0, 10); len(due) > 0 || !g.exists("/p/t") {
		t.Errorf("due at once: %v", due)
	}
	if got := g.stat("/p").CtimeMs; got != ctime {
		t.Errorf("/p was made at %d, not %d", got, ctime)
	}
}

func TestQuotasAreRightAfterARestore(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	g.create("/p", 0)
	g.create("/zookeeper/quota/p", 0)
	g.create("/zookeeper/quota/p/zookeeper_limits", 0)
	g.create("/zookeeper/quota/p/zookeeper_stats", 0)
	g.create("/p/a", 0)
	saved := restored(t, written(t, g.m))
	g.create("/p/b", 0)
	g.create("/p/c", 0)
	g.restore(saved, "/p", "/p", 100)
	usage := znode.ParseUsage(string(g.m.tree.Lookup("/zookeeper/quota/p/zookeeper_stats").Data()))
	if usage.Count != 2 {
		t.Errorf("%+v", usage)
	}
}

// A restore in pieces is refused in pieces: nothing but its commit changes the tree.
func TestStepsOutOfOrderChangeNothing(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	for _, path := range []string{"/p", "/p/a", "/p/b"} {
		g.create(path, 0)
	}
	saved := restored(t, written(t, g.m))
	g.must(alice, wire.OpDelete, del("/p/a", -1))
	all := pieces(saved, 7, "/p", "/p", 1)
	begin, chunk, commit := all[0], all[1], all[len(all)-1]
	tree := g.m.tree.Digest()
	step := func(what string, c Command, want Outcome) {
		t.Helper()
		if r := g.apply(&c); r.Outcome != want {
			t.Errorf("%s: outcome %d, not %d", what, r.Outcome, want)
		}
		if g.m.tree.Digest() != tree {
			t.Fatalf("%s has changed the tree", what)
		}
	}
	foreign := func(c Command) Command { c.Target = 8; return c }
	step("chunk of nothing", chunk, Stale)
	step("commit of nothing", commit, Stale)
	step("begin", begin, Applied)
	step("begin again", begin, Duplicate)
	step("another one", foreign(begin), Stale)
	step("chunk of another", foreign(chunk), Stale)
	step("second chunk first", all[2], Gap)
	step("first chunk", chunk, Applied)
	step("first chunk again", chunk, Duplicate)
	step("abort of another", foreign(Command{Kind: KindRestore, Restore: RestoreAbort}), Stale)
	step("commit too early", commit, Failed)
	step("it is over", all[2], Stale)
	step("not twice", begin, Duplicate)
	for i := range all {
		all[i].Target = 9
	}
	step("anew", all[0], Applied)
	g.h.TimeMs += stagingPatienceMs
	step("late chunk", all[1], Applied)
	g.h.TimeMs += stagingPatienceMs + 1
	step("later chunk", all[2], Stale)
	if _, ok := g.m.Restoring(); ok {
		t.Error("what nobody goes on with is kept")
	}
	for _, path := range []string{"", "p", "/p/", "/zookeeper", "/zookeeper/quota/p", "/zookeeper/config"} {
		begin.Path, begin.Target = path, 10
		step("place "+path, begin, Failed)
	}
	if r := g.restore(saved, "/p", "/no/parent", 100); r.Outcome != Failed || r.Code != wire.NoNode {
		t.Errorf("without a parent: %+v", r)
	}
	g.create("/e", wire.FlagEphemeral)
	if r := g.restore(saved, "/p", "/e/p", 100); r.Code != wire.NoChildrenForEphemerals {
		t.Errorf("below an ephemeral node: %+v", r)
	}
}

func TestOlderLevelKnowsNoRestore(t *testing.T) {
	g := newRig(t)
	digest := g.m.Digest()
	for _, c := range pieces(g.m, 1, "/", "/", 100) {
		if r := g.apply(&c); r.Outcome != Failed {
			t.Errorf("step %d gives %d", c.Restore, r.Outcome)
		}
	}
	if g.m.Digest() != digest {
		t.Error("it has changed something")
	}
	if data := written(t, g.m); bytes.Contains(data, []byte("restore")) || g.m.restores != nil {
		t.Error("it is remembered")
	}
}

func TestSnapshotTakenBeforeACommitShowsTheOldTree(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	for i := range 3000 {
		g.create(fmt.Sprintf("/n%d", i), 0)
	}
	saved := restored(t, written(t, g.m))
	for i := range 3000 {
		g.do(alice, wire.OpDelete, del(fmt.Sprintf("/n%d", i), -1))
		g.create(fmt.Sprintf("/m%d", i), 0)
	}
	all := pieces(saved, 3, "/", "/", 1<<10)
	for _, c := range all[:len(all)-1] {
		g.apply(&c)
	}
	digest := g.m.Digest()
	snap := g.m.Snapshot()
	var buf bytes.Buffer
	looks := 0
	err := snap.Write(hookLock(func() {
		if looks++; looks == 2 {
			g.apply(&all[len(all)-1])
		}
	}), &buf)
	snap.Close()
	if err != nil || looks < 2 {
		t.Fatal(err, looks)
	}
	b := restored(t, buf.Bytes())
	if b.Digest() != digest {
		t.Fatal("the snapshot shows another moment")
	}
	other := bareRig(t, b)
	other.apply(&all[len(all)-1])
	if b.Digest() != g.m.Digest() {
		t.Error("the restore that a snapshot has halfway ends otherwise")
	}
}

func TestSubtreeOfABackup(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{"/p", "/p/q", "/p/q/a", "/p/x", "/y"} {
		g.create(path, 0)
	}
	g.must(alice, wire.OpCreate, createWith("/p/q/own", bobsOwn))
	g.create("/p/q/e", wire.FlagEphemeral)
	sub, err := g.m.Subtree("/p/q")
	if err != nil {
		t.Fatal(err)
	}
	s := sub.Snapshot()
	defer s.Close()
	s.SetScope("/p/q")
	var buf bytes.Buffer
	if err := s.Write(noLock{}, &buf); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(bytes.NewReader(buf.Bytes())); err == nil || !strings.Contains(err.Error(), `"/p/q" alone`) {
		t.Errorf("a server would begin with a part of the tree: %v", err)
	}
	m, scope, err := RestoreBackup(&buf)
	if err != nil || scope != "/p/q" || m.Zxid() != g.m.Zxid() {
		t.Fatal(scope, err)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	for path, exists := range map[string]bool{"/p": true, "/p/q/a": true, "/p/q/own": true, "/p/x": false, "/y": false, "/p/q/e": false} {
		if n := m.tree.Lookup(path); (n != nil) != exists || exists && n.Stat().Czxid != g.stat(path).Czxid {
			t.Errorf("%s: %+v", path, n)
		}
	}
	if _, err := g.m.Subtree("/none"); err == nil {
		t.Error("a subtree that there is not")
	}
	for _, tt := range []struct {
		from, into string
		ok         bool
	}{
		{"/p/q", "/p/q", true},
		{"/p", "/", false},
		{"/", "/", true},
		{"/", "/p", true},
		{"/none", "/p", false},
		{"/p/q/e", "/p", false},
		{"/zookeeper/quota", "/p", false},
		{"/p", "/zookeeper", false},
		{"/p", "bad", false},
		{"/p", "/p/", false},
	} {
		if err := g.m.CanRestore(tt.from, tt.into); (err == nil) != tt.ok {
			t.Errorf("%s to %s: %v", tt.from, tt.into, err)
		}
	}
}

func TestBeginAnew(t *testing.T) {
	for _, keep := range []bool{false, true} {
		g := ensembleRig(t)
		g.atLevel(LevelRestore)
		g.open(bob)
		g.create("/p", 0)
		g.must(bob, wire.OpCreate, create("/p/e", wire.FlagEphemeral))
		g.must(bob, wire.OpCreate, &wire.CreateRequest{Path: "/own", ACL: bobsOwn, Flags: wire.FlagEphemeral})
		g.restore(g.m, "/p", "/copy", 100)
		g.apply(&pieces(g.m, 4, "/", "/", 100)[0])
		m := restored(t, written(t, g.m))
		m.BeginAnew(1<<48, keep)
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		_, _, members := m.Ensemble()
		if members || m.Zxid() != 1<<48 || m.restores != nil || m.SessionCount() != map[bool]int{true: 2, false: 0}[keep] || m.tree.EphemeralCount() != 2*min(1, m.SessionCount()) {
			t.Errorf("keep %v: members %v, zxid %x, %d sessions, %d ephemeral nodes", keep, members, m.Zxid(), m.SessionCount(), m.tree.EphemeralCount())
		}
		if data := m.tree.Lookup(znode.ConfigPath).Data(); len(data) > 0 {
			t.Errorf("the members are still told: %q", data)
		}
		m = restored(t, written(t, m))
		g = bareRig(t, m)
		g.apply(&Command{Kind: KindMembers, Members: MembersInitial, Body: []byte(ensembles[2])})
		if _, _, members := m.Ensemble(); !members || m.Zxid()>>32 != 1<<16+1 {
			t.Errorf("it cannot be given members, zxid %x", m.Zxid())
		}
	}
}

func TestSumsOfASnapshot(t *testing.T) {
	g := newRig(t).atLevel(LevelRestore)
	g.create("/p", 0)
	data := written(t, g.m)
	want := Head{g.m.Zxid(), g.m.TimeMs(), 2, g.m.Digest()}
	if h, err := ReadHead(bytes.NewReader(data[:200])); err != nil || h != want {
		t.Error(h, err)
	}
	if h, err := VerifySums(bytes.NewReader(data)); err != nil || h != want {
		t.Error(h, err)
	}
	for i := range data {
		broken := slices.Clone(data)
		broken[i] ^= 0x10
		if _, err := VerifySums(bytes.NewReader(broken)); err == nil {
			t.Fatalf("byte %d was changed, and nobody noticed", i)
		}
	}
	if _, err := VerifySums(bytes.NewReader(data[:len(data)-1])); err == nil {
		t.Error("the end is missing, and nobody noticed")
	}
}
