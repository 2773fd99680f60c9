package check

import (
	"github.com/zkd-project/zkd/jepsen/history"
)

// Containers checks nodes that servers remove by themselves: TTL nodes (op "create-ttl", Arg the
// time to live in nanoseconds) when nobody has changed them for so long and they have no children,
// and containers (op "create-container") when their last child is gone.
//
// In every list of the folder that holds them, and that was read at a zxid from that of the
// creation on, a TTL node is there until its time after the newest change that was asked for can
// be over; a container is there while no deletion of a child of it was asked for; and whatever has a child
// that was acknowledged, and whose deletion nobody has asked for, is there. That they do go, the
// end of the workload waits for. Nobody owns them, in their stat.
func Containers(ops []history.Op) Result {
	r := Result{Checker: "ttl-container"}
	kept := map[string]*keeper{}
	var lists []*history.Op
	for i := range ops {
		o := &ops[i]
		done := o.Kind == history.OK && o.Code == codeOK
		switch {
		case done && (o.F == "create-ttl" || o.F == "create-container"):
			kept[o.Key] = &keeper{made: o, touched: o.Begin}
			r.Checked++
			if o.Stat != nil && o.Stat.Owner != 0 {
				r.add([]history.Op{*o}, "a node that no session owns has the owner 0x%x", uint64(o.Stat.Owner))
			}
		case o.F == opCreate || o.F == opDelete:
			if k := kept[parent(o.Key)]; k != nil && o.Kind != history.Fail {
				k.childChanged(o, done)
			}
		case done && o.F == opSet:
			if k := kept[o.Key]; k != nil {
				k.touched = max(k.touched, o.Begin)
			}
		case done && o.F == opChildren:
			lists = append(lists, o)
		}
	}
	// Only now: what was asked for while a list was under way is in the history after it.
	for _, list := range lists {
		r.Checked++
		r.listed(list, kept)
	}
	return r
}

// A keeper is a node that goes by itself.
type keeper struct {
	made    *history.Op
	touched int64       // when the newest change that was answered was asked for: until then it was there, too
	child   *history.Op // the first that was acknowledged and belongs to no session
	deleted int64       // when the first deletion of a child was asked for; 0: never
	used    int64       // when the first child was asked for that a session may take away; 0: never
}

func (k *keeper) childChanged(o *history.Op, done bool) {
	switch {
	case o.F == opDelete:
		if k.deleted == 0 {
			k.deleted = o.Begin
		}
	case o.Arg&ephemeral != 0 || !done:
		if k.used == 0 {
			k.used = o.Begin
		}
	case k.child == nil || o.Zxid < k.child.Zxid:
		k.child = o
	}
}

// clockStep is how exact the times of nodes are, twice.
const clockStep = int64(2e6)

// stays says whether the node must be there.
func (k *keeper) stays(at, zxid int64) (why string, must bool) {
	before := func(t int64) bool { return t != 0 && t <= at }
	switch {
	case before(k.deleted):
		return "", false
	case k.child != nil && k.child.Zxid <= zxid:
		return "has a child", true
	case k.made.F == "create-container":
		return "never had a child", !before(k.used)
	}
	return "has not lived so long", at < k.touched+k.made.Arg-clockStep
}

func (r *Result) listed(list *history.Op, kept map[string]*keeper) {
	there := names(list)
	for path, k := range kept {
		if parent(path) != list.Key || list.Zxid < k.made.Zxid || there[path[len(list.Key)+1:]] {
			continue
		}
		if why, must := k.stays(list.End, list.Zxid); must {
			r.add([]history.Op{*k.made, short(list)}, "%s is gone, though it %s", path, why)
		}
	}
}
