package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/client"
)

// A MultiNonBlockingLease is a number of places, each of which is a NonBlockingLease: a job that runs
// on at most so many hosts, the same ones as long as they live. It is kazoo's MultiNonBlockingLease,
// and shares its path. All members must give the same number.
type MultiNonBlockingLease struct {
	path   string
	places []*NonBlockingLease
}

// NewMultiNonBlockingLease returns the lease of that many places at path for a member with that id.
func NewMultiNonBlockingLease(c *client.Client, path, id string, places int, span time.Duration) *MultiNonBlockingLease {
	m := &MultiNonBlockingLease{path: path}
	for i := range places {
		m.places = append(m.places, NewNonBlockingLease(c, join(path, strconv.Itoa(i)), id, span))
	}
	return m
}

// Obtain reserves a place for the span that begins now, and returns which, from 0, and the end. Who has
// a place keeps it; kazoo takes the first one that it can get, and may come to have two. If others have
// them all, the error is ErrLocked.
func (m *MultiNonBlockingLease) Obtain(ctx context.Context) (place int, until time.Time, err error) {
	for i, l := range m.places {
		if r, _, exists, err := l.read(ctx); err != nil || !exists || r.Holder != l.id {
			continue // what is wrong, if it still is, comes out below
		}
		if until, err = l.Obtain(ctx); !errors.Is(err, ErrLocked) { // it may have just been taken, after its end
			return i, until, err
		}
	}
	var taken []error
	for i, l := range m.places {
		until, err = l.Obtain(ctx)
		if !errors.Is(err, ErrLocked) {
			return i, until, err
		}
		taken = append(taken, err)
	}
	return 0, time.Time{}, fmt.Errorf("lease %s: all %d places: %w", m.path, len(m.places), errors.Join(append(taken, ErrLocked)...))
}

// Holders returns who has the places, each at its index; "" is a free one.
func (m *MultiNonBlockingLease) Holders(ctx context.Context) ([]string, error) {
	ids := make([]string, len(m.places))
	for i, l := range m.places {
		id, _, ok, err := l.Holder(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			ids[i] = id
		}
	}
	return ids, nil
}

// GiveUp ends what we have reserved before its time.
func (m *MultiNonBlockingLease) GiveUp(ctx context.Context) error {
	var all []error
	for _, l := range m.places {
		all = append(all, l.GiveUp(ctx))
	}
	return errors.Join(all...)
}
