package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

func TestMultiLockIsAllOrNothing(t *testing.T) {
	r := newRig(t)
	c, d := r.dial(), r.dial()
	parts := func(names ...string) []Locker {
		var out []Locker
		for _, n := range names {
			out = append(out, NewMutex(c, n))
		}
		return out
	}
	m := NewMultiLock(append(parts("/b", "/a"), ReadHalf(NewRWMutex(c, "/rw")))...)
	require.Equal(t, "/b", m.Path())
	require.Equal(t, "/a", m.Sorted().Path())
	l := mustLock(t, m.Lock)
	require.Len(t, l.Guard(), 3)
	require.NoError(t, l.Verify(testContext(t)))
	for _, other := range []Locker{NewMutex(d, "/a"), NewMutex(d, "/b"), WriteHalf(NewRWMutex(d, "/rw"))} {
		_, err := other.TryLock(testContext(t))
		require.ErrorIs(t, err, ErrLocked)
	}
	reader, err := NewRWMutex(d, "/rw").TryRLock(testContext(t))
	require.NoError(t, err)
	release(t, reader, l)

	taken := mustLock(t, NewMutex(d, "/a").Lock)
	_, err = m.TryLock(testContext(t))
	require.ErrorIs(t, err, ErrLocked)
	release(t, mustLock(t, NewMutex(d, "/b").TryLock)) // it was given back
	ctx, cancel := context.WithCancel(testContext(t))
	p := start(t, ctx, m.Lock)
	r.queued(d, "/a", 2)
	cancel()
	require.ErrorIs(t, p.failed(), context.Canceled)
	release(t, taken)

	err = m.Do(testContext(t), func(ctx context.Context, _ Lease) error {
		_, err := NewMutex(c, "/a").Lock(ctx)
		require.ErrorIs(t, err, ErrDeadlock)
		require.NoError(t, NewMutex(d, "/a").Break(testContext(t), r.children(d, "/a")[0]))
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, ErrRevoked, "with one lock all are lost")
	_, err = NewMultiLock().Lock(testContext(t))
	require.Error(t, err)
}

// shares is who has which item, as the members believe.
type shares struct {
	t  *testing.T
	mu sync.Mutex
	of map[string]string // guarded by mu
}

func (s *shares) take(id string, items []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range items {
		if o := s.of[i]; o != "" {
			s.t.Errorf("%s and %s both have %s", o, id, i)
		}
		s.of[i] = id
	}
}

func (s *shares) drop(id string, items []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range items {
		if s.of[i] == id {
			delete(s.of, i)
		}
	}
}

// divided says whether these members have all items, each its part.
func (s *shares) divided(items int, members ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]int{}
	for _, o := range s.of {
		seen[o]++
	}
	for _, m := range members {
		if seen[m] < items/len(members) {
			return false
		}
	}
	return len(s.of) == items && len(seen) == len(members)
}

// member takes part until ctx ends.
func (s *shares) member(ctx context.Context, c *client.Client, id string, items []string) {
	for p, err := range NewPartitioner(c, "/part", id, items, 20*time.Millisecond).Run(ctx) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				s.t.Errorf("%s: %v", id, err)
			}
			return
		}
		switch p.State {
		case PartitionAcquired:
			s.take(id, p.Items)
		case PartitionRelease, PartitionFailed:
			time.Sleep(50 * time.Millisecond) // its work takes longer to stop than the others are quiet
			s.drop(id, p.Items)
		}
	}
}

// T13: whoever is a member, the partition is disjoint and, when nothing changes, complete.
func TestPartitionIsDisjointAndComplete(t *testing.T) {
	r := newRig(t)
	items := []string{"a", "b", "c", "d", "e", "f", "g"}
	s := &shares{t: t, of: map[string]string{}}
	var wg sync.WaitGroup
	join := func(ctx context.Context, id string) {
		c := r.dial()
		wg.Go(func() { s.member(ctx, c, id, items) })
	}
	ctx, cancel := context.WithCancel(testContext(t))
	join(ctx, "m1")
	eventually(t, "the first has all", func() bool { return s.divided(len(items), "m1") })
	join(ctx, "m2")
	third, leave := context.WithCancel(ctx)
	join(third, "m3")
	eventually(t, "the three share", func() bool { return s.divided(len(items), "m1", "m2", "m3") })
	leave()
	eventually(t, "the two share", func() bool { return s.divided(len(items), "m1", "m2") })
	cancel()
	wg.Wait()
	require.Empty(t, s.of)
}

func TestPartitionFailsWithItsSession(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	var states []PartitionState
	for p, err := range NewPartitioner(c, "/part", "m", []string{"x"}, 10*time.Millisecond).Run(testContext(t)) {
		require.NoError(t, err)
		states = append(states, p.State)
		if p.State == PartitionAcquired {
			require.Equal(t, []string{"x"}, p.Items)
			if len(states) > 3 {
				break
			}
			r.srv.ExpireSession(c.SessionID())
			await(t, "the items are lost", p.Lease.Done())
		}
	}
	states = slices.Compact(states)
	require.Equal(t, PartitionAllocating, states[0])
	require.Equal(t, PartitionAcquired, states[1])
	require.True(t, states[2] == PartitionFailed || states[2] == PartitionRelease, "%v", states)
	require.Equal(t, PartitionAcquired, states[len(states)-1])
	require.Equal(t, "Failed", fmt.Sprint(PartitionFailed))
}

func TestDiscoveryFindsInstances(t *testing.T) {
	r := newRig(t)
	c, d := r.dial(), r.dial()
	mine, theirs := NewDiscovery(c, "/services"), NewDiscovery(d, "/services")
	follow := theirs.Follow("web")
	defer follow.Close()
	port := 8080
	n, err := mine.Register(testContext(t), ServiceInstance{Name: "web", ID: "one", Address: "10.0.0.1", Port: &port, Payload: json.RawMessage(`{"zone":"a"}`)})
	require.NoError(t, err)
	off := false
	m, err := mine.Register(testContext(t), ServiceInstance{Name: "web", Address: "10.0.0.2", Enabled: &off})
	require.NoError(t, err)
	names, err := theirs.Services(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"web"}, names)
	all, err := theirs.Instances(testContext(t), "web")
	require.NoError(t, err)
	require.Len(t, all, 2)
	eventually(t, "the cache knows both", func() bool { return follow.Len() == 2 })
	enabled := slices.Collect(follow.Instances())
	require.Len(t, enabled, 1)
	in := enabled[0]
	require.Equal(t, "one", in.ID)
	require.Equal(t, 8080, *in.Port)
	require.Equal(t, "DYNAMIC", in.ServiceType)
	require.JSONEq(t, `{"zone":"a"}`, string(in.Payload))
	require.NotZero(t, in.RegistrationTimeUTC)
	old := c.SessionID()
	r.srv.ExpireSession(old)
	eventually(t, "they register again", func() bool {
		stat, ok, _ := d.Exists(testContext(t), "/services/web/one")
		return ok && stat.EphemeralOwner != old && follow.Len() == 2
	})
	closeNode(t, n)
	closeNode(t, m)
	all, err = theirs.Instances(testContext(t), "web")
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = mine.Register(testContext(t), ServiceInstance{})
	require.Error(t, err)
	none, err := theirs.Instances(testContext(t), "nothing")
	require.NoError(t, err)
	require.Empty(t, none)
}
