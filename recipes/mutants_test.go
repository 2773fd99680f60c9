package recipes

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/mutants"
)

var planted = flag.String("mutants", "", "take out the protections whose names contain this, and see whether the tests notice; all: all")

// A protection is something that makes the recipes right, how it is taken out, and the test that must
// fail then.
type protection struct {
	name     string
	file     string // below the root of the module
	old, new string
	test     string // for -test.run
}

var protections = []protection{
	{
		"T1 everybody before us counts", "recipes/line.go",
		"if before(c.seq, t.seq) && (t.kind", "if before(c.seq+1, t.seq) && (t.kind", "TestOneHoldsWhateverHappensToTheCluster/fair",
	},
	{
		"T1 a post that is taken is taken", "recipes/unfair.go",
		"case errors.Is(err, client.ErrNodeExists):\n\t\t\treturn false, nil",
		"case errors.Is(err, client.ErrNodeExists):\n\t\t\t_ = c.SureDelete(ctx, o.p.path(), client.AnyVersion)", "TestOneHoldsWhateverHappensToTheCluster/unfair",
	},
	{
		"T1 T3 a hold ends with its session", "recipes/lease.go",
		"case <-h.session.Done():\n\t\t\th.lose(ErrSessionLost)", "case <-(chan struct{})(nil):", "TestHoldIsLostHereBeforeItIsLostThere/fair",
	},
	{
		"T2 a lost create is looked for", "client/protected.go",
		"made, stat, err = c.find(ctx, parent, name, mode, o.session)", "made, stat, err = \"\", Stat{}, nil", "TestLostRepliesLeaveOneNode/fair",
	},
	{
		"T2 behind a sync, for a sequential node", "client/protected.go",
		"c.Children(ctx, parent, Fresh())", "c.Children(ctx, parent)", "TestLostWriteIsFoundOnAServerThatLags/mutex",
	},
	{
		"T2 behind a sync, for a post", "recipes/unfair.go",
		"c.Exists(ctx, o.path(), client.Fresh(), client.In(o.session))", "c.Exists(ctx, o.path(), client.In(o.session))", "TestLostWriteIsFoundOnAServerThatLags/unfair",
	},
	{
		"T2 behind a sync, for a counter", "recipes/counter.go",
		"Exists(ctx, mark, client.Fresh(), client.In(s))", "Exists(ctx, mark, client.In(s))", "TestLostWriteIsFoundOnAServerThatLags/counter",
	},
	{
		"T4 a guard checks our node", "recipes/lease.go",
		"return []client.Op{h.c.OpCheck(h.path, client.AnyVersion)}", "return nil", "TestPausedHolder",
	},
	{
		"T5 the one before us is watched, and not the first", "recipes/line.go",
		"\t\t\tother = c.name\n", "\t\t\tif other == \"\" {\n\t\t\t\tother = c.name\n\t\t\t}\n", "TestReleaseWakesOneWaiter",
	},
	{
		"T6 a watch that nobody waits for is removed", "recipes/line.go",
		"case <-ctx.Done():\n\t\tforget(w)\n", "case <-ctx.Done():\n", "TestEveryDeedCanBeGivenUpAtEveryStep/mutex,_contended",
	},
	{
		"T6 a node with which nobody waits is deleted", "recipes/line.go",
		"_ = t.leave(ctx) // it goes on in the background when ctx has ended", "", "TestEveryDeedCanBeGivenUpAtEveryStep/mutex,_contended",
	},
	{
		"T6 a barrier that nobody is in is not ready", "recipes/barrier.go",
		"if err != nil || len(names) != 1 || names[0] != readyName {", "if names != nil {", "TestEveryDeedCanBeGivenUpAtEveryStep/^double_barrier$",
	},
	{
		"T7 who is woken looks again", "recipes/line.go",
		"if err := t.waitFor(ctx, join(t.line.dir, other)); err != nil {\n\t\t\treturn nil, err\n\t\t}\n",
		"if err := t.waitFor(ctx, join(t.line.dir, other)); err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\treturn t.hold(ctx)\n", "TestWaiterInTheMiddleDies",
	},
	{
		"T8 the last release of an owner is the one that counts", "recipes/owner.go",
		"if !last {\n\t\treturn nil\n\t}", "", "TestOwnerEntersAgain",
	},
	{
		"T8 a panic releases", "recipes/mutex.go",
		"if e := l.Release(undo); err == nil && lost == nil {\n\t\t\terr = e\n\t\t}", "_ = lost", "TestDoReleasesWhateverHappens",
	},
	{
		"T9 a deletion ends the hold", "recipes/lease.go",
		"case ev.Type == client.EventDeleted:\n\t\t\t\th.lose(ErrRevoked)", "case ev.Type == client.EventDeleted:", "TestBreakTakesTheNodeAway",
	},
	{
		"T9 a hold is limited", "recipes/lease.go",
		"if h.cfg.maxHold > 0 {", "if false {", "TestMaxHoldEndsTheHoldAfterARollBack",
	},
	{
		"T10 a foreign contender is an error", "recipes/line.go",
		"if c.foreign {", "if false {", "TestForeignContenderIsDetected",
	},
	{
		"T11 a node of another session is not ours", "recipes/lease.go",
		"case stat.EphemeralOwner != s.ID() || s.Err() != nil:", "case s.Err() != nil:", "TestNodeOfADeadSessionIsNotOurs",
	},
	{
		"T11 observers hear of every end", "recipes/observe.go",
		"case client.EventDeleted:\n\t\to.drop(name)", "case client.EventDeleted:\n\t\treturn true", "TestObserveMissesNoChange",
	},
	{
		"T12 a reader waits for earlier writers only", "recipes/line.go",
		"if before(c.seq, t.seq) && (t.kind == exclusive", "if (before(c.seq, t.seq) || t.kind == shared && c.seq != t.seq) && (t.kind == exclusive", "TestReaderDoesNotWaitForLaterWriters",
	},
	{
		"T12 a writer that becomes a reader keeps its place", "recipes/rwlock.go",
		"w.number = &c.seq", "_ = c.seq", "TestWriterBecomesReader",
	},
	{
		"T13 all of a double barrier have come", "recipes/barrier.go",
		"if len(members) >= b.n {", "if len(members) >= b.n-1 {", "TestDoubleBarrierBeginsAndEndsTogether|TestDoubleBarrierWaitsForTheLast",
	},
	{
		"T13 a counter overwrites nothing", "recipes/counter.go",
		"Set(k.v.path, data, stat.Version).Commit(ctx, client.In(s))", "Set(k.v.path, data, client.AnyVersion-0*stat.Version).Commit(ctx, client.In(s))", "TestAddOnceAddsOnce|TestCounterInAStorm",
	},
	{
		"T13 only who deletes an item has it", "recipes/queue.go",
		"case errors.Is(gone, client.ErrNoNode), errors.Is(gone, client.ErrBadVersion):\n\t\t\tcontinue", "case errors.Is(gone, client.ErrNoNode), errors.Is(gone, client.ErrBadVersion):\n\t\t\tgone = nil", "TestEveryItemIsTakenOnce/simple",
	},
	{
		"T13 what is deleted is our own claim", "recipes/queueitem.go",
		"if s.ID() != k.session.ID() {\n\t\t\treturn nil // it went with its session\n\t\t}\n" +
			"\t\tdata, stat, err := k.c.Get(ctx, k.path, client.Fresh(), client.In(s))\n\t\tif err == nil {\n\t\t\tif !k.is(data, stat) {",
		"data, stat, err := k.c.Get(ctx, k.path, client.Fresh(), client.In(s))\n\t\tif err == nil {\n\t\t\tif data == nil {", "TestLateReturnOfAnItemLeavesTheNextConsumerAlone/simple",
	},
	{
		"T13 items are locked", "recipes/partitioner.go",
		"join(join(p.path, \"locks\"), item)", "join(join(p.path, \"locks\"), item+p.id)", "TestPartitionIsDisjointAndComplete",
	},
	{
		"T13 a late leader assigns nothing", "recipes/assignment.go",
		"m := p.c.Multi().Add(l.Guard()...)", "m := p.c.Multi()", "TestLateAssignmentIsRefused",
	},
	{
		"T13 who keeps its share goes on", "recipes/assignment.go",
		"f.stays = func(items []string) bool { return slices.Equal(ours(), items) && ours() != nil }", "f.stays = func(items []string) bool { return false }", "TestAssignmentMovesNoMoreThanItMust",
	},
	{
		"T14 after a reset everything is read", "recipes/cachefeed.go",
		"err = k.reload(ctx)", "select {\n\t\t\tcase <-k.ready:\n\t\t\tdefault:\n\t\t\t\terr = k.reload(ctx)\n\t\t\t}", "TestCacheLearnsWhatItHasMissed",
	},
	{
		"T14 a fresh read is fresh", "client/read.go",
		"if o.fresh {", "if false {", "TestFreshReadSeesWhatOneWasToldOf",
	},
	{
		"T15 numbers are compared on their circle", "recipes/names.go",
		"return a-b < 0", "return a < b", "TestQueueGoesOverTheEndOfTheCounter",
	},
}

// TestProtectionsAreNeeded builds the tests of this package without one protection at a time, and runs
// those that must fail. It takes minutes, so it has to be asked for: -mutants=all.
func TestProtectionsAreNeeded(t *testing.T) {
	if *planted == "" {
		t.Skip("it takes minutes: go test ./recipes -run TestProtectionsAreNeeded -mutants=all -timeout 2h -v")
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, p := range protections {
		if *planted != "all" && !strings.Contains(p.name, *planted) {
			continue
		}
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			binary := p.build(t, root)
			cmd := exec.Command(binary, "-test.run="+p.test, "-test.short", "-test.timeout=100s")
			cmd.Dir = filepath.Join(root, "recipes")
			out, err := cmd.CombinedOutput()
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "nobody notices: %s", out)
			require.NotContains(t, string(out), "no tests to run")
			t.Log(firstLines(string(out)))
		})
	}
}

// build makes a test binary without the protection; the source is not touched.
func (p *protection) build(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := mutants.Overlay(root, dir, []mutants.Change{{File: p.file, Old: p.old, New: p.new}})
	require.NoError(t, err)
	binary := filepath.Join(dir, "planted.test")
	cmd := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./recipes")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// firstLines is what a failing test says first.
func firstLines(out string) string {
	lines := strings.Split(out, "\n")
	return strings.Join(lines[:min(len(lines), 6)], "\n")
}
