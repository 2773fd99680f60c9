package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/zkd-project/zkd/wire"
)

// WatchMode says what a Subscription sees.
type WatchMode int32

// The modes of a Subscription.
const (
	// Persistent: creation, change and deletion of the node, and changes of its children.
	Persistent = WatchMode(wire.AddWatchPersistent)

	// Recursive: creation, change and deletion of the node and of everything below it. There
	// is no EventChildrenChanged: each child's own event comes instead.
	Recursive = WatchMode(wire.AddWatchPersistentRecursive)
)

// String returns the name of the mode.
func (m WatchMode) String() string {
	if m == Recursive {
		return "Recursive"
	}
	return "Persistent"
}

func (m WatchMode) bit() watchBits {
	if m == Recursive {
		return bitRecursive
	}
	return bitPersistent
}

// A WatchOption changes a Subscription.
type WatchOption struct {
	queue    int
	coalesce bool
}

// Queue bounds the events that wait for the reader, instead of 65,536. Beyond it the reader
// gets ErrLagged, and has to read the state again.
func Queue(events int) WatchOption { return WatchOption{queue: events} }

// Coalesce keeps at most one waiting event per path, the newest: for a reader that looks at
// the node anyway. The memory is then bounded by the number of paths.
func Coalesce() WatchOption { return WatchOption{coalesce: true} }

// A Subscription tells every change below its mode until it is closed. It has one reader.
type Subscription struct {
	k    *core
	root string // of the view that made it
	path string // on the server
	mode WatchMode

	entry *watchEntry        // guarded by core.mu; nil: not in the table
	stop  context.CancelFunc // of the goroutine that imitates a lasting watch; nil without

	limit    int
	coalesce bool

	mu     sync.Mutex // guards what follows; taken inside core.mu
	queue  []item     // oldest first, from head
	head   int
	index  map[string]int // coalesce: where in queue the event of a path waits
	lagged bool           // the last item is ErrLagged
	err    error          // the end, once the queue is empty
	wake   chan struct{}  // capacity 1
}

// An item is an event, or ErrLagged in its place.
type item struct {
	ev     Event
	lagged bool
}

// Subscribe sets a lasting watch and returns when the server has it. The first event is
// EventReset. On a server before ZooKeeper 3.6 the watch is imitated with one-shot watches:
// several changes of a node in short succession may then come as one event.
func (c *Client) Subscribe(ctx context.Context, path string, mode WatchMode, opts ...WatchOption) (*Subscription, error) {
	if err := c.checked(wire.OpAddWatch, path, false); err != nil {
		return nil, err
	}
	s := &Subscription{
		k: c.k, root: c.root, path: c.full(path), mode: mode,
		limit: defaultQueue, wake: make(chan struct{}, 1),
	}
	for _, o := range opts {
		if o.queue > 0 {
			s.limit = o.queue
		}
		if o.coalesce {
			s.coalesce, s.index = true, map[string]int{}
		}
	}
	if c.k.attachCovered(s) {
		return s, nil
	}
	err := c.addWatch(ctx, s, path)
	if errors.Is(err, ErrUnimplemented) {
		err = c.imitate(ctx, s, path)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// attachCovered joins a watch that the server keeps already.
func (k *core) attachCovered(s *Subscription) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.watches.entries[s.path]
	if e == nil || !k.state.connected() {
		return false
	}
	need := s.mode.bit()
	if s.mode == Persistent {
		need = bitsLasting // a recursive one tells all that a persistent one does (derive)
	}
	if e.server&need == 0 {
		return false
	}
	k.watches.addSubscription(e, s)
	s.push(Event{Type: EventReset, Path: s.path})
	return true
}

func (c *Client) addWatch(ctx context.Context, s *Subscription, path string) error {
	if c.k.lacks(lackAddWatch) {
		return &Error{Op: "addWatch", Path: path, Err: ErrUnimplemented}
	}
	cl := c.newCall(wire.OpAddWatch, path)
	defer cl.free()
	cl.r.frame = appendPathNumber(cl.r.frame, cl.r.op, s.path, int32(s.mode))
	cl.r.sub, cl.r.bit = s, s.mode.bit()
	return cl.do(ctx, repeatRead)
}

// Watch is Subscribe as an iterator: it ends when the loop is left, and with an error when ctx
// ends or the client is closed. ErrLagged is yielded as an error too, and the loop may go on.
//
//	for ev, err := range c.Watch(ctx, "/config", client.Recursive) {
//		switch {
//		case errors.Is(err, client.ErrLagged), ev.Type == client.EventReset:
//			reload()
//		case err != nil:
//			return err
//		default:
//			apply(ev)
//		}
//	}
func (c *Client) Watch(ctx context.Context, path string, mode WatchMode, opts ...WatchOption) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, err := c.Subscribe(ctx, path, mode, opts...)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer s.Close()
		for {
			ev, err := s.Next(ctx)
			if !yield(ev, err) || err != nil && !errors.Is(err, ErrLagged) {
				return
			}
		}
	}
}

// Path is what is watched.
func (s *Subscription) Path() string { return strip(s.root, s.path) }

// Mode is how it is watched.
func (s *Subscription) Mode() WatchMode { return s.mode }

// Lag is the number of events that wait for the reader.
func (s *Subscription) Lag() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) - s.head
}

// Next waits for the next event. ErrLagged stands for events that were left out; the next call
// goes on behind them. Any other error but the end of ctx is the end of the Subscription.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		s.mu.Lock()
		it, ok := s.take()
		err := s.err
		s.mu.Unlock()
		switch {
		case ok && it.lagged:
			return Event{}, fmt.Errorf("watch of %s: %w", s.Path(), ErrLagged)
		case ok:
			it.ev.Path = strip(s.root, it.ev.Path)
			return it.ev, nil
		case err != nil:
			return Event{}, fmt.Errorf("watch of %s: %w", s.Path(), err)
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("watch of %s: %w", s.Path(), contextError(ctx))
		}
	}
}

// Close ends the Subscription; Next returns ErrWatchRemoved from then on. The server's watch is
// removed in the background when nothing else needs it.
func (s *Subscription) Close() {
	s.k.mu.Lock()
	if e := s.entry; e != nil {
		s.k.watches.dropSubscription(s)
		s.k.settle(e)
	}
	s.k.mu.Unlock()
	s.mu.Lock()
	s.queue, s.head, s.index = nil, 0, nil
	s.coalesce = false
	s.mu.Unlock()
	s.end(ErrWatchRemoved)
	if s.stop != nil {
		s.stop()
	}
}

// push queues an event; it never waits.
func (s *Subscription) push(ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if s.coalesce && s.merge(ev) {
		return
	}
	switch {
	case len(s.queue)-s.head < s.limit:
		s.lagged = false
		s.queue = append(s.queue, item{ev: ev})
		if s.coalesce {
			s.index[ev.Path] = len(s.queue) - 1
		}
	case !s.lagged: // one item beyond the limit says that some are missing
		s.lagged = true
		s.queue = append(s.queue, item{lagged: true})
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// merge puts ev in the place of the waiting event of its path. A change of the children does
// not hide what happened to the node itself.
func (s *Subscription) merge(ev Event) bool {
	i, ok := s.index[ev.Path]
	if !ok || i < s.head || ev.Type == EventReset {
		return false
	}
	old := &s.queue[i].ev
	if (old.Type == EventChildrenChanged) != (ev.Type == EventChildrenChanged) || old.Type == EventReset {
		return false
	}
	*old = ev
	return true
}

// take removes the oldest item.
func (s *Subscription) take() (item, bool) {
	if s.head == len(s.queue) {
		return item{}, false
	}
	it := s.queue[s.head]
	s.queue[s.head] = item{}
	s.head++
	if s.coalesce && s.index[it.ev.Path] < s.head {
		delete(s.index, it.ev.Path)
	}
	if s.head == len(s.queue) || s.head > 1024 && s.head > len(s.queue)/2 {
		s.compact()
	}
	return it, true
}

// compact moves what waits to the front of the array.
func (s *Subscription) compact() {
	n := copy(s.queue, s.queue[s.head:])
	clear(s.queue[n:])
	s.queue = s.queue[:n]
	if n == 0 && cap(s.queue) > 4096 {
		s.queue = nil // a burst is over: do not keep its room
	}
	for path := range s.index {
		s.index[path] -= s.head
	}
	s.head = 0
}

// end makes err the last word, behind what is queued.
func (s *Subscription) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
