package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/state"
)

func TestAJudgeRulesByTheMajorityOfTheVoters(t *testing.T) {
	const right, wrong, other = 7, 8, 9
	for _, c := range []struct {
		name      string
		voters    int
		heard     map[raft.ServerID][]note
		want      verdict // about a
		undecided uint64
	}{
		{"nothing is known", 3, nil, verdict{}, 0},
		{"all agree", 3, map[raft.ServerID][]note{"a": {{256, right}}, "b": {{256, right}}, "c": {{256, right}}}, verdict{}, 0},
		{
			"two of three are enough", 3,
			map[raft.ServerID][]note{"a": {{256, wrong}}, "b": {{256, right}}, "c": {{256, right}}},
			verdict{deviates, 256, wrong, right},
			0,
		},
		{"it is part of the majority", 3, map[raft.ServerID][]note{"a": {{256, right}}, "b": {{256, right}}, "c": {{256, wrong}}}, verdict{}, 0},
		{"one to one, and a third may decide", 3, map[raft.ServerID][]note{"a": {{256, wrong}}, "b": {{256, right}}}, verdict{}, 256},
		{
			"three to three", 3,
			map[raft.ServerID][]note{"a": {{256, wrong}}, "b": {{256, right}}, "c": {{256, other}}},
			verdict{noMajority, 256, wrong, 0},
			0,
		},
		{"one to one of two", 2, map[raft.ServerID][]note{"a": {{256, wrong}}, "b": {{256, right}}}, verdict{noMajority, 256, wrong, 0}, 0},
		{"the newest entry counts", 3, map[raft.ServerID][]note{
			"a": {{256, right}, {512, wrong}}, "b": {{256, right}, {512, right}}, "c": {{256, right}, {512, right}},
		}, verdict{deviates, 512, wrong, right}, 0},
		{"an older entry that all have", 3, map[raft.ServerID][]note{
			"a": {{256, wrong}, {512, wrong}}, "b": {{256, right}}, "c": {{256, right}},
		}, verdict{deviates, 256, wrong, right}, 0},
		{"no entry in common", 3, map[raft.ServerID][]note{"a": {{256, wrong}}, "b": {{512, right}}, "c": {{512, right}}}, verdict{}, 0},
		{"who has no vote does not count", 2, map[raft.ServerID][]note{"a": {{256, wrong}}, "c": {{256, right}}}, verdict{}, 0},
		{"three of five", 5, map[raft.ServerID][]note{
			"a": {{256, wrong}}, "b": {{256, wrong}}, "c": {{256, right}}, "d": {{256, right}}, "e": {{256, right}},
		}, verdict{deviates, 256, wrong, right}, 0},
		{"two, two and one of five", 5, map[raft.ServerID][]note{
			"a": {{256, wrong}}, "b": {{256, wrong}}, "c": {{256, right}}, "d": {{256, right}}, "e": {{256, other}},
		}, verdict{noMajority, 256, wrong, 0}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJudge(1)
			for id, notes := range c.heard {
				j.hear(id, &report{notes: notes})
			}
			got, undecided := j.judge("a", []raft.ServerID{"a", "b", "c", "d", "e"}[:c.voters])
			require.Equal(t, c.want, got)
			require.Equal(t, c.undecided, undecided)
		})
	}
}

func TestAJudgeForgetsWhatAMemberTakesBack(t *testing.T) {
	voters := []raft.ServerID{"a", "b", "c"}
	for name, again := range map[string]report{
		"it was repaired":       {fresh: true},
		"it is being repaired":  {sick: true, notes: []note{{512, 1}}},
		"it has new notes only": {fresh: true, notes: []note{{512, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(1)
			for i, id := range voters {
				j.hear(id, &report{notes: []note{{256, uint64(min(i, 1))}}})
			}
			v, _ := j.judge("a", voters)
			require.Equal(t, deviates, v.ruling)
			j.hear("a", &again)
			v, _ = j.judge("a", voters)
			require.Equal(t, agrees, v.ruling)
		})
	}
}

func TestANotebookKeepsTheNewest(t *testing.T) {
	var b notebook
	for i := range uint64(keepNotes + 3) {
		b.add(note{i + 1, i})
	}
	news, at := b.since(bookmark{})
	require.Len(t, news, keepNotes)
	require.Equal(t, note{4, 3}, news[0])
	news, at = b.since(at)
	require.Empty(t, news)
	b.add(note{1000, 5})
	news, at = b.since(at)
	require.Equal(t, []note{{1000, 5}}, news)
	b.forget()
	b.add(note{10, 1})
	news, next := b.since(at)
	require.Equal(t, []note{{10, 1}}, news, "a new machine may be at an older entry")
	require.NotEqual(t, at.epoch, next.epoch)
}

// flip changes the data of one member only, as a fault of its memory would.
func (v *voice) flip() {
	n := v.node
	n.mu.Lock()
	defer n.mu.Unlock()
	h := state.BatchHeader{Index: n.applied.Load(), Term: n.raft().CurrentTerm()}
	c := &state.Command{Kind: state.KindCreateSession, Session: int64(v.number)<<40 | 99, TimeoutMs: 30000}
	var r state.Result
	n.machine.BeginBatch(&h)
	n.machine.Apply(&h, c, &r)
}

// healed waits until a member was in quarantine and is repaired.
func (v *voice) healed() {
	v.cluster.t.Helper()
	v.await("the quarantine", func() bool { return v.quarantined == 1 })
	v.await("the repair", func() bool { return v.restored == 1 })
}

func TestAMemberWithOtherDataRepairsItselfWhileTheOthersWrite(t *testing.T) {
	for _, disk := range []bool{false, true} {
		for _, who := range []string{"follower", "leader"} {
			t.Run(fmt.Sprintf("%s, disk=%t", who, disk), func(t *testing.T) {
				c := newTrioOn(t, disk)
				c.start(1, 2, 3)
				c.sessions()
				for _, v := range c.members {
					v.write()
					v.settled()
				}
				wrong := c.leader()
				if who == "follower" {
					wrong = c.others(wrong)[0]
				}
				require.NoError(t, wrong.node.SnapshotNow(testContext(t)))
				before := wrong.node.engine.Load()
				term := before.CurrentTerm()
				first, _ := bounds(t, wrong)
				var stops []func()
				for _, v := range c.others(wrong) {
					stops = append(stops, v.pump(0))
				}
				wrong.flip()
				wrong.healed()
				if who == "leader" {
					require.Contains(t, c.others(wrong), c.leaderAmong(c.others(wrong)))
				}
				for _, stop := range stops {
					stop()
				}
				c.same()
				for _, v := range c.others(wrong) {
					require.Zero(t, v.quarantined, "member %d", v.number)
				}
				require.False(t, wrong.node.InQuarantine())
				files := wrong.node.stores.snaps.all()
				require.Len(t, files, 1, "older snapshots may be wrong, too")
				select {
				case <-before.replaced:
				default:
					t.Fatal("raft must be another one, on the repaired machine")
				}
				require.GreaterOrEqual(t, wrong.node.raft().CurrentTerm(), term)
				if now, last := bounds(t, wrong); first > 0 {
					require.LessOrEqual(t, now, files[0].index+1)
					require.Greater(t, last, files[0].index, "what it has acknowledged stays in its log")
				}
				// It takes part again, also after the next start.
				wrong.write()
				wrong.settled()
				wrong.stop()
				c.start(wrong.number)
				c.same()
				require.Equal(t, 1, wrong.quarantined)
			})
		}
	}
}

func TestWithoutAMajorityEveryServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		ends := make(chan error, 3)
		for _, v := range c.members {
			v.tune = func(o *Options) { o.Fatal = func(err error) { ends <- err } }
		}
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		for _, v := range c.others(leader) {
			v.flip()
		}
		for range 2 * digestEvery {
			leader.write()
			leader.settled()
		}
		for range c.members {
			select {
			case err := <-ends:
				require.ErrorContains(t, err, "no majority agrees")
			case <-time.After(patience):
				t.Fatal("a server goes on with data that nobody can vouch for")
			}
		}
		for _, v := range c.members {
			require.Zero(t, v.quarantined)
		}
	})
}

func TestAMachineThatFailsAgainAndAgainIsGivenUp(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	wrong := c.others(c.leader())[0]
	var got []string
	wrong.node.o.Fatal = func(err error) { got = append(got, err.Error()) }
	now := wrong.node.o.Now()
	n := &Node{o: wrong.node.o, dead: make(chan struct{})}
	n.repairs = []time.Time{now.Add(-2 * repairWindow)}
	for range maxRepairs {
		n.repair(testContext(t))
	}
	require.Empty(t, got, "an old failure does not count")
	n.repair(testContext(t))
	require.True(t, len(got) == 1 && strings.Contains(got[0], "cannot be trusted"), "%q", got)
}

func FuzzReport(f *testing.F) {
	for _, r := range []report{{}, {sick: true, syncMicros: 7}, {fresh: true, notes: []note{{256, 1}, {512, 2}}}} {
		f.Add(r.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again report
		if r.decode(b) != nil {
			return
		}
		if err := again.decode(r.append(nil)); err != nil || again.sick != r.sick || again.fresh != r.fresh || again.syncMicros != r.syncMicros || !slices.Equal(again.notes, r.notes) {
			t.Fatalf("%+v, then %+v: %v", r, again, err)
		}
	})
}

func FuzzVerdict(f *testing.F) {
	f.Add((&verdict{deviates, 256, 1, 2}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again verdict
		if v.decode(b) != nil {
			return
		}
		if err := again.decode(v.append(nil)); err != nil || again != v {
			t.Fatalf("%+v, then %+v: %v", v, again, err)
		}
	})
}

func FuzzRepairHead(f *testing.F) {
	d := snapDescription{index: 7, term: 2, configIndex: 1, size: 100, zxid: 5, created: time.UnixMilli(1)}
	f.Add(appendRepairHead(nil, &d))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d, again snapDescription
		if decodeRepairHead(b, &d) != nil {
			return
		}
		err := decodeRepairHead(appendRepairHead(nil, &d), &again)
		if err != nil || again.index != d.index || again.term != d.term || again.size != d.size || again.zxid != d.zxid {
			t.Fatalf("%+v, then %+v: %v", d, again, err)
		}
	})
}

// BenchmarkNote is what a digest costs, once per digestEvery log entries.
func BenchmarkNote(b *testing.B) {
	var book notebook
	m := state.New()
	var index uint64
	b.ReportAllocs()
	for b.Loop() {
		index++
		book.add(note{index, m.Digest()})
	}
}
