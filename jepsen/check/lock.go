package check

import (
	"slices"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Lock checks that no two clients believe at the same time that they hold the lock. A client
// believes so from the reply that showed it to be the first in the queue until it asks for the
// deletion of its node, or, where it loses touch, until a timeout after the newest request that
// was answered: lines "held", Arg the number of its place in the queue. Those numbers must
// rise from holder to holder. Whoever got the reply only after that timeout has never believed so.
//
// Lines "held-blindly" are of the same clients if they never looked at the clock: with clients
// that stall, they must overlap, or the test cannot see an overlap.
func Lock(ops []history.Op) Result {
	r := Result{Checker: "lock"}
	r.Checked = overlaps(ops, "held", func(a, b *history.Op) {
		if b.Begin < a.End {
			r.add([]history.Op{*a, *b}, "two clients hold the lock for %.3f s", float64(min(a.End, b.End)-b.Begin)/1e9)
		}
		if b.Arg <= a.Arg {
			r.add([]history.Op{*a, *b}, "a later holder has the smaller number")
		}
	})
	blind := 0
	overlaps(ops, "held-blindly", func(a, b *history.Op) {
		if b.Begin < a.End {
			blind++
		}
	})
	r.figure("overlaps of clients without a clock", float64(blind))
	return r
}

// overlaps calls f for each holding and the one before it that ended last; it returns how
// many there are.
func overlaps(ops []history.Op, name string, f func(before, o *history.Op)) int {
	byLock := map[string][]*history.Op{}
	n := 0
	for i := range ops {
		if o := &ops[i]; o.Kind == history.Info && o.F == name && o.End > o.Begin {
			byLock[o.Key] = append(byLock[o.Key], o)
			n++
		}
	}
	for _, held := range byLock {
		slices.SortFunc(held, func(a, b *history.Op) int { return int(a.Begin - b.Begin) })
		last := held[0]
		for _, o := range held[1:] {
			f(last, o)
			if o.End > last.End {
				last = o
			}
		}
	}
	return n
}
