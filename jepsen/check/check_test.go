package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/history"
)

// ms makes times of the histories readable.
const ms = int64(1e6)

// A change turns a good history into one that the checker must reject.
type change struct {
	name string
	make func(ops []history.Op) []history.Op
}

// judge requires that the checker accepts the history, and rejects it after each change.
func judge(t *testing.T, c Checker, good func() []history.Op, changes []change) {
	t.Helper()
	ops := good()
	history.Sort(ops)
	r := c(ops)
	require.Empty(t, r.Violations, "the good history")
	require.Zero(t, r.Undecided)
	require.NotZero(t, r.Checked, "a checker that looks at nothing shows nothing")
	for _, x := range changes {
		t.Run(x.name, func(t *testing.T) {
			ops := x.make(good())
			history.Sort(ops)
			r := c(ops)
			require.False(t, r.OK(), "the changed history was accepted")
		})
	}
}

// edit changes one line.
func edit(name string, at int, f func(o *history.Op)) change {
	return change{name, func(ops []history.Op) []history.Op {
		f(&ops[at])
		return ops
	}}
}

// and changes another line, too.
func (c change) and(at int, f func(o *history.Op)) change {
	return change{c.name, func(ops []history.Op) []history.Op {
		ops = c.make(ops)
		f(&ops[at])
		return ops
	}}
}

// drop leaves one line out.
func drop(name string, at int) change {
	return change{name, func(ops []history.Op) []history.Op { return slices.Delete(ops, at, at+1) }}
}

// add adds lines.
func add(name string, more ...history.Op) change {
	return change{name, func(ops []history.Op) []history.Op { return append(ops, more...) }}
}

// op is an answered operation from begin to end, in milliseconds.
func op(f string, begin, end int64, key, value string, zxid int64) history.Op {
	return history.Op{Begin: begin * ms, End: end * ms, Kind: history.OK, F: f, Key: key, Value: value, Zxid: zxid, Arg: -1, Proc: 1, Session: 7, Conn: 1, Frame: begin}
}

// with gives an operation the stat of a node.
func with(o history.Op, version int32, czxid, mzxid int64) history.Op {
	o.Stat = &history.Stat{Version: version, Czxid: czxid, Mzxid: mzxid}
	return o
}

func unknown(o history.Op) history.Op {
	o.Kind, o.Zxid, o.Frame, o.Stat = history.Unknown, 0, 0, nil
	return o
}

func code(o history.Op, c int32) history.Op {
	o.Code, o.Stat = c, nil
	return o
}

func good() []history.Op {
	return []history.Op{
		code(op(opGet, 1, 2, "/k", "", 1), codeNoNode),
		op(opCreate, 3, 6, "/k", "a", 2),
		with(op(opSet, 5, 9, "/k", "b", 3), 1, 2, 3),
		with(op(opSyncGet, 10, 12, "/k", "b", 3), 1, 2, 3),
		unknown(op(opSet, 11, 20, "/k", "c", 0)),
		with(op(opSyncGet, 15, 17, "/k", "c", 4), 2, 2, 4),
		with(op(opGet, 18, 19, "/k", "b", 3), 1, 2, 3), // behind, and consistent
		op(opDelete, 21, 23, "/k", "", 5),
		code(op(opSyncGet, 24, 25, "/k", "", 5), codeNoNode),
	}
}

func TestRegisterRejectsWhatIsNotLinearizable(t *testing.T) {
	judge(t, Register, good, []change{
		edit("a read after a sync is stale", 5, func(o *history.Op) { o.Begin, o.End, o.Value, o.Stat.Version = 18*ms, 19*ms, "a", 0 }),
		edit("a value nobody wrote", 3, func(o *history.Op) { o.Value = "x" }),
		edit("a version too high", 3, func(o *history.Op) { o.Stat.Version = 2 }),
		edit("a delete that did nothing", 8, func(o *history.Op) { o.Code, o.Value, o.Stat = 0, "c", &history.Stat{Version: 2} }),
		drop("a read of a write that is not there", 2),
		edit("a wrong version is taken", 2, func(o *history.Op) { o.Arg = 7 }),
		edit("a right version is refused", 2, func(o *history.Op) { o.Arg, o.Code = 0, codeBadVersion }),
		add("a second creation", op(opCreate, 18, 20, "/k", "d", 9)),
		edit("an unanswered write that was seen is undone", 7, func(o *history.Op) { o.F, o.Code = opCreate, codeOK }),
	})
}

func TestZxidsRejectsWhatContradictsTheirOrder(t *testing.T) {
	list := op(opChildren, 30, 31, "", "", 9)
	list.Stat = &history.Stat{Czxid: 1, Pzxid: 5}
	judge(t, Zxids, func() []history.Op {
		l := list
		l.Stat = &history.Stat{Czxid: 1, Pzxid: 5}
		return append(good(), l)
	}, []change{
		edit("a list does not know of the newest change", 9, func(o *history.Op) { o.Stat.Pzxid = 4 }),
		edit("a list knows of a later change", 9, func(o *history.Op) { o.Stat.Pzxid = 10 }),
		edit("two writes with one zxid", 2, func(o *history.Op) { o.Zxid = 2 }),
		edit("no zxid", 2, func(o *history.Op) { o.Zxid = 0 }),
		edit("a later write with a smaller zxid", 7, func(o *history.Op) { o.Zxid = 1 }),
		edit("a change from the future", 3, func(o *history.Op) { o.Stat.Mzxid = 9 }),
		edit("a value from nowhere", 3, func(o *history.Op) { o.Value = "x" }),
		edit("another value than that of the mzxid", 3, func(o *history.Op) { o.Value = "a" }),
		edit("a write is missing", 3, func(o *history.Op) { o.Stat.Mzxid, o.Value = 2, "a" }),
		add("a deleted node is there", with(op(opGet, 26, 27, "/k", "b", 6), 1, 2, 3)),
		add("a node is gone without a delete", op(opCreate, 30, 31, "/l", "z", 8), code(op(opGet, 32, 33, "/l", "", 9), codeNoNode)),
	})
}

func TestFramesRejectsWhatTheClientNoticed(t *testing.T) {
	judge(t, Broken, good, []change{
		add("a reply out of order", history.Op{Kind: history.Info, F: "broken", Note: "the reply to xid 2 came before that to xid 1"}),
	})
}

func TestSessionsRejectsAnEndBeforeTheTimeout(t *testing.T) {
	line := func(f string, begin, end int64) history.Op {
		return history.Op{Begin: begin * ms, End: end * ms, Kind: history.Info, F: f, Session: 7, Arg: 1000 * ms}
	}
	judge(t, Sessions, func() []history.Op {
		return []history.Op{line("new", 0, 1), line("attached", 500, 501), line("expired", 800, 1900)}
	}, []change{
		edit("too early", 2, func(o *history.Op) { o.End = 1700 * ms }),
	})
}

func TestSessionOrderRejectsLostDoubledAndReordered(t *testing.T) {
	own := func(o history.Op) history.Op {
		o.Note = "own"
		return o
	}
	judge(t, SessionOrder, func() []history.Op {
		return []history.Op{
			own(with(op(opGet, 1, 2, "/o", "", 1), 0, 1, 1)),
			own(with(op(opSet, 3, 4, "/o", "a", 2), 1, 1, 2)),
			own(unknown(op(opSet, 5, 9, "/o", "b", 0))),
			own(unknown(op(opSet, 6, 9, "/o", "c", 0))),
			own(with(op(opGet, 10, 11, "/o", "b", 3), 2, 1, 3)), // the first of the two was done
			own(with(op(opSet, 12, 13, "/o", "d", 4), 3, 1, 4)),
			own(with(op(opGet, 14, 15, "/o", "d", 4), 3, 1, 4)),
		}
	}, []change{
		edit("an answered write is lost", 6, func(o *history.Op) { o.Stat.Version, o.Value = 2, "b" }),
		edit("the second was done and not the first", 4, func(o *history.Op) { o.Value = "c" }),
		edit("done twice", 5, func(o *history.Op) { o.Stat.Version = 4 }),
		edit("more done than was sent", 4, func(o *history.Op) { o.Stat.Version = 4 }),
		edit("a read shows another value", 6, func(o *history.Op) { o.Value = "a" }),
		edit("a late write of the old connection", 6, func(o *history.Op) { o.Stat.Version, o.Value = 4, "c" }),
		edit("the node is gone", 6, func(o *history.Op) { o.Code, o.Stat = codeNoNode, nil }),
	})
}

func TestSetRejectsLostAndInvented(t *testing.T) {
	judge(t, Set, func() []history.Op {
		failed := op(opCreate, 3, 4, "/set/c", "c", 0)
		failed.Kind = history.Fail
		list := op(opChildren, 20, 21, "/set", "", 9)
		list.Note, list.Parts = "final", []history.Part{{Key: "a"}, {Key: "b"}}
		return []history.Op{op(opCreate, 1, 2, "/set/a", "a", 2), unknown(op(opCreate, 2, 3, "/set/b", "b", 3)), failed, list}
	}, []change{
		edit("an acknowledged one is lost", 3, func(o *history.Op) { o.Parts = o.Parts[1:] }),
		edit("one that was never sent", 3, func(o *history.Op) { o.Parts = append(o.Parts, history.Part{Key: "x"}) }),
		edit("one that had failed", 3, func(o *history.Op) { o.Parts = append(o.Parts, history.Part{Key: "c"}) }),
		drop("nobody looks", 3),
	})
}

func TestSequenceRejectsRepeatedAndFalling(t *testing.T) {
	draw := func(begin, zxid int64, name string) history.Op {
		o := op(opCreate, begin, begin+1, "/q/n-", "v", zxid)
		o.Arg, o.Note = 2, name
		return o
	}
	judge(t, Sequence, func() []history.Op {
		return []history.Op{draw(1, 5, "/q/n-0000000000"), draw(2, 6, "/q/n-0000000001"), draw(4, 9, "/q/n-0000000003")}
	}, []change{
		edit("twice", 1, func(o *history.Op) { o.Note = "/q/n-0000000000" }),
		edit("falling", 1, func(o *history.Op) { o.Note = "/q/n-0000000007" }),
		edit("short", 1, func(o *history.Op) { o.Note = "/q/n-1" }),
		edit("another name", 1, func(o *history.Op) { o.Note = "/q/m-0000000001" }),
	})
}

func appends() []history.Op {
	multi := func(begin, end int64, parts ...history.Part) history.Op {
		o := op(opMulti, begin, end, "", "", begin)
		o.Parts = parts
		return o
	}
	read := func(begin, end int64, parts ...history.Part) history.Op {
		o := op(opRead, begin, end, "", "", begin)
		o.Parts = parts
		return o
	}
	return []history.Op{
		multi(1, 3, history.Part{Key: "/x", Value: " 1", Version: 0}, history.Part{Key: "/y", Value: " 1", Version: 0}),
		read(4, 5, history.Part{Key: "/x", Value: " 1", Version: 1}, history.Part{Key: "/y", Value: " 1", Version: 1}),
		multi(6, 8, history.Part{Key: "/x", Value: " 1 2", Version: 1}, history.Part{Key: "/y", Version: 1}),
		unknown(multi(9, 20, history.Part{Key: "/x", Value: " 1 2 3", Version: 2}, history.Part{Key: "/y", Value: " 1 3", Version: 1})),
		read(10, 12, history.Part{Key: "/x", Value: " 1 2", Version: 2}, history.Part{Key: "/y", Value: " 1", Version: 1}), // before it
		read(13, 14, history.Part{Key: "/x", Value: " 1 2 3", Version: 3}, history.Part{Key: "/y", Value: " 1 3", Version: 2}),
	}
}

func TestAppendRejectsCyclesAndPartialMultis(t *testing.T) {
	judge(t, Append, appends, []change{
		edit("a read that sees half a multi", 5, func(o *history.Op) { o.Parts[1] = history.Part{Key: "/y", Value: " 1", Version: 1} }),
		edit("a read of old and new", 1, func(o *history.Op) { o.Parts[1] = history.Part{Key: "/y", Value: "", Version: 0} }),
		edit("another value than was written", 1, func(o *history.Op) { o.Parts[0].Value = " 9" }),
		edit("a version from nowhere", 5, func(o *history.Op) { o.Parts[0].Version = 9 }),
		edit("two zxids of one multi", 1, func(o *history.Op) { o.Parts[0].Mzxid = 7 }),
		edit("two multis made one version", 2, func(o *history.Op) { o.Parts[0].Version = 0 }),
		{"multis against real time", func(ops []history.Op) []history.Op {
			ops[0].Begin, ops[0].End = 30*ms, 31*ms
			return ops
		}},
	})
}

func TestEphemeralRejectsTooShortAndTooLong(t *testing.T) {
	made := op(opCreate, 10, 11, "/e/a", "v", 5)
	made.Arg = 1
	list := func(begin, zxid int64, names ...string) history.Op {
		o := op(opChildren, begin, begin+1, "/e", "", zxid)
		o.Session, o.Conn, o.Proc = 8, 2, 2
		for _, n := range names {
			o.Parts = append(o.Parts, history.Part{Key: n})
		}
		return o
	}
	life := func(f string, at int64) history.Op {
		return history.Op{Begin: at * ms, End: 5000 * ms, Kind: history.Info, F: f, Session: 7, Arg: 1000 * ms}
	}
	judge(t, Ephemeral, func() []history.Op {
		return []history.Op{made, list(5, 4), list(100, 5, "a"), life("alive", 500), list(600, 6, "a"), list(1600, 7)}
	}, []change{
		edit("gone while its client is answered", 4, func(o *history.Op) { o.Parts = nil }),
		edit("gone before the timeout", 5, func(o *history.Op) { o.End = 1400 * ms }),
		add("there after the session was closed", op("close", 700, 701, "", "", 6), list(800, 6, "a")),
	})
}

func TestLockRejectsTwoHolders(t *testing.T) {
	held := func(f string, begin, end, number int64) history.Op {
		return history.Op{Begin: begin * ms, End: end * ms, Kind: history.Info, F: f, Key: "/lock", Arg: number}
	}
	judge(t, Lock, func() []history.Op {
		return []history.Op{held("held", 1, 5, 1), held("held-blindly", 1, 9, 1), held("held", 5, 9, 2), held("held-blindly", 5, 9, 2), held("held", 20, 21, 4)}
	}, []change{
		edit("two at once", 2, func(o *history.Op) { o.Begin = 4 * ms }),
		edit("a smaller number", 2, func(o *history.Op) { o.Arg = 1 }),
		edit("one within another", 0, func(o *history.Op) { o.End = 30 * ms }),
	})
	r := Lock([]history.Op{held("held-blindly", 1, 9, 1), held("held-blindly", 5, 9, 2)})
	require.Equal(t, []Figure{{"overlaps of clients without a clock", 1}}, r.Figures)
}

func TestWatchRejectsLostLateAndDoubled(t *testing.T) {
	look := func(at, conn int64, mzxid int64, watch int64) history.Op {
		o := with(op("exists", at, at+1, "/w", "", mzxid), 0, 1, mzxid)
		o.Conn, o.Arg = conn, watch
		return o
	}
	event := func(at, conn int64) history.Op {
		return history.Op{Begin: at * ms, End: at * ms, Kind: history.Event, F: "event", Key: "/w", Proc: 1, Conn: conn, Frame: at, Arg: eventChanged}
	}
	judge(t, Watch, func() []history.Op {
		return []history.Op{
			look(1, 1, 5, 1), look(2, 1, 5, 0), event(3, 1), look(4, 1, 6, 1),
			event(6, 2), look(7, 2, 8, 0), // its change came while the client moved
			look(8, 2, 8, 1),
		}
	}, []change{
		drop("an event is lost", 2),
		drop("an event is lost over a move", 4),
		edit("an event after the reply", 2, func(o *history.Op) { o.Frame = 5 }),
		add("an event comes twice", event(5, 1), event(5, 1)),
		edit("an event without a change", 3, func(o *history.Op) { o.Stat.Mzxid = 5 }),
		edit("an event for who does not watch", 0, func(o *history.Op) { o.Arg = 0 }),
	})
}

func TestWatchOfAnExpiredSessionIsNotMissed(t *testing.T) {
	first := with(op("exists", 1, 2, "/w", "", 5), 0, 1, 5)
	first.Arg = 1
	later := with(op("exists", 31, 32, "/w", "", 9), 0, 1, 9)
	later.Conn = 2
	end := history.Op{Begin: 30 * ms, End: 30 * ms, Kind: history.Info, F: "expired", Proc: 1, Conn: 1, Frame: 1 << 62}
	with := Watch([]history.Op{first, end, later})
	without := Watch([]history.Op{first, later})
	require.True(t, with.OK())
	require.False(t, without.OK())
}

func TestPersistentRejectsGapsRepeatsAndDelays(t *testing.T) {
	mark := func(o history.Op) history.Op {
		o.Note = "persistent"
		return o
	}
	event := func(at, zxid, kind int64) history.Op {
		return mark(history.Op{Begin: at * ms, End: at * ms, Kind: history.Event, F: "event", Key: "/w/a", Proc: 1, Conn: 1, Frame: at, Arg: kind, Zxid: zxid})
	}
	change1, change2 := op(opCreate, 3, 4, "/w/a", "x", 11), op(opSet, 6, 7, "/w/a", "y", 12)
	change1.Conn, change2.Conn = 2, 2
	judge(t, Persistent, func() []history.Op {
		return []history.Op{
			mark(op("add-watch", 1, 2, "/w", "", 10)), change1, event(5, 11, eventCreated), change2, event(8, 12, eventChanged),
			mark(with(op(opGet, 9, 10, "/w/a", "y", 12), 1, 11, 12)),
		}
	}, []change{
		drop("an event is lost", 2),
		drop("the last event is lost", 4),
		add("an event comes twice", event(11, 12, eventChanged)),
		edit("another kind", 4, func(o *history.Op) { o.Arg = eventDeleted }),
		edit("another node", 4, func(o *history.Op) { o.Key = "/w/b" }),
		edit("after the reply", 4, func(o *history.Op) { o.Frame = 12 }),
		{"in the wrong order", func(ops []history.Op) []history.Op {
			ops[2].Frame, ops[4].Frame = 8, 5
			return ops
		}},
	})
}
