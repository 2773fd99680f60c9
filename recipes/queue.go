package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// A Queue hands items from those who put to those who take. An item is a node: the servers keep all
// of them in memory, and every consumer lists them, so a queue is for no more than some 10,000
// items at a time.
//
// Take removes an item before it is worked on: what its consumer does not finish is lost. Hold
// keeps it until Finish, and gives it to somebody else when the consumer dies. All consumers of a
// queue use the same of the two.
type Queue[T any] struct {
	c     *client.Client
	path  string
	dir   string // of the items
	locks string // of what is being worked on
	form  QueueForm
	codec Codec[T]

	// turn is the right to touch what follows: a channel, since it is kept while listing.
	turn  chan struct{}
	list  []entry       // not taken by us yet, in order
	extra [][]byte      // more items of a node of Curator's that we have taken
	w     *client.Watch // tells that list is old; nil: it was never read
	lw    *client.Watch // the same of locks, for Hold; nil: Hold was not used
	taken map[string]bool
}

// NewQueue returns the queue at path. Close it.
func NewQueue[T any](c *client.Client, path string, form QueueForm, codec Codec[T]) *Queue[T] {
	q := &Queue[T]{c: c, path: path, dir: path, locks: path + "-locks", form: form, codec: codec, turn: make(chan struct{}, 1)}
	if form == QueueKazooLocking {
		q.dir, q.locks = join(path, "entries"), join(path, "taken")
	}
	return q
}

// LockedAt says where Curator's consumers lock items (QueueBuilder.lockPath), for Hold. Without
// it that is path + "-locks". It is called before the queue is used.
func (q *Queue[T]) LockedAt(path string) *Queue[T] {
	q.locks = path
	return q
}

// Close gives back the watches. Items of a node with several that Take has removed and not handed out
// yet are lost, as if their consumer had died.
func (q *Queue[T]) Close() {
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	forget(q.w)
	forget(q.lw)
	q.w, q.lw, q.list = nil, nil, nil
}

// Put appends an item. If the reply is lost, the error is ErrUnknownOutcome: the form of the names
// has no room for a mark by which the item could be found.
func (q *Queue[T]) Put(ctx context.Context, v T, opts ...PutOption) error {
	return q.PutAll(ctx, []T{v}, opts...)
}

// PutAll appends several items, all or none, without another's in between. With QueueCurator they
// are in one node, as by its putMulti: one consumer gets them all, from Hold as the Values of one
// Item. The other forms have a node for each. See Put for lost replies.
func (q *Queue[T]) PutAll(ctx context.Context, values []T, opts ...PutOption) error {
	var cfg putConfig
	for _, o := range opts {
		o(&cfg)
	}
	name, err := q.form.name(cfg)
	if err != nil {
		return fmt.Errorf("queue %s: %w", q.path, err)
	}
	var nodes [][]byte
	for _, v := range values {
		data, err := q.codec.Encode(v)
		if err != nil {
			return fmt.Errorf("queue %s: %w", q.path, err)
		}
		nodes = append(nodes, data)
	}
	if q.form == QueueCurator && len(nodes) > 0 {
		nodes = [][]byte{packItems(nodes...)}
	}
	switch len(nodes) {
	case 0:
		return nil
	case 1:
		_, _, err = q.c.Create(ctx, join(q.dir, name), nodes[0], client.ModePersistentSequential, nil, client.MakeParents())
		return err
	}
	return q.putNodes(ctx, name, nodes)
}

// putNodes makes several nodes in one Multi.
func (q *Queue[T]) putNodes(ctx context.Context, name string, nodes [][]byte) error {
	for {
		m := q.c.Multi()
		for _, data := range nodes {
			m.Create(join(q.dir, name), data, client.ModePersistentSequential, nil)
		}
		_, err := m.Commit(ctx)
		if !errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrUncertain) {
			return err
		}
		if err := q.makeDir(ctx, q.dir); err != nil {
			return err
		}
	}
}

func (q *Queue[T]) makeDir(ctx context.Context, dir string) error {
	_, _, err := q.c.CreateContainer(ctx, dir, nil, nil, client.MakeParents(), client.Idempotent())
	if errors.Is(err, client.ErrNodeExists) {
		return nil
	}
	return err
}

// Len is the number of items, also of those that are being worked on.
func (q *Queue[T]) Len(ctx context.Context) (int, error) {
	names, _, err := q.c.Children(ctx, q.dir, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return 0, nil
	}
	n := 0
	for _, name := range names {
		if _, ok := q.form.read(name); ok {
			n++
		}
	}
	return n, err
}

// Remove deletes the items with that ID that nobody has taken, and says how many.
func (q *Queue[T]) Remove(ctx context.Context, id string) (int, error) {
	names, _, err := q.c.Children(ctx, q.dir, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return 0, nil
	}
	n := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "queue-|"+fixID(id)+"|") {
			continue
		}
		switch err := q.c.Delete(ctx, join(q.dir, name), client.AnyVersion); {
		case err == nil:
			n++
		case !errors.Is(err, client.ErrNoNode):
			return n, err
		}
	}
	return n, err
}

// Take waits for an item and removes it. If the reply to the removal is lost, the error is
// ErrUnknownOutcome and the item is returned all the same: we have it, or somebody else.
func (q *Queue[T]) Take(ctx context.Context) (T, error) {
	for {
		v, ok, wake, err := q.tryTake(ctx)
		if ok || err != nil {
			return v, err
		}
		if err := wake.wait(ctx); err != nil {
			return v, fmt.Errorf("queue %s: %w", q.path, err)
		}
	}
}

// TryTake is Take without waiting; false: there is no item.
func (q *Queue[T]) TryTake(ctx context.Context) (T, bool, error) {
	v, ok, _, err := q.tryTake(ctx)
	return v, ok, err
}

func (q *Queue[T]) tryTake(ctx context.Context) (v T, ok bool, wake wakeup, err error) {
	for {
		data, e, wake, err := q.pop(ctx, false)
		switch {
		case err != nil:
			return v, false, wake, err
		case data != nil:
			v, err = q.codec.Decode(data)
			return v, err == nil, wake, err
		case e == nil:
			return v, false, wake, nil
		}
		items, stat, err := q.read(ctx, e.name)
		switch {
		case errors.Is(err, client.ErrNoNode):
			continue // somebody was faster
		case err != nil:
			return v, false, wake, err
		}
		if len(items) > 0 { // what cannot be decoded stays where it is
			if v, err = q.codec.Decode(items[0]); err != nil {
				return v, false, wake, fmt.Errorf("queue %s: %s: %w", q.path, e.name, err)
			}
		}
		gone := q.c.Delete(ctx, join(q.dir, e.name), stat.Version)
		switch {
		case errors.Is(gone, client.ErrUncertain):
		case errors.Is(gone, client.ErrNoNode), errors.Is(gone, client.ErrBadVersion):
			continue
		case gone != nil:
			return v, false, wake, gone
		}
		if len(items) == 0 {
			continue
		}
		q.keep(items[1:])
		return v, gone == nil, wake, gone
	}
}

// read returns what is in a node.
func (q *Queue[T]) read(ctx context.Context, name string) ([][]byte, client.Stat, error) {
	data, stat, err := q.c.Get(ctx, join(q.dir, name))
	if err != nil || q.form != QueueCurator {
		return [][]byte{data}, stat, err
	}
	items, err := unpackItems(data)
	if err != nil {
		err = fmt.Errorf("queue %s: %s: %w", q.path, name, err)
	}
	return items, stat, err
}

// keep remembers the other items of a node that is ours. Nobody else will take them, so it does not
// give up.
func (q *Queue[T]) keep(items [][]byte) {
	if len(items) == 0 {
		return
	}
	q.turn <- struct{}{}
	q.extra = append(q.extra, items...)
	<-q.turn
}

// A wakeup is what one waits for who has found nothing.
type wakeup struct {
	items, locks <-chan client.Event
	due          time.Time // of the next item; zero: none is held back
}

func (w wakeup) wait(ctx context.Context) error {
	var due <-chan time.Time
	if !w.due.IsZero() {
		t := time.NewTimer(time.Until(w.due))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-w.items: // the event, or that somebody else had it: the channel is closed behind it
	case <-w.locks:
	case <-due:
	case <-ctx.Done():
		return ended(ctx)
	}
	return nil
}

// pop returns an item, or the node that should be tried next, or what to wait for.
func (q *Queue[T]) pop(ctx context.Context, locking bool) (data []byte, e *entry, w wakeup, err error) {
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return nil, nil, w, fmt.Errorf("queue %s: %w", q.path, ended(ctx))
	}
	if len(q.extra) > 0 {
		data, q.extra = q.extra[0], q.extra[1:]
		return data, nil, w, nil
	}
	for listed := false; ; listed = true {
		if !listed && q.form != QueueSimple && q.w != nil && fired(q.w) {
			q.list = nil // what has come may go first
			forget(q.w)
			q.w = nil
		}
		now := time.Now()
		for i, e := range q.list {
			if e.at > now.UnixMilli() {
				if due := time.UnixMilli(e.at); w.due.IsZero() || due.Before(w.due) {
					w.due = due
				}
				continue
			}
			q.list = slices.Delete(q.list, i, i+1)
			return nil, &e, w, nil
		}
		if listed || q.w != nil && !fired(q.w) && (!locking || q.lw != nil && !fired(q.lw)) {
			break
		}
		w.due = time.Time{}
		if err := q.reload(ctx, locking); err != nil {
			return nil, nil, w, err
		}
	}
	w.items = q.w.C()
	if q.lw != nil {
		w.locks = q.lw.C()
	}
	return nil, nil, w, nil
}

// fired says that a watch has ended. Those who wait for it may have taken its event: then the
// channel is closed.
func fired(w *client.Watch) bool {
	select {
	case <-w.C():
		return true
	default:
		return false
	}
}

// reload reads the list, and what is being worked on, with a watch on each.
func (q *Queue[T]) reload(ctx context.Context, locking bool) error {
	forget(q.w)
	forget(q.lw)
	q.w, q.lw = nil, nil
	names, w, err := q.listing(ctx, q.dir)
	if err != nil {
		return err
	}
	q.w, q.taken = w, map[string]bool{}
	if locking {
		taken, lw, err := q.listing(ctx, q.locks)
		if err != nil {
			return err
		}
		q.lw = lw
		for _, name := range taken {
			q.taken[name] = true
		}
	}
	q.list = q.list[:0]
	for _, name := range names {
		if e, ok := q.form.read(name); ok && !q.taken[name] {
			q.list = append(q.list, e)
		}
	}
	slices.SortFunc(q.list, earlier)
	return nil
}

// listing lists a directory, which is made if it is not there: only then it can be watched.
func (q *Queue[T]) listing(ctx context.Context, dir string) ([]string, *client.Watch, error) {
	for {
		names, _, w, err := q.c.ChildrenW(ctx, dir)
		if !errors.Is(err, client.ErrNoNode) {
			return names, w, err
		}
		if err := q.makeDir(ctx, dir); err != nil {
			return nil, nil, err
		}
	}
}
