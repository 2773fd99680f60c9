package state

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/wire"
	"pgregory.net/rapid"
)

// reconfigBody is a reconfig request; an empty list is null, as clients send it.
type reconfigBody struct {
	joining, leaving, whole string
	emptyWhole              bool // whole is an empty text, not null
	version                 int64
}

func (r reconfigBody) Append(b []byte) []byte {
	b = nullable(nullable(b, r.joining), r.leaving)
	if r.emptyWhole {
		b = wire.AppendString(b, "")
	} else {
		b = nullable(b, r.whole)
	}
	return wire.AppendInt64(b, r.version)
}

func nullable(b []byte, s string) []byte {
	if s == "" {
		return wire.AppendInt32(b, -1)
	}
	return wire.AppendString(b, s)
}

// ensembleRig is a machine of the cluster ensembles[2], with the sessions of alice and bob, and
// the rights of the super user.
func ensembleRig(t tb) *rig {
	t.Helper()
	g := bareRig(t, New())
	if c, ok := t.(interface{ Cleanup(func()) }); ok {
		c.Cleanup(func() {
			if err := g.m.Check(); err != nil {
				t.Fatalf("%v", err)
			}
		})
	}
	g.h.Settings.Reconfig = true
	g.open(alice)
	g.open(bob)
	g.ids = []wire.ID{acl.Super}
	if r := g.initial(ensembles[2]); r.Outcome != Applied {
		t.Fatalf("initial members: %+v", r)
	}
	return g
}

func (g *rig) initial(text string) *Result {
	return g.apply(&Command{Kind: KindMembers, Members: MembersInitial, Body: []byte(text)})
}

// ask is alice's incremental reconfig.
func (g *rig) ask(joining, leaving string) *Result {
	return g.do(alice, wire.OpReconfig, reconfigBody{joining: joining, leaving: leaving, version: -1})
}

// mustAsk is ask for what becomes a target.
func (g *rig) mustAsk(joining, leaving string) *Target {
	g.Helper()
	if r := g.ask(joining, leaving); r.Outcome != Applied || r.Code != wire.OK || !r.Deferred {
		g.Fatalf("outcome %d, %v, deferred %t", r.Outcome, r.Code, r.Deferred)
	}
	_, target, _ := g.m.Ensemble()
	if target == nil {
		g.Fatalf("no target")
	}
	return target
}

func reached(target *Target, req uint64, text string) *Command {
	return &Command{Kind: KindMembers, Members: MembersReached, Target: target.Zxid, Req: req, Body: []byte(text)}
}

func done(target *Target) *Command {
	return &Command{Kind: KindMembers, Members: MembersDone, Target: target.Zxid}
}

func aborted(target *Target, code wire.Code) *Command {
	return &Command{Kind: KindMembers, Members: MembersAborted, Target: target.Zxid, Code: code}
}

func (g *rig) current() ensemble.Config {
	current, _, _ := g.m.Ensemble()
	return current
}

// config is what a client reads.
func (g *rig) config() (string, wire.Stat) {
	g.Helper()
	b, code := g.m.GetData(nil, "/zookeeper/config", nil)
	if code != wire.OK {
		g.Fatalf("%v", code)
	}
	d := wire.NewDecoder(b)
	return string(d.Buffer()), d.Stat()
}

// checkRecorded compares what clients see of a configuration that was made at zxid with what
// Apache ZooKeeper 3.8.0 showed after a reconfig: text, Stat, event and reply.
func (g *rig) checkRecorded(t *testing.T, r *Result, zxid int64, lines ...string) {
	t.Helper()
	text, stat := g.config()
	c := ensemble.Config{Version: zxid}
	want := strings.Join(append(lines, c.String()), "\n")
	if text != want || g.current().String() != want || string(r.Data) != want {
		t.Errorf("clients read\n%s\nand get\n%s\nwant\n%s", text, r.Data, want)
	}
	wantStat := wire.Stat{Mzxid: zxid, MtimeMs: g.m.TimeMs(), Version: -1, Aversion: -1, DataLength: int32(len(want))}
	if stat != wantStat || r.Stat != wantStat {
		t.Errorf("clients read %+v\nand get %+v\nwant %+v", stat, r.Stat, wantStat)
	}
	if r.Zxid != zxid || g.m.Zxid() != zxid {
		t.Errorf("zxid %#x, version %#x", r.Zxid, zxid)
	}
	if len(r.Events) != 1 {
		t.Fatalf("events %v", r.Events)
	}
	e := r.Events[0]
	if e.Type != wire.EventNodeDataChanged || e.Path != "/zookeeper/config" || e.Zxid != zxid || !slices.Equal(e.ACL, worldRead) || e.ParentACL != nil {
		t.Errorf("event %+v", e)
	}
	if body := r.AppendBody(nil); r.Code == wire.OK && r.Op == wire.OpReconfig && !bytes.Equal(body, r.Stat.Append(wire.AppendBuffer(nil, r.Data))) {
		t.Errorf("the body of the reply is %x", body)
	}
}

var (
	line1 = "server.1=a:1:2:participant;0.0.0.0:3"
	line2 = "server.2=b:1:2:participant;0.0.0.0:3"
	line3 = "server.3=c:1:2:participant;0.0.0.0:3"
	line4 = "server.4=d:1:2:participant;0.0.0.0:3"
)

func TestInitialMembersAreTakenOnce(t *testing.T) {
	g := newRig(t)
	if _, target, ok := g.m.Ensemble(); ok || target != nil {
		t.Error("a new machine has an ensemble")
	}
	for _, bad := range []string{"", "garbage", "server.1=a:1:2:observer", "server.1=a:1:2,server.2=a:1:3"} {
		r := g.outcome(t, bad, &Command{Kind: KindMembers, Members: MembersInitial, Body: []byte(bad)}, Failed, false)
		if _, _, ok := g.m.Ensemble(); ok || r.Code != wire.BadArguments {
			t.Errorf("%q was taken: %v", bad, r.Code)
		}
	}
	zxid := g.m.Zxid() + 1
	g.checkRecorded(t, g.initial(ensembles[2]+",version=77"), zxid, line1, line2, line3)
	if _, target, ok := g.m.Ensemble(); !ok || target != nil {
		t.Errorf("ok %t, target %v", ok, target)
	}
	digest := g.m.Digest()
	g.outcome(t, "again", &Command{Kind: KindMembers, Members: MembersInitial, Body: []byte(ensembles[0])}, Stale, false)
	if g.m.Digest() != digest {
		t.Error("the second time has changed something")
	}
}

func TestReconfigIsAnsweredWhenTheTargetIsReached(t *testing.T) {
	g := ensembleRig(t)
	before, statBefore := g.config()
	r := g.ask("server.4=d:1:2;3", "1")
	if r.Outcome != Applied || r.Code != wire.OK || !r.Deferred || r.Asker != (Asker{}) || len(r.Events) > 0 || len(r.AppendBody(nil)) > 0 {
		t.Fatalf("result %+v", r)
	}
	asked := r.Zxid
	current, target, ok := g.m.Ensemble()
	if !ok || target.Zxid != asked || target.Steps != 0 || !target.Reached.Equal(current) ||
		target.Config.String() != strings.Join([]string{line2, line3, line4, "version=0"}, "\n") ||
		target.Asker != (Asker{alice, 1, g.reqs[alice]}) {
		t.Fatalf("target %+v", target)
	}

	for i, text := range []string{
		strings.Join([]string{line1, line2, line3, strings.Replace(line4, "participant", "observer", 1)}, "\n"),
		strings.Join([]string{line1, line2, line3, line4}, "\n"),
		strings.Join([]string{line2, line3, line4}, "\n"),
	} {
		if r := g.outcome(t, text, reached(target, uint64(i+1), text+"\nversion=4d"), Applied, false); len(r.AppendBody(nil)) > 0 || r.Asker != (Asker{}) {
			t.Errorf("step %d answers: %+v", i+1, r)
		}
		current, now, _ := g.m.Ensemble()
		if now.Reached.String() != text+"\nversion=0" || now.Steps != uint64(i+1) || !now.Config.Equal(target.Config) || now.Asker != target.Asker {
			t.Errorf("after step %d: %+v", i+1, now)
		}
		if current.String() != before {
			t.Errorf("after step %d the configuration is\n%s", i+1, current)
		}
	}
	if text, stat := g.config(); text != before || stat != statBefore {
		t.Errorf("clients see the way:\n%s\n%+v", text, stat)
	}

	g.h.TimeMs += 500
	r = g.outcome(t, "done", done(target), Applied, true)
	g.checkRecorded(t, r, asked+1, line2, line3, line4)
	if r.Asker != (Asker{alice, 1, g.reqs[alice]}) || r.Deferred || r.Code != wire.OK || len(r.AppendBody(nil)) == 0 {
		t.Errorf("result %+v", r)
	}
	if _, target, _ := g.m.Ensemble(); target != nil {
		t.Errorf("target %+v", target)
	}
}

// Apache ZooKeeper 3.8.0 answers such a request at once, and the configuration gets a new
// version, with everything that belongs to it.
func TestNothingToChangeIsANewVersion(t *testing.T) {
	for name, req := range map[string]reconfigBody{
		"nothing at all":          {version: -1},
		"the members as they are": {whole: ensembles[2], version: -1},
		"a stranger leaves":       {leaving: "9", version: -1},
		"a line as it is":         {joining: line2, version: -1},
		"leaves and joins again":  {joining: line2, leaving: "2", version: -1},
	} {
		g := ensembleRig(t)
		for range 2 {
			zxid := g.m.Zxid() + 1
			r := g.do(alice, wire.OpReconfig, req)
			if r.Outcome != Applied || r.Code != wire.OK || r.Deferred {
				t.Fatalf("%s: %+v", name, r)
			}
			g.checkRecorded(t, r, zxid, line1, line2, line3)
		}
	}
}

// A super user may write what he likes into the node; the next reconfig goes on from the real
// configuration, and puts version and data in order again.
func TestConfigurationSurvivesItsNode(t *testing.T) {
	g := ensembleRig(t)
	current := g.current()
	if st := g.must(alice, wire.OpSetData, set("/zookeeper/config", "hello", -1)).Stat; st.Version != 0 {
		t.Errorf("version %d, ZooKeeper has 0", st.Version)
	}
	if !g.current().Equal(current) {
		t.Error("the ensemble has changed")
	}
	g.checkRecorded(t, g.ask("", ""), g.m.Zxid(), line1, line2, line3)
}

func TestEveryStepIsTakenOnce(t *testing.T) {
	g := ensembleRig(t)
	old := g.mustAsk("server.4=d:1:2;3", "")
	g.outcome(t, "done", done(old), Applied, true)
	target := g.mustAsk("", "4")
	middle, end := ensembles[2]+","+line4, ensembles[2]
	g.outcome(t, "first step", reached(target, 1, middle), Applied, false)
	g.outcome(t, "second step", reached(target, 2, end), Applied, false)
	late := map[string]*Command{
		"second step again":   reached(target, 2, end),
		"first step again":    reached(target, 1, middle),
		"step zero":           reached(target, 0, middle),
		"fourth before third": reached(target, 4, middle),
		"old step":            reached(old, 3, middle),
		"old done":            done(old),
		"old abort":           aborted(old, wire.NewConfigNoQuorum),
		"future done":         done(&Target{Zxid: target.Zxid + 1}),
	}
	check := func() {
		digest := g.m.Digest()
		for name, c := range late {
			g.outcome(t, name, c, Stale, false)
			if g.m.Digest() != digest {
				t.Errorf("%s has changed something", name)
			}
		}
	}
	check()
	for _, bad := range []string{"", "garbage", "server.1=a:1:2:observer"} {
		digest := g.m.Digest()
		if r := g.outcome(t, bad, reached(target, 3, bad), Failed, false); r.Asker != (Asker{}) || g.m.Digest() != digest {
			t.Errorf("a step to %q: %+v", bad, r)
		}
	}
	g.outcome(t, "done", done(target), Applied, true)
	late["third step"], late["done again"], late["abort"] = reached(target, 3, middle), done(target), aborted(target, wire.NewConfigNoQuorum)
	check()

	bare := newRig(t)
	for name, c := range late {
		bare.outcome(t, name+" without an ensemble", c, Stale, false)
	}
}

func TestAbortTellsWhoAsked(t *testing.T) {
	g := ensembleRig(t)
	before := g.current()
	target := g.mustAsk("server.4=d:1:2;3", "")
	if r := g.outcome(t, "without a code", aborted(target, wire.OK), Failed, false); r.Asker != (Asker{}) {
		t.Errorf("result %+v", r)
	}
	r := g.outcome(t, "abort", aborted(target, wire.NewConfigNoQuorum), Applied, false)
	if r.Asker != (Asker{alice, 1, g.reqs[alice]}) || r.Code != wire.NewConfigNoQuorum || len(r.Events) > 0 || len(r.AppendBody(nil)) > 0 {
		t.Errorf("result %+v", r)
	}
	if current, target, _ := g.m.Ensemble(); !current.Equal(before) || target != nil {
		t.Errorf("left behind: %v %v", current, target)
	}
	g.mustAsk("server.4=d:1:2;3", "") // the next one is welcome
}

// A step is a change of the cluster. If the rest is given up, clients must see what there is.
func TestAbortOnTheWayRecordsWhatWasReached(t *testing.T) {
	g := ensembleRig(t)
	target := g.mustAsk("server.4=d:1:2;3,server.5=e:1:2;3", "1")
	g.outcome(t, "step", reached(target, 1, ensembles[2]+","+line4), Applied, false)
	r := g.outcome(t, "abort", aborted(target, wire.NewConfigNoQuorum), Applied, true)
	if r.Asker.Session != alice || r.Code != wire.NewConfigNoQuorum || len(r.AppendBody(nil)) > 0 {
		t.Errorf("result %+v", r)
	}
	g.checkRecorded(t, r, g.m.Zxid(), line1, line2, line3, line4)

	target = g.mustAsk("server.5=e:1:2;3", "")
	g.outcome(t, "there", reached(target, 1, ensembles[2]+","+line4+",server.5=e:1:2:observer;3"), Applied, false)
	g.outcome(t, "and back", reached(target, 2, ensembles[2]+","+line4), Applied, false)
	version := g.current().Version
	g.outcome(t, "abort", aborted(target, wire.NewConfigNoQuorum), Applied, false)
	if g.current().Version != version {
		t.Error("a new version of the same members")
	}
}

// After a change of leader a server sends again what it has no result for.
func TestResentReconfigIsAnsweredOnce(t *testing.T) {
	g := ensembleRig(t)
	target := g.mustAsk("server.4=d:1:2;3", "")
	again := &Command{
		Kind: KindWrite, Session: alice, Epoch: 1, Req: g.reqs[alice], Op: wire.OpReconfig, IDs: g.ids,
		Body: reconfigBody{joining: "server.4=d:1:2;3", version: -1}.Append(nil),
	}
	for range 2 {
		if r := g.outcome(t, "again", again, Duplicate, false); r.Deferred || len(r.AppendBody(nil)) > 0 {
			t.Errorf("result %+v", r)
		}
		if _, now, _ := g.m.Ensemble(); now != target {
			t.Errorf("target %+v", now)
		}
	}
	if r := g.outcome(t, "done", done(target), Applied, true); r.Asker != target.Asker {
		t.Errorf("asker %+v", r.Asker)
	}
	g.outcome(t, "again, after the answer", again, Duplicate, false)
}

// What the client has sent behind the reconfig is not held up by it.
func TestWritesGoOnWhileATargetIsPending(t *testing.T) {
	g := ensembleRig(t)
	target := g.mustAsk("server.4=d:1:2;3", "")
	asked := g.reqs[alice]
	g.create("/a", 0)
	if r := g.ask("server.5=e:1:2;3", ""); r.Code != wire.ReconfigInProgress || r.Deferred {
		t.Errorf("a second reconfig: %v", r.Code)
	}
	if r := g.do(bob, wire.OpReconfig, reconfigBody{version: -1}); r.Code != wire.ReconfigInProgress {
		t.Errorf("a third reconfig: %v", r.Code)
	}
	if r := g.apply(done(target)); r.Asker != (Asker{alice, 1, asked}) {
		t.Errorf("asker %+v", r.Asker)
	}
}

func TestNobodyIsAnsweredWhoIsGone(t *testing.T) {
	for name, leave := range map[string]*Command{
		"closed":  {Kind: KindCloseSession, Session: alice, Epoch: 1, Req: 2},
		"expired": {Kind: KindExpire, Session: alice, Epoch: 1},
		"moved":   attach(alice, 1, 9),
	} {
		for _, end := range []func(*Target) *Command{done, func(t *Target) *Command { return aborted(t, wire.NewConfigNoQuorum) }} {
			g := ensembleRig(t)
			target := g.mustAsk("server.4=d:1:2;3", "")
			g.outcome(t, name, leave, Applied, name != "moved")
			r := g.apply(end(target))
			if r.Outcome != Applied || r.Asker != (Asker{}) {
				t.Errorf("%s: %+v", name, r)
			}
			if len(r.Data) > 0 && len(g.current().Members) != 4 {
				t.Errorf("%s: the change has stopped", name)
			}
		}
	}
}

func TestLoneServerGrowsAndShrinks(t *testing.T) {
	g := newRig(t)
	g.h.Settings.Reconfig, g.ids = true, []wire.ID{acl.Super}
	g.initial(ensembles[0])
	g.outcome(t, "to two", done(g.mustAsk("server.2=b:1:2;3", "")), Applied, true)
	g.outcome(t, "to three", done(g.mustAsk("server.3=c:1:2;3", "")), Applied, true)
	g.outcome(t, "to two", done(g.mustAsk("", "3")), Applied, true)
	if r := g.ask("", "2"); r.Code != wire.BadArguments {
		t.Errorf("to one: %v", r.Code)
	}
	g.h.Settings.SingleVoter = true
	g.outcome(t, "to one", done(g.mustAsk("", "2")), Applied, true)
	g.checkRecorded(t, g.ask("", ""), g.m.Zxid(), line1)
}

func TestSettingsDecideWhatMayJoin(t *testing.T) {
	g := ensembleRig(t)
	several, last := "server.4=d:1:2|e:1:2;3", "server.255=d:1:2;3"
	for _, text := range []string{several, last} {
		if r := g.ask(text, ""); r.Code != wire.BadArguments {
			t.Errorf("%s: %v", text, r.Code)
		}
	}
	g.h.Settings.MultiAddress, g.h.Settings.ExtendedTypes = true, false
	for _, text := range []string{several, strings.Replace(last, "d:", "f:", 1)} {
		g.apply(done(g.mustAsk(text, "")))
	}
}

func TestDigestCoversTheEnsemble(t *testing.T) {
	g := ensembleRig(t)
	seen := map[uint64]string{g.m.Digest(): "at first"}
	note := func(what string) {
		t.Helper()
		d := g.m.Digest()
		if before, ok := seen[d]; ok {
			t.Errorf("the digest %s is that %s", what, before)
		}
		seen[d] = what
	}
	target := g.mustAsk("server.4=d:1:2;3", "")
	note("with a target")
	g.apply(reached(target, 1, ensembles[2]+","+line4))
	note("after a step")
	g.apply(reached(target, 2, ensembles[2]+","+line4))
	note("after a step to the same members")
	m := restored(t, written(t, g.m))
	asker := *m.members.target
	asker.Asker.Req++
	m.setMembers(m.members.current, &asker)
	if m.Digest() == g.m.Digest() {
		t.Error("the asker makes no difference")
	}
}

// The leader that goes on may have got the machine in a snapshot.
func TestTargetSurvivesASnapshot(t *testing.T) {
	g := ensembleRig(t)
	target := g.mustAsk("server.4=d:1:2;3", "1")
	g.apply(reached(target, 1, ensembles[2]+","+line4))
	currentBefore, before, _ := g.m.Ensemble()
	g.m = restored(t, written(t, g.m))
	current, now, ok := g.m.Ensemble()
	if !ok || !reflect.DeepEqual(now, before) || !current.Equal(currentBefore) {
		t.Fatalf("wrote %v and %+v, restored %v and %+v", currentBefore, before, current, now)
	}
	g.outcome(t, "first step again", reached(target, 1, ensembles[2]), Stale, false)
	r := g.outcome(t, "done", done(target), Applied, true)
	g.checkRecorded(t, r, g.m.Zxid(), line2, line3, line4)
	if r.Asker != target.Asker {
		t.Errorf("asker %+v", r.Asker)
	}
}

// Whatever happens, one reconfig at a time waits; it is answered once, unless its client has
// gone; and the configuration is what the last change says.
func TestEveryDeferredReconfigIsAnsweredOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &replica{m: New()}
		s := newScriptor(t, a.m)
		var waiting Asker
		for range rapid.IntRange(1, 150).Draw(t, "commands") {
			h, c := s.header(), s.command()
			before := a.m.members
			a.apply(t, encode(&h, []Command{c}), h.Term)
			_, target, _ := a.m.Ensemble()
			switch {
			case a.r.Deferred:
				if waiting != (Asker{}) || c.Op != wire.OpReconfig || a.r.Code != wire.OK || a.r.Outcome != Applied {
					t.Fatalf("%+v defers its answer while %+v waits: %+v", c, waiting, a.r)
				}
				waiting = Asker{c.Session, c.Epoch, c.Req}
			case c.Kind == KindMembers && a.r.Outcome == Applied && target == nil:
				live := a.m.Session(waiting.Session)
				gone := live == nil || live.Epoch != waiting.Epoch
				if gone && a.r.Asker != (Asker{}) || !gone && a.r.Asker != waiting {
					t.Fatalf("%+v names %+v, %+v waits", c, a.r.Asker, waiting)
				}
				waiting = Asker{}
			case a.r.Asker != (Asker{}):
				t.Fatalf("%+v names %+v", c, a.r.Asker)
			}
			if (target != nil) != (waiting != Asker{}) || target != nil && target.Asker != waiting {
				t.Fatalf("target %+v, %+v waits", target, waiting)
			}
			if a.r.Outcome > Failed && a.m.members != before {
				t.Fatalf("%+v has changed the ensemble: %+v", c, a.r)
			}
		}
		if err := a.m.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// Versions that know no ensembles can read what those that do have none write.
func TestSnapshotHasNoMoreSectionsThanItNeeds(t *testing.T) {
	count := func(m *Machine) (ids []uint32) {
		r := snapshot.NewReader(bytes.NewReader(written(t, m)))
		for {
			id, version, _, err := r.Next()
			if err != nil {
				return ids
			}
			if ids = append(ids, id); version != sectionVersion {
				t.Errorf("section %d has version %d", id, version)
			}
		}
	}
	if got := count(newRig(t).m); !slices.Equal(got, []uint32{1, 2, 3, 4}) {
		t.Errorf("without an ensemble: %v", got)
	}
	if got := count(ensembleRig(t).m); !slices.Equal(got, []uint32{1, 2, 3, 4, 5}) {
		t.Errorf("with an ensemble: %v", got)
	}
}

func TestDamagedEnsembleBecomesNoMachine(t *testing.T) {
	g := ensembleRig(t)
	g.mustAsk("server.4=d:1:2;3", "")
	good := g.m.members.encoded
	for n := range good {
		if New().restoreMembers(good[:n]) == nil {
			t.Errorf("%d of %d bytes became an ensemble", n, len(good))
		}
	}
	config := func(texts ...string) (b []byte) {
		for _, text := range texts {
			b = appendString(b, text)
		}
		return b
	}
	current := g.current().String()
	for name, b := range map[string][]byte{
		"something behind it":   append(slices.Clone(good), 0),
		"two targets":           append(config(current), 2),
		"an unreadable text":    append(config("garbage"), 0),
		"a broken rule":         appendMembership(nil, ensemble.Config{Version: 5}, &Target{Zxid: 5, Config: g.current()}),
		"no participant":        append(config("server.1=a:1:2:observer\nversion=5"), 0),
		"a target that is none": appendMembership(nil, g.current(), &Target{Zxid: g.m.Zxid(), Config: g.current(), Reached: g.current()}),
	} {
		if New().restoreMembers(b) == nil {
			t.Errorf("%s became an ensemble", name)
		}
	}
	if err := New().restoreMembers(good); err != nil {
		t.Error(err)
	}
}

func TestCheckFindsAChangedEnsemble(t *testing.T) {
	g := ensembleRig(t)
	g.m = restored(t, written(t, g.m))
	g.m.members.current.Members[0].Client.Port++
	if g.m.Check() == nil {
		t.Error("nothing found")
	}
	g.m.members.current.Members[0].Client.Port--
}
