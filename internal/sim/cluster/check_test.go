package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// A tampering changes a good history so that one checker must object. It returns nil if the
// history has no place for it.
type tampering struct {
	name    string
	checker string
	do      func([]Entry) []Entry
}

// first returns the first entry that is accepted, or nil.
func first(entries []Entry, ok func(*Entry) bool) *Entry {
	for i := range entries {
		if ok(&entries[i]) {
			return &entries[i]
		}
	}
	return nil
}

// edit changes the first entry that is accepted.
func edit(ok func(*Entry) bool, change func(*Entry)) func([]Entry) []Entry {
	return func(entries []Entry) []Entry {
		e := first(entries, ok)
		if e == nil {
			return nil
		}
		change(e)
		return entries
	}
}

// good says whether an entry is a reply without error to that operation below a path.
func good(op wire.OpCode, below string) func(*Entry) bool {
	return func(e *Entry) bool {
		return e.Kind == Replied && e.Result.Err == wire.OK && e.Op.Code == op && strings.HasPrefix(e.Op.Path, below)
	}
}

// late is good for entries of the second half.
func late(op wire.OpCode, below string, fresh bool) func(*Entry) bool {
	return func(e *Entry) bool {
		return good(op, below)(e) && e.At > 15*time.Second && (!fresh || e.Since > 0)
	}
}

// pendingEvent finds an event of a data watch after which the session reads that node again.
func pendingEvent(entries []Entry) int {
	stream := first(entries, good(wire.OpAddWatch, watchRoot)).Client
	return slices.IndexFunc(entries, func(e Entry) bool {
		if e.Kind != Notified || e.Event != wire.EventNodeDataChanged || e.Client == stream {
			return false
		}
		next := first(entries[e.Seq:], func(n *Entry) bool {
			return n.Session == e.Session && n.Op.Path == e.Op.Path && (n.Kind == Notified || n.Kind == Replied && n.Op.Code != wire.OpCreate2)
		})
		return next != nil && next.Kind == Replied && next.Op.Code != wire.OpDelete
	})
}

// streamed finds two events of one persistent watch that follow each other, the first of them of
// a change that was acknowledged.
func streamed(entries []Entry) (a, b int) {
	known := map[int64]bool{}
	for _, e := range changesBelow(entries, watchRoot+"/") {
		known[e.Result.Zxid] = true
	}
	watch := first(entries, good(wire.OpAddWatch, watchRoot))
	next := func(from int) int {
		return from + slices.IndexFunc(entries[from:], func(e Entry) bool {
			return e.Kind == Notified && e.Client == watch.Client && e.Link == watch.Link && known[e.Result.Zxid]
		})
	}
	a = next(watch.Seq)
	return a, next(a + 1)
}

var tamperings = []tampering{
	{"a conversation that broke the rules", "protocol", func(entries []Entry) []Entry {
		return append(entries, Entry{Kind: Broken, Note: "a reply out of order"})
	}},
	{"two writes with one zxid", "witness", func(entries []Entry) []Entry {
		a := first(entries, late(wire.OpSetData, orderRoot, false))
		b := first(entries[a.Seq:], late(wire.OpSetData, orderRoot, false))
		b.Result.Zxid, b.Result.Mzxid = a.Result.Zxid, a.Result.Mzxid
		return entries
	}},
	{"the later write has the lower zxid", "witness", func(entries []Entry) []Entry {
		a := first(entries, late(wire.OpSetData, registerRoot, false))
		sent := first(entries[a.Seq:], func(e *Entry) bool { return e.Kind == Sent && e.Op.Code == wire.OpSetData })
		b := first(entries[sent.Seq:], func(e *Entry) bool { return e.Kind == Replied && e.Call == sent.Call })
		if b == nil || b.Result.Err != wire.OK {
			return nil
		}
		a.Result, b.Result = b.Result, a.Result
		return entries
	}},
	{"a stat with another zxid than the reply", "witness", edit(late(wire.OpSetData, orderRoot, false), func(e *Entry) { e.Result.Mzxid-- })},
	{"a session goes back in time", "session", edit(late(wire.OpSetData, orderRoot, false), func(e *Entry) { e.Result.Zxid -= 100 })},
	{"a session sees an older node", "session", edit(late(wire.OpGetData, orderRoot, false), func(e *Entry) { e.Result.Mzxid -= 1000 })},
	{"a fresh read is stale", "session", edit(late(wire.OpGetData, orderRoot, true), func(e *Entry) { e.Result.Mzxid = 1; e.Session++ })},
	{"a read of a value that nobody wrote", "register", edit(late(wire.OpGetData, registerRoot, true), func(e *Entry) { e.Result.Data = "never" })},
	{"a read of an older version", "register", edit(func(e *Entry) bool {
		return late(wire.OpGetData, registerRoot, true)(e) && e.Result.Version > 2
	}, func(e *Entry) { e.Result.Version-- })},
	{"a compare-and-set that should have failed", "register", edit(func(e *Entry) bool {
		return e.Kind == Replied && e.Op.Code == wire.OpSetData && e.Result.Err == wire.BadVersion && strings.HasPrefix(e.Op.Path, registerRoot)
	}, func(e *Entry) { e.Result.Err, e.Result.Version = wire.OK, e.Op.Version+1 })},
	{"a create of what exists", "register", edit(func(e *Entry) bool {
		return e.Kind == Replied && e.Op.Code == wire.OpCreate2 && e.Result.Err == wire.NodeExists && strings.HasPrefix(e.Op.Path, registerRoot)
	}, func(e *Entry) { e.Result.Err = wire.OK })},
	{"a write carried out twice", "order", edit(late(wire.OpSetData, orderRoot, false), func(e *Entry) { e.Result.Version++ })},
	{"a session does not see its own write", "order", edit(late(wire.OpGetData, orderRoot, false), func(e *Entry) { e.Result.Data = "0" })},
	{"an acknowledged write is lost", "order", func(entries []Entry) []Entry {
		slices.Reverse(entries)
		e := first(entries, good(wire.OpGetData, orderRoot))
		e.Result.Version--
		slices.Reverse(entries)
		return entries
	}},
	{"a sequence number comes twice", "sequence", func(entries []Entry) []Entry {
		a := first(entries, late(wire.OpCreate2, sequenceRoot, false))
		b := first(entries[a.Seq:], late(wire.OpCreate2, sequenceRoot, false))
		b.Result.Path = a.Result.Path
		return entries
	}},
	{"a sequence node is gone", "sequence", func(entries []Entry) []Entry {
		list := first(entries, good(wire.OpGetChildren2, sequenceRoot))
		list.Result.Children = nil
		return entries
	}},
	{"two hold one node", "ephemeral", func(entries []Entry) []Entry {
		held := first(entries, func(e *Entry) bool { return e.Kind == Held && e.At > 10*time.Second })
		other := *held
		other.Session, other.Client = held.Session+1, held.Client+1
		return slices.Insert(entries, held.Seq, other)
	}},
	{"a node is gone while its session lives", "ephemeral", func(entries []Entry) []Entry {
		held := first(entries, func(e *Entry) bool { return e.Kind == Held && e.At > 10*time.Second })
		gone := Entry{
			Seq: held.Seq + 1, At: held.At, Kind: Replied, Op: Op{Code: wire.OpGetData, Path: held.Op.Path},
			Since: held.Seq + 1, Result: Result{Err: wire.NoNode},
		}
		return slices.Insert(entries, held.Seq, gone)
	}},
	{"a session that lives is told to be over", "ephemeral", func(entries []Entry) []Entry {
		alive := first(entries, func(e *Entry) bool { return e.Kind == Alive && e.At > 10*time.Second })
		return slices.Insert(entries, alive.Seq, Entry{Kind: Expired, At: alive.At, Session: alive.Session, Client: alive.Client})
	}},
	{"an event of a stream is lost", "stream", func(entries []Entry) []Entry {
		i, _ := streamed(entries)
		return slices.Delete(entries, i, i+1)
	}},
	{"an event of a stream comes twice", "stream", func(entries []Entry) []Entry {
		i, _ := streamed(entries)
		return slices.Insert(entries, i, entries[i])
	}},
	{"events of a stream change places", "stream", func(entries []Entry) []Entry {
		i, j := streamed(entries)
		entries[i], entries[j] = entries[j], entries[i]
		return entries
	}},
	{"a read misses a write of before its zxid", "zxids", edit(late(wire.OpGetData, orderRoot, false), func(e *Entry) {
		e.Result.Mzxid--
	})},
	{"a name without ten digits", "names", edit(late(wire.OpCreate2, sequenceRoot, false), func(e *Entry) { e.Result.Path += "0" })},
	{"a transaction is seen in part", "append", func(entries []Entry) []Entry {
		var last *Entry
		for i := range entries {
			e := &entries[i]
			if e.Kind != Replied || e.Op.Code != wire.OpMultiRead || e.Result.Err != wire.OK {
				continue
			}
			if last != nil && last.Result.Parts[0].Key == e.Result.Parts[0].Key && last.Result.Parts[0].Version < e.Result.Parts[0].Version &&
				last.Result.Parts[1].Version < e.Result.Parts[1].Version {
				parts := slices.Clone(e.Result.Parts)
				parts[1] = last.Result.Parts[1]
				e.Result.Parts = parts
				return entries
			}
			last = e
		}
		return nil
	}},
	{"a node of a set is gone", "set", edit(func(e *Entry) bool {
		return e.Kind == Replied && e.Op.Data == finalList && len(e.Result.Children) > 0
	}, func(e *Entry) { e.Result.Children = e.Result.Children[1:] })},
	{"an event is lost", "watch", func(entries []Entry) []Entry {
		if i := pendingEvent(entries); i >= 0 {
			return slices.Delete(entries, i, i+1)
		}
		return nil
	}},
	{"an event comes twice", "watch", func(entries []Entry) []Entry {
		if i := pendingEvent(entries); i >= 0 {
			return slices.Insert(entries, i, entries[i])
		}
		return nil
	}},
	{"an event without a change", "watch", func(entries []Entry) []Entry {
		set := first(entries, func(e *Entry) bool {
			return good(wire.OpGetData, watchRoot)(e) && e.Op.Watch
		})
		event := Entry{Kind: Notified, Session: set.Session, Op: Op{Path: set.Op.Path}, Event: wire.EventNodeDataChanged}
		again := *set
		return slices.Insert(entries, set.Seq, event, again)
	}},
}

// TestCheckersObjectToTamperedHistories takes histories of runs that went well and spoils them.
func TestCheckersObjectToTamperedHistories(t *testing.T) {
	var histories [][]Entry
	for seed := range uint64(3) {
		r := run(t, Options{Seed: seed + 3, Virtual: 30 * time.Second})
		if len(r.Failures) > 0 {
			t.Fatal(r.Failures[0])
		}
		histories = append(histories, r.History)
	}
	for _, tamper := range tamperings {
		t.Run(strings.ReplaceAll(tamper.name, " ", "-"), func(t *testing.T) {
			var spoilt []Entry
			for _, h := range histories {
				if spoilt = tamper.do(slices.Clone(h)); spoilt != nil {
					break
				}
			}
			if spoilt == nil {
				t.Fatal("no history has a place for it")
			}
			errs := named(tamper.checker)(spoilt)
			if len(errs) == 0 {
				t.Errorf("the checker %s does not object", tamper.checker)
			} else {
				t.Log(errs[0])
			}
		})
	}
}

func named(name string) func([]Entry) []error {
	for _, c := range checkers {
		if c.name == name {
			return c.run
		}
	}
	panic(fmt.Sprintf("there is no checker %s", name))
}

// Every checker has something to say about some spoilt history.
func TestEveryCheckerIsTested(t *testing.T) {
	for _, c := range checkers {
		if !slices.ContainsFunc(tamperings, func(x tampering) bool { return x.checker == c.name }) {
			t.Errorf("nothing tests the checker %s", c.name)
		}
	}
}
