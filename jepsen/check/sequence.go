package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// sequenceDigits is the length of the number in a sequential name.
const sequenceDigits = 10

// Sequence checks the names of sequential nodes: ten digits, never the same twice under one
// parent, also after deletes, and rising as the zxids of the creations do, and hence in real
// time (Zxids checks that).
func Sequence(ops []history.Op) Result {
	r := Result{Checker: "sequence"}
	type made struct {
		number int64
		op     *history.Op
	}
	byParent := map[string][]made{}
	for i := range ops {
		o := &ops[i]
		if o.F != opCreate || o.Kind != history.OK || o.Code != codeOK || o.Arg&sequential == 0 {
			continue
		}
		r.Checked++
		digits, ok := strings.CutPrefix(o.Note, o.Key)
		n, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || len(digits) != sequenceDigits {
			r.add([]history.Op{*o}, "the name %q is not %q and %d digits", o.Note, o.Key, sequenceDigits)
			continue
		}
		byParent[parent(o.Key)] = append(byParent[parent(o.Key)], made{n, o})
	}
	for folder, list := range byParent {
		slices.SortFunc(list, func(a, b made) int { return int(a.op.Zxid - b.op.Zxid) })
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			switch {
			case a.number == b.number:
				r.add([]history.Op{*a.op, *b.op}, "the number %d was given twice under %s", a.number, folder)
			case a.number > b.number:
				r.add([]history.Op{*a.op, *b.op}, "under %s, a later creation got the smaller number", folder)
			}
		}
	}
	return r
}
