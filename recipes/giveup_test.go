package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// A deed is something that a recipe does, and that can be given up at every step on its way.
type deed struct {
	stays []string                                          // paths that may be left
	setup func(t *testing.T, r *rig, c *client.Client)      // what was there before
	do    func(ctx context.Context, c *client.Client) error // undoes what it has done, if it succeeds
	waits bool                                              // it succeeds never: it waits for something
}

// hands is the context of what has to be cleaned up after the deed's own has ended.
func hands(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), testLimit)
}

// held makes a deed of what returns a lease.
func held(lock func(ctx context.Context, c *client.Client) (Lease, error)) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		l, err := lock(ctx, c)
		if err != nil {
			return err
		}
		ctx, cancel := hands(ctx)
		defer cancel()
		return l.Release(ctx)
	}
}

func mutexAt(opts ...Option) func(context.Context, *client.Client) error {
	return held(func(ctx context.Context, c *client.Client) (Lease, error) {
		return NewMutex(c, "/x", opts...).Lock(ctx)
	})
}

func lockedBy(lock func(c *client.Client) func(context.Context) (Lease, error)) func(*testing.T, *rig, *client.Client) {
	return func(t *testing.T, r *rig, c *client.Client) {
		l := mustLock(t, lock(c))
		t.Cleanup(func() { release(t, l) })
	}
}

func aMutex(c *client.Client) func(context.Context) (Lease, error) { return NewMutex(c, "/x").Lock }
func anUnfair(c *client.Client) func(context.Context) (Lease, error) {
	return NewMutex(c, "/x", Unfair()).Lock
}

// partition is a deed that ends when items are acquired.
func partition(opts ...PartitionOption) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		for p, err := range NewPartitioner(c, "/x", "me", []string{"a", "b"}, time.Millisecond, opts...).Run(ctx) {
			if err != nil {
				return err
			}
			if p.State == PartitionAcquired {
				return nil
			}
		}
		return errors.New("the partitioner ended without a reason")
	}
}

// take is a deed with a queue that holds two items.
func take(form QueueForm, f func(ctx context.Context, q *Queue[string]) error) deed {
	return deed{
		stays: []string{"/x"},
		setup: func(t *testing.T, _ *rig, c *client.Client) {
			require.NoError(t, NewQueue(c, "/x", form, Text()).PutAll(testContext(t), []string{"a", "b"}))
		},
		do: func(ctx context.Context, c *client.Client) error {
			q := NewQueue(c, "/x", form, Text())
			defer q.Close()
			return f(ctx, q)
		},
	}
}

func holdAndReturn(ctx context.Context, q *Queue[string]) error {
	it, err := q.Hold(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := hands(ctx)
	defer cancel()
	return it.Release(ctx)
}

func putAndFinish(ctx context.Context, q *Queue[string]) error {
	if err := q.Put(ctx, "more"); err != nil {
		return err
	}
	it, err := q.Hold(ctx)
	if err != nil {
		return err
	}
	return it.Finish(ctx)
}

func withCache[T any](f func(c *client.Client) *Cache[T]) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		k := f(c)
		defer k.Close()
		return k.Ready(ctx)
	}
}

func someTree(t *testing.T, _ *rig, c *client.Client) {
	create(t, c, "/x", "")
	for i := range 5 {
		create(t, c, fmt.Sprint("/x/", i), "v")
	}
}

func kept(f func(c *client.Client) *PersistentNode) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		n := f(c)
		err := n.Await(ctx)
		done, cancel := hands(ctx)
		defer cancel()
		return errors.Join(err, n.Close(done))
	}
}

func entering(n int) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		p, err := NewDoubleBarrier(c, "/x", n).Enter(ctx)
		if err != nil {
			return err
		}
		return p.Leave(ctx)
	}
}

var deeds = map[string]deed{
	"mutex":                {do: mutexAt()},
	"mutex, contended":     {do: mutexAt(), setup: lockedBy(aMutex), waits: true},
	"mutex, kazoo":         {do: mutexAt(WithFormat(Kazoo))},
	"mutex, unfair":        {do: mutexAt(Unfair())},
	"mutex, unfair, taken": {do: mutexAt(Unfair()), setup: lockedBy(anUnfair), waits: true},
	"mutex, try": {setup: lockedBy(aMutex), do: func(ctx context.Context, c *client.Client) error {
		_, err := NewMutex(c, "/x").TryLock(ctx)
		return unless(err, ErrLocked)
	}},
	"mutex, verified": {do: func(ctx context.Context, c *client.Client) error {
		return NewMutex(c, "/x").Do(ctx, func(ctx context.Context, l Lease) error { return l.Verify(ctx) })
	}},
	"mutex, owner": {do: func(ctx context.Context, c *client.Client) error {
		return mutexAt()(WithOwner(ctx, "me"), c)
	}},
	"read lock": {do: held(func(ctx context.Context, c *client.Client) (Lease, error) { return NewRWMutex(c, "/x").RLock(ctx) })},
	"write lock behind a reader": {
		setup: lockedBy(func(c *client.Client) func(context.Context) (Lease, error) { return NewRWMutex(c, "/x").RLock }),
		do:    held(func(ctx context.Context, c *client.Client) (Lease, error) { return NewRWMutex(c, "/x").Lock(ctx) }), waits: true,
	},
	"semaphore": {do: held(func(ctx context.Context, c *client.Client) (Lease, error) {
		return NewSemaphore(c, "/x", 3).Acquire(ctx, 2)
	})},
	"semaphore, kazoo": {stays: []string{"/x"}, do: held(func(ctx context.Context, c *client.Client) (Lease, error) {
		return NewSemaphore(c, "/x", 3, WithFormat(Kazoo)).Acquire(ctx, 2)
	})},
	"semaphore, full": {
		setup: lockedBy(func(c *client.Client) func(context.Context) (Lease, error) {
			return permits(NewSemaphore(c, "/x", 2), 1)
		}),
		do: held(func(ctx context.Context, c *client.Client) (Lease, error) {
			return NewSemaphore(c, "/x", 2).Acquire(ctx, 2)
		}), waits: true,
	},
	"several locks": {do: held(func(ctx context.Context, c *client.Client) (Lease, error) {
		return NewMultiLock(NewMutex(c, "/x/a"), NewMutex(c, "/x/b", Unfair()), ReadHalf(NewRWMutex(c, "/x/c"))).Lock(ctx)
	})},
	"campaign": {do: held(func(ctx context.Context, c *client.Client) (Lease, error) { return NewElection(c, "/x").Campaign(ctx) })},
	"run": {do: func(ctx context.Context, c *client.Client) error {
		return NewElection(c, "/x", Unfair()).Run(ctx, func(context.Context, Lease) error { return nil })
	}},
	"observe": {
		setup: lockedBy(func(c *client.Client) func(context.Context) (Lease, error) { return NewElection(c, "/x").Campaign }),
		do: func(ctx context.Context, c *client.Client) error {
			for _, err := range NewElection(c, "/x").Observe(ctx) {
				return err
			}
			return nil
		},
	},
	"barrier": {stays: []string{"/x"}, do: func(ctx context.Context, c *client.Client) error {
		b := NewBarrier(c, "/x")
		if err := b.Set(ctx); err != nil {
			return err
		}
		if err := b.Remove(ctx); err != nil {
			return err
		}
		return b.Wait(ctx)
	}},
	"barrier that is up": {
		stays: []string{"/x"}, waits: true,
		setup: func(t *testing.T, _ *rig, c *client.Client) {
			require.NoError(t, NewBarrier(c, "/x").Set(testContext(t)))
		},
		do: func(ctx context.Context, c *client.Client) error { return NewBarrier(c, "/x").Wait(ctx) },
	},
	"double barrier":          {do: entering(1)},
	"double barrier, too few": {do: entering(2), waits: true},
	"counter": {stays: []string{"/x"}, do: func(ctx context.Context, c *client.Client) error {
		_, err := NewCounter(c, "/x").Add(ctx, 1)
		return err
	}},
	"counter, once": {stays: []string{"/x"}, do: func(ctx context.Context, c *client.Client) error {
		_, err := NewCounter(c, "/x").AddOnce(ctx, 1)
		return err
	}},
	"shared value": {stays: []string{"/x"}, do: func(ctx context.Context, c *client.Client) error {
		v := NewSharedValue(c, "/x", Text(), "seed")
		defer v.Close()
		if err := v.Ready(ctx); err != nil {
			return err
		}
		return v.Set(ctx, "new")
	}},
	"queue": take(QueueSimple, func(ctx context.Context, q *Queue[string]) error {
		_, _, err := q.TryTake(ctx)
		return err
	}),
	"queue, empty": {stays: []string{"/x"}, waits: true, do: func(ctx context.Context, c *client.Client) error {
		q := NewQueue(c, "/x", QueueSimple, Text())
		defer q.Close()
		_, err := q.Take(ctx)
		return err
	}},
	"queue, held":             take(QueueKazooLocking, holdAndReturn),
	"queue, held, curator":    take(QueueCurator, holdAndReturn),
	"queue, put and finished": take(QueueKazoo, putAndFinish),
	"persistent node": {do: kept(func(c *client.Client) *PersistentNode {
		return NewPersistentNode(c, "/x/n", client.ModeEphemeral, []byte("d"))
	})},
	"persistent sequential node": {do: kept(func(c *client.Client) *PersistentNode {
		return NewPersistentNode(c, "/x/n-", client.ModeEphemeralSequential, []byte("d"))
	})},
	"group": {do: func(ctx context.Context, c *client.Client) error {
		g := JoinGroup(c, "/x", "me", nil, GroupParty)
		err := g.Await(ctx)
		done, cancel := hands(ctx)
		defer cancel()
		return errors.Join(err, g.Leave(done))
	}},
	"partition":            {do: partition()},
	"partition, by leader": {do: partition(AssignedByLeader()), stays: []string{"/x/assignment"}},
	"tree cache": {stays: []string{"/x"}, setup: someTree, do: withCache(func(c *client.Client) *Cache[string] {
		return NewTreeCache(c, "/x", Text())
	})},
	"node cache": {do: withCache(func(c *client.Client) *Cache[string] { return NewNodeCache(c, "/x", Text()) })},
	"discovery": {do: func(ctx context.Context, c *client.Client) error {
		n, err := NewDiscovery(c, "/x").Register(ctx, ServiceInstance{Name: "web"})
		if err != nil {
			return err
		}
		ctx, cancel := hands(ctx)
		defer cancel()
		return n.Close(ctx)
	}},
	"non-blocking lease": {stays: []string{"/x"}, do: func(ctx context.Context, c *client.Client) error {
		_, err := NewNonBlockingLease(c, "/x", "me", time.Hour).Obtain(ctx)
		return err
	}},
}

// T6 and T2 for every recipe: the context ends when the n-th request is sent, and when the n-th reply
// comes; the connection is cut at the same places. What was given up says so, and leaves neither node
// nor watch; what lost its connection succeeds all the same, or says that it does not know.
func TestEveryDeedCanBeGivenUpAtEveryStep(t *testing.T) {
	for name, d := range deeds {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.stays(d.stays...)
			operator := r.dial()
			if d.setup != nil {
				d.setup(t, r, operator)
			}
			before := len(r.left(operator))
			for _, trouble := range []string{"given up at a request", "given up at a reply", "request cut", "reply cut"} {
				for n, far := int32(1), false; !far; n += stride(n) {
					require.Less(t, n, int32(100), "it never comes to an end")
					far = d.disturb(t, r, trouble, n, func() bool { return len(r.left(operator)) <= before })
					if t.Failed() {
						return
					}
				}
			}
		})
	}
}

// stride leaves out some of the later steps, unless there is time.
func stride(n int32) int32 {
	if n > 6 && !*long {
		return 3
	}
	return 1
}

// disturb runs the deed with one trouble at the n-th frame, and says whether it ended, or waited, before
// that. What it leaves behind is looked for while its session lives.
func (d *deed) disturb(t *testing.T, r *rig, trouble string, n int32, clean func() bool) (far bool) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var left atomic.Int32
	left.Store(n)
	hit := func(op wire.OpCode) bool { return op != wire.OpPing && left.Add(-1) == 0 }
	p := &tap{}
	switch trouble {
	case "given up at a request":
		p.request = func(op wire.OpCode) {
			if hit(op) {
				cancel()
			}
		}
	case "given up at a reply":
		p.reply = func(op wire.OpCode, _ []byte) bool {
			if hit(op) {
				cancel()
			}
			return true
		}
	case "request cut":
		p.request = func(op wire.OpCode) {
			if hit(op) {
				p.cut()
			}
		}
	case "reply cut":
		p.reply = func(op wire.OpCode, _ []byte) bool { return !hit(op) }
	}
	c := r.dial(p.option(), fastReconnect())
	defer r.close(c)
	done := make(chan error, 1)
	go func() { done <- d.do(ctx, c) }()
	var err error
	if d.waits {
		var at time.Time // since when nothing moves
		var frames int
		eventually(t, "it waits or has met its trouble", func() bool {
			if left.Load() <= 0 || len(done) == 1 {
				return true
			}
			if now := p.sent(); now != frames || at.IsZero() {
				frames, at = now, time.Now()
			}
			return time.Since(at) > 30*time.Millisecond && c.Stats().Watches > 0
		})
		far = left.Load() > 0
		cancel()
	}
	select {
	case err = <-done:
	case <-time.After(testLimit):
		t.Fatalf("%s %d: it does not return", trouble, n)
	}
	far = far || left.Load() > 0
	switch {
	case err == nil && d.waits:
		t.Errorf("%s %d: it succeeded", trouble, n)
	case err == nil, errors.Is(err, ErrUnknownOutcome):
	case ctx.Err() == nil || !errors.Is(err, context.Canceled):
		t.Errorf("%s %d: %v", trouble, n, err)
	}
	eventually(t, fmt.Sprintf("the client is clean: %s %d", trouble, n), func() bool {
		s := c.Stats()
		return s.Watches+s.Subscriptions+s.Background == 0
	})
	eventually(t, fmt.Sprintf("nothing is left: %s %d", trouble, n), clean)
	return far
}

// The server answers garbage, or never again, at the n-th reply, or does not hear the n-th request.
// Under virtual time, so that waiting for the silence to be noticed costs nothing.
func TestEveryDeedSurvivesAServerThatIsNotWell(t *testing.T) {
	troubles := map[string]struct {
		dir  zkdtest.Direction
		what zkdtest.Action
	}{
		"garbage":      {zkdtest.ToClient, zkdtest.Garbage([]byte{0, 0, 0, 20, 0xff, 0xee, 0xdd, 0xcc, 5, 4, 3, 2, 1, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0})},
		"no frame":     {zkdtest.ToClient, zkdtest.Garbage([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))},
		"no answer":    {zkdtest.ToClient, zkdtest.Mute()},
		"not heard":    {zkdtest.ToServer, zkdtest.Mute()},
		"late answers": {zkdtest.ToClient, zkdtest.Delay(20 * time.Second)},
	}
	for name, d := range deeds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zkdtest.Start(t, zkdtest.InMemory())
				r := &rig{t: t, srv: single{srv}, stay: d.stays, opts: []client.Option{client.WithDialer(srv.Dial)}}
				operator := r.dial()
				defer r.close(operator)
				if d.setup != nil {
					holds := r.dial(client.WithTimeout(time.Minute))
					t.Cleanup(func() { r.close(holds) })
					d.setup(t, r, holds)
				}
				before := len(r.left(operator))
				if !*long {
					delete(troubles, "no frame") // as garbage
				}
				for trouble, what := range troubles {
					for n, far := int32(1), false; !far; n += stride(n) {
						require.Less(t, n, int32(100), "it never comes to an end")
						p := srv.Proxy()
						p.At(what.dir, 1+int(n), what.what) // the first is the handshake
						far = d.endure(t, r, p, trouble, what.dir, int(n), func() bool { return len(r.left(operator)) <= before })
					}
				}
			})
		})
	}
}

// endure runs the deed behind a proxy, and says whether it ended, or waited, before the trouble.
func (d *deed) endure(t *testing.T, r *rig, p *zkdtest.Proxy, trouble string, dir zkdtest.Direction, n int, clean func() bool) (far bool) {
	c := r.dialTo(p.Addr(), client.WithTimeout(4*time.Second))
	defer r.close(c)
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Minute)
	defer cancel()
	err := d.do(ctx, c)
	far = p.Frames(dir) < 1+n
	switch {
	case d.waits && !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("%s %d: %v", trouble, n, err)
	case d.waits, err == nil, errors.Is(err, ErrUnknownOutcome):
	case errors.Is(err, ErrSessionLost), errors.Is(err, client.ErrSessionExpired):
		// it was silent for too long, and says so
	default:
		t.Errorf("%s %d: %v", trouble, n, err)
	}
	eventually(t, fmt.Sprintf("nothing is left: %s %d", trouble, n), clean)
	return far
}
