package recipes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// T8: as many releases as locks, and the node goes at the last one.
func TestOwnerEntersAgain(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		c := r.dial()
		m := NewMutex(c, "/lock", opts...)
		ctx := WithOwner(testContext(t), "me")
		var all []Lease
		for range 5 {
			l, err := m.Lock(ctx)
			require.NoError(t, err)
			all = append(all, l)
		}
		_, err := m.TryLock(WithOwner(testContext(t), "you"))
		require.ErrorIs(t, err, ErrLocked)
		_, err = m.TryLock(testContext(t))
		require.ErrorIs(t, err, ErrLocked, "nobody is not somebody")
		who, err := m.Participants(testContext(t))
		require.NoError(t, err)
		require.Len(t, who, 1)
		require.Equal(t, "me", who[0].ID())
		for i, l := range all {
			require.NoError(t, l.Verify(testContext(t)))
			require.Equal(t, all[0].Token(), l.Token())
			release(t, l, l) // the second time counts for nothing
			require.ErrorIs(t, l.Err(), ErrReleased)
			if i < len(all)-1 {
				require.NoError(t, all[i+1].Err())
				_, err := m.TryLock(WithOwner(testContext(t), "you"))
				require.ErrorIs(t, err, ErrLocked)
			}
		}
		l, err := m.TryLock(WithOwner(testContext(t), "you"))
		require.NoError(t, err)
		release(t, l)
	})
}

func TestUnlockIsForTheOwnerOnly(t *testing.T) {
	r := newRig(t)
	m := NewMutex(r.dial(), "/lock")
	me, you := WithOwner(testContext(t), "me"), WithOwner(testContext(t), "you")
	require.ErrorIs(t, m.Unlock(me), ErrNotHeld)
	for range 2 {
		_, err := m.Lock(me)
		require.NoError(t, err)
	}
	require.ErrorIs(t, m.Unlock(you), ErrNotHeld)
	require.ErrorIs(t, m.Unlock(testContext(t)), ErrNotHeld)
	require.NoError(t, m.Unlock(me))
	require.NoError(t, m.Unlock(me))
	require.ErrorIs(t, m.Unlock(me), ErrNotHeld)
}

func TestOwnersGoroutinesShareOneNode(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	m := NewMutex(c, "/lock")
	first := mustLock(t, m.Lock)
	ctx := WithOwner(testContext(t), "me")
	var wg sync.WaitGroup
	leases := make(chan Lease, 8)
	for range 8 {
		wg.Go(func() {
			l, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			leases <- l
		})
	}
	r.queued(c, "/lock", 2)
	short, cancel := context.WithCancel(ctx)
	p := start(t, short, m.Lock)
	cancel()
	require.ErrorIs(t, p.failed(), context.Canceled)
	release(t, first)
	wg.Wait()
	require.Len(t, r.children(c, "/lock"), 1)
	for range 8 {
		release(t, <-leases)
	}
}

// What an owner has lost it does not hold.
func TestOwnerQueuesUpAgainAfterALoss(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		c := r.dial()
		m := NewMutex(c, "/lock", opts...)
		ctx := WithOwner(testContext(t), "me")
		old, err := m.Lock(ctx)
		require.NoError(t, err)
		r.srv.ExpireSession(c.SessionID())
		await(t, "the hold ends", old.Done())
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		require.Greater(t, l.Token(), old.Token())
		release(t, old)
		require.NoError(t, l.Verify(testContext(t)))
		release(t, l)
	})
}

func TestLockWithinItselfIsAnError(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		m := NewMutex(r.dial(), "/lock", opts...)
		err := m.Do(testContext(t), func(ctx context.Context, _ Lease) error {
			_, err := m.Lock(ctx)
			return err
		})
		require.ErrorIs(t, err, ErrDeadlock)
		l := mustLock(t, m.Lock)
		ctx, cancel := l.Context(testContext(t))
		release(t, l)
		cancel()
		l, err = m.Lock(context.WithoutCancel(ctx)) // what it held is over
		require.NoError(t, err)
		release(t, l)
	})
}

func TestDoReleasesWhateverHappens(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		m := NewMutex(r.dial(), "/lock", opts...)
		why := errors.New("no")
		require.ErrorIs(t, m.Do(testContext(t), func(context.Context, Lease) error { return why }), why)
		require.Panics(t, func() {
			_ = m.Do(testContext(t), func(context.Context, Lease) error { panic("no") })
		})
		ctx, cancel := context.WithCancel(testContext(t))
		err := m.Do(ctx, func(ctx context.Context, _ Lease) error {
			cancel()
			<-ctx.Done()
			return nil
		})
		require.NoError(t, err, "f has finished, and releasing does not need the context")
		err = m.Do(testContext(t), func(ctx context.Context, l Lease) error {
			require.NoError(t, m.Break(testContext(t), base(l.Path())))
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, ErrRevoked, "f does not say it, so Do does")
		release(t, mustLock(t, m.TryLock))
	})
}

func TestLockerIsASyncLocker(t *testing.T) {
	r := newRig(t)
	a, b := r.dial(), r.dial()
	ctx, cancel := context.WithCancel(testContext(t))
	la, lb := NewMutex(a, "/lock").Locker(ctx), NewMutex(b, "/lock").Locker(ctx)
	n := 0
	var wg sync.WaitGroup
	for _, l := range []sync.Locker{la, lb} {
		wg.Go(func() {
			for range 50 {
				l.Lock()
				n++ // the race detector knows nothing of servers, but the sum does
				l.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 100, n)
	require.Panics(t, la.Unlock)
	cancel()
	require.Panics(t, la.Lock)
}

// T9: a holder is asked to let go, by Curator's word or by that of the recipes' page.
func TestHolderIsAskedToLetGo(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		c, d := r.dial(), r.dial()
		m := NewMutex(c, "/lock", opts...)
		operator := NewMutex(d, "/lock", opts...)
		for _, ask := range []func(Participant) error{
			func(p Participant) error { return operator.Revoke(testContext(t), p.Node) },
			func(p Participant) error {
				_, err := d.Set(testContext(t), p.Path, []byte("unlock"), client.AnyVersion)
				return err
			},
		} {
			l := mustLock(t, m.Lock)
			who, err := operator.Participants(testContext(t))
			require.NoError(t, err)
			require.Len(t, who, 1)
			_, err = d.Set(testContext(t), who[0].Path, []byte("something else"), client.AnyVersion)
			require.NoError(t, err)
			require.NoError(t, l.Verify(testContext(t)))
			select {
			case <-l.RevokeRequested():
				t.Error("nobody has asked")
			default:
			}
			require.NoError(t, ask(who[0]))
			await(t, "the request arrives", l.RevokeRequested())
			require.NoError(t, l.Err(), "it is up to the holder")
			release(t, l)
		}
	})
}

func TestWaiterHearsARequestThatCameBeforeItsTurn(t *testing.T) {
	r := newRig(t)
	a, b := r.dial(), r.dial()
	la := mustLock(t, NewMutex(a, "/lock").Lock)
	m := NewMutex(b, "/lock")
	p := start(t, testContext(t), m.Lock)
	r.queued(a, "/lock", 2)
	who, err := m.Participants(testContext(t))
	require.NoError(t, err)
	require.NoError(t, m.Revoke(testContext(t), who[1].Node))
	release(t, la)
	lb := p.got()
	await(t, "it knows at once", lb.RevokeRequested())
	release(t, lb)
}

// T9: Break ends the lease of a holder; one who waits queues up again, or fails if it wants to.
func TestBreakTakesTheNodeAway(t *testing.T) {
	r := newRig(t)
	a, b := r.dial(), r.dial()
	m, mb := NewMutex(a, "/lock"), NewMutex(b, "/lock", FailWhenBroken())
	la := mustLock(t, m.Lock)
	pb := start(t, testContext(t), mb.Lock)
	r.queued(a, "/lock", 2)
	pc := start(t, testContext(t), NewMutex(b, "/lock").Lock)
	r.queued(a, "/lock", 3)
	who, err := m.Participants(testContext(t))
	require.NoError(t, err)
	require.Len(t, who, 3)
	require.Error(t, m.Break(testContext(t), "no-such-thing"))
	require.NoError(t, m.Break(testContext(t), who[1].Node))
	require.NoError(t, m.Break(testContext(t), who[0].Node))
	await(t, "the hold ends", la.Done())
	require.ErrorIs(t, la.Err(), ErrRevoked)
	require.False(t, la.Valid())
	require.ErrorIs(t, pb.failed(), ErrBroken)
	lc := pc.got()
	pb = start(t, testContext(t), mb.Lock)
	r.queued(a, "/lock", 2)
	r.srv.ExpireSession(b.SessionID()) // that is not what the option is about
	await(t, "b has lost its hold", lc.Done())
	release(t, pb.got())
}

// T9: a holder that does not let go is limited; it can roll back while its node is still there.
func TestMaxHoldEndsTheHoldAfterARollBack(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		r.stays("/data")
		c := r.dial()
		_, _, err := c.Create(testContext(t), "/data", []byte("old"), client.ModePersistent, nil)
		require.NoError(t, err)
		told := make(chan error, 1)
		m := NewMutex(c, "/lock", append(opts, MaxHold(30*time.Millisecond), OnLost(func(ctx context.Context, l Lease, why error) {
			_, err := c.Multi().Add(l.Guard()...).Set("/data", []byte("rolled back"), client.AnyVersion).Commit(ctx)
			told <- errors.Join(why, err)
		}))...)
		err = m.Do(testContext(t), func(ctx context.Context, _ Lease) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, ErrMaxHold)
		require.Equal(t, ErrMaxHold.Error(), (<-told).Error(), "told once, and the guard let it write")
		release(t, mustLock(t, NewMutex(r.dial(), "/lock", opts...).Lock))
		require.Empty(t, told)
	})
}

// A function that rolls back for ever does not keep the lock for ever.
func TestRollBackIsLimited(t *testing.T) {
	r := newRig(t)
	c := r.dial(client.WithTimeout(400 * time.Millisecond))
	stuck := make(chan struct{})
	m := NewMutex(c, "/lock", MaxHold(time.Millisecond), OnLost(func(ctx context.Context, _ Lease, _ error) { <-stuck }))
	l := mustLock(t, m.Lock)
	release(t, mustLock(t, NewMutex(r.dial(), "/lock").Lock))
	close(stuck)
	await(t, "the hold has ended", l.Done())
}

func TestLostUnfairNodesGoTogether(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	m := NewMutex(c, "/lock", Unfair())
	for _, half := range []func(Lease) string{
		func(l Lease) string { return l.Path() },
		func(Lease) string { return "/lock/lock" },
	} {
		l := mustLock(t, m.Lock)
		require.NoError(t, c.Delete(testContext(t), half(l), client.AnyVersion)) // by somebody careless
		release(t, l)
		release(t, mustLock(t, m.TryLock))
	}
}

// Rule 4 of the design's section 3: a foreign contender is never passed over in silence.
func TestForeignContenderIsDetected(t *testing.T) {
	for name, tc := range map[string]struct {
		lock func(*client.Client, ...Option) func(context.Context) (Lease, error)
		node string
	}{
		"kazoo in curator": {func(c *client.Client, o ...Option) func(context.Context) (Lease, error) {
			return NewMutex(c, "/lock", o...).Lock
		}, "2f0d8a0e5b1c4c8e9d620e7c5d3f9b10__lock__"},
		"curator in kazoo": {func(c *client.Client, o ...Option) func(context.Context) (Lease, error) {
			return NewMutex(c, "/lock", append(o, WithFormat(Kazoo))...).Lock
		}, "_c_2f0d8a0e-5b1c-4c8e-9d62-0e7c5d3f9b10-lock-"},
		"zookeeper in curator": {func(c *client.Client, o ...Option) func(context.Context) (Lease, error) {
			return NewMutex(c, "/lock", o...).Lock
		}, "x-72057594037927936-"},
		"mutex in a read lock": {func(c *client.Client, o ...Option) func(context.Context) (Lease, error) {
			return NewRWMutex(c, "/lock", o...).RLock
		}, "_c_2f0d8a0e-5b1c-4c8e-9d62-0e7c5d3f9b10-lock-"},
		"latch in an election of selectors": {func(c *client.Client, o ...Option) func(context.Context) (Lease, error) {
			return NewElection(c, "/lock", append(o, JoinSelectors())...).Campaign
		}, "_c_2f0d8a0e-5b1c-4c8e-9d62-0e7c5d3f9b10-latch-"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c, other := r.dial(), r.dial()
			node, _, err := other.Create(testContext(t), "/lock/"+tc.node, nil, client.ModeEphemeralSequential, nil, client.MakeParents())
			require.NoError(t, err)
			_, err = tc.lock(c)(testContext(t))
			var foreign *ForeignContenderError
			require.ErrorAs(t, err, &foreign)
			require.Equal(t, node, foreign.Path)
			require.Contains(t, err.Error(), node)
			r.queued(c, "/lock", 1)

			told := make(chan string, 10)
			p := start(t, testContext(t), tc.lock(c, WaitForForeign(func(path string) { told <- path })))
			r.queued(c, "/lock", 2)
			require.Equal(t, node, <-told)
			p.waits()
			require.NoError(t, other.Delete(testContext(t), node, client.AnyVersion))
			release(t, p.got())
		})
	}
}

func TestOtherNodesBesideAQueueDoNotMatter(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	_, _, err := c.Create(testContext(t), "/lock/notes", nil, client.ModePersistent, nil, client.MakeParents())
	require.NoError(t, err)
	release(t, mustLock(t, NewMutex(c, "/lock").TryLock))
}
