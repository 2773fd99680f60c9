package check

import (
	"github.com/zkd-project/zkd/jepsen/history"
)

// Restart checks lists of folders in which nodes are created and never deleted, while the run
// goes on: not only at the end is everything there that was acknowledged.
//
// A list has every node whose creation had a zxid up to its own; one with the note "synced" also
// every node whose creation had been answered before the sync was sent; and none that nobody can
// have created by then.
func Restart(ops []history.Op) Result {
	r := Result{Checker: "restart-all"}
	folders := map[string][]*history.Op{}
	for i := range ops {
		if o := &ops[i]; o.F == opCreate && (o.Kind == history.Unknown || o.Kind == history.OK && o.Code == codeOK) {
			folders[parent(o.Key)] = append(folders[parent(o.Key)], o)
		}
	}
	for i := range ops {
		list := &ops[i]
		if list.F != opChildren || list.Kind != history.OK || list.Code != codeOK {
			continue
		}
		r.Checked++
		there := names(list)
		possible := map[string]bool{} // of several tries at one name any may have been the one
		for _, o := range folders[list.Key] {
			name := o.Key[len(list.Key)+1:]
			must := o.Kind == history.OK && (o.Zxid <= list.Zxid || list.Note == "synced" && o.End < list.Begin)
			if must && !there[name] {
				r.add([]history.Op{*o, short(list)}, "%s was acknowledged and is lost", o.Key)
			}
			possible[name] = possible[name] || o.Begin <= list.End
		}
		for name := range there {
			if !possible[name] {
				r.add([]history.Op{short(list)}, "%s is in %s, and nobody can have created it by then", name, list.Key)
			}
		}
	}
	return r
}
