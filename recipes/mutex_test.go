package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// forms are the ways in which a mutex works.
var forms = map[string][]Option{
	"fair":   nil,
	"kazoo":  {WithFormat(Kazoo)},
	"unfair": {Unfair()},
}

func forEachForm(t *testing.T, test func(t *testing.T, opts ...Option)) {
	for name, opts := range forms {
		t.Run(name, func(t *testing.T) { test(t, opts...) })
	}
}

func TestMutexHasOneHolder(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		a, b := r.dial(), r.dial()
		ma, mb := NewMutex(a, "/deep/er/lock", opts...), NewMutex(b, "/deep/er/lock", opts...)
		la := mustLock(t, ma.Lock)
		require.NoError(t, la.Err())
		require.True(t, la.Valid())
		require.NoError(t, la.Verify(testContext(t)))
		_, err := mb.TryLock(testContext(t))
		require.ErrorIs(t, err, ErrLocked)
		p := start(t, testContext(t), mb.Lock)
		eventually(t, "b waits", func() bool { return b.Stats().Watches == 1 })
		p.waits()
		release(t, la)
		require.ErrorIs(t, la.Err(), ErrReleased)
		require.False(t, la.Valid())
		require.ErrorIs(t, la.Verify(testContext(t)), ErrReleased)
		release(t, la)
		lb := p.got()
		require.Greater(t, lb.Token(), la.Token())
		release(t, lb)
		lb, err = mb.TryLock(testContext(t))
		require.NoError(t, err)
		release(t, lb)
	})
}

// A timed lock is one whose context has a deadline.
func TestLockEndsWithItsContextAndLeavesNothing(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		a, b := r.dial(), r.dial()
		ma, mb := NewMutex(a, "/lock", opts...), NewMutex(b, "/lock", opts...)
		la := mustLock(t, ma.Lock)
		before := len(r.children(a, "/lock"))

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := mb.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		why := errors.New("changed our mind")
		ctx, stop := context.WithCancelCause(t.Context())
		p := start(t, ctx, mb.Lock)
		eventually(t, "b waits", func() bool { return b.Stats().Watches == 1 })
		stop(why)
		err = p.failed()
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, err, context.Canceled)

		_, err = mb.Lock(ctx)
		require.ErrorIs(t, err, why)
		r.queued(a, "/lock", before)
		eventually(t, "no watch but the holder's", func() bool {
			n, ok := r.watches()
			return ok && n == a.Stats().Watches
		})
		release(t, la)
	})
}

// T6: the context ends while the n-th request of Lock is on its way, for every n.
func TestLockCanBeGivenUpAtEveryStep(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		holder := mustLock(t, NewMutex(r.dial(), "/lock", opts...).Lock)
		for _, contended := range []bool{true, false} {
			if !contended {
				release(t, holder)
			}
			for n, far := int32(1), false; !far; n++ {
				far = giveUpAt(t, r, n, opts)
				require.Less(t, n, int32(20), "it never gets as far as to wait or to hold")
			}
		}
	})
}

// giveUpAt ends the context of a Lock when the n-th reply comes, or when it waits or holds before
// that, which it returns.
func giveUpAt(t *testing.T, r *rig, n int32, opts []Option) (far bool) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var left atomic.Int32
	left.Store(n)
	p := &tap{reply: func(op wire.OpCode, _ []byte) bool {
		if op != wire.OpPing && left.Add(-1) == 0 {
			cancel()
		}
		return true
	}}
	c := r.dial(p.option())
	defer r.close(c)
	done := make(chan error, 1)
	go func() {
		l, err := NewMutex(c, "/lock", opts...).Lock(ctx)
		if err == nil {
			err = l.Release(testContext(t))
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("lock: %v", err)
		}
		done <- err
	}()
	eventually(t, "it returns or waits", func() bool { return len(done) == 1 || c.Stats().Watches == 1 || left.Load() <= 0 })
	far = left.Load() > 0
	cancel()
	<-done
	eventually(t, "nothing is left", func() bool {
		s := c.Stats()
		return s.Watches+s.Background == 0
	})
	return far
}

func TestContextsEndWithTheHold(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		c := r.dial()
		l := mustLock(t, NewMutex(c, "/lock", opts...).Lock)
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		require.NoError(t, ctx.Err())
		release(t, l)
		await(t, "the context ends", ctx.Done())
		require.ErrorIs(t, context.Cause(ctx), ErrReleased)
		late, cancel := l.Context(t.Context())
		defer cancel()
		await(t, "so does a later one", late.Done())
	})
}

// T3: the holder knows before anybody else can hold.
func TestHoldIsLostHereBeforeItIsLostThere(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 3
	}
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		next := r.dial()
		var wg sync.WaitGroup
		for i := range runs {
			path := fmt.Sprintf("/lock%d", i)
			p := &tap{}
			c := r.dial(p.option(), client.WithTimeout(time.Second))
			l := mustLock(t, NewMutex(c, path, opts...).Lock)
			wg.Go(func() {
				w := start(t, testContext(t), NewMutex(next, path, opts...).Lock)
				p.silent.Store(true)
				lb := w.got()
				if l.Valid() { // a matter of clocks; how early Done tells depends on how late a timer fires
					t.Error("the next one holds the lock and the first does not know that it has lost it")
				}
				await(t, "the first is told", l.Done())
				if !errors.Is(l.Err(), ErrSessionLost) {
					t.Errorf("error %v", l.Err())
				}
				p.silent.Store(false)
				p.cut()
				if err := errors.Join(lb.Release(testContext(t)), l.Release(testContext(t))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestExpiredSessionLosesTheHold(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		c := r.dial()
		m := NewMutex(c, "/lock", opts...)
		l := mustLock(t, m.Lock)
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		r.srv.ExpireSession(c.SessionID())
		await(t, "the hold ends", ctx.Done())
		require.ErrorIs(t, context.Cause(ctx), ErrSessionLost)
		again := mustLock(t, m.Lock)
		require.Greater(t, again.Token(), l.Token())
		require.NoError(t, l.Release(testContext(t)), "releasing what was lost")
		require.NoError(t, again.Verify(testContext(t)), "and it does not harm who holds now")
		release(t, again)
	})
}

// One who waits while its session expires queues up again.
func TestWaiterSurvivesTheEndOfItsSession(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		a, b := r.dial(), r.dial()
		la := mustLock(t, NewMutex(a, "/lock", opts...).Lock)
		p := start(t, testContext(t), NewMutex(b, "/lock", opts...).Lock)
		eventually(t, "b waits", func() bool { return b.Stats().Watches == 1 })
		old := b.SessionID()
		r.srv.ExpireSession(old)
		eventually(t, "b waits in a new session", func() bool { return b.SessionID() != old && b.Stats().Watches == 1 })
		p.waits()
		release(t, la)
		release(t, p.got())
	})
}

func TestHoldSurvivesAReconnect(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		var p tap
		c := r.dial(p.option())
		l := mustLock(t, NewMutex(c, "/lock", opts...).Lock)
		for range 5 {
			p.cut()
			require.NoError(t, l.Verify(testContext(t)))
		}
		require.True(t, l.Valid())
		release(t, l)
	})
}

func TestStrictHoldEndsWithTheConnection(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		var p tap
		c := r.dial(p.option())
		l := mustLock(t, NewMutex(c, "/lock", append(opts, StrictOnDisconnect())...).Lock)
		p.cut()
		await(t, "the hold ends", l.Done())
		require.ErrorIs(t, l.Err(), ErrSessionLost)
		release(t, mustLock(t, NewMutex(r.dial(), "/lock", opts...).Lock)) // its node is gone too
	})
}

// T2: the reply to each request is lost once, with the connection.
func TestLostRepliesLeaveOneNode(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		release(t, mustLock(t, NewMutex(r.dial(), "/lock", opts...).Lock)) // so the first reply is that to the create
		for n := int32(1); n <= 12; n++ {
			var left atomic.Int32
			left.Store(n)
			p := &tap{reply: func(op wire.OpCode, _ []byte) bool {
				return op == wire.OpPing || left.Add(-1) != 0
			}}
			c := r.dial(p.option())
			m := NewMutex(c, "/lock", opts...)
			l := mustLock(t, m.Lock)
			require.NoError(t, l.Err())
			all, err := m.Participants(testContext(t))
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, l.Path(), all[0].Path)
			release(t, l)
			r.close(c)
		}
	})
}

// T7: a waiter in the middle gives up; the one behind it goes on waiting.
func TestWaiterInTheMiddleDies(t *testing.T) {
	r := newRig(t)
	a, b, d := r.dial(), r.dial(), r.dial()
	la := mustLock(t, NewMutex(a, "/lock").Lock)
	pb := start(t, testContext(t), NewMutex(b, "/lock").Lock)
	r.queued(a, "/lock", 2)
	pd := start(t, testContext(t), NewMutex(d, "/lock").Lock)
	r.queued(a, "/lock", 3)
	eventually(t, "all wait", func() bool { return d.Stats().Watches == 1 })
	r.srv.ExpireSession(b.SessionID()) // and b queues up again, behind d
	eventually(t, "b is behind d", func() bool {
		all, err := NewMutex(a, "/lock").Participants(testContext(t))
		return err == nil && len(all) == 3 && all[2].Session == b.SessionID() && all[1].Session == d.SessionID()
	})
	pd.waits()
	release(t, la)
	ld := pd.got()
	pb.waits()
	release(t, ld)
	release(t, pb.got())
}

// T7: holders follow one another in the order of their nodes, so tokens grow.
func TestHoldersFollowInOrder(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	m := NewMutex(c, "/lock")
	first := mustLock(t, m.Lock)
	var mu sync.Mutex
	var got []int
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			l := mustLock(t, m.Lock)
			mu.Lock()
			got = append(got, i)
			mu.Unlock()
			release(t, l)
		})
		r.queued(c, "/lock", i+2)
	}
	release(t, first)
	wg.Wait()
	for i := range got {
		require.Equal(t, i, got[i], "%v", got)
	}
}

// T5: one release wakes one of many, who lists once.
func TestReleaseWakesOneWaiter(t *testing.T) {
	waiters := 1000
	if testing.Short() {
		waiters = 50
	}
	r := newRig(t)
	holder := r.dial()
	first := mustLock(t, NewMutex(holder, "/lock").Lock)
	var p tap
	c := r.dial(p.option(), client.WithTimeout(time.Minute))
	m := NewMutex(c, "/lock")
	ctx, cancel := context.WithTimeout(t.Context(), 4*testLimit) // a thousand who list a thousand
	defer cancel()
	turns := make(chan Lease)
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			if l, err := m.Lock(ctx); err == nil {
				turns <- l
			}
		})
	}
	for c.Stats().Watches != waiters {
		require.NoError(t, ctx.Err(), "all wait")
		time.Sleep(time.Millisecond) // between two looks at the condition
	}
	p.reset()
	release(t, first)
	second := <-turns
	ops, events := p.look()
	require.Equal(t, 1, events)
	require.Equal(t, map[wire.OpCode]int{
		wire.OpGetChildren2: 1,
		wire.OpGetData:      1, // of its own node
	}, ops)
	cancel()
	wg.Wait()
	release(t, second)
}

// T5: in the unfair form everybody is woken, and all but one fail, as documented.
func TestUnfairReleaseWakesEveryWaiter(t *testing.T) {
	const waiters = 50
	r := newRig(t)
	first := mustLock(t, NewMutex(r.dial(), "/lock", Unfair()).Lock)
	var taps [waiters]tap
	turns := make(chan Lease)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var wg sync.WaitGroup
	var clients []*client.Client
	for i := range waiters {
		c := r.dial(taps[i].option())
		clients = append(clients, c)
		wg.Go(func() {
			if l, err := NewMutex(c, "/lock", Unfair()).Lock(ctx); err == nil {
				turns <- l
			}
		})
	}
	watching := func() (n int) {
		for _, c := range clients {
			n += c.Stats().Watches
		}
		return n
	}
	eventually(t, "all wait", func() bool { return watching() == waiters })
	for i := range taps {
		taps[i].reset()
	}
	release(t, first)
	second := <-turns
	seen := func() (creates, events int) {
		for i := range taps {
			ops, n := taps[i].look()
			creates += ops[wire.OpMulti]
			events += n
		}
		return creates, events
	}
	// The watches alone do not tell: somebody who was not woken yet watches, too.
	eventually(t, "all were woken and the others wait again", func() bool {
		creates, events := seen()
		return creates >= waiters && events >= waiters && watching() == waiters+1 // two are the holder's, of its nodes
	})
	creates, events := seen()
	require.Equal(t, waiters, creates, "%d of them in vain", waiters-1)
	require.Equal(t, waiters, events)
	cancel()
	wg.Wait()
	release(t, second)
}

// The guard of a lease holds back what comes too late.
func TestGuardHoldsBackALateWrite(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		r.stays("/data")
		c := r.dial()
		_, _, err := c.Create(testContext(t), "/data", nil, client.ModePersistent, nil)
		require.NoError(t, err)
		m := NewMutex(c, "/lock", opts...)
		l := mustLock(t, m.Lock)
		write := func(l Lease, s string) error {
			_, err := c.Multi().Add(l.Guard()...).Set("/data", []byte(s), client.AnyVersion).Commit(testContext(t))
			return err
		}
		require.NoError(t, write(l, "held"))
		release(t, l)
		next := mustLock(t, m.Lock) // somebody holds it, and it is not l
		require.ErrorIs(t, write(l, "late"), client.ErrNoNode)
		require.NoError(t, write(next, "next"))
		data, _, err := c.Get(testContext(t), "/data")
		require.NoError(t, err)
		require.Equal(t, "next", string(data))
		release(t, next)
	})
}

// T1, on one server: contenders whose connections are cut and whose sessions expire, with the
// server restarting, never hold at the same time, and their tokens grow.
func TestContendersExcludeEachOther(t *testing.T) {
	lasts, enough := 4*time.Second, 100
	if testing.Short() {
		lasts, enough = time.Second, 20
	}
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		var h history
		var wg sync.WaitGroup
		var taps []*tap
		var clients []*client.Client
		for range 10 {
			p := &tap{}
			c := r.dial(p.option(), client.WithTimeout(2*time.Second),
				client.WithReconnect(client.BackoffFunc(func(int) (time.Duration, bool) { return 5 * time.Millisecond, true })))
			taps, clients = append(taps, p), append(clients, c)
			m := NewMutex(c, "/lock", opts...)
			for range 5 {
				wg.Go(func() { h.contend(t, ctx, m) })
			}
		}
		for began := time.Now(); time.Since(began) < lasts || h.count() < enough; {
			require.NoError(t, ctx.Err(), "%d holds", h.count())
			switch i := rand.IntN(len(taps)); rand.IntN(40) {
			case 0:
				r.srv.Restart()
			case 1, 2, 3:
				if id := clients[i].SessionID(); id != 0 {
					h.expire(r, id)
				}
			case 4, 5, 6: // of whoever holds
				if all, err := NewMutex(clients[i], "/lock", opts...).Participants(testContext(t)); err == nil && len(all) > 0 {
					h.expire(r, all[0].Session)
				}
			default:
				taps[i].cut()
			}
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // the rhythm of the faults
		}
		cancel()
		wg.Wait()
		t.Logf("%d holds, %d of them lost", h.holds, h.lost)
	})
}

// A history checks holds as they come.
type history struct {
	mu          sync.Mutex
	present     Lease
	killed      map[int64]bool // sessions that ended before their time
	holds, lost int
}

// expire ends a session although its client is alive. No client can know that at once, so the
// holder's belief does not count from here on; the tokens still do.
func (h *history) expire(r *rig, session int64) {
	h.mu.Lock()
	if h.killed == nil {
		h.killed = map[int64]bool{}
	}
	h.killed[session] = true
	h.mu.Unlock()
	r.srv.ExpireSession(session)
}

func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holds
}

func (h *history) believes(l Lease) bool {
	return !h.killed[l.(*hold).session.ID()] && l.Valid()
}

func (h *history) contend(t *testing.T, ctx context.Context, m *Mutex) {
	for {
		l, err := m.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("lock: %v", err)
			}
			return
		}
		h.mu.Lock()
		h.holds++
		if old := h.present; old != nil {
			if h.believes(old) && h.believes(l) {
				t.Errorf("two hold at once: %s and %s", old.Path(), l.Path())
			}
			// One whose session ended before it came here may find the next holder's entry.
			if l.Token() <= old.Token() && h.believes(l) {
				t.Errorf("token %d behind %d", l.Token(), old.Token())
			}
		}
		if h.present == nil || l.Token() > h.present.Token() {
			h.present = l
		}
		h.mu.Unlock()
		select {
		case <-l.Done():
		case <-time.After(time.Duration(rand.IntN(3)*rand.IntN(12)) * time.Millisecond): // it works
		}
		if l.Err() != nil {
			h.mu.Lock()
			h.lost++
			h.mu.Unlock()
		}
		if err := l.Release(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("release: %v", err)
		}
	}
}
