package recipes

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

type ownerKey struct{}

// WithOwner names who acts under ctx. Go knows no threads by name, so this is what makes a lock
// reentrant: the second Lock of the same owner on the same Mutex succeeds at once, and the lock
// is free when each of its leases is released. The owner is also written into our node.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerFrom returns the owner that WithOwner has put into ctx.
func OwnerFrom(ctx context.Context) (string, bool) {
	owner, ok := ctx.Value(ownerKey{}).(string)
	return owner, ok
}

// An entrant is an owner in one of its roles.
type entrant struct {
	owner string
	kind  kind
}

// owners knows which owners of this process hold a lock, and how often.
type owners struct {
	mu sync.Mutex
	by map[entrant]*owned // guarded by mu
}

// owned is what an owner holds.
type owned struct {
	ready chan struct{} // closed when hold is there, or will not be

	// Guarded by owners.mu.
	hold   *hold
	shares []*share // one per Lock that has not been released, oldest first
}

// living returns the hold of an owner; nil if there is none.
func (o *owners) living(e entrant) *hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.by[e]; w != nil && w.hold != nil && w.hold.ctx.Err() == nil {
		return w.hold
	}
	return nil
}

// enter returns one more share of what the owner holds, which is taken first if it holds
// nothing. A second goroutine of the same owner waits while the first one takes it.
func (o *owners) enter(ctx context.Context, e entrant, take func() (*hold, error)) (Lease, error) {
	for {
		o.mu.Lock()
		w := o.by[e]
		switch {
		case w == nil:
			w = &owned{ready: make(chan struct{})}
			if o.by == nil {
				o.by = map[entrant]*owned{}
			}
			o.by[e] = w
			o.mu.Unlock()
			return o.takeFirst(e, w, take)
		case w.hold != nil && w.hold.ctx.Err() == nil:
			defer o.mu.Unlock()
			return o.share(e, w), nil
		case w.hold != nil: // it was lost
			delete(o.by, e)
			o.mu.Unlock()
			continue
		}
		o.mu.Unlock()
		select {
		case <-w.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("owner %s: %w", e.owner, ended(ctx))
		}
	}
}

func (o *owners) takeFirst(e entrant, w *owned, take func() (*hold, error)) (Lease, error) {
	h, err := take()
	o.mu.Lock()
	defer o.mu.Unlock()
	defer close(w.ready)
	if err != nil {
		delete(o.by, e)
		return nil, err
	}
	w.hold = h
	return o.share(e, w), nil
}

// share adds a share. Called with mu held.
func (o *owners) share(e entrant, w *owned) *share {
	s := &share{hold: w.hold, of: o, as: e, w: w}
	s.ctx, s.cancel = context.WithCancelCause(w.hold.ctx)
	w.shares = append(w.shares, s)
	return s
}

// newest returns the latest share of an owner; nil if it has none.
func (o *owners) newest(e entrant) *share {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.by[e]; w != nil && len(w.shares) > 0 {
		return w.shares[len(w.shares)-1]
	}
	return nil
}

// A share is what one Lock of a reentrant owner has: it ends by itself, or with the hold.
type share struct {
	*hold
	of *owners
	as entrant
	w  *owned

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Done implements Lease.
func (s *share) Done() <-chan struct{} { return s.ctx.Done() }

// Err implements Lease.
func (s *share) Err() error { return context.Cause(s.ctx) }

// Context implements Lease.
func (s *share) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return leaseContext(s.mark(parent), s.ctx)
}

func (s *share) mark(ctx context.Context) context.Context {
	return context.WithValue(ctx, s.hold.of, heldValue{s.ctx, s.kind})
}

// Valid implements Lease.
func (s *share) Valid() bool { return s.ctx.Err() == nil && s.hold.Valid() }

// Verify implements Lease.
func (s *share) Verify(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	return s.hold.Verify(ctx)
}

// Release implements Lease: the last share that is released ends the hold.
func (s *share) Release(ctx context.Context) error {
	s.cancel(ErrReleased)
	s.of.mu.Lock()
	i := slices.Index(s.w.shares, s)
	if i >= 0 {
		s.w.shares = slices.Delete(s.w.shares, i, i+1)
	}
	last := len(s.w.shares) == 0
	if last && s.of.by[s.as] == s.w {
		delete(s.of.by, s.as)
	}
	s.of.mu.Unlock()
	if !last {
		return nil
	}
	return s.hold.Release(ctx)
}
