package check

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Fencing checks what holders of leases write with the token of their lease (op "fenced-set", Arg
// the token). The versions of the resource whose writes are guarded must have tokens that never
// fall. The unguarded twin is the negative control: how often a stale holder got through to it is
// a figure, and with contenders that stall it must not be 0 in the long run.
//
// A contender that is cut off (line "cut-off", Arg the timeout of its session) must stop believing
// (line "held") by itself before its session can be over.
func Fencing(ops []history.Op) Result {
	r := Result{Checker: "fencing"}
	byKey := map[string][]*history.Op{}
	var held []*history.Op
	for i := range ops {
		o := &ops[i]
		switch {
		case o.F == "fenced-set" && o.Kind == history.OK && o.Code == codeOK:
			byKey[o.Key] = append(byKey[o.Key], o)
		case o.Kind == history.Info && o.F == "held":
			held = append(held, o)
		}
	}
	stale := 0
	for key, list := range byKey {
		slices.SortFunc(list, func(a, b *history.Op) int { return int(a.Stat.Version - b.Stat.Version) })
		newest := list[0]
		for _, o := range list[1:] {
			r.Checked++
			switch {
			case o.Arg >= newest.Arg:
				newest = o
			case strings.HasSuffix(key, "/unfenced"):
				stale++
			default:
				r.add([]history.Op{*newest, *o}, "the resource took a write of a holder of the past")
			}
		}
	}
	for i := range ops {
		if cut := &ops[i]; cut.Kind == history.Info && cut.F == "cut-off" {
			r.Checked++
			r.standsDown(cut, held)
		}
	}
	r.figure("stale writes that the unfenced twin took", float64(stale))
	return r
}

func (r *Result) standsDown(cut *history.Op, held []*history.Op) {
	for _, h := range held {
		if h.Proc == cut.Proc && h.Key == cut.Key && h.Begin <= cut.Begin && h.End > cut.Begin+cut.Arg {
			r.add([]history.Op{*cut, *h}, "a contender that was cut off believed in its lease for %.3f s more; its session can be over after %.3f s",
				float64(h.End-cut.Begin)/1e9, float64(cut.Arg)/1e9)
		}
	}
}
