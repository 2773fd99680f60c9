package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/wire"
)

// EventType says what happened.
type EventType int32

// The events. The first four come from the server.
const (
	EventCreated         = EventType(wire.EventNodeCreated)
	EventDeleted         = EventType(wire.EventNodeDeleted)
	EventDataChanged     = EventType(wire.EventNodeDataChanged)
	EventChildrenChanged = EventType(wire.EventNodeChildrenChanged)

	// EventReset is made by the client, for a Subscription: the watch is set, at first or
	// again after a reconnect. Changes before it may not have been told; read the state now.
	// From here on no change is missed until the next EventReset or ErrLagged.
	EventReset EventType = 100
)

// String returns the name of the type.
func (t EventType) String() string {
	if t == EventReset {
		return "Reset"
	}
	return wire.EventType(t).String()
}

// An Event is one change of a watched node, or the end of a Watch.
type Event struct {
	Type EventType
	Path string // of the node that changed, as this view of the client sees it
	Zxid int64  // of the change; 0 where the server does not say (before ZooKeeper 3.9)

	// Err is set in the last Event of a Watch that ends without a change: ErrWatchRemoved,
	// ErrSessionExpired, ErrClosed, ErrAuthFailed. Type is 0 then.
	Err error
}

// String renders the event for logs.
func (e Event) String() string {
	if e.Err != nil {
		return fmt.Sprintf("watch of %s ended: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%v %s", e.Type, e.Path)
}

// A Watch waits for one change of a node: it is what GetW, ExistsW and ChildrenW leave behind.
// It survives reconnects: a change that fell into the gap is told after it. It ends in exactly
// one Event.
type Watch struct {
	k    *core
	root string // of the view that made it
	path string // on the server
	kind watchKind
	ch   chan Event

	notify func() // of an imitation: called with core.mu held when the Event is there; nil without

	entry *watchEntry // guarded by core.mu; nil: not in the table
}

// watchKind is the list of setWatches in which a one-shot watch stands.
type watchKind uint8

const (
	kindData watchKind = iota
	kindExist
	kindChild
)

func (c *Client) newWatch(path string, kind watchKind) *Watch {
	return &Watch{k: c.k, root: c.root, path: c.full(path), kind: kind, ch: make(chan Event, 1)}
}

// Path is what is watched.
func (w *Watch) Path() string { return strip(w.root, w.path) }

// C returns the channel of the one Event. It is closed behind it.
func (w *Watch) C() <-chan Event { return w.ch }

// Wait returns the Event, or an error when ctx ends first (the Watch stays) or when the Watch
// ended without a change. The Event is handed out once, here or by C.
func (w *Watch) Wait(ctx context.Context) (Event, error) {
	select {
	case ev, ok := <-w.ch:
		if !ok {
			return Event{}, fmt.Errorf("watch of %s: its event was taken already", w.Path())
		}
		return ev, ev.Err
	case <-ctx.Done():
		return Event{}, fmt.Errorf("watch of %s: %w", w.Path(), contextError(ctx))
	}
}

// Remove ends the Watch with ErrWatchRemoved, unless it has ended, and removes it on the
// server if nothing else needs it there. It returns when the server has done so, or ctx ends;
// the removal goes on then. Without a connection there is nothing to remove on any server.
func (w *Watch) Remove(ctx context.Context) error {
	w.k.mu.Lock()
	e := w.entry
	if e != nil {
		e.detach(w)
		w.end(Event{Err: ErrWatchRemoved})
		w.k.settle(e)
	}
	w.k.mu.Unlock()
	if e == nil {
		return nil
	}
	return w.k.awaitSettled(ctx, e, w.Path())
}

// WatchKinds selects what RemoveWatches removes.
type WatchKinds int

// The kinds of watches.
const (
	DataWatches  WatchKinds = 1 << iota // of GetW and ExistsW
	ChildWatches                        // of ChildrenW
	Subscribed                          // Subscriptions
	AllWatches   = DataWatches | ChildWatches | Subscribed
)

// RemoveWatches ends all watches of these kinds on a path, whoever has set them, and removes
// them on the server; see Watch.Remove and Subscription.Close for a single one. If there is
// none, it returns ErrNoWatcher. Imitated Subscriptions (before ZooKeeper 3.6) are not among them.
func (c *Client) RemoveWatches(ctx context.Context, path string, kinds WatchKinds) error {
	if err := c.checked(wire.OpRemoveWatches, path, false); err != nil {
		return err
	}
	k := c.k
	k.mu.Lock()
	e := k.watches.entries[c.full(path)]
	n := 0
	if e != nil {
		n = k.watches.endKinds(e, kinds)
		k.settle(e)
	}
	k.mu.Unlock()
	if n == 0 {
		return &Error{Op: wire.OpRemoveWatches.String(), Path: path, Err: ErrNoWatcher}
	}
	return k.awaitSettled(ctx, e, path)
}

// endKinds ends watches of an entry and says how many. Called with core.mu held.
func (t *watchTable) endKinds(e *watchEntry, kinds WatchKinds) (n int) {
	for kind, list := range e.oneShot {
		of := DataWatches
		if watchKind(kind) == kindChild {
			of = ChildWatches
		}
		if kinds&of != 0 {
			n += len(list)
			e.fireKind(watchKind(kind), Event{Err: ErrWatchRemoved})
		}
	}
	if kinds&Subscribed == 0 {
		return n
	}
	for _, s := range slices.Concat(e.persistent, e.recursive) {
		t.dropSubscription(s)
		s.end(ErrWatchRemoved)
		n++
	}
	return n
}

// end hands out the one Event. It is called once, by whoever took the Watch out of its entry.
func (w *Watch) end(ev Event) {
	if ev.Path == "" {
		ev.Path = w.path
	}
	ev.Path = strip(w.root, ev.Path)
	w.ch <- ev
	close(w.ch)
	if w.notify != nil {
		w.notify()
	}
}
