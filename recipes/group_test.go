package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
	t    *testing.T
	opts []PartitionOption

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
	for p, err := range NewPartitioner(c, "/part", id, items, 20*time.Millisecond, s.opts...).Run(ctx) {
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

// partitionForms are the ways in which members divide.
var partitionForms = map[string][]PartitionOption{"by rank": nil, "by leader": {AssignedByLeader()}}

func forEachPartition(t *testing.T, test func(t *testing.T, r *rig, opts []PartitionOption)) {
	for name, opts := range partitionForms {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.stays("/part/assignment")
			test(t, r, opts)
		})
	}
}

// T13: whoever is a member, the partition is disjoint and, when nothing changes, complete.
func TestPartitionIsDisjointAndComplete(t *testing.T) {
	forEachPartition(t, func(t *testing.T, r *rig, opts []PartitionOption) {
		items := []string{"a", "b", "c", "d", "e", "f", "g"}
		s := &shares{t: t, of: map[string]string{}, opts: opts}
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
	})
}

func TestPartitionFailsWithItsSession(t *testing.T) {
	forEachPartition(t, func(t *testing.T, r *rig, opts []PartitionOption) {
		c := r.dial()
		var states []PartitionState
		for p, err := range NewPartitioner(c, "/part", "m", []string{"x"}, 10*time.Millisecond, opts...).Run(testContext(t)) {
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
	})
}

// With a leader, who keeps its share does not stop when others come and go.
func TestAssignmentMovesNoMoreThanItMust(t *testing.T) {
	r := newRig(t)
	r.stays("/part/assignment")
	items := []string{"a", "b", "c"}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var wg sync.WaitGroup
	run := func(ctx context.Context, id string) <-chan Partition {
		c, out := r.dial(), make(chan Partition, 100)
		wg.Go(func() {
			for p, err := range NewPartitioner(c, "/part", id, items, 10*time.Millisecond, AssignedByLeader()).Run(ctx) {
				if err != nil {
					return
				}
				if p.State != PartitionAllocating {
					out <- p
				}
			}
		})
		return out
	}
	next := func(who <-chan Partition, state PartitionState, n int) []string {
		t.Helper()
		select {
		case p := <-who:
			require.Equal(t, state, p.State)
			require.Len(t, p.Items, n)
			return p.Items
		case <-time.After(testLimit):
			require.FailNow(t, "no new state")
		}
		return nil
	}
	has := func(p Partition) int {
		if p.State == PartitionAcquired {
			return len(p.Items)
		}
		return 0
	}
	one := run(ctx, "one")
	next(one, PartitionAcquired, 3)
	two := run(ctx, "two")
	next(one, PartitionRelease, 3)
	kept := next(one, PartitionAcquired, 2)
	next(two, PartitionAcquired, 1)
	three, leave := context.WithCancel(ctx)
	third := run(three, "three") // gets one of the two
	next(one, PartitionRelease, 2)
	require.Subset(t, kept, next(one, PartitionAcquired, 1))
	next(third, PartitionAcquired, 1)
	leave()
	// What the third had falls to one of the two, who stops for that; until then the second has not.
	var second []Partition
	for have := []int{1, 1}; have[0]+have[1] < len(items); {
		select {
		case p := <-one:
			have[0] = has(p)
		case p := <-two:
			second, have[1] = append(second, p), has(p)
		case <-time.After(testLimit):
			require.FailNow(t, "the share of the third is nobody's")
		}
	}
	require.True(t, len(second) == 0 || len(second) == 2 && len(second[1].Items) == 2, "its share changed before: %v", second)
	cancel()
	wg.Wait()
}

// What a leader writes after another has taken over is refused.
func TestLateAssignmentIsRefused(t *testing.T) {
	r := newRig(t)
	r.stays("/part/assignment")
	c := r.dial()
	g := JoinGroup(c, "/part/party", "m", nil, GroupShallowParty)
	require.NoError(t, g.Await(testContext(t)))
	p := NewPartitioner(c, "/part", "m", []string{"a"}, 0, AssignedByLeader())
	e := NewElection(c, "/part/leader")
	old := mustLock(t, e.Campaign)
	release(t, old)
	require.ErrorIs(t, p.assign(testContext(t), g, old), client.ErrNoNode)
	_, ok, err := c.Exists(testContext(t), "/part/assignment")
	require.NoError(t, err)
	require.False(t, ok)
	l := mustLock(t, e.Campaign)
	require.NoError(t, p.assign(testContext(t), g, l))
	_, before, err := c.Get(testContext(t), "/part/assignment")
	require.NoError(t, err)
	require.NoError(t, p.assign(testContext(t), g, l))
	_, after, err := c.Get(testContext(t), "/part/assignment")
	require.NoError(t, err)
	require.Equal(t, before, after, "nothing is written that is there already")
	release(t, l)
	require.NoError(t, g.Leave(testContext(t)))
}

// Whatever was before, all is divided, evenly, and nobody gives away what it could keep.
func TestDivisionIsCompleteEvenAndSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := rapid.SampledFrom(strings.Split("abcdefghij", ""))
		unique := func(of *rapid.Generator[string], least int, label string) []string {
			out := rapid.SliceOfNDistinct(of, least, 8, rapid.ID[string]).Draw(t, label)
			slices.Sort(out)
			return out
		}
		items, members := unique(item, 0, "items"), unique(rapid.SampledFrom(strings.Split("ABCDEF", "")), 1, "members")
		had := rapid.MapOfN(rapid.SampledFrom(strings.Split("ABCDEF", "")), rapid.SliceOfN(item, 0, 6), 0, 6).Draw(t, "had")
		out := divide(items, members, had)
		var all []string
		for _, m := range members {
			share := out[m]
			all = append(all, share...)
			if n := len(share) - len(items)/len(members); n != 0 && n != 1 {
				t.Fatalf("%s has %d of %d items, with %d members", m, len(share), len(items), len(members))
			}
			if !slices.IsSorted(share) {
				t.Fatalf("%v is not sorted", share)
			}
		}
		slices.Sort(all)
		if !slices.Equal(all, items) || len(out) != len(members) {
			t.Fatalf("%v instead of %v", all, items)
		}
		again := divide(items, members, out)
		for _, m := range members {
			if !slices.Equal(again[m], out[m]) {
				t.Fatalf("%s had %v and got %v though nothing has changed", m, out[m], again[m])
			}
		}
	})
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
