package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// An Item is a node of a queue that we work on and nobody else. If we die, another consumer gets
// it: what is done with it may be done twice.
type Item[T any] struct {
	Values []T // one; nodes that Curator's putMulti has written may have more

	q    *Queue[T]
	name string
	*hold
}

// Hold waits for an item and locks it until Finish. The Item is a Lease on it; Release gives it
// back, for another consumer or another time.
func (q *Queue[T]) Hold(ctx context.Context) (*Item[T], error) {
	for {
		_, e, wake, err := q.pop(ctx, true)
		switch {
		case err != nil:
			return nil, err
		case e != nil:
			it, err := q.holdOne(ctx, e.name)
			if it != nil || err != nil {
				return it, err
			}
			continue
		}
		if err := wake.wait(ctx); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.path, err)
		}
	}
}

// holdOne tries to lock one item; nil: somebody else has it, or it is gone.
func (q *Queue[T]) holdOne(ctx context.Context, name string) (*Item[T], error) {
	s, err := q.c.AwaitSession(ctx)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", q.path, err)
	}
	lock := join(q.locks, name)
	mine, err := q.lock(ctx, s, lock)
	if err != nil || !mine {
		if s.Err() != nil && ctx.Err() == nil {
			return nil, nil
		}
		return nil, err
	}
	giveBack := func(ctx context.Context) error { return q.c.SureDelete(ctx, lock, client.AnyVersion) }
	items, _, err := q.read(ctx, name)
	if err != nil {
		_ = giveBack(ctx)
		if errors.Is(err, client.ErrNoNode) {
			err = nil
		}
		return nil, err
	}
	it := &Item[T]{q: q, name: name}
	for _, item := range items {
		v, err := q.codec.Decode(item)
		if err != nil {
			_ = giveBack(ctx)
			return nil, fmt.Errorf("queue %s: %s: %w", q.path, name, err)
		}
		it.Values = append(it.Values, v)
	}
	data, stat, w, err := confirm(ctx, q.c, s, lock)
	if err != nil {
		_ = giveBack(ctx)
		if errors.Is(err, errAgain) {
			err = nil
		}
		return nil, err
	}
	h := &hold{c: q.c, cfg: &config{}, session: s, of: heldKey{q.c, lock}, path: lock, stat: stat, remove: giveBack}
	it.hold = h.begin(data, w)
	return it, nil
}

// lock creates the ephemeral node that says that we work on the item.
func (q *Queue[T]) lock(ctx context.Context, s *client.Session, path string) (bool, error) {
	id := []byte(client.NewUUID())
	for {
		_, _, err := q.c.Create(ctx, path, id, client.ModeEphemeral, nil, client.MakeParents(), client.In(s))
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, client.ErrUncertain):
			if ctx.Err() != nil {
				return false, q.abandon(path, id, err)
			}
		case !errors.Is(err, client.ErrNodeExists):
			return false, err
		}
		data, stat, err := q.c.Get(ctx, path, client.Fresh(), client.In(s))
		switch {
		case errors.Is(err, client.ErrNoNode):
			continue
		case err != nil:
			return false, q.abandon(path, id, err)
		}
		return stat.EphemeralOwner == s.ID() && bytes.Equal(data, id), nil
	}
}

// abandon deletes in the background what a create that was given up may have made.
func (q *Queue[T]) abandon(path string, id []byte, err error) error {
	go func() {
		data, stat, err := q.c.Get(context.Background(), path, client.Fresh())
		if err == nil && bytes.Equal(data, id) {
			_ = q.c.SureDelete(context.Background(), path, stat.Version)
		}
	}()
	return err
}

// Finish removes the item: it is done. It fails if the item was lost meanwhile, to another
// consumer perhaps; then what was done may be done again.
func (it *Item[T]) Finish(ctx context.Context) error {
	c, path := it.q.c, join(it.q.dir, it.name)
	for {
		_, err := c.Multi().Delete(it.path, client.AnyVersion).Delete(path, client.AnyVersion).Commit(ctx)
		switch {
		case err == nil:
			it.end(ErrReleased)
			<-it.stopped
			return nil
		case !errors.Is(err, client.ErrUncertain) || ctx.Err() != nil:
			return errors.Join(err, it.Release(ctx))
		}
		_, there, lookErr := c.Exists(ctx, path, client.Fresh())
		switch {
		case lookErr != nil:
			return errors.Join(err, it.Release(ctx))
		case !there: // nobody else removes what we have locked
			return it.Release(ctx)
		}
	}
}
