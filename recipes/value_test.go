package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// T13: the sum equals the adds, under contention and in both forms.
func TestCounterLosesNothing(t *testing.T) {
	for name, form := range map[string]Codec[int64]{"curator": BigEndian[int64](), "kazoo": Decimal[int64]()} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.stays("/n")
			var wg sync.WaitGroup
			for range 8 {
				k := NewCounter(r.dial(), "/n", form)
				wg.Go(func() {
					for range 30 {
						if _, err := k.Add(testContext(t), 2); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			k := NewCounter(r.dial(), "/n", form)
			n, err := k.Get(testContext(t))
			require.NoError(t, err)
			require.Equal(t, int64(480), n)
			require.NoError(t, k.Set(testContext(t), -5))
			n, err = k.Add(testContext(t), 1)
			require.NoError(t, err)
			require.Equal(t, int64(-4), n)
		})
	}
}

// T13: with replies that are lost, AddOnce adds once, and Add says when it does not know.
func TestAddOnceAddsOnce(t *testing.T) {
	r := newRig(t)
	r.stays("/once", "/add")
	var wg sync.WaitGroup
	var unknown, known atomic.Int64
	for range 4 {
		var n atomic.Int32
		p := tap{reply: func(op wire.OpCode, _ []byte) bool {
			return op != wire.OpMulti && op != wire.OpSetData || n.Add(1)%5 != 0
		}}
		c := r.dial(p.option(), client.WithReconnect(client.RetryTimes(0)))
		wg.Go(func() {
			once, add := NewCounter(c, "/once"), NewCounter(c, "/add")
			for range 25 {
				if _, err := once.AddOnce(testContext(t), 1); err != nil {
					t.Errorf("add once: %v", err)
				}
				_, err := add.Add(testContext(t), 1)
				switch {
				case err == nil:
					known.Add(1)
				case errors.Is(err, ErrUnknownOutcome):
					unknown.Add(1)
				default:
					t.Errorf("add: %v", err)
				}
			}
		})
	}
	wg.Wait()
	c := r.dial()
	sum, err := NewCounter(c, "/once").Get(testContext(t))
	require.NoError(t, err)
	require.Equal(t, int64(100), sum)
	sum, err = NewCounter(c, "/add").Get(testContext(t))
	require.NoError(t, err)
	require.GreaterOrEqual(t, sum, known.Load())
	require.LessOrEqual(t, sum, known.Load()+unknown.Load())
	require.NotZero(t, unknown.Load(), "the test has lost no reply")
}

func TestCachedCounterGivesNoNumberTwice(t *testing.T) {
	r := newRig(t)
	r.stays("/n")
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for range 3 {
		k := NewCachedCounter(NewCounter(r.dial(), "/n"), 10)
		wg.Go(func() {
			last := int64(-1)
			for range 35 {
				n, err := k.Next(testContext(t))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[n] || n <= last {
					t.Errorf("%d again, or behind %d", n, last)
				}
				seen[n], last = true, n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 105)
}

func TestAtomicValueChangesTheNewest(t *testing.T) {
	r := newRig(t)
	r.stays("/deep")
	v := NewAtomicValue(r.dial(), "/deep/v", Text())
	s, err := v.Get(testContext(t))
	require.NoError(t, err)
	require.Empty(t, s)
	ok, err := v.CompareAndSet(testContext(t), "no", "x")
	require.NoError(t, err)
	require.False(t, ok)
	ok, err = v.CompareAndSet(testContext(t), "", "a")
	require.NoError(t, err)
	require.True(t, ok)
	before, after, err := v.Update(testContext(t), func(s string) (string, error) { return s + "b", nil })
	require.NoError(t, err)
	require.Equal(t, []string{"a", "ab"}, []string{before, after})
	why := errors.New("no")
	_, _, err = v.Update(testContext(t), func(string) (string, error) { return "x", why })
	require.ErrorIs(t, err, why)
	require.NoError(t, v.Set(testContext(t), "c"))
	s, err = v.Get(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "c", s)
}

// A change that is always overtaken queues up in the lock in the end.
func TestUpdateIsPromotedToTheLock(t *testing.T) {
	r := newRig(t)
	r.stays("/v")
	c, d := r.dial(), r.dial()
	v, other := NewAtomicValue(c, "/v", Decimal[int64]()), NewAtomicValue(d, "/v", Decimal[int64]())
	calls := 0
	_, sum, err := v.Update(testContext(t), func(n int64) (int64, error) {
		if calls++; calls <= optimistic {
			require.NoError(t, other.Set(testContext(t), n+10))
		}
		if calls == optimistic+1 {
			who, err := v.lock.Participants(testContext(t))
			require.NoError(t, err)
			require.Len(t, who, 1)
		}
		return n + 1, nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(10*optimistic+1), sum)
}

func TestSharedValueIsSeenByAll(t *testing.T) {
	r := newRig(t)
	r.stays("/v")
	a, b := NewSharedValue(r.dial(), "/v", Text(), "seed"), NewSharedValue(r.dial(), "/v", Text(), "seed")
	defer a.Close()
	defer b.Close()
	require.NoError(t, b.Ready(testContext(t)))
	require.Equal(t, Versioned[string]{Value: "seed"}, b.Get())
	ok, err := a.TrySet(testContext(t), a.Get(), "first")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "first", a.Get().Value, "who has written knows it at once")
	ok, err = a.TrySet(testContext(t), Versioned[string]{}, "again the first")
	require.NoError(t, err)
	require.False(t, ok)
	next := ""
	last := int64(-1)
	for v, err := range b.Changes(testContext(t)) {
		require.NoError(t, err)
		require.Greater(t, v.Zxid, last, "it never goes back")
		last = v.Zxid
		switch v.Value {
		case "first":
			ok, err := b.TrySet(testContext(t), v, "second")
			require.NoError(t, err)
			require.True(t, ok)
			ok, err = b.TrySet(testContext(t), v, "too late")
			require.NoError(t, err)
			require.False(t, ok)
		case "second":
			require.NoError(t, a.Set(testContext(t), "third"))
		}
		if next = v.Value; next == "third" {
			break
		}
	}
	require.Equal(t, "third", next)
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	for _, err := range b.Changes(ctx) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
}

// The number of permits is a SharedCount, and a waiter goes on when it grows.
func TestSemaphoreWithAChangingLimit(t *testing.T) {
	r := newRig(t)
	r.stays("/count")
	c, d := r.dial(), r.dial()
	mine, others := NewSharedCount(c, "/count", 1), NewSharedCount(d, "/count", 1)
	defer mine.Close()
	defer others.Close()
	s := NewSemaphoreLimit(c, "/sem", mine)
	l := mustLock(t, permits(s, 1))
	p := start(t, testContext(t), permits(s, 2))
	eventually(t, "it waits with its nodes", func() bool {
		all, _ := s.Participants(testContext(t))
		return len(all) == 3
	})
	require.NoError(t, others.Set(testContext(t), 2))
	eventually(t, "the limit is known", func() bool { n, _ := mine.Limit(); return n == 2 })
	p.waits()
	require.NoError(t, others.Set(testContext(t), 3))
	release(t, p.got(), l)
}
