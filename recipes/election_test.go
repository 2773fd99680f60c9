package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

var electionForms = map[string][]Option{
	"latch":    nil,
	"selector": {JoinSelectors()},
	"kazoo":    {WithFormat(Kazoo)},
	"unfair":   {Unfair()},
}

func forEachElection(t *testing.T, test func(t *testing.T, r *rig, join func(c *client.Client, id string, more ...Option) *Election)) {
	for name, opts := range electionForms {
		t.Run(name, func(t *testing.T) {
			test(t, newRig(t), func(c *client.Client, id string, more ...Option) *Election {
				return NewElection(c, "/election", append(append([]Option{ElectionID(id)}, opts...), more...)...)
			})
		})
	}
}

func TestOneLeads(t *testing.T) {
	forEachElection(t, func(t *testing.T, r *rig, join func(*client.Client, string, ...Option) *Election) {
		a, b := r.dial(), r.dial()
		ea, eb := join(a, "a"), join(b, "b")
		_, ok, err := ea.Leader(testContext(t))
		require.NoError(t, err)
		require.False(t, ok, "nobody leads yet")
		la := mustLock(t, ea.Campaign)
		_, err = eb.TryCampaign(testContext(t))
		require.ErrorIs(t, err, ErrLocked)
		p := start(t, testContext(t), eb.Campaign)
		eventually(t, "b waits", func() bool { return b.Stats().Watches == 1 })
		who, ok, err := eb.Leader(testContext(t))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "a", who.ID())
		require.Equal(t, la.Token(), who.Token)
		p.waits()
		release(t, la)
		lb := p.got()
		require.Greater(t, lb.Token(), la.Token())
		who, _, err = ea.Leader(testContext(t))
		require.NoError(t, err)
		require.Equal(t, "b", who.ID())
		require.NoError(t, ea.Break(testContext(t), who.Node))
		await(t, "b's leadership ends", lb.Done())
		require.ErrorIs(t, lb.Err(), ErrRevoked)
		release(t, mustLock(t, ea.Campaign))
	})
}

// T11: with AutoRequeue each of five members leads in turn.
func TestRunGivesEverybodyATurn(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var mu sync.Mutex
	var order []string
	leading := 0
	var wg sync.WaitGroup
	c := r.dial()
	gate := mustLock(t, NewElection(c, "/election").Campaign)
	for i := range 5 {
		e := NewElection(r.dial(), "/election", ElectionID(fmt.Sprint(i)), AutoRequeue())
		wg.Go(func() {
			err := e.Run(ctx, func(context.Context, Lease) error {
				r.queued(c, "/election", 5) // the one before us stands at the tail again
				mu.Lock()
				order = append(order, fmt.Sprint(i))
				leading++
				if leading > 1 {
					t.Error("two lead at once")
				}
				last := len(order) == 15
				mu.Unlock()
				defer func() {
					mu.Lock()
					leading--
					mu.Unlock()
				}()
				if last {
					cancel()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("run: %v", err)
			}
		})
		r.queued(c, "/election", i+2)
	}
	release(t, gate)
	wg.Wait()
	require.Equal(t, strings.Repeat("01234", 3), strings.Join(order, "")[:15])
}

func TestRunWithoutRequeueIsOneTurn(t *testing.T) {
	forEachElection(t, func(t *testing.T, r *rig, join func(*client.Client, string, ...Option) *Election) {
		c := r.dial()
		e := join(c, "a")
		why := errors.New("done")
		require.ErrorIs(t, e.Run(testContext(t), func(context.Context, Lease) error { return why }), why)
		require.NoError(t, e.Run(testContext(t), func(context.Context, Lease) error { return nil }))
		err := e.Run(testContext(t), func(ctx context.Context, l Lease) error {
			r.srv.ExpireSession(c.SessionID())
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), ErrSessionLost)
			return ctx.Err()
		})
		require.ErrorIs(t, err, ErrSessionLost)
		require.Panics(t, func() {
			_ = e.Run(testContext(t), func(context.Context, Lease) error { panic("no") })
		})
		_, ok, err := e.Leader(testContext(t))
		require.NoError(t, err)
		require.False(t, ok, "a panic leaves no leader behind")
	})
}

func TestRunGoesOnAfterALossAndEndsWithAnError(t *testing.T) {
	forEachElection(t, func(t *testing.T, r *rig, join func(*client.Client, string, ...Option) *Election) {
		c := r.dial()
		e := join(c, "a", AutoRequeue())
		turns := 0
		why := errors.New("enough")
		err := e.Run(testContext(t), func(ctx context.Context, l Lease) error {
			if turns++; turns == 4 {
				return why
			}
			if turns%2 == 1 {
				r.srv.ExpireSession(c.SessionID())
			} else if err := e.Break(testContext(t), base(l.Path())); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, why)
		require.Equal(t, 4, turns)
	})
}

// The node stays until the function has returned, so that it can roll back, and Run goes on.
func TestResignEndsTheTurnAndNotTheCandidacy(t *testing.T) {
	r := newRig(t)
	c, d := r.dial(), r.dial()
	ea, eb := NewElection(c, "/election", ElectionID("a")), NewElection(d, "/election", ElectionID("b"))
	require.NoError(t, ea.Resign(testContext(t)), "who does not lead")
	leads := make(chan Lease)
	finish := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- ea.Run(testContext(t), func(ctx context.Context, l Lease) error {
			leads <- l
			select {
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), ErrResigned) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				for range 50 { // the node is still there, and stays
					if _, err := c.Multi().Add(l.Guard()...).Commit(testContext(t)); err != nil {
						t.Errorf("the node went before the function returned: %v", err)
						break
					}
				}
				return nil
			case <-finish:
				return nil
			}
		})
	}()
	<-leads
	p := start(t, testContext(t), eb.Campaign)
	r.queued(c, "/election", 2)
	require.NoError(t, ea.Resign(testContext(t)))
	lb := p.got()
	r.queued(c, "/election", 2) // a is a candidate again
	release(t, lb)
	<-leads
	close(finish)
	require.NoError(t, <-done)
}

// CURATOR-696: a node of our dead session that is not deleted yet is not our leadership.
func TestNodeOfADeadSessionIsNotOurs(t *testing.T) {
	r := newRig(t)
	var p tap
	c := r.dial(p.option(), client.WithTimeout(5*time.Second))
	e := NewElection(c, "/election")
	p.silent.Store(true) // the server keeps the session, we give it up
	old := c.Session()
	<-old.Done()
	pe := start(t, testContext(t), e.Campaign)
	p.silent.Store(false)
	p.cut()
	l := pe.got()
	stat, ok, err := c.Exists(testContext(t), l.Path())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, c.SessionID(), stat.EphemeralOwner)
	require.NoError(t, c.Session().Err())
	release(t, l)

	// What looks like our node, first in the queue, but is of another session.
	other := r.dial()
	node, _, err := other.Create(testContext(t), "/election/"+latchNames(Curator).fresh(exclusive), nil, client.ModeEphemeralSequential, nil)
	require.NoError(t, err)
	_, _, _, err = confirm(testContext(t), c, c.Session(), node)
	require.ErrorIs(t, err, errAgain)
	require.NoError(t, other.Delete(testContext(t), node, client.AnyVersion))
}

// CURATOR-724: the path is gone while we wait.
func TestPathThatVanishesIsMadeAgain(t *testing.T) {
	r := newRig(t)
	a, b := r.dial(), r.dial()
	la := mustLock(t, NewElection(a, "/election").Campaign)
	p := start(t, testContext(t), NewElection(b, "/election").Campaign)
	r.queued(a, "/election", 2)
	_, err := a.Multi().
		Delete(la.Path(), client.AnyVersion).
		Delete("/election/"+r.children(a, "/election")[1-indexOf(r.children(a, "/election"), base(la.Path()))], client.AnyVersion).
		Delete("/election", client.AnyVersion).
		Commit(testContext(t))
	require.NoError(t, err)
	lb := p.got()
	await(t, "a has lost", la.Done())
	require.NoError(t, lb.Verify(testContext(t)))
	release(t, lb)
}

func indexOf(all []string, s string) int {
	for i, a := range all {
		if a == s {
			return i
		}
	}
	return -1
}

// CURATOR-653, 644, 645: resets and deletions in any mixture leave exactly one leader.
func TestStormOfLossesLeavesOneLeader(t *testing.T) {
	forEachElection(t, func(t *testing.T, r *rig, join func(*client.Client, string, ...Option) *Election) {
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		var wg sync.WaitGroup
		var clients []*client.Client
		var taps []*tap
		leads := make(chan Lease, 1000)
		for i := range 4 {
			p := &tap{}
			c := r.dial(p.option())
			clients, taps = append(clients, c), append(taps, p)
			e := join(c, fmt.Sprint(i), AutoRequeue())
			wg.Go(func() {
				_ = e.Run(ctx, func(ctx context.Context, l Lease) error {
					leads <- l
					<-ctx.Done()
					return ctx.Err()
				})
			})
		}
		e := join(r.dial(), "operator")
		for i := range 60 {
			switch i % 3 {
			case 0:
				if id := clients[i%4].SessionID(); id != 0 {
					r.srv.ExpireSession(id)
				}
			case 1:
				taps[i%4].cut()
			case 2:
				if p, ok, err := e.Leader(testContext(t)); err == nil && ok {
					require.NoError(t, e.Break(testContext(t), p.Node))
				}
			}
		}
		var last Lease
		for last = <-leads; ; {
			if last.Verify(testContext(t)) == nil && len(leads) == 0 {
				break
			}
			select {
			case last = <-leads:
			case <-last.Done():
				last = <-leads
			}
		}
		require.True(t, last.Valid())
		p, ok, err := e.Leader(testContext(t))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, last.Path(), p.Path)
		cancel()
		wg.Wait()
	})
}

// T11: every change of the leadership is seen, in order.
func TestObserveMissesNoChange(t *testing.T) {
	forEachElection(t, func(t *testing.T, r *rig, join func(*client.Client, string, ...Option) *Election) {
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		watcher := join(r.dial(), "watcher")
		type seen struct{ node, id string }
		got := make(chan seen, 100)
		done := make(chan error, 1)
		go func() {
			for p, err := range watcher.Observe(ctx) {
				if err != nil {
					done <- err
					return
				}
				got <- seen{p.Node, p.ID()}
			}
			done <- nil
		}()
		require.Equal(t, seen{}, <-got, "nobody leads")
		c := r.dial()
		for i := range 20 {
			id := fmt.Sprint(i)
			l := mustLock(t, join(c, id).Campaign)
			release(t, l)
			s := <-got
			require.Equal(t, base(l.Path()), s.node)
			if s.id != "" { // it may be over before it can be read
				require.Equal(t, id, s.id)
			}
			require.Equal(t, seen{}, <-got)
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}
