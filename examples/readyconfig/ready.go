package main

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// ready says that the nodes belong together.
const ready = base + "/ready"

// changeBehindReady deletes ready, writes one node after the other, and makes ready again. If we die on
// the way, nothing is in force until the next writer has come to its end.
func changeBehindReady(ctx context.Context, c *client.Client, l recipes.Lease, s settings) error {
	guarded := func(op client.Op) error {
		_, err := c.Multi().Add(l.Guard()...).Add(op).Commit(ctx)
		return err
	}
	_, there, err := c.Exists(ctx, ready, client.Fresh()) // not if a writer died
	if err != nil {
		return err
	}
	if there {
		if err := guarded(c.OpDelete(ready, client.AnyVersion)); err != nil {
			return err
		}
	}
	ops, err := writes(ctx, c, s)
	if err != nil {
		return err
	}
	for _, op := range ops {
		if err := guarded(op); err != nil {
			return err
		}
	}
	return guarded(c.OpCreate(ready, nil, client.ModePersistent, nil))
}

// followReady watches ready first and reads then. The event that ready is deleted comes before any
// reply that shows what was written after it: if there is no event when everything has been read, what
// was read belongs together.
func followReady(ctx context.Context, c *client.Client, found func(settings)) error {
	for {
		_, there, changed, err := c.ExistsW(ctx, ready)
		if err != nil {
			return err
		}
		if there {
			s, err := readAll(ctx, c)
			if err != nil && !errors.Is(err, client.ErrNoNode) { // gone since it was listed: ready must be gone, too
				return err
			}
			select {
			case <-changed.C():
				continue // all of it may be of two configurations
			default:
			}
			if err == nil {
				found(s)
			}
		}
		if _, err := changed.Wait(ctx); err != nil && !errors.Is(err, client.ErrSessionExpired) { // in a new session look again
			return err
		}
	}
}

// readAll reads the nodes as they are, which is not at one moment.
func readAll(ctx context.Context, c *client.Client) (settings, error) {
	names, _, err := c.Children(ctx, nodes)
	if err != nil {
		return nil, err
	}
	s := settings{}
	for _, name := range names {
		data, _, err := c.Get(ctx, nodes+"/"+name)
		if err != nil {
			return nil, err
		}
		s[name] = string(data)
	}
	return s, nil
}
