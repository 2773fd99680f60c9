package client

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/wire"
)

// watchBits are the kinds of watches that a server keeps for a path.
type watchBits uint8

const (
	bitData  watchBits = 1 << iota // set by getData and exists
	bitChild                       // set by getChildren
	bitPersistent
	bitRecursive
)

const bitsLasting = bitPersistent | bitRecursive

func (k watchKind) bit() watchBits {
	if k == kindChild {
		return bitChild
	}
	return bitData
}

// A watchEntry is everything about one path: who waits here, and what the server knows of it.
type watchEntry struct {
	path       string
	oneShot    [3][]*Watch // by watchKind
	persistent []*Subscription
	recursive  []*Subscription

	server   watchBits // what the server of this connection keeps for us, if its replies are right
	adding   int       // addWatch requests that were sent and not answered
	busy     int       // requests under way that may set a watch here; nothing is removed meanwhile
	removing int       // removeWatches requests under way
	waiters  []chan struct{}
}

// A watchTable holds what is watched, by path. It belongs to the core and is guarded by its mu.
//
// Invariants:
//
//	W1  an entry is in the table while anybody waits in it, the server watches for it, or a
//	    request that may change that is under way;
//	W2  while anybody waits in an entry and a connection is up, the server watches for it;
//	W3  a Watch has left its entry when its event is handed out.
//
// Three habits of servers shape it. Up to ZooKeeper 3.8 a one-shot watch overwrites the lasting
// one of the same path, and a recursive one the persistent: so where a lasting watch is set,
// one-shot watches hang on it locally (flag), and a path never gets a persistent one beside a
// recursive one (wanted). There, removing one kind also removes the lasting watches: so what is
// not needed any more stays until all of the path can go at once (settle); a superfluous watch
// costs one event. And a recursive watch never tells NodeChildrenChanged: for others who wait
// at its path it is derived from what happens to the children (derive).
type watchTable struct {
	entries map[string]*watchEntry
	deep    int    // entries with recursive subscriptions
	derived string // the path whose children event the last event implied; "" after a watch was set
}

func (t *watchTable) entry(path string) *watchEntry {
	e := t.entries[path]
	if e == nil {
		e = &watchEntry{path: path}
		t.entries[path] = e
	}
	return e
}

// wanted is what the server should watch for the entry.
func (e *watchEntry) wanted() watchBits {
	var b watchBits
	for kind, list := range e.oneShot {
		if len(list) > 0 {
			b |= watchKind(kind).bit()
		}
	}
	switch {
	case len(e.recursive) > 0:
		b |= bitRecursive
	case len(e.persistent) > 0:
		b |= bitPersistent
	}
	return b
}

func (e *watchEntry) idle() bool {
	return e.server == 0 && e.wanted() == 0 && e.busy == 0 && e.removing == 0
}

// covered says that a lasting watch tells, or will have told, whatever a one-shot watch would.
func (e *watchEntry) covered() bool { return e.server&bitsLasting != 0 || e.adding > 0 }

func (e *watchEntry) attach(w *Watch) {
	w.entry = e
	e.oneShot[w.kind] = append(e.oneShot[w.kind], w)
}

func (e *watchEntry) detach(w *Watch) {
	w.entry = nil
	list := e.oneShot[w.kind]
	e.oneShot[w.kind] = slices.Delete(list, slices.Index(list, w), slices.Index(list, w)+1)
}

// addSubscription and dropSubscription keep t.deep.
func (t *watchTable) addSubscription(e *watchEntry, s *Subscription) {
	s.entry = e
	if s.mode == Persistent {
		e.persistent = append(e.persistent, s)
		return
	}
	if len(e.recursive) == 0 {
		t.deep++
	}
	e.recursive = append(e.recursive, s)
}

func (t *watchTable) dropSubscription(s *Subscription) {
	e := s.entry
	s.entry = nil
	if s.mode == Persistent {
		i := slices.Index(e.persistent, s)
		e.persistent = slices.Delete(e.persistent, i, i+1)
		return
	}
	i := slices.Index(e.recursive, s)
	e.recursive = slices.Delete(e.recursive, i, i+1)
	if len(e.recursive) == 0 {
		t.deep--
	}
}

// flag decides, at the moment in which a request is sent, whether it asks for a watch.
func (r *request) flag() {
	switch {
	case r.watch != nil && !r.entry.covered():
		r.flagged = true
		r.frame[len(r.frame)-1] = 1
	case r.watch != nil:
		r.flagged = false
		r.frame[len(r.frame)-1] = 0
	case r.sub != nil:
		r.flagged = true
		r.entry.adding++
	}
}

// dispatch hands an event to everybody who waits for it.
func (t *watchTable) dispatch(k *core, ev Event) {
	derived := t.derived
	t.derived = ""
	if ev.Type == EventChildrenChanged && ev.Path == derived {
		return // told already, derived from what happened to the child
	}
	if e := t.entries[ev.Path]; e != nil {
		t.fire(k, e, ev)
	}
	if ev.Type == EventChildrenChanged {
		return
	}
	t.ascend(ev)
	if ev.Type != EventDataChanged && ev.Path != "/" {
		t.derive(k, ev)
	}
}

// fire tells the watchers of the path itself.
func (t *watchTable) fire(k *core, e *watchEntry, ev Event) {
	if ev.Type == EventChildrenChanged || ev.Type == EventDeleted {
		e.fireKind(kindChild, ev)
		e.server &^= bitChild
	}
	if ev.Type != EventChildrenChanged {
		e.fireKind(kindData, ev)
		e.fireKind(kindExist, ev)
		e.server &^= bitData
	}
	for _, s := range e.persistent {
		s.push(ev)
	}
	k.settle(e)
}

func (e *watchEntry) fireKind(kind watchKind, ev Event) {
	list := e.oneShot[kind]
	e.oneShot[kind] = nil
	for _, w := range list {
		w.entry = nil
		w.end(ev)
	}
}

// ascend tells the recursive watchers of the path and of all above it.
func (t *watchTable) ascend(ev Event) {
	if t.deep == 0 {
		return
	}
	for path := ev.Path; ; path, _ = split(path) {
		if e := t.entries[path]; e != nil {
			for _, s := range e.recursive {
				s.push(ev)
			}
		}
		if path == "/" || !strings.HasPrefix(path, "/") {
			return
		}
	}
}

// derive tells those who wait for the children of a path where the server's watch is recursive.
func (t *watchTable) derive(k *core, ev Event) {
	if !strings.HasPrefix(ev.Path, "/") {
		return // not a path that a sane server sends
	}
	parent, _ := split(ev.Path)
	e := t.entries[parent]
	if e == nil || e.server&bitRecursive == 0 {
		return
	}
	t.derived = parent
	ev = Event{Type: EventChildrenChanged, Path: parent, Zxid: ev.Zxid}
	e.fireKind(kindChild, ev)
	for _, s := range e.persistent {
		s.push(ev)
	}
	k.settle(e)
}

// replied settles what a reply means for the watch that its request asked for. It runs before
// the reply is handed out, so that no event can come in between.
func (t *watchTable) replied(k *core, r *request, code wire.Code) {
	e := r.entry
	ok := code == wire.OK
	switch {
	case r.watch != nil:
		if code == wire.NoNode && r.op == wire.OpExists {
			r.watch.kind, ok = kindExist, true
		}
		if ok && r.flagged {
			e.server |= r.watch.kind.bit()
			t.derived = "" // what comes now is for this watch
		}
		if ok && r.state.Load() == waiting {
			e.attach(r.watch)
		}
	case ok:
		e.adding--
		e.server |= r.bit
		if r.state.Load() == waiting {
			t.addSubscription(e, r.sub)
			r.sub.push(Event{Type: EventReset, Path: r.sub.path})
		}
	default:
		e.adding--
	}
	if !e.covered() && e.wanted()&^e.server != 0 {
		// A one-shot watch relied on a lasting one that the server then refused. Only setting
		// all of them again is sure.
		r.conn.fail(errWatchRefused)
	}
	k.unbusy(r)
}

// unregister takes back what replied registered for a caller that had gone in the meantime.
func (t *watchTable) unregister(k *core, r *request) {
	switch e := r.entry; {
	case r.watch != nil && r.watch.entry != nil:
		e.detach(r.watch)
		k.settle(e)
	case r.sub != nil && r.sub.entry != nil:
		t.dropSubscription(r.sub)
		k.settle(e)
	}
}

// connectionLost forgets what the server kept.
func (t *watchTable) connectionLost(k *core) {
	t.derived = ""
	for _, e := range t.entries {
		e.server, e.adding = 0, 0
		k.settle(e)
	}
}

// endOneShots ends every Watch: their session is over.
func (t *watchTable) endOneShots(k *core, reason error) {
	for _, e := range t.entries {
		for kind := range e.oneShot {
			e.fireKind(watchKind(kind), Event{Err: reason})
		}
		k.settle(e)
	}
}

// busy announces a request that may set a watch; unbusy is called when it is over, however.
func (k *core) busy(r *request, path string) {
	r.entry = k.watches.entry(path)
	r.entry.busy++
}

func (k *core) unbusy(r *request) {
	r.entry.busy--
	k.settle(r.entry)
}

// settle removes on the server what nobody needs any more, and forgets entries that are idle.
func (k *core) settle(e *watchEntry) {
	if extra := e.server &^ e.wanted(); extra != 0 && e.busy == 0 && k.mayRemove() {
		k.removeOnServer(e, extra)
	}
	if e.busy == 0 && e.removing == 0 {
		for _, ch := range e.waiters {
			close(ch)
		}
		e.waiters = nil
	}
	if e.idle() && k.watches.entries[e.path] == e {
		delete(k.watches.entries, e.path)
	}
}

// mayRemove says whether removeWatches can be sent now. Without a connection there is nothing
// to remove.
func (k *core) mayRemove() bool {
	return k.conn != nil && k.fatal == nil && !k.lacks(lackRemoveWatches)
}

// removeOnServer sends removeWatches. Any, the type that every version takes to mean all,
// where nobody waits at the path; else one kind, and only where no lasting watch is in danger.
func (k *core) removeOnServer(e *watchEntry, extra watchBits) {
	kind := wire.WatcherAny
	switch {
	case e.wanted() == 0:
	case e.server&bitsLasting != 0:
		return
	case extra == bitChild:
		kind = wire.WatcherChildren
	default:
		kind = wire.WatcherData
	}
	r := k.newRequest(wire.OpRemoveWatches)
	r.frame = appendPathNumber(r.frame, r.op, e.path, int32(kind))
	r.bound = true
	// From here on the server's watches are as good as gone: whatever is queued behind this
	// request sets new ones. If the server refuses, its watch stays and its event is ignored.
	e.server &^= extra
	e.removing++
	r.onDone = func() {
		e.removing--
		k.settle(e)
	}
	k.enqueue(r)
}
