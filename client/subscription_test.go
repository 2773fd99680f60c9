package client

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

func TestSlowReaderIsToldThatItLagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, sent = 10, 25
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSync {
				for i := range sent {
					c.event(EventCreated, fmt.Sprintf("/a/%d", i))
				}
			}
			return false
		}))
		c := f.client()
		ctx := testContext(t)
		s, err := c.Subscribe(ctx, "/a", Recursive, Queue(limit))
		require.NoError(t, err)
		for round := range 3 {
			require.NoError(t, c.Sync(ctx, "/"))
			require.Equal(t, limit+1, s.Lag())
			for i := range limit {
				ev, err := s.Next(ctx)
				require.NoError(t, err)
				if round == 0 && i == 0 {
					require.Equal(t, EventReset, ev.Type)
				}
			}
			_, err = s.Next(ctx)
			require.ErrorIs(t, err, ErrLagged)
			require.Zero(t, s.Lag())
		}
	})
}

func TestCoalescingKeepsOneEventPerPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSync {
				for range 1000 {
					c.event(EventDataChanged, "/a/x")
					c.event(EventDataChanged, "/a/y")
				}
				c.event(EventDeleted, "/a/x")
			}
			return false
		}))
		c := f.client()
		s, err := c.Subscribe(testContext(t), "/a", Recursive, Coalesce(), Queue(5))
		require.NoError(t, err)
		for i := range 3 {
			require.NoError(t, c.Sync(testContext(t), "/"))
			if i == 0 {
				requireEvents(t, s, "Reset /a", "NodeDeleted /a/x", "NodeDataChanged /a/y")
			} else {
				requireEvents(t, s, "NodeDeleted /a/x", "NodeDataChanged /a/y")
			}
		}
	})
}

func TestWatchIteratorEndsAsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client()
		n := 0
		for ev, err := range c.Watch(testContext(t), "/a", Recursive) {
			require.NoError(t, err)
			require.Equal(t, EventReset, ev.Type)
			n++
			break
		}
		synctest.Wait()
		require.Equal(t, 1, got.count(wire.OpRemoveWatches), "leaving the loop removes the watch")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var last error
		for _, err := range c.Watch(ctx, "/a", Recursive) {
			last = err
			n++
		}
		require.ErrorIs(t, last, context.DeadlineExceeded)
		for _, err := range c.Watch(testContext(t), "no/slash", Recursive) {
			require.ErrorIs(t, err, ErrBadArguments)
			n++
		}
		require.Equal(t, 4, n)
		go func() {
			time.Sleep(time.Second)
			_ = c.Close(context.Background())
		}()
		for _, err := range c.Watch(testContext(t), "/a", Recursive) {
			last = err
		}
		require.ErrorIs(t, last, ErrClosed)
	})
}

func TestSubscriptionQueueStaysInOrderOverCompaction(t *testing.T) {
	s := &Subscription{limit: 100_000, wake: make(chan struct{}, 1)}
	next, pushed := 0, 0
	for round := range 200 {
		for range (round * 37) % 500 {
			s.push(Event{Type: EventCreated, Path: fmt.Sprint(pushed)})
			pushed++
		}
		for range (round * 53) % 400 {
			it, ok := s.take()
			if !ok {
				break
			}
			require.Equal(t, fmt.Sprint(next), it.ev.Path)
			next++
		}
	}
	for it, ok := s.take(); ok; it, ok = s.take() {
		require.Equal(t, fmt.Sprint(next), it.ev.Path)
		next++
	}
	require.Equal(t, pushed, next)
	require.LessOrEqual(t, cap(s.queue), 16<<10)
}
