package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// A line is a queue of ephemeral sequential nodes, in which each contender watches only the one
// that it waits for: one end wakes one waiter.
//
//	1  create our node, protected: its name is unique, so a lost reply leaves no second one
//	2  list the queue, without a watch, and look who is before us
//	3  nobody: read our own node, which must be of our present session; then it is our turn
//	4  else read the one before us with a watch (a read that fails leaves no watch behind), wait
//	   for its end, and go to 2: it may have been a waiter that gave up
//
// What list shows is complete as far as it matters: everything with a lower number was created
// before our node, which this session has seen.
type line struct {
	c     *client.Client
	dir   string
	names naming
	cfg   *config
}

// A want is what a caller comes to the line for.
type want struct {
	kind kind
	data []byte
	try  bool // fail with ErrLocked instead of waiting

	// number is that of the write lock which a reader of the same owner holds, and behind the name
	// of its node; nil: the server gives one.
	number *int32
	behind string
}

// A ticket is our node in a line.
type ticket struct {
	line    *line
	session *client.Session
	kind    kind
	path    string
	seq     int32
	behind  string // see want
}

// take waits for our turn and returns the hold. It begins again when the session is lost or
// our node is deleted while we wait.
func (l *line) take(ctx context.Context, w want) (*hold, error) {
	for {
		h, err := l.takeOnce(ctx, w)
		switch {
		case err == nil:
			return h, nil
		case !errors.Is(err, errAgain):
			return nil, err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("queue %s: %w", l.dir, ended(ctx))
		case l.cfg.failOnBr && errors.Is(err, errGone):
			return nil, fmt.Errorf("queue %s: %w", l.dir, ErrBroken)
		}
		w.number, w.behind = nil, "" // the write lock is lost, or will not be trusted again
	}
}

func (l *line) takeOnce(ctx context.Context, w want) (*hold, error) {
	t, err := l.enter(ctx, w)
	if err != nil {
		return nil, err
	}
	h, err := t.await(ctx, w.try)
	if err != nil {
		_ = t.leave(ctx) // it goes on in the background when ctx has ended
		return nil, err
	}
	return h, nil
}

// enter creates our node.
func (l *line) enter(ctx context.Context, w want) (*ticket, error) {
	s, err := l.c.AwaitSession(ctx)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", l.dir, err)
	}
	name, mode := l.names.fresh(w.kind), client.ModeEphemeralSequential
	if w.number != nil {
		name, mode = fmt.Sprintf("%s%010d", name, *w.number), client.ModeEphemeral
	}
	path, stat, err := l.c.ProtectedCreate(ctx, join(l.dir, name), w.data, mode, l.cfg.acl,
		client.Unique(), client.MakeParents(), client.In(s))
	switch {
	case err != nil && s.Err() != nil:
		return nil, errAgain
	case err != nil:
		return nil, err
	}
	t := &ticket{line: l, session: s, kind: w.kind, path: path, behind: w.behind}
	me, ok := l.names.read(base(path))
	if !ok || me.foreign {
		_ = t.leave(ctx)
		return nil, fmt.Errorf("queue %s: the server named our node %q, without a number", l.dir, base(path))
	}
	t.seq = me.seq
	if stat.EphemeralOwner != 0 && stat.EphemeralOwner != s.ID() { // 0: a server before create2
		_ = t.leave(ctx)
		return nil, errAgain
	}
	return t, nil
}

// list reads the queue, in order.
func (l *line) list(ctx context.Context, opts ...client.CallOption) ([]contender, error) {
	names, _, err := l.c.Children(ctx, l.dir, opts...)
	if err != nil {
		return nil, err
	}
	q := make([]contender, 0, len(names))
	for _, name := range names {
		if c, ok := l.names.read(name); ok {
			q = append(q, c)
		}
	}
	order(q)
	return q, nil
}

// await waits for our turn.
func (t *ticket) await(ctx context.Context, try bool) (*hold, error) {
	for {
		other, err := t.before(ctx)
		switch {
		case err != nil:
			return nil, err
		case other == "":
			return t.hold(ctx)
		case try:
			return nil, fmt.Errorf("queue %s: %w", t.line.dir, ErrLocked)
		}
		if err := t.waitFor(ctx, join(t.line.dir, other)); err != nil {
			return nil, err
		}
	}
}

// before returns the contender that we wait for; "" if it is our turn. Who carries the number of a
// write lock stands where that stood, and may do so only if it was still there when our node came:
// then the next writer, which has to see the lock's end, sees our node, too. As the list is newer than
// our node, it is enough that it shows the lock.
func (t *ticket) before(ctx context.Context) (string, error) {
	q, err := t.line.list(ctx, client.In(t.session))
	if err != nil {
		return "", t.failed(err)
	}
	here, ahead, other := false, t.behind == "", ""
	for _, c := range q {
		if c.name == base(t.path) {
			here = true
			continue
		}
		ahead = ahead || c.name == t.behind
		if c.foreign {
			if err := t.line.meet(c); err != nil {
				return "", err
			}
		}
		if before(c.seq, t.seq) && (t.kind == exclusive || c.kind == exclusive) {
			other = c.name
		}
	}
	switch {
	case !here:
		return "", errGone
	case !ahead:
		return "", errAgain
	}
	return other, nil
}

// meet says what to do about a foreign contender.
func (l *line) meet(c contender) error {
	path := join(l.dir, c.name)
	if l.cfg.foreign == nil {
		return &ForeignContenderError{Path: path}
	}
	l.cfg.foreign(path)
	return nil
}

// waitFor waits until something happens to another's node.
func (t *ticket) waitFor(ctx context.Context, path string) error {
	_, _, w, err := t.line.c.GetW(ctx, path, client.In(t.session))
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil {
		return t.failed(err)
	}
	select {
	case ev := <-w.C():
		if ev.Err != nil {
			return t.failed(ev.Err)
		}
		return nil
	case <-t.session.Done():
		forget(w)
		return errAgain
	case <-ctx.Done():
		forget(w)
		return fmt.Errorf("queue %s: %w", t.line.dir, ended(ctx))
	}
}

// failed tells an end of our session, after which we begin again, from other errors.
func (t *ticket) failed(err error) error {
	switch {
	case t.session.Err() != nil:
		return errAgain
	case errors.Is(err, client.ErrNoNode): // the node of the queue itself
		return errGone
	}
	return err
}

// hold makes the ticket, whose turn it is, a hold.
func (t *ticket) hold(ctx context.Context) (*hold, error) {
	l := t.line
	data, stat, w, err := confirm(ctx, l.c, t.session, t.path)
	if err != nil {
		return nil, err
	}
	h := &hold{
		c: l.c, cfg: l.cfg, session: t.session, of: heldKey{l.c, l.dir}, kind: t.kind,
		path: t.path, stat: stat, remove: t.leave,
	}
	return h.begin(data, w), nil
}

// leave deletes our node; it may be called again.
func (t *ticket) leave(ctx context.Context) error {
	return t.line.c.SureDelete(ctx, t.path, client.AnyVersion)
}
