package check

import (
	"slices"
	"sort"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Zxids checks all operations of a run against the order that their zxids say: no two writes
// have the same one; a write that was answered before another began has the smaller one; and
// every read shows what the writes up to the zxid of its reply have left. A read may be behind
// the newest write, but never inconsistent with its own zxid.
func Zxids(ops []history.Op) Result {
	r := Result{Checker: "zxids"}
	writes := map[string][]write{}
	issued := map[string]int64{} // when a value was first handed to a server
	maybeDeleted := map[string]bool{}
	var ended []history.Op
	for i := range ops {
		o := &ops[i]
		if !isWrite(o.F) || o.Kind == history.Fail {
			continue
		}
		noteIssued(issued, o)
		if o.Kind == history.Unknown {
			if deletes(o.F) {
				maybeDeleted[o.Key] = true
			}
			continue
		}
		r.Checked++
		ended = append(ended, *o)
		if o.Code == codeOK {
			for _, p := range effects(o) {
				writes[p.Key] = append(writes[p.Key], write{o.Zxid, p.Value, deletes(o.F), o})
			}
		}
	}
	r.realTime(ended)
	for _, w := range writes {
		slices.SortFunc(w, func(a, b write) int { return int(a.zxid - b.zxid) })
	}
	for i := range ops {
		o := &ops[i]
		if o.Kind == history.OK && (o.F == opGet || o.F == opSyncGet) {
			r.Checked++
			r.readFits(o, writes[o.Key], issued, maybeDeleted[o.Key])
		}
	}
	r.listsFit(ops)
	return r
}

// WriteOrder checks the zxids of writes alone, as far as they are known: for clients that do not tell
// those of other answers.
func WriteOrder(ops []history.Op) Result {
	r := Result{Checker: "write-order"}
	var ended []history.Op
	for i := range ops {
		if o := &ops[i]; isWrite(o.F) && o.Kind == history.OK && o.Code == codeOK && o.Zxid != 0 {
			ended = append(ended, *o)
		}
	}
	r.Checked = len(ended)
	r.realTime(ended)
	return r
}

// listsFit compares the pzxid that lists show with the newest change of a child up to their zxid.
func (r *Result) listsFit(ops []history.Op) {
	changed := map[string][]*history.Op{} // by folder
	for i := range ops {
		o := &ops[i]
		if o.Kind != history.OK || o.Code != codeOK || !isWrite(o.F) || o.F == opSet || o.F == opMulti || o.F == "acl-set" {
			continue
		}
		changed[parent(o.Key)] = append(changed[parent(o.Key)], o)
	}
	for _, list := range changed {
		slices.SortFunc(list, func(a, b *history.Op) int { return int(a.Zxid - b.Zxid) })
	}
	for i := range ops {
		o := &ops[i]
		if o.F != opChildren || o.Kind != history.OK || o.Code != codeOK || o.Stat == nil {
			continue
		}
		list := changed[o.Key]
		at := sort.Search(len(list), func(i int) bool { return list[i].Zxid > o.Zxid }) - 1
		if at >= 0 && o.Stat.Pzxid < list[at].Zxid {
			r.add([]history.Op{*list[at], short(o)}, "a list shows the pzxid 0x%x, and a child changed after it", o.Stat.Pzxid)
		}
		if o.Stat.Pzxid > o.Zxid {
			r.add([]history.Op{short(o)}, "a list shows a change from after its own zxid")
		}
	}
}

type write struct {
	zxid    int64
	value   string
	deletes bool
	op      *history.Op
}

// effects are what a write leaves behind, by key.
func effects(o *history.Op) []history.Part {
	if o.F == opMulti {
		// Parts without a value are only checked.
		return slices.DeleteFunc(slices.Clone(o.Parts), func(p history.Part) bool { return p.Value == "" })
	}
	if o.F == opCreate && o.Note != "" { // the name that a sequential node was given
		return []history.Part{{Key: o.Note, Value: o.Value}}
	}
	return []history.Part{{Key: o.Key, Value: o.Value}}
}

func noteIssued(issued map[string]int64, o *history.Op) {
	if deletes(o.F) {
		return
	}
	for _, p := range effects(o) {
		if o.F == opCreate && o.Arg&sequential != 0 { // without an answer, its name is not known
			p.Key = o.Key
		}
		k := p.Key + "\x00" + p.Value
		if t, ok := issued[k]; !ok || o.Begin < t {
			issued[k] = o.Begin
		}
	}
}

// realTime checks uniqueness, and the order of writes that did not overlap.
func (r *Result) realTime(writes []history.Op) {
	byZxid := map[int64]*history.Op{}
	for i := range writes {
		o := &writes[i]
		if o.Zxid <= 0 {
			r.add([]history.Op{*o}, "an answered write has no zxid")
			continue
		}
		if other := byZxid[o.Zxid]; other != nil {
			r.add([]history.Op{*other, *o}, "two writes have zxid 0x%x", o.Zxid)
		}
		byZxid[o.Zxid] = o
	}
	byEnd := slices.Clone(writes)
	sort.SliceStable(byEnd, func(i, j int) bool { return byEnd[i].End < byEnd[j].End })
	var newest *history.Op // with the greatest zxid of those that ended before the current one began
	next := 0
	for i := range writes { // by beginning
		o := &writes[i]
		for next < len(byEnd) && byEnd[next].End < o.Begin {
			if newest == nil || byEnd[next].Zxid > newest.Zxid {
				newest = &byEnd[next]
			}
			next++
		}
		if newest != nil && o.Zxid < newest.Zxid {
			r.add([]history.Op{*newest, *o}, "a write that began after another was answered has the smaller zxid")
		}
	}
}

// readFits compares a read with the newest known write up to its zxid.
func (r *Result) readFits(o *history.Op, writes []write, issued map[string]int64, maybeDeleted bool) {
	at := sort.Search(len(writes), func(i int) bool { return writes[i].zxid > o.Zxid }) - 1
	var w *write
	if at >= 0 {
		w = &writes[at]
	}
	if o.Code == codeNoNode {
		if w != nil && !w.deletes && !maybeDeleted {
			r.add([]history.Op{*w.op, *o}, "a read does not find what was written before its zxid, and nobody deleted it")
		}
		return
	}
	if o.Code != codeOK || o.Stat == nil {
		return
	}
	if o.Stat.Mzxid > o.Zxid {
		r.add([]history.Op{*o}, "a read shows a change from after its own zxid")
	}
	t, ok := issued[o.Key+"\x00"+o.Value]
	if before := len(o.Key) - sequenceDigits; !ok && before > 0 {
		t, ok = issued[o.Key[:before]+"\x00"+o.Value]
	}
	// A node that the setup made is empty.
	if o.Value != "" && !ok || t > o.End {
		r.add([]history.Op{*o}, "a read shows a value that nobody had written")
	}
	switch {
	case w == nil:
	case w.deletes && o.Stat.Czxid <= w.zxid:
		r.add([]history.Op{*w.op, *o}, "a read shows a node that was deleted before its zxid")
	case !w.deletes && o.Stat.Mzxid < w.zxid:
		r.add([]history.Op{*w.op, *o}, "a read lacks a write from before its zxid")
	case !w.deletes && o.Stat.Mzxid == w.zxid && o.Value != w.value:
		r.add([]history.Op{*w.op, *o}, "a read shows another value than the write of its mzxid")
	}
}
