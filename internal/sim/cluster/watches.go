package cluster

import (
	"maps"
	"slices"

	"github.com/zkd-project/zkd/wire"
)

// watches are the one-shot watches that a client believes to be set. They outlive a connection:
// the next one is told of them.
type watches struct {
	data, exist, child map[string]bool
}

func newWatches() watches {
	return watches{map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

// read notes the watch that a reply says to be set.
func (w *watches) read(op Op, err wire.Code) {
	if !op.Watch {
		return
	}
	switch {
	case op.Code == wire.OpExists && err == wire.NoNode:
		w.exist[op.Path] = true
	case err != wire.OK:
	case op.Code == wire.OpGetChildren2:
		w.child[op.Path] = true
	default:
		w.data[op.Path] = true
	}
}

// fired removes what an event has used up.
func (w *watches) fired(t wire.EventType, path string) {
	if t == wire.EventNodeChildrenChanged {
		delete(w.child, path)
		return
	}
	delete(w.data, path)
	delete(w.exist, path)
	if t == wire.EventNodeDeleted {
		delete(w.child, path)
	}
}

// request sets the watches again; nil: there are none.
func (w *watches) request(seen int64) *wire.SetWatches2 {
	if len(w.data)+len(w.exist)+len(w.child) == 0 {
		return nil
	}
	sorted := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	return &wire.SetWatches2{
		RelativeZxid: seen, DataWatches: sorted(w.data), ExistWatches: sorted(w.exist), ChildWatches: sorted(w.child),
	}
}
