package recipes

import (
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
