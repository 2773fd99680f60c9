package recipes

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func forEachRW(t *testing.T, test func(t *testing.T, r *rig, opts ...Option)) {
	for _, f := range []Format{Curator, Kazoo} {
		t.Run([]string{"curator", "kazoo"}[f], func(t *testing.T) { test(t, newRig(t), WithFormat(f)) })
	}
}

// T12: readers together, writers alone, nobody overtakes.
func TestReadersShareAndWritersDoNot(t *testing.T) {
	forEachRW(t, func(t *testing.T, r *rig, opts ...Option) {
		c, d := r.dial(), r.dial()
		m, other := NewRWMutex(c, "/lock", opts...), NewRWMutex(d, "/lock", opts...)
		r1, r2 := mustLock(t, m.RLock), mustLock(t, other.RLock)
		_, err := m.TryLock(testContext(t))
		require.ErrorIs(t, err, ErrLocked)
		w := start(t, testContext(t), m.Lock)
		r.queued(c, "/lock", 3)
		_, err = other.TryRLock(testContext(t))
		require.ErrorIs(t, err, ErrLocked, "a reader does not overtake a writer")
		late := start(t, testContext(t), other.RLock)
		r.queued(c, "/lock", 4)
		who, err := m.Participants(testContext(t))
		require.NoError(t, err)
		require.Len(t, who, 4)
		require.Equal(t, []bool{true, true, false, true}, []bool{who[0].Reader, who[1].Reader, who[2].Reader, who[3].Reader})
		release(t, r1)
		w.waits()
		release(t, r2)
		lw := w.got()
		late.waits()
		_, err = other.TryRLock(testContext(t))
		require.ErrorIs(t, err, ErrLocked)
		release(t, lw)
		release(t, late.got())
	})
}

// T12, python-zk/kazoo issue 649: a reader looked at writers behind it too, and both waited for
// each other: writer, reader, writer in the queue, and the first writer ends.
func TestReaderDoesNotWaitForLaterWriters(t *testing.T) {
	forEachRW(t, func(t *testing.T, r *rig, opts ...Option) {
		c := r.dial()
		m := NewRWMutex(c, "/lock", opts...)
		first := mustLock(t, m.Lock)
		reader := start(t, testContext(t), m.RLock)
		r.queued(c, "/lock", 2)
		second := start(t, testContext(t), m.Lock)
		r.queued(c, "/lock", 3)
		release(t, first)
		lr := reader.got()
		second.waits()
		release(t, lr)
		release(t, second.got())
	})
}

// T12: the writer becomes a reader without a moment in which another writer can come between.
func TestWriterBecomesReader(t *testing.T) {
	forEachRW(t, func(t *testing.T, r *rig, opts ...Option) {
		c := r.dial()
		m, other := NewRWMutex(c, "/lock", opts...), NewRWMutex(r.dial(), "/lock", opts...)
		me := WithOwner(testContext(t), "me")
		w, err := m.Lock(me)
		require.NoError(t, err)
		waiting := start(t, testContext(t), other.Lock)
		r.queued(c, "/lock", 2)
		rd, err := m.RLock(me)
		require.NoError(t, err)
		again, err := m.RLock(me)
		require.NoError(t, err)
		release(t, w)
		waiting.waits()
		require.NoError(t, rd.Verify(testContext(t)))
		_, err = other.TryRLock(testContext(t))
		require.ErrorIs(t, err, ErrLocked, "the waiting writer comes first")
		release(t, rd)
		waiting.waits()
		release(t, again)
		release(t, waiting.got())
	})
}

func TestReaderDoesNotBecomeWriter(t *testing.T) {
	forEachRW(t, func(t *testing.T, r *rig, opts ...Option) {
		m := NewRWMutex(r.dial(), "/lock", opts...)
		me := WithOwner(testContext(t), "me")
		rd, err := m.RLock(me)
		require.NoError(t, err)
		_, err = m.Lock(me)
		require.ErrorIs(t, err, ErrUpgrade)
		release(t, rd)
		w, err := m.Lock(me)
		require.NoError(t, err)
		release(t, w)
		require.ErrorIs(t, m.RDo(testContext(t), func(ctx context.Context, _ Lease) error {
			_, err := m.Lock(ctx)
			return err
		}), ErrUpgrade)
		require.ErrorIs(t, m.Do(testContext(t), func(ctx context.Context, _ Lease) error {
			_, err := m.RLock(ctx)
			return err
		}), ErrDeadlock)
	})
}

func TestReadersAndWritersUnderLoad(t *testing.T) {
	forEachRW(t, func(t *testing.T, r *rig, opts ...Option) {
		var readers, writers atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			var p tap
			m := NewRWMutex(r.dial(p.option()), "/lock", opts...)
			wg.Go(func() {
				for n := range 25 {
					if i < 2 && n%10 == 9 {
						p.cut()
					}
					if rand.IntN(3) > 0 {
						l := mustLock(t, m.RLock)
						readers.Add(1)
						if n := writers.Load(); n != 0 {
							t.Errorf("a reader beside %d writers", n)
						}
						readers.Add(-1)
						release(t, l)
						continue
					}
					l := mustLock(t, m.Lock)
					if n, w := readers.Load(), writers.Add(1); n != 0 || w != 1 {
						t.Errorf("a writer beside %d readers and %d writers", n, w-1)
					}
					writers.Add(-1)
					release(t, l)
				}
			})
		}
		wg.Wait()
	})
}

func TestRWBreakAndRevoke(t *testing.T) {
	r := newRig(t)
	m := NewRWMutex(r.dial(), "/lock")
	require.Equal(t, "/lock", m.Path())
	l := mustLock(t, m.RLock)
	require.NoError(t, m.Revoke(testContext(t), base(l.Path())))
	await(t, "the request", l.RevokeRequested())
	require.NoError(t, m.Break(testContext(t), base(l.Path())))
	await(t, "the end", l.Done())
	require.Error(t, m.Revoke(testContext(t), "nobody"))
}
