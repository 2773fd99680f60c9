package client

import (
	"context"
	"errors"
	"sync"
)

// An imitation is a Subscription on a server that knows no lasting watches: every node that is
// watched carries a data watch and, where its children matter, a child watch. When one of them
// fires, the node is read and watched again, and what differs from before is the event. So every
// state that lasts is told, and several changes in short succession may come as one.
//
// The reader of the events looks for itself, and may see what the imitation never does: a node that
// was made and deleted between two of its lists. Nobody would ever tell that it is gone. The number of
// changes of the parent's children gives that away (unseen), and the reader is told to read all again.
//
// One goroutine owns nodes; the watches only tell it which node to look at.
type imitation struct {
	c     *Client // of the whole tree: paths are the server's
	s     *Subscription
	nodes map[string]*imitated

	mu    sync.Mutex
	dirty []string
	wake  chan struct{} // capacity 1
}

// An imitated node is one that exists, or the root of the subscription.
type imitated struct {
	stat            Stat
	exists          bool
	data, childList *Watch // nil: has fired
	pzxid           int64  // of the newest list of children

	cversion int32           // changes of the children up to the newest list
	children map[string]bool // the newest list
}

// imitate starts an imitation for s. It returns when the first state has been read.
func (c *Client) imitate(ctx context.Context, s *Subscription, path string) error {
	im := &imitation{c: &Client{k: c.k}, s: s, nodes: map[string]*imitated{}, wake: make(chan struct{}, 1)}
	if err := im.look(ctx, s.path, false); err != nil {
		im.forgetAll()
		return &Error{Op: "addWatch", Path: path, Err: cause(err)}
	}
	s.push(Event{Type: EventReset, Path: s.path})
	run, cancel := context.WithCancel(c.k.ctx)
	over := make(chan struct{})
	s.stop = func() {
		cancel()
		<-over
	}
	c.k.helper(func() {
		defer close(over)
		im.run(run)
	})
	return nil
}

// helper runs a goroutine that ends when core.ctx does; run waits for it.
func (k *core) helper(work func()) {
	k.mu.Lock()
	alive := k.fatal == nil
	if alive {
		k.helpers.Go(work) // run waits only when fatal is set
	}
	k.mu.Unlock()
	if !alive {
		work() // ends at once
	}
}

// run looks at what its watches point to, until the subscription or the client ends.
func (im *imitation) run(ctx context.Context) {
	defer im.forgetAll()
	for {
		select {
		case <-im.wake:
		case <-ctx.Done():
			im.s.end(im.c.k.reason()) // no effect after Subscription.Close
			return
		}
		for path, ok := im.next(); ok; path, ok = im.next() {
			if err := im.look(ctx, path, true); err != nil {
				if err = cause(err); ctx.Err() != nil {
					err = im.c.k.reason()
				}
				im.s.end(err)
				return
			}
		}
	}
}

func (im *imitation) next() (string, bool) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if len(im.dirty) == 0 {
		return "", false
	}
	path := im.dirty[0]
	im.dirty = im.dirty[1:]
	return path, true
}

// fired is called by a watch, whatever ended it. A session that is over ends them all, and all
// of them are set again in the next one.
func (im *imitation) fired(path string) {
	im.mu.Lock()
	im.dirty = append(im.dirty, path)
	im.mu.Unlock()
	select {
	case im.wake <- struct{}{}:
	default:
	}
}

// look reads a node, sets the watches that it lacks, tells what has changed, and goes on to
// children that have come or gone.
func (im *imitation) look(ctx context.Context, path string, tell bool) error {
	n := im.nodes[path]
	if n == nil {
		n = &imitated{}
		im.nodes[path] = n
	}
	if !live(n.data) {
		n.data = im.watch(path, kindData)
		stat, exists, err := im.c.exists(ctx, path, n.data, nil)
		if err != nil {
			return err
		}
		im.compare(path, n, stat, exists, tell)
	}
	if n.exists && (im.s.mode == Recursive || path == im.s.path) && !live(n.childList) {
		if err := im.lookBelow(ctx, path, n, tell); err != nil {
			return err
		}
	}
	if !n.exists && path != im.s.path {
		im.forget(path)
	}
	return nil
}

// compare tells what has happened to the node itself.
func (im *imitation) compare(path string, n *imitated, stat Stat, exists, tell bool) {
	was, before := n.exists, n.stat
	n.exists, n.stat = exists, stat
	replaced := was && exists && stat.Czxid != before.Czxid
	if was && (!exists || replaced) {
		im.push(tell, Event{Type: EventDeleted, Path: path})
		if n.stirred() && im.s.mode == Recursive {
			im.push(tell, Event{Type: EventReset, Path: im.s.path})
		}
		n.pzxid, n.cversion, n.children = 0, 0, nil
	}
	if exists && (!was || replaced) {
		im.push(tell, Event{Type: EventCreated, Path: path, Zxid: stat.Czxid})
	}
	if was && exists && !replaced && stat.Mzxid != before.Mzxid {
		im.push(tell, Event{Type: EventDataChanged, Path: path, Zxid: stat.Mzxid})
	}
}

// lookBelow reads the children.
func (im *imitation) lookBelow(ctx context.Context, path string, n *imitated, tell bool) error {
	n.childList = im.watch(path, kindChild)
	names, stat, err := im.c.children(ctx, path, n.childList, nil)
	if errors.Is(err, ErrNoNode) {
		n.childList = nil
		return nil // its own watch fires
	}
	if err != nil {
		return err
	}
	if im.s.mode == Persistent {
		if n.pzxid != 0 && stat.Pzxid != n.pzxid {
			im.push(tell, Event{Type: EventChildrenChanged, Path: path, Zxid: stat.Pzxid})
		}
		n.pzxid = stat.Pzxid
		return nil
	}
	if n.unseen(names, stat.Cversion) {
		im.push(tell, Event{Type: EventReset, Path: im.s.path})
	}
	for _, name := range names {
		child := join(path, name)
		if im.nodes[child] != nil {
			continue // its own watch tells what happens to it
		}
		if err := im.look(ctx, child, tell); err != nil {
			return err
		}
	}
	return nil
}

// unseen notes a new list of the children, and says whether there were changes since the last one
// that the two do not show: more than one of a child, or a child that is in neither.
func (n *imitated) unseen(names []string, cversion int32) bool {
	changes := len(n.children)
	list := make(map[string]bool, len(names))
	for _, name := range names {
		list[name] = true
		if n.children[name] {
			changes--
		} else {
			changes++
		}
	}
	before := n.cversion
	n.cversion, n.children = cversion, list
	return int(cversion-before) != changes
}

// stirred says whether the children of a node that is gone had changed after the newest list.
func (n *imitated) stirred() bool {
	if n.childList == nil || live(n.childList) {
		return false
	}
	ev := <-n.childList.ch
	n.childList = nil
	return ev.Type != EventDeleted
}

func (im *imitation) push(tell bool, ev Event) {
	if tell {
		im.s.push(ev)
	}
}

func live(w *Watch) bool { return w != nil && len(w.ch) == 0 }

func (im *imitation) watch(path string, kind watchKind) *Watch {
	w := im.c.newWatch(path, kind)
	w.notify = func() { im.fired(path) }
	return w
}

// forget gives up the watches of a node.
func (im *imitation) forget(path string) {
	n := im.nodes[path]
	delete(im.nodes, path)
	k := im.c.k
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range []*Watch{n.data, n.childList} {
		if w != nil && w.entry != nil {
			e := w.entry
			e.detach(w)
			k.settle(e)
		}
	}
}

func (im *imitation) forgetAll() {
	for path := range im.nodes {
		im.forget(path)
	}
}
