package check

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Types of watch events.
const (
	eventCreated  = 1
	eventDeleted  = 2
	eventChanged  = 3
	eventChildren = 4
)

// Watch checks one-shot watches of clients that read a node, watch it and move between
// servers, taking their watches with them: no reply shows a change of a watched node before
// its event has come, on the same connection or, after a move, on a later one; an event comes
// only to who has a watch, and once.
//
// Reads of a client do not overlap, so replies and events of a connection are ordered by their
// frames, and connections by their numbers.
func Watch(ops []history.Op) Result {
	r := Result{Checker: "watch"}
	byProc := map[int][]*history.Op{}
	for i := range ops {
		o := &ops[i]
		read := (o.F == opGet || o.F == "exists" || o.F == opSyncGet) && o.Kind == history.OK && o.Note != "persistent"
		if read || (o.Kind == history.Event && o.Note == "") {
			byProc[o.Proc] = append(byProc[o.Proc], o)
		}
		// A new session has no watches.
		if o.Kind == history.Info && o.F == "expired" {
			byProc[o.Proc] = append(byProc[o.Proc], o)
		}
	}
	for _, list := range byProc {
		slices.SortStableFunc(list, inFrameOrder)
		watches := map[string]*history.Op{} // the read that set it
		fired := map[string]*history.Op{}   // that of the watch whose event has come
		for _, o := range list {
			switch {
			case o.Kind == history.Info:
				clear(watches)
				clear(fired)
			case o.Kind == history.Event:
				r.Checked++
				if o.Arg != eventChildren && watches[o.Key] == nil {
					r.add([]history.Op{*o}, "an event for a node that the client does not watch")
				}
				fired[o.Key] = watches[o.Key]
				delete(watches, o.Key)
			default:
				r.Checked++
				// A node that was there cannot be as it was; one that was not may be gone again.
				if w := fired[o.Key]; w != nil && w.Code == codeOK && sameNode(w, o) {
					r.add([]history.Op{*w, *o}, "an event came, and the node has not changed")
				}
				delete(fired, o.Key)
				r.watched(watches, o)
			}
		}
	}
	return r
}

// inFrameOrder orders the lines of one client. What was noticed when a connection was gone
// has a place after all of its frames.
func inFrameOrder(a, b *history.Op) int {
	return cmp.Or(cmp.Compare(a.Conn, b.Conn), cmp.Compare(a.Frame, b.Frame))
}

// watched judges a read, and notes the watch that it sets.
func (r *Result) watched(watches map[string]*history.Op, o *history.Op) {
	if w := watches[o.Key]; w != nil && !sameNode(w, o) {
		r.add([]history.Op{*w, *o}, "a reply shows a change of a watched node whose event has not come")
		delete(watches, o.Key)
	}
	// A read of data sets a watch only where the node is; one of existence always.
	if o.Arg == 1 && (o.Code == codeOK || o.F == "exists") {
		watches[o.Key] = o
	}
}

// sameNode says whether two reads show the same state of a node.
func sameNode(a, b *history.Op) bool {
	if a.Code != b.Code {
		return false
	}
	return a.Code != codeOK || (a.Stat.Mzxid == b.Stat.Mzxid && a.Stat.Czxid == b.Stat.Czxid)
}

// Persistent checks recursive persistent watches: while a connection lasts, the client gets
// exactly one event for every change of a node below, in the order of the zxids, and before
// any reply of that zxid or a later one. Lines "add-watch" begin a watch; its events have the
// note "persistent".
func Persistent(ops []history.Op) Result {
	r := Result{Checker: "persistent-watch"}
	changes := map[int64]*history.Op{}
	for i := range ops {
		if o := &ops[i]; o.Kind == history.OK && o.Code == codeOK && (o.F == opSet || o.F == opCreate || o.F == opDelete) {
			changes[o.Zxid] = o
		}
	}
	zxids := make([]int64, 0, len(changes))
	for z := range changes {
		zxids = append(zxids, z)
	}
	slices.Sort(zxids)
	for _, conn := range byConn(ops) {
		r.persistent(conn, changes, zxids)
	}
	return r
}

// byConn are the lines of connections with a persistent watch, in the order of frames.
func byConn(ops []history.Op) map[int64][]*history.Op {
	conns := map[int64][]*history.Op{}
	for i := range ops {
		o := &ops[i]
		if o.Conn != 0 && o.Frame != 0 && (o.Note == "persistent" || o.F == "add-watch") {
			conns[o.Conn] = append(conns[o.Conn], o)
		}
	}
	for _, list := range conns {
		slices.SortStableFunc(list, inFrameOrder)
	}
	return conns
}

func (r *Result) persistent(conn []*history.Op, changes map[int64]*history.Op, zxids []int64) {
	var from, upTo int64
	got := map[int64]bool{}
	for _, o := range conn {
		switch {
		case o.Kind == history.OK && o.F == "add-watch" && o.Code == codeOK:
			from, upTo = o.Zxid, o.Zxid
			clear(got)
		case from == 0:
		case o.Kind == history.Event:
			r.Checked++
			c := changes[o.Zxid]
			switch {
			case got[o.Zxid]:
				r.add([]history.Op{*o}, "a second event for one change")
			case o.Zxid <= upTo:
				r.add([]history.Op{*o}, "an event after a reply or an event that shows a later state")
			case c != nil && (c.Key != o.Key || kindOf(c) != o.Arg):
				r.add([]history.Op{*c, *o}, "an event that does not fit the change")
			}
			got[o.Zxid] = true
			upTo = max(upTo, o.Zxid)
		default:
			upTo = max(upTo, o.Zxid)
		}
		if from == 0 || o.Kind == history.Event {
			continue
		}
		// All changes that this reply may show have had their events.
		at, _ := slices.BinarySearch(zxids, from+1)
		for ; at < len(zxids) && zxids[at] <= o.Zxid; at++ {
			if !got[zxids[at]] {
				r.add([]history.Op{*changes[zxids[at]], *o}, "a change without an event")
			}
			from = zxids[at]
		}
	}
}

// kindOf is the type of event that a change causes.
func kindOf(o *history.Op) int64 {
	switch o.F {
	case opCreate:
		return eventCreated
	case opDelete:
		return eventDeleted
	}
	return eventChanged
}
