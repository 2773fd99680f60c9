package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
)

// A post is a place for one, without a queue: everybody tries to create the same node.
//
// A fixed name cannot tell one holder from the next, and so neither a check nor a deletion of it
// would be safe. Therefore a holder creates two ephemeral nodes in one Multi: the post itself,
// whose data names the other, and one with a unique name, to which Guard, Release and Break refer.
// Both go in one Multi again, or with the session. The holder watches both: somebody who deletes the
// post by hand lets the next one in.
type post struct {
	c    *client.Client
	dir  string
	name string // of the node that all want
	cfg  *config
}

const heldMark = "-held"

func (p *post) path() string { return join(p.dir, p.name) }

func (p *post) take(ctx context.Context, w want) (*hold, error) {
	for {
		h, err := p.takeOnce(ctx, w)
		switch {
		case err == nil:
			return h, nil
		case !errors.Is(err, errAgain):
			return nil, err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: %w", p.path(), ended(ctx))
		}
	}
}

// takeOnce tries in one session.
func (p *post) takeOnce(ctx context.Context, w want) (*hold, error) {
	s, err := p.c.AwaitSession(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.path(), err)
	}
	held := "_c_" + client.NewUUID() + heldMark
	o := &occupant{p: p, session: s, held: held}
	for {
		mine, err := o.occupy(ctx, w.data)
		switch {
		case err != nil && s.Err() != nil:
			o.removeLater()
			return nil, errAgain
		case err != nil:
			return nil, err
		case mine:
			return o.hold(ctx)
		case w.try:
			return nil, fmt.Errorf("%s: %w", p.path(), ErrLocked)
		}
		if err := o.waitForEnd(ctx); err != nil {
			return nil, err
		}
	}
}

// An occupant is one attempt to take a post, and what has come of it.
type occupant struct {
	p       *post
	session *client.Session
	held    string // name of the node that is ours alone

	displaced atomic.Bool // the post was not left by us, and may be another's
}

func (o *occupant) path() string { return join(o.p.dir, o.held) }

// occupy tries to create both nodes. After a lost reply it looks what has happened: the old
// request cannot come late, since the server has moved the session to the new connection.
func (o *occupant) occupy(ctx context.Context, data []byte) (bool, error) {
	c, acl := o.p.c, o.p.cfg.acl
	for {
		_, err := c.Multi().
			Create(o.p.path(), []byte(o.held), client.ModeEphemeral, acl).
			Create(o.path(), data, client.ModeEphemeral, acl).
			Commit(ctx, client.In(o.session))
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, client.ErrUncertain):
			if ctx.Err() != nil {
				o.removeLater()
				return false, err
			}
			_, ok, err := c.Exists(ctx, o.path(), client.Fresh(), client.In(o.session))
			if err != nil {
				o.removeLater()
				return false, err
			}
			if ok {
				return true, nil
			}
		case errors.Is(err, client.ErrNodeExists):
			return false, nil
		case errors.Is(err, client.ErrNoNode):
			_, _, err := c.CreateContainer(ctx, o.p.dir, nil, acl, client.MakeParents(), client.Idempotent())
			if err != nil && !errors.Is(err, client.ErrNodeExists) {
				return false, err
			}
		default:
			return false, err
		}
	}
}

// waitForEnd waits until the present holder has gone.
func (o *occupant) waitForEnd(ctx context.Context) error {
	_, _, w, err := o.p.c.GetW(ctx, o.p.path(), client.In(o.session))
	switch {
	case errors.Is(err, client.ErrNoNode):
		return nil
	case err != nil && o.session.Err() != nil:
		return errAgain
	case err != nil:
		return err
	}
	select {
	case ev := <-w.C():
		if ev.Err != nil {
			if o.session.Err() != nil {
				return errAgain
			}
			return ev.Err
		}
		return o.spread(ctx)
	case <-o.session.Done():
		forget(w)
		return errAgain
	case <-ctx.Done():
		forget(w)
		return fmt.Errorf("%s: %w", o.p.path(), ended(ctx))
	}
}

// spread waits for a part of the jitter.
func (o *occupant) spread(ctx context.Context) error {
	if o.p.cfg.jitter <= 0 {
		return nil
	}
	t := time.NewTimer(rand.N(o.p.cfg.jitter))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", o.p.path(), ended(ctx))
	}
}

func (o *occupant) hold(ctx context.Context) (*hold, error) {
	c := o.p.c
	data, stat, w, err := confirm(ctx, c, o.session, o.path())
	if err != nil {
		o.removeLater()
		return nil, err
	}
	post, err := o.confirmPost(ctx)
	if err != nil {
		forget(w)
		o.removeLater()
		return nil, err
	}
	h := &hold{
		c: c, cfg: o.p.cfg, session: o.session, of: heldKey{c, o.p.dir},
		path: o.path(), stat: stat, remove: o.remove, post: post, displaced: &o.displaced,
	}
	return h.begin(data, w), nil
}

// confirmPost reads the post, which must name us, and leaves a watch.
func (o *occupant) confirmPost(ctx context.Context) (*client.Watch, error) {
	name, _, w, err := o.p.c.GetW(ctx, o.p.path(), client.In(o.session))
	switch {
	case err != nil && o.session.Err() != nil:
		return nil, errAgain
	case err != nil && !errors.Is(err, client.ErrNoNode):
		return nil, err
	case err == nil && string(name) == o.held:
		return w, nil
	}
	forget(w)
	o.displaced.Store(true)
	return nil, errAgain
}

// remove deletes both nodes, if they are there; it may be called again. When ctx ends first it
// goes on in the background.
func (o *occupant) remove(ctx context.Context) error {
	if ctx.Err() == nil {
		err := o.evict(ctx)
		if err == nil || ctx.Err() == nil {
			return err
		}
	}
	o.removeLater()
	return fmt.Errorf("%s: %w", o.p.path(), ended(ctx))
}

// removeLater deletes both nodes in the background, until they are gone, or the session is, or
// the client is closed, which are the same.
func (o *occupant) removeLater() {
	go func() {
		for o.p.c.SessionID() == o.session.ID() {
			err := o.evict(context.Background())
			switch {
			case errors.Is(err, client.ErrNotReadOnly):
				_ = pause(context.Background(), readOnlyPause)
			case !errors.Is(err, client.ErrConnectionLoss):
				return
			}
		}
	}()
}

func (o *occupant) evict(ctx context.Context) error {
	if o.displaced.Load() {
		return o.p.c.SureDelete(ctx, o.path(), client.AnyVersion)
	}
	return o.p.evict(ctx, o.held)
}

// evict deletes the nodes of the holder whose unique one has that name.
func (p *post) evict(ctx context.Context, held string) error {
	for {
		_, err := p.c.Multi().
			Delete(join(p.dir, held), client.AnyVersion).
			Delete(p.path(), client.AnyVersion).
			Commit(ctx)
		var at *client.MultiError
		switch {
		case err == nil:
			return nil
		case errors.Is(err, client.ErrUncertain):
			if ctx.Err() != nil || !errors.Is(err, client.ErrConnectionLoss) {
				return err
			}
			// Doing it again is harmless: nobody else has a node of that name.
		case errors.As(err, &at) && errors.Is(err, client.ErrNoNode):
			return p.evictRest(ctx, held, at.Index)
		default:
			return err
		}
	}
}

// evictRest deletes what somebody has left over who deleted only one of the two nodes.
func (p *post) evictRest(ctx context.Context, held string, missing int) error {
	if missing == 1 {
		return p.c.SureDelete(ctx, join(p.dir, held), client.AnyVersion)
	}
	data, _, err := p.c.Get(ctx, p.path(), client.Fresh())
	if errors.Is(err, client.ErrNoNode) || err == nil && string(data) != held {
		return nil
	}
	if err != nil {
		return err
	}
	return p.c.SureDelete(ctx, p.path(), client.AnyVersion)
}

// participants returns the holder: those who wait have no node.
func (p *post) participants(ctx context.Context) ([]Participant, error) {
	held, _, err := p.c.Get(ctx, p.path(), client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path := join(p.dir, string(held))
	data, stat, err := p.c.Get(ctx, path)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []Participant{{Node: string(held), Path: path, Data: data, Session: stat.EphemeralOwner, Token: stat.Czxid}}, nil
}

// breakNode takes the post from its holder.
func (p *post) breakNode(ctx context.Context, node string) error { return p.evict(ctx, node) }

// revoke asks the holder to let go.
func (p *post) revoke(ctx context.Context, node string) error {
	_, err := p.c.Set(ctx, join(p.dir, node), []byte(revokeCurator), client.AnyVersion, client.Idempotent())
	return err
}
