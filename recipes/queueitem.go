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
	k := &claim{c: q.c, session: s, path: join(q.locks, name), id: []byte(client.NewUUID())}
	mine, err := k.take(ctx)
	if err != nil || !mine {
		if s.Err() != nil && ctx.Err() == nil {
			return nil, nil
		}
		return nil, err
	}
	items, _, err := q.read(ctx, name)
	if err != nil {
		_ = k.giveBack(ctx)
		if errors.Is(err, client.ErrNoNode) {
			err = nil
		}
		return nil, err
	}
	it := &Item[T]{q: q, name: name}
	for _, item := range items {
		v, err := q.codec.Decode(item)
		if err != nil {
			_ = k.giveBack(ctx)
			return nil, fmt.Errorf("queue %s: %s: %w", q.path, name, err)
		}
		it.Values = append(it.Values, v)
	}
	data, stat, w, err := confirm(ctx, q.c, s, k.path)
	if err != nil {
		_ = k.giveBack(ctx)
		if errors.Is(err, errAgain) {
			err = nil
		}
		return nil, err
	}
	h := &hold{c: q.c, cfg: &config{}, session: s, of: heldKey{q.c, k.path}, path: k.path, stat: stat, remove: k.giveBack}
	it.hold = h.begin(data, w)
	return it, nil
}

// A claim is the ephemeral node that says that we work on an item. Other libraries want its name to be
// the item's, so it does not tell one consumer from the next: what is deleted must first be seen to
// be ours, and is deleted in the session in which it was, or we would take it from who came after us.
type claim struct {
	c       *client.Client
	session *client.Session
	path    string
	id      []byte // its data
}

// take creates the node; false: somebody else has it.
func (k *claim) take(ctx context.Context) (bool, error) {
	for {
		_, _, err := k.c.Create(ctx, k.path, k.id, client.ModeEphemeral, nil, client.MakeParents(), client.In(k.session))
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, client.ErrUncertain):
			if ctx.Err() != nil {
				_ = k.giveBack(ctx)
				return false, err
			}
		case !errors.Is(err, client.ErrNodeExists):
			return false, err
		}
		data, stat, err := k.c.Get(ctx, k.path, client.Fresh(), client.In(k.session))
		switch {
		case errors.Is(err, client.ErrNoNode):
			continue
		case err != nil:
			_ = k.giveBack(ctx)
			return false, err
		}
		return k.is(data, stat), nil
	}
}

// is says whether a node is our claim.
func (k *claim) is(data []byte, stat client.Stat) bool {
	return stat.EphemeralOwner == k.session.ID() && bytes.Equal(data, k.id)
}

// giveBack deletes the node, if it is there; it may be called again. When ctx ends first, it goes on
// in the background.
func (k *claim) giveBack(ctx context.Context) error {
	if ctx.Err() == nil {
		err := k.remove(ctx)
		if err == nil || ctx.Err() == nil {
			return err
		}
	}
	go func() { _ = k.remove(context.Background()) }() // it ends with the session, or the client
	return fmt.Errorf("%s: %w", k.path, ended(ctx))
}

func (k *claim) remove(ctx context.Context) error {
	for {
		s, err := k.c.AwaitSession(ctx)
		if err != nil {
			return err
		}
		if s.ID() != k.session.ID() {
			return nil // it went with its session
		}
		data, stat, err := k.c.Get(ctx, k.path, client.Fresh(), client.In(s))
		if err == nil {
			if !k.is(data, stat) {
				return nil
			}
			err = k.c.Delete(ctx, k.path, stat.Version, client.In(s))
		}
		switch {
		case err == nil || errors.Is(err, client.ErrNoNode) && !errors.Is(err, client.ErrUncertain):
			return nil
		case s.Err() == nil && !errors.Is(err, client.ErrUncertain) && !errors.Is(err, client.ErrConnectionLoss) &&
			!errors.Is(err, client.ErrBadVersion), ctx.Err() != nil:
			return err
		}
	}
}

// Finish removes the item: it is done. It fails if the item was lost meanwhile, to another
// consumer perhaps; then what was done may be done again. It is sent in the session of the claim
// alone: in a later one the claim, which goes by the item's name, may be another consumer's.
func (it *Item[T]) Finish(ctx context.Context) error {
	c, path := it.q.c, join(it.q.dir, it.name)
	for {
		_, err := c.Multi().Delete(it.path, client.AnyVersion).Delete(path, client.AnyVersion).Commit(ctx, client.In(it.session))
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
