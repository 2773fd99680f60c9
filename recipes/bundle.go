package recipes

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
)

// A member is a Lease of this package.
type member interface {
	Lease
	mark(ctx context.Context) context.Context // puts into ctx that this is held
	asked() context.Context                   // ends when somebody asks the holder to let go
}

// A bundle is a Lease on several things of which all are held or none: it ends when the first
// of them does.
type bundle struct {
	all    []member
	ctx    context.Context
	cancel context.CancelCauseFunc
	stops  []func() bool

	revoke  context.Context // ends with the first request to let go
	revoked context.CancelFunc
}

// bundled makes one Lease of several.
func bundled(all []member) member {
	if len(all) == 1 {
		return all[0]
	}
	b := &bundle{all: all}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	b.revoke, b.revoked = context.WithCancel(context.Background())
	for _, l := range all {
		ctx, cancel := l.Context(context.Background())
		stop := context.AfterFunc(ctx, func() { b.cancel(l.Err()) })
		b.stops = append(b.stops, func() bool { cancel(); return stop() }, context.AfterFunc(l.asked(), b.revoked))
	}
	return b
}

func (b *bundle) mark(ctx context.Context) context.Context {
	for _, l := range b.all {
		ctx = l.mark(ctx)
	}
	return ctx
}

func (b *bundle) asked() context.Context { return b.revoke }

// Done implements Lease.
func (b *bundle) Done() <-chan struct{} { return b.ctx.Done() }

// Err implements Lease.
func (b *bundle) Err() error { return context.Cause(b.ctx) }

// Context implements Lease.
func (b *bundle) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return leaseContext(b.mark(parent), b.ctx)
}

// Valid implements Lease.
func (b *bundle) Valid() bool {
	for _, l := range b.all {
		if !l.Valid() {
			return false
		}
	}
	return b.ctx.Err() == nil
}

// Verify implements Lease.
func (b *bundle) Verify(ctx context.Context) error {
	for _, l := range b.all {
		if err := l.Verify(ctx); err != nil {
			return err
		}
	}
	return b.Err()
}

// Token implements Lease: the newest one.
func (b *bundle) Token() int64 {
	var token int64
	for _, l := range b.all {
		token = max(token, l.Token())
	}
	return token
}

// Guard implements Lease: a check of every node.
func (b *bundle) Guard() []client.Op {
	var ops []client.Op
	for _, l := range b.all {
		ops = append(ops, l.Guard()...)
	}
	return ops
}

// RevokeRequested implements Lease.
func (b *bundle) RevokeRequested() <-chan struct{} { return b.revoke.Done() }

// Path implements Lease: the first node.
func (b *bundle) Path() string { return b.all[0].Path() }

// Release implements Lease: it lets go in the reverse order.
func (b *bundle) Release(ctx context.Context) error {
	b.cancel(ErrReleased)
	for _, stop := range b.stops {
		stop() // what is under way finds a bundle that has ended
	}
	return releaseAll(ctx, b.all)
}

func releaseAll(ctx context.Context, all []member) error {
	var errs []error
	for i := len(all) - 1; i >= 0; i-- {
		errs = append(errs, all[i].Release(ctx))
	}
	return errors.Join(errs...)
}
