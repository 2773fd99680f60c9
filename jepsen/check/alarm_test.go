package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/history"
)

// What a correct server can do while the machine stands still for seconds: no checker may object.
func TestNoAlarmWhereAnswersAreLateOrLost(t *testing.T) {
	take := func(begin int64, name, value string, zxid int64) history.Op {
		o := op(opTake, begin, begin+1, "/q/items/"+name, value, zxid)
		o.Proc = 9
		return o
	}
	put := noted(op(opCreate, 1, 2, "/q/items/i-", "4.0", 1), "/q/items/i-0")
	put.Arg = sequential
	box := with(op("create-container", 1, 2, "/k/box", "v", 1), 0, 1, 1)
	child := op(opCreate, 3, 4, "/k/box/a", "", 2)
	child.Arg = 0
	slow := listOf(5, 9, "", "/k") // under way while the container lost its child, and went
	slow.End = 40 * ms
	gone := op(opDelete, 10, 11, "/k/box/a", "", 3)
	brief := child
	brief.Arg = ephemeral
	brief.Begin, brief.End = 20*ms, 30*ms
	multi := op(opMulti, 3, 4, "", "", 0)
	multi.Parts = []history.Part{{Key: "/b/x", Value: "v"}, {Key: "/b/y", Value: "v"}}
	secret := history.Op{Begin: 9 * ms, Kind: history.Info, F: "seen", Key: "/acl/1", Value: "secret-1", Note: "bob"}
	for name, x := range map[string]struct {
		checker Checker
		ops     []history.Op
	}{
		"a take that was held up is done between the last lists": {Queue, []history.Op{
			put, unknown(take(5, "i-0", "4.0", 0)),
			listOf(20, 16, "final", "/q/items", "i-0"), listOf(22, 18, "final", "/q/receipts", "i-0"), listOf(24, 18, "final", "/q/items"),
		}},
		"and the other way round": {Queue, []history.Op{
			put, unknown(take(5, "i-0", "4.0", 0)), listOf(20, 16, "final", "/q/receipts"), listOf(22, 18, "final", "/q/items"),
		}},
		"a container loses its child while a list of it is under way":      {Containers, []history.Op{box, child, slow, gone}},
		"a child goes with its session while a list is under way":          {Containers, []history.Op{box, slow, brief}},
		"a multi that was held up is done between the last lists":          {Counter, []history.Op{unknown(multi), listOf(20, 5, "final", "/b"), listOf(22, 7, "final", "/b", "x", "y")}},
		"a list whose answer was lost was in force, and a secret was read": {ACL, []history.Op{op("acl-create", 1, 2, "/acl/1", "admin:31", 1), unknown(op("acl-set", 5, 4000, "/acl/1", "admin:31,bob:1", 0)), secret}},
		"a creation whose answer was lost, and a secret was read":          {ACL, []history.Op{unknown(op("acl-create", 1, 2, "/acl/1", "bob:1", 0)), secret}},
		"a write of another session after the end of one":                  {Ephemeral, []history.Op{ephemeralOf(7, 10, 5), op("close", 20, 21, "", "", 6), ephemeralOf(8, 30, 7)}},
		"a reply that comes when the next one holds already":               {Lock, []history.Op{holding(1, 1600, 1900, 5), holding(2, 2000, 1500, 4), holding(3, 2100, 2200, 6)}},
		"reads of two sessions that overlap nothing": {Append, []history.Op{
			multiOf(7, 1, 3, history.Part{Key: "/x", Value: " 1"}),
			readOf(8, 4, 5, history.Part{Key: "/x"}), // behind: plain reads may be
		}},
	} {
		t.Run(name, func(t *testing.T) {
			history.Sort(x.ops)
			r := x.checker(x.ops)
			require.Empty(t, r.Violations)
			require.NotZero(t, r.Checked)
		})
	}
}

// holding is the belief of a client that holds the lock, with the number of its place.
func holding(proc int, begin, end, number int64) history.Op {
	return history.Op{Begin: begin * ms, End: end * ms, Kind: history.Info, F: "held", Proc: proc, Key: "/lock", Arg: number}
}

// ephemeralOf is the creation of an ephemeral node by a session.
func ephemeralOf(session, begin, zxid int64) history.Op {
	o := op(opCreate, begin, begin+1, "/e/"+string(rune('a'+session)), "v", zxid)
	o.Session, o.Arg = session, ephemeral
	return o
}

func multiOf(session, begin, end int64, parts ...history.Part) history.Op {
	o := op(opMulti, begin, end, "", "", begin)
	o.Session, o.Parts = session, parts
	return o
}

func readOf(session, begin, end int64, parts ...history.Part) history.Op {
	o := op(opRead, begin, end, "", "", begin)
	o.Session, o.Parts = session, parts
	return o
}

func TestSetRejectsWhatOneServerAloneHasLost(t *testing.T) {
	judge(t, Set, func() []history.Op {
		return []history.Op{op(opCreate, 1, 2, "/set/a", "a", 2), listOf(10, 3, "final", "/set", "a"), listOf(12, 3, "final", "/set", "a")}
	}, []change{
		edit("the first server", 1, func(o *history.Op) { o.Parts = nil }),
		edit("the last server", 2, func(o *history.Op) { o.Parts = nil }),
		edit("one has too much", 1, func(o *history.Op) { o.Parts = append(o.Parts, history.Part{Key: "x"}) }),
	})
}

func TestAppendRejectsSessionsThatGoBack(t *testing.T) {
	old, fresh := history.Part{Key: "/x"}, history.Part{Key: "/x", Value: " 1", Version: 1}
	judge(t, Append, func() []history.Op {
		return []history.Op{multiOf(7, 1, 3, history.Part{Key: "/x", Value: " 1"}), readOf(7, 4, 5, fresh), readOf(8, 4, 5, fresh), readOf(8, 6, 7, fresh)}
	}, []change{
		edit("its own multi is not seen", 1, func(o *history.Op) { o.Parts[0] = old }),
		edit("an older state than before", 3, func(o *history.Op) { o.Parts[0] = old }),
	})
}

func TestEphemeralRejectsWrongOwnersAndWritesAfterTheEnd(t *testing.T) {
	look := noted(with(op(opGet, 12, 13, "/e/h", "v", 5), 0, 5, 5), "ephemeral")
	judge(t, Ephemeral, func() []history.Op {
		l := look
		l.Stat = &history.Stat{Owner: 7}
		return []history.Op{ephemeralOf(7, 10, 5), l, op("close", 20, 21, "", "", 6)}
	}, []change{
		edit("the owner is another session", 1, func(o *history.Op) { o.Stat.Owner = 8 }),
		edit("no owner", 1, func(o *history.Op) { o.Stat.Owner = 0 }),
		add("a creation after the end", ephemeralOf(7, 19, 8)),
	})
}

func TestQueueComparesListsByTheirZxids(t *testing.T) {
	put := noted(op(opCreate, 1, 2, "/q/items/i-", "4.0", 1), "/q/items/i-0")
	put.Arg = sequential
	take := unknown(op(opTake, 5, 6, "/q/items/i-0", "4.0", 0))
	judge(t, Queue, func() []history.Op {
		return []history.Op{
			put, take, listOf(20, 16, "final", "/q/items", "i-0"), listOf(22, 18, "final", "/q/receipts", "i-0"), listOf(24, 18, "final", "/q/items"),
		}
	}, []change{
		edit("half a take, later", 4, func(o *history.Op) { o.Parts = []history.Part{{Key: "i-0"}} }),
		edit("gone without a receipt", 2, func(o *history.Op) { o.Parts = nil }).and(3, func(o *history.Op) { o.Parts = nil }),
	})
}

func TestContainersRemembersTheFirstChild(t *testing.T) {
	box := with(op("create-container", 1, 2, "/k/box", "v", 1), 0, 1, 1)
	child := func(begin int64, name string) history.Op {
		o := op(opCreate, begin, begin+1, "/k/box/"+name, "", begin)
		o.Arg = 0
		return o
	}
	brief := child(3, "e")
	brief.Arg = ephemeral
	judge(t, Containers, func() []history.Op {
		return []history.Op{box, brief, child(5, "a"), listOf(10, 6, "", "/k", "box"), child(20, "b")}
	}, []change{
		edit("gone although it has one", 3, func(o *history.Op) { o.Parts = nil }),
	})
}

func TestWriteOrderRejectsZxidsAgainstRealTime(t *testing.T) {
	judge(t, WriteOrder, func() []history.Op {
		return []history.Op{op(opSet, 1, 2, "/k", "a", 5), op(opDelete, 3, 4, "/k", "", 0), op(opCreate, 3, 4, "/k", "b", 7), unknown(op(opSet, 5, 6, "/k", "c", 0))}
	}, []change{
		edit("two writes with one zxid", 2, func(o *history.Op) { o.Zxid = 5 }),
		edit("a later write with the smaller zxid", 2, func(o *history.Op) { o.Zxid = 4 }),
	})
}
