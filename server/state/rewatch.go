package state

import (
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/wire"
)

// Rewatch is opcodes 101 and 105: a client that has reconnected sends the watches that it
// had, and the zxid of the last state that it saw. For each path it calls fire if that watch
// would have fired since, at most once per path and list, else add. It looks at neither
// paths nor permissions.
//
// Data watches compare mzxid and child watches pzxid. A node that was deleted and made anew
// meanwhile shows as changed. Persistent watches never fire here: what they have missed is
// lost, and clients know it.
func (m *Machine) Rewatch(req *wire.SetWatches2, add func(path string, k watch.Kind), fire func(wire.EventType, string)) {
	for _, path := range req.DataWatches {
		switch n := m.tree.Lookup(path); {
		case n == nil:
			fire(wire.EventNodeDeleted, path)
		case n.Stat().Mzxid > req.RelativeZxid:
			fire(wire.EventNodeDataChanged, path)
		default:
			add(path, watch.Data)
		}
	}
	for _, path := range req.ExistWatches {
		if m.tree.Lookup(path) != nil {
			fire(wire.EventNodeCreated, path)
		} else {
			add(path, watch.Data)
		}
	}
	for _, path := range req.ChildWatches {
		switch n := m.tree.Lookup(path); {
		case n == nil:
			fire(wire.EventNodeDeleted, path)
		case n.Stat().Pzxid > req.RelativeZxid:
			fire(wire.EventNodeChildrenChanged, path)
		default:
			add(path, watch.Child)
		}
	}
	for _, path := range req.PersistentWatches {
		add(path, watch.Persistent)
	}
	for _, path := range req.PersistentRecursiveWatches {
		add(path, watch.Recursive)
	}
}
