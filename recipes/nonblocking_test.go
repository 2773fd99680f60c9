package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

func TestNonBlockingLeaseIsForATime(t *testing.T) {
	r := newRig(t)
	r.stays("/lease")
	c := r.dial()
	now := time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	of := func(id string) *NonBlockingLease {
		l := NewNonBlockingLease(c, "/lease", id, time.Minute)
		l.now = func() time.Time { return now }
		return l
	}
	a, b := of("a"), of("b")
	_, _, ok, err := a.Holder(testContext(t))
	require.NoError(t, err)
	require.False(t, ok)
	until, err := a.Obtain(testContext(t))
	require.NoError(t, err)
	require.Equal(t, time.Date(2030, 1, 2, 3, 5, 5, 0, time.UTC), until)
	_, err = b.Obtain(testContext(t))
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, b.GiveUp(testContext(t)), "of what is another's nothing happens")
	id, end, ok, err := b.Holder(testContext(t))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "a", id)
	require.Equal(t, until, end)

	now = now.Add(30 * time.Second)
	later, err := a.Obtain(testContext(t))
	require.NoError(t, err, "who has it renews it")
	require.Equal(t, until.Add(30*time.Second), later)
	now = now.Add(59 * time.Second)
	_, err = b.Obtain(testContext(t))
	require.ErrorIs(t, err, ErrLocked)
	now = now.Add(time.Second)
	_, err = b.Obtain(testContext(t))
	require.NoError(t, err, "the time is over")
	_, err = a.Obtain(testContext(t))
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, b.GiveUp(testContext(t)))
	_, err = a.Obtain(testContext(t))
	require.NoError(t, err, "it was given up")

	for _, data := range []string{`{"version": 2, "holder": "x", "end": "2030-01-02T03:04:05"}`, `{"version": 1, "holder": "x", "end": "soon"}`, "no JSON"} {
		_, err = c.Set(testContext(t), "/lease/lease_holder", []byte(data), client.AnyVersion)
		require.NoError(t, err)
		_, err = a.Obtain(testContext(t))
		require.Error(t, err, "what cannot be read is not ours to end")
	}
}

// Of many who ask at once, one gets it.
func TestNonBlockingLeaseHasOneHolder(t *testing.T) {
	r := newRig(t)
	r.stays("/lease")
	var got atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		l := NewNonBlockingLease(r.dial(), "/lease", string(rune('a'+i)), time.Hour)
		wg.Go(func() {
			if _, err := l.Obtain(testContext(t)); err == nil {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(1), got.Load())
}

func TestMemberOfAMultiLeaseKeepsItsPlace(t *testing.T) {
	r := newRig(t)
	r.stays("/lease")
	c := r.dial()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	of := func(id string) *MultiNonBlockingLease {
		m := NewMultiNonBlockingLease(c, "/lease", id, 2, time.Minute)
		for _, l := range m.places {
			l.now = func() time.Time { return now }
		}
		return m
	}
	gets := func(m *MultiNonBlockingLease, want int) {
		t.Helper()
		place, until, err := m.Obtain(testContext(t))
		require.NoError(t, err)
		require.Equal(t, want, place)
		require.Equal(t, now.Add(time.Minute), until)
	}
	refused := func(m *MultiNonBlockingLease) {
		t.Helper()
		_, _, err := m.Obtain(testContext(t))
		require.ErrorIs(t, err, ErrLocked)
	}
	holders := func(want ...string) {
		t.Helper()
		have, err := of("x").Holders(testContext(t))
		require.NoError(t, err)
		require.Equal(t, want, have)
	}
	a, b, third := of("a"), of("b"), of("third")
	holders("", "")
	gets(a, 0)
	gets(b, 1)
	refused(third)
	holders("a", "b")
	require.NoError(t, third.GiveUp(testContext(t)), "nothing of what others have")
	require.NoError(t, a.GiveUp(testContext(t)))
	holders("", "b")
	gets(b, 1) // though the first one is free
	gets(third, 0)
	refused(a)

	now = now.Add(30 * time.Second)
	gets(b, 1)
	now = now.Add(30 * time.Second) // third's time is over, b's is not
	holders("", "b")
	gets(a, 0)
	refused(third)
	now = now.Add(time.Minute)
	gets(third, 0)
	gets(b, 1) // its time is over, but nobody has taken it

	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	_, _, err := b.Obtain(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Set(testContext(t), "/lease/0/lease_holder", []byte("no JSON"), client.AnyVersion)
	require.NoError(t, err)
	gets(b, 1) // one that cannot be read is not in the way of who has another
	_, _, err = a.Obtain(testContext(t))
	require.ErrorContains(t, err, "does not hold a reservation")
}

// Of many who ask at once, as many get one as there are places.
func TestMultiLeaseHasAsManyHoldersAsPlaces(t *testing.T) {
	r := newRig(t)
	r.stays("/lease")
	var mu sync.Mutex
	got := map[int]int{}
	var wg sync.WaitGroup
	for i := range 8 {
		m := NewMultiNonBlockingLease(r.dial(), "/lease", string(rune('a'+i)), 3, time.Hour)
		wg.Go(func() {
			place, _, err := m.Obtain(testContext(t))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got[place]++
			} else if !errors.Is(err, ErrLocked) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, got)
}

// T10: kazoo's leases and ours are the same ones, also when their time is over.
func TestSharesLeasesWithKazoo(t *testing.T) {
	r := newRig(t)
	r.stays("/single", "/multi")
	c := r.dial()
	p := python(t, "testdata/lease.py", r.srv.Addr())
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }

	ours := NewNonBlockingLease(c, "/single", "go", time.Hour)
	_, err := ours.Obtain(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "False", p.ask(t, "/single python 0 0"))
	require.Equal(t, "True", p.ask(t, "/single go 0 0"), "by the same name it is a renewal")
	require.Equal(t, "True", p.ask(t, "/single python 0 2"), "the time is over")
	_, err = ours.Obtain(testContext(t))
	require.ErrorIs(t, err, ErrLocked)
	ours.now = func() time.Time { return later().Add(2 * time.Hour) }
	_, err = ours.Obtain(testContext(t))
	require.NoError(t, err, "the time is over")

	first, second := NewMultiNonBlockingLease(c, "/multi", "go", 3, time.Hour), NewMultiNonBlockingLease(c, "/multi", "go2", 3, time.Hour)
	place, _, err := first.Obtain(testContext(t))
	require.NoError(t, err)
	require.Equal(t, 0, place)
	require.Equal(t, "True", p.ask(t, "/multi python 3 0"))
	place, _, err = second.Obtain(testContext(t))
	require.NoError(t, err)
	require.Equal(t, 2, place)
	require.Equal(t, "False", p.ask(t, "/multi python2 3 0"))
	_, _, err = NewMultiNonBlockingLease(c, "/multi", "go3", 3, time.Hour).Obtain(testContext(t))
	require.ErrorIs(t, err, ErrLocked)
	have, err := first.Holders(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"go", "python", "go2"}, have)

	require.NoError(t, second.GiveUp(testContext(t)))
	require.Equal(t, "True", p.ask(t, "/multi python2 3 0"), "the place is free")
	for _, l := range second.places {
		l.now = later
	}
	place, _, err = second.Obtain(testContext(t))
	require.NoError(t, err, "the time of all is over")
	require.Equal(t, 0, place)
}
