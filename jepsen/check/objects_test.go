package check

import (
	"testing"

	"github.com/zkd-project/zkd/jepsen/history"
)

// noted gives an operation a note.
func noted(o history.Op, note string) history.Op {
	o.Note = note
	return o
}

// listOf is an answered list of a folder.
func listOf(begin, zxid int64, note, folder string, names ...string) history.Op {
	o := noted(op(opChildren, begin, begin+1, folder, "", zxid), note)
	for _, n := range names {
		o.Parts = append(o.Parts, history.Part{Key: n})
	}
	return o
}

func TestCounterRejectsLostAndDoubledIncrements(t *testing.T) {
	raise := func(begin int64, value string, version int32) history.Op {
		return noted(with(op(opSet, begin, begin+1, "/counter/0", value, begin), version, 1, begin), "increment")
	}
	batch := func(begin int64, keys ...string) history.Op {
		o := op(opMulti, begin, begin+1, "", "", begin)
		for _, k := range keys {
			o.Parts = append(o.Parts, history.Part{Key: "/batch/0/" + k, Value: "v"})
		}
		return o
	}
	judge(t, Counter, func() []history.Op {
		return []history.Op{
			raise(1, "1", 1), raise(3, "2", 2), unknown(raise(5, "3", 3)), code(raise(6, "3", 3), codeBadVersion),
			with(op(opGet, 7, 8, "/counter/0", "2", 3), 2, 1, 3),
			noted(with(op(opSyncGet, 20, 21, "/counter/0", "3", 9), 3, 1, 5), "final"),
			batch(9, "a", "b"), unknown(batch(10, "c", "d")), unknown(batch(11, "e", "f")),
			listOf(22, 12, "final", "/batch/0", "a", "b", "e", "f"),
		}
	}, []change{
		edit("an increment is lost", 5, func(o *history.Op) { o.Value, o.Stat.Version = "1", 1 }),
		edit("one was done twice", 5, func(o *history.Op) { o.Value, o.Stat.Version = "4", 4 }),
		edit("a value that is not that of its version", 4, func(o *history.Op) { o.Value = "1" }),
		edit("it falls", 4, func(o *history.Op) { o.Value, o.Stat.Version = "1", 1 }),
		edit("no number", 4, func(o *history.Op) { o.Value = "x" }),
		drop("nobody looks", 5),
		edit("half an answered multi", 9, func(o *history.Op) { o.Parts = o.Parts[1:] }),
		edit("half an unanswered one", 9, func(o *history.Op) { o.Parts = o.Parts[:3] }),
		edit("a node of nobody", 9, func(o *history.Op) { o.Parts = append(o.Parts, history.Part{Key: "x"}) }),
		drop("nobody looks at the batches", 9),
	})
}

func TestQueueRejectsLostDoubledAndReordered(t *testing.T) {
	put := func(begin int64, value, name string) history.Op {
		o := noted(op(opCreate, begin, begin+1, "/q/items/i-", value, begin), "/q/items/"+name)
		o.Arg = sequential
		return o
	}
	take := func(begin int64, name, value string) history.Op {
		o := op(opTake, begin, begin+1, "/q/items/"+name, value, begin)
		o.Proc = 9
		return o
	}
	judge(t, Queue, func() []history.Op {
		return []history.Op{
			put(1, "4.0", "i-0"), put(2, "5.0", "i-1"), put(3, "4.1", "i-2"), unknown(put(4, "4.2", "")), put(5, "5.1", "i-4"),
			take(11, "i-0", "4.0"), take(12, "i-1", "5.0"), take(13, "i-2", "4.1"), take(14, "i-3", "4.2"), unknown(take(15, "i-4", "5.1")),
			listOf(20, 16, "final", "/q/items"), listOf(22, 16, "final", "/q/receipts", "i-0", "i-1", "i-2", "i-3", "i-4"),
		}
	}, []change{
		edit("an item is lost", 11, func(o *history.Op) { o.Parts = o.Parts[:4] }),
		edit("a take is undone", 10, func(o *history.Op) { o.Parts = []history.Part{{Key: "i-1"}} }),
		edit("half a take", 10, func(o *history.Op) { o.Parts = []history.Part{{Key: "i-4"}} }),
		add("taken twice", take(17, "i-1", "5.0")),
		edit("another value", 6, func(o *history.Op) { o.Value = "4.1" }),
		edit("a value of nobody", 6, func(o *history.Op) { o.Value = "7.7" }),
		edit("out of order", 5, func(o *history.Op) { o.Zxid = 18 }),
		edit("a receipt without a take", 9, func(o *history.Op) { o.Kind = history.Fail }),
		drop("nobody looks", 10),
	})
}

// With several consumers an item may come late: no order is promised.
func TestQueueWithSeveralConsumersHasNoOrder(t *testing.T) {
	put := noted(op(opCreate, 1, 2, "/q/items/i-", "4.0", 1), "/q/items/i-0")
	put.Arg = sequential
	next := put
	next.Value, next.Note, next.Zxid = "4.1", "/q/items/i-1", 2
	first, second := op(opTake, 5, 6, "/q/items/i-1", "4.1", 5), op(opTake, 7, 8, "/q/items/i-0", "4.0", 7)
	second.Proc = 2
	ops := []history.Op{
		put, next, first, second,
		listOf(20, 16, "final", "/q/items"), listOf(22, 16, "final", "/q/receipts", "i-0", "i-1"),
	}
	if r := Queue(ops); !r.OK() {
		t.Fatal(r.Violations)
	}
	ops[3].Proc = 1
	if r := Queue(ops); r.OK() {
		t.Fatal("one consumer got them in the wrong order")
	}
}

func TestRestartRejectsWhatIsMissingInBetween(t *testing.T) {
	judge(t, Restart, func() []history.Op {
		return []history.Op{
			op(opCreate, 1, 2, "/r/a", "", 1), unknown(op(opCreate, 3, 9, "/r/b", "", 0)), op(opCreate, 4, 5, "/r/c", "", 3),
			listOf(6, 1, "", "/r", "a"), // behind, and says so
			listOf(8, 3, "synced", "/r", "a", "c"), listOf(20, 4, "synced", "/r", "a", "b", "c"),
			unknown(op(opCreate, 30, 31, "/r/d", "", 0)), op(opCreate, 32, 33, "/r/d", "", 6), // tried again
			unknown(op(opCreate, 50, 51, "/r/d", "", 0)),
			listOf(40, 7, "synced", "/r", "a", "b", "c", "d"),
		}
	}, []change{
		edit("the second try is lost", 9, func(o *history.Op) { o.Parts = o.Parts[:3] }),
		edit("there before the first of several tries", 4, func(o *history.Op) { o.Parts = append(o.Parts, history.Part{Key: "d"}) }),
		edit("lost after a restart", 5, func(o *history.Op) { o.Parts = o.Parts[:2] }),
		edit("a sync that does not reach what was answered", 4, func(o *history.Op) { o.Zxid, o.Parts = 1, o.Parts[:1] }),
		edit("a list that lacks what its zxid has", 3, func(o *history.Op) { o.Zxid = 3 }),
		edit("there before its time", 3, func(o *history.Op) { o.Begin, o.End = 0, 0 }),
		edit("a node of nobody", 4, func(o *history.Op) { o.Parts = append(o.Parts, history.Part{Key: "x"}) }),
	})
}

func TestContainersRejectsWhatGoesTooEarly(t *testing.T) {
	ttl := func(begin int64, path string, ms64 int64) history.Op {
		o := with(op("create-ttl", begin, begin+1, path, "v", begin), 0, begin, begin)
		o.Arg = ms64 * ms
		return o
	}
	child := func(f string, begin int64, path string) history.Op {
		o := op(f, begin, begin+1, path, "", begin)
		o.Arg = 0
		return o
	}
	judge(t, Containers, func() []history.Op {
		return []history.Op{
			ttl(1, "/k/ttl", 100), with(op("create-container", 2, 3, "/k/box", "v", 2), 0, 2, 2),
			with(op(opSet, 50, 51, "/k/ttl", "w", 50), 1, 1, 50), child(opCreate, 60, "/k/box/a"),
			listOf(120, 61, "", "/k", "ttl", "box"), listOf(140, 70, "", "/k", "ttl", "box"), child(opDelete, 150, "/k/box/a"),
			listOf(170, 160, "", "/k"),
		}
	}, []change{
		edit("a TTL node goes before its time", 4, func(o *history.Op) { o.Parts = o.Parts[1:] }),
		edit("a change does not count", 5, func(o *history.Op) { o.Parts = o.Parts[1:] }),
		edit("a container goes although it has a child", 5, func(o *history.Op) { o.Parts = o.Parts[:1] }),
		edit("an owner", 1, func(o *history.Op) { o.Stat.Owner = 7 }),
	})
	// A container that nobody has used stays.
	box := with(op("create-container", 2, 3, "/k/box", "v", 2), 0, 2, 2)
	if r := Containers([]history.Op{box, listOf(9, 9, "", "/k")}); r.OK() {
		t.Fatal("a container that was never used is gone")
	}
}

func TestACLRejectsWhatTheListDoesNotSay(t *testing.T) {
	set := func(f string, begin int64, list string) history.Op {
		return op(f, begin, begin+1, "/acl/1", list, begin)
	}
	probe := func(begin, zxid int64, what, who string, c int32) history.Op {
		o := noted(op("probe", begin, begin+1, "/acl/1", what, zxid), who)
		o.Code, o.Arg = c, 0
		return o
	}
	seen := history.Op{Begin: 9 * ms, Kind: history.Info, F: "seen", Key: "/acl/1", Value: "secret-1", Note: "bob"}
	event := history.Op{Begin: 40 * ms, Kind: history.Event, F: "event", Key: "/acl/1", Zxid: 40, Note: "bob"}
	changed := probe(50, 50, "setacl", "ann", codeOK)
	changed.Parts = []history.Part{{Key: "/acl/1", Value: "ann:1"}}
	good := func() []history.Op {
		return []history.Op{
			set("acl-create", 1, "admin:31,bob:3"), probe(5, 5, "get", "bob", codeOK), seen, probe(10, 10, "get", "ann", codeNoAuth),
			probe(12, 12, "set", "bob", codeBadVersion), probe(14, 14, "delete", "bob", codeNoAuth),
			set("acl-set", 20, "admin:31,world:1,ann:17,bob:8"), probe(22, 1, "get", "ann", codeNoAuth), // behind, and says so
			probe(24, 24, "get", "anonymous", codeOK), probe(26, 26, "getacl", "bob", codeOK), event, changed,
			probe(60, 60, "get", "bob", codeNoAuth), probe(62, 62, "get", "ann", codeOK), probe(64, 64, "setacl", "ann", codeNoAuth),
		}
	}
	judge(t, ACL, good, []change{
		edit("a read that the list refuses", 3, func(o *history.Op) { o.Code = codeOK }),
		edit("a refusal that the list does not know", 1, func(o *history.Op) { o.Code = codeNoAuth }),
		edit("a write that the list refuses", 5, func(o *history.Op) { o.Code = codeNoNode }),
		edit("a list that comes into force too late", 8, func(o *history.Op) { o.Code = codeNoAuth }),
		edit("a list that comes into force too early", 7, func(o *history.Op) { o.Code = codeOK }),
		edit("a hash is shown", 9, func(o *history.Op) { o.Arg = 1 }),
		edit("an event for who may not read", 10, func(o *history.Op) { o.Zxid = 70 }),
		edit("a secret for who may never read", 2, func(o *history.Op) { o.Note = "eve"; o.Key = "/acl/vault" }),
		edit("a change of the list by who may not administer", 14, func(o *history.Op) {
			o.Code, o.Parts = codeOK, []history.Part{{Key: "/acl/1", Value: "ann:31"}}
		}),
		edit("an operation without a model", 1, func(o *history.Op) { o.Value = "reboot" }),
	})
}

func TestFencingRejectsStaleHolders(t *testing.T) {
	write := func(begin int64, key string, token int64, version int32) history.Op {
		o := with(op("fenced-set", begin, begin+1, key, "", 0), version, 1, begin)
		o.Arg = token
		return o
	}
	line := func(f string, begin, end, arg int64) history.Op {
		return history.Op{Begin: begin * ms, End: end * ms, Kind: history.Info, F: f, Proc: 1, Key: "/m", Arg: arg}
	}
	good := func() []history.Op {
		return []history.Op{
			write(1, "/m/fenced", 5, 1), write(2, "/m/fenced", 9, 2), code(write(3, "/m/fenced", 5, 3), codeNoNode),
			write(4, "/m/unfenced", 9, 1), write(5, "/m/unfenced", 5, 2),
			line("held", 10, 900, 9), line("cut-off", 100, 100, 1000*ms),
		}
	}
	judge(t, Fencing, good, []change{
		edit("a stale holder gets through", 1, func(o *history.Op) { o.Arg = 4 }),
		edit("the order is that of the versions", 0, func(o *history.Op) { o.Stat.Version = 3 }),
		edit("a holder that does not stand down", 5, func(o *history.Op) { o.End = 1101 * ms }),
	})
	r := Fencing(good())
	if len(r.Figures) != 1 || r.Figures[0].Value != 1 {
		t.Fatal("the unfenced twin was not seen to break", r.Figures)
	}
}
