package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

func TestBarrierHoldsBack(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	var p tap
	d := r.dial(p.option())
	b, other := NewBarrier(c, "/deep/barrier"), NewBarrier(d, "/deep/barrier")
	require.NoError(t, other.Wait(testContext(t)), "nobody has put it up")
	require.NoError(t, b.Set(testContext(t)))
	require.NoError(t, b.Set(testContext(t)))
	done := make(chan error, 1)
	go func() { done <- other.Wait(testContext(t)) }()
	eventually(t, "it waits", func() bool { return d.Stats().Watches == 1 })
	p.cut()
	old := d.SessionID()
	r.srv.ExpireSession(old)
	eventually(t, "it waits again", func() bool { return d.SessionID() != old && d.Stats().Watches == 1 })
	require.Empty(t, done)
	ctx, cancel := context.WithCancel(testContext(t))
	go cancel()
	require.ErrorIs(t, b.Wait(ctx), context.Canceled)
	require.NoError(t, b.Remove(testContext(t)))
	require.NoError(t, <-done)
	require.NoError(t, b.Remove(testContext(t)))
}

// T13: nobody goes through before all have come, and nobody is out before all want to leave; with
// connections that are cut on the way.
func TestDoubleBarrierBeginsAndEndsTogether(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 20
	}
	for _, f := range []Format{Curator, Kazoo} {
		t.Run([]string{"curator", "kazoo"}[f], func(t *testing.T) {
			r := newRig(t)
			var in, inside, leaving, out atomic.Int32
			var wg sync.WaitGroup
			clients, taps := make([]*client.Client, 10), make([]tap, 10)
			for i := range clients {
				clients[i] = r.dial(taps[i].option())
			}
			for i := range n {
				b := NewDoubleBarrier(clients[i%10], "/barrier", n, WithFormat(f))
				wg.Go(func() {
					in.Add(1)
					if i%9 == 0 {
						taps[i%10].cut()
					}
					p, err := b.Enter(testContext(t))
					if err != nil {
						t.Error(err)
						return
					}
					if k := in.Load(); k != int32(n) {
						t.Errorf("inside after %d of %d", k, n)
					}
					inside.Add(1)
					leaving.Add(1)
					if i%7 == 0 {
						taps[i%10].cut()
					}
					if err := p.Leave(testContext(t)); err != nil {
						t.Error(err)
					}
					if k := leaving.Load(); k != int32(n) {
						t.Errorf("out after %d of %d wanted to leave", k, n)
					}
					out.Add(1)
				})
			}
			wg.Wait()
			require.Equal(t, int32(n), out.Load())
		})
	}
}

func TestDoubleBarrierWaitsForTheLast(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	b := NewDoubleBarrier(c, "/barrier", 3)
	inside, out := make(chan *Passage, 3), make(chan error, 3)
	enter := func() {
		p, err := b.Enter(testContext(t))
		if err != nil {
			t.Error(err)
		}
		inside <- p
	}
	go enter()
	r.queued(c, "/barrier", 1)
	go enter()
	eventually(t, "two wait", func() bool { return c.Stats().Watches == 2 && len(r.children(c, "/barrier")) == 2 })
	require.NoError(t, c.Sync(testContext(t), "/barrier"))
	require.Empty(t, inside)
	go enter()
	var all []*Passage
	for range 3 {
		all = append(all, <-inside)
	}
	for i, p := range all {
		require.Empty(t, out)
		go func() { out <- p.Leave(testContext(t)) }()
		if i < 2 {
			eventually(t, "it waits", func() bool { return c.Stats().Watches == i+1 })
		}
	}
	for range 3 {
		require.NoError(t, <-out)
	}
}

// A lost session is never a silent pass.
func TestDoubleBarrierTellsOfALostSession(t *testing.T) {
	r := newRig(t)
	c, d := r.dial(), r.dial()
	b, other := NewDoubleBarrier(c, "/barrier", 2), NewDoubleBarrier(d, "/barrier", 2)
	entered := make(chan error, 1)
	go func() { _, err := b.Enter(testContext(t)); entered <- err }()
	r.queued(d, "/barrier", 1)
	r.srv.ExpireSession(c.SessionID())
	require.ErrorIs(t, <-entered, ErrSessionLost)

	pass := make(chan *Passage, 2)
	for _, b := range []*DoubleBarrier{b, other} {
		go func() {
			p, err := b.Enter(testContext(t))
			if err != nil {
				t.Error(err)
			}
			pass <- p
		}()
	}
	p, q := <-pass, <-pass
	r.srv.ExpireSession(p.session.ID())
	require.ErrorIs(t, p.Leave(testContext(t)), ErrSessionLost)
	require.NoError(t, q.Leave(testContext(t)))

	ctx, cancel := context.WithCancel(testContext(t))
	go func() { _, err := b.Enter(ctx); entered <- err }()
	r.queued(d, "/barrier", 1)
	cancel()
	require.True(t, errors.Is(<-entered, context.Canceled))
	r.queued(d, "/barrier", 0)
}
