package recipes

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

func forEachSemaphore(t *testing.T, test func(t *testing.T, r *rig, opts ...Option)) {
	for _, f := range []Format{Curator, Kazoo} {
		t.Run([]string{"curator", "kazoo"}[f], func(t *testing.T) {
			r := newRig(t)
			if f == Kazoo {
				r.stays("/sem") // it holds the number
			}
			test(t, r, WithFormat(f))
		})
	}
}

func permits(s *Semaphore, n int) func(context.Context) (Lease, error) {
	return func(ctx context.Context) (Lease, error) { return s.Acquire(ctx, n) }
}

func TestSemaphoreGivesOutNoMoreThanItHas(t *testing.T) {
	forEachSemaphore(t, func(t *testing.T, r *rig, opts ...Option) {
		c := r.dial()
		a, b := NewSemaphore(c, "/sem", 3, opts...), NewSemaphore(r.dial(), "/sem", 3, opts...)
		la := mustLock(t, permits(a, 2))
		lb := mustLock(t, permits(b, 1))
		_, err := b.TryAcquire(testContext(t), 1)
		require.ErrorIs(t, err, ErrLocked)
		all, err := a.Participants(testContext(t))
		require.NoError(t, err)
		require.Len(t, all, 3)
		require.Len(t, la.Guard(), 2)
		p := start(t, testContext(t), permits(b, 2))
		eventually(t, "b waits with its nodes", func() bool {
			all, err := a.Participants(testContext(t))
			return err == nil && len(all) == 5
		})
		release(t, lb)
		p.waits()
		release(t, la)
		require.ErrorIs(t, la.Err(), ErrReleased)
		release(t, p.got())
		release(t, mustLock(t, permits(a, 3)))
		for _, n := range []int{0, -1, 4} {
			_, err = a.Acquire(testContext(t), n)
			require.ErrorContains(t, err, "can never be had")
		}
	})
}

func TestSemaphoreUnderLoad(t *testing.T) {
	forEachSemaphore(t, func(t *testing.T, r *rig, opts ...Option) {
		var held atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			var p tap
			s := NewSemaphore(r.dial(p.option()), "/sem", 3, opts...)
			wg.Go(func() {
				for n := range 15 {
					if n%7 == 6 {
						p.cut()
					}
					k := 1 + (i+n)%3
					l := mustLock(t, permits(s, k))
					if n := held.Add(int32(k)); n > 3 {
						t.Errorf("%d permits are held", n)
					}
					held.Add(int32(-k))
					release(t, l)
				}
			})
		}
		wg.Wait()
	})
}

func TestSemaphoreLosesAllPermitsWithOne(t *testing.T) {
	forEachSemaphore(t, func(t *testing.T, r *rig, opts ...Option) {
		c := r.dial()
		s := NewSemaphore(c, "/sem", 3, opts...)
		l := mustLock(t, permits(s, 3))
		ctx, cancel := l.Context(testContext(t))
		defer cancel()
		require.NoError(t, l.Verify(testContext(t)))
		require.True(t, l.Valid())
		_, err := c.Set(testContext(t), l.Path(), []byte("__REVOKE__"), client.AnyVersion)
		require.NoError(t, err)
		await(t, "the request to let go", l.RevokeRequested())
		all, err := s.Participants(testContext(t))
		require.NoError(t, err)
		require.NoError(t, s.Break(testContext(t), all[1].Node))
		await(t, "the lease ends", ctx.Done())
		require.ErrorIs(t, l.Err(), ErrRevoked)
		require.ErrorIs(t, context.Cause(ctx), ErrRevoked)
		require.False(t, l.Valid())
		release(t, l)
		l = mustLock(t, permits(s, 3))
		r.srv.ExpireSession(c.SessionID())
		await(t, "the lease ends", l.Done())
		require.ErrorIs(t, l.Err(), ErrSessionLost)
		release(t, mustLock(t, permits(s, 3)))
	})
}

func TestAcquireEndsWithItsContextAndLeavesNothing(t *testing.T) {
	forEachSemaphore(t, func(t *testing.T, r *rig, opts ...Option) {
		c, d := r.dial(), r.dial()
		a, b := NewSemaphore(c, "/sem", 2, opts...), NewSemaphore(d, "/sem", 2, opts...)
		la := mustLock(t, permits(a, 1))
		ctx, cancel := context.WithCancel(testContext(t))
		p := start(t, ctx, permits(b, 2))
		eventually(t, "b waits", func() bool {
			all, _ := a.Participants(testContext(t))
			return len(all) == 3
		})
		cancel()
		require.ErrorIs(t, p.failed(), context.Canceled)
		release(t, mustLock(t, permits(a, 1)))
		release(t, la)
	})
}

func TestKazooSemaphoresAgreeOnTheNumber(t *testing.T) {
	r := newRig(t)
	r.stays("/sem")
	c := r.dial()
	release(t, mustLock(t, permits(NewSemaphore(c, "/sem", 2, WithFormat(Kazoo)), 1)))
	_, err := NewSemaphore(c, "/sem", 3, WithFormat(Kazoo)).Acquire(testContext(t), 1)
	require.ErrorContains(t, err, "agree on one number")
}
