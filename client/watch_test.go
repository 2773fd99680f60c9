package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

func TestEventComesBeforeTheReplyThatShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetData {
				c.event(EventDataChanged, "/a")
			}
			return false
		}))
		c := f.client()
		for range 100 {
			_, _, w, err := c.GetW(testContext(t), "/a")
			require.NoError(t, err)
			_, err = c.Set(testContext(t), "/a", nil, AnyVersion)
			require.NoError(t, err)
			require.Len(t, w.C(), 1, "the event is there when the reply is")
		}
	})
}

func TestWhichEventsEndWhichWatch(t *testing.T) {
	all := []EventType{EventCreated, EventDeleted, EventDataChanged, EventChildrenChanged}
	for name, tc := range map[string]struct {
		watch func(context.Context, *Client) (*Watch, error)
		ends  []EventType
	}{
		"data": {func(ctx context.Context, c *Client) (*Watch, error) {
			_, _, w, err := c.GetW(ctx, "/a")
			return w, err
		}, []EventType{EventCreated, EventDeleted, EventDataChanged}},
		"exists": {func(ctx context.Context, c *Client) (*Watch, error) {
			_, ok, w, err := c.ExistsW(ctx, "/missing")
			require.False(t, ok)
			return w, err
		}, []EventType{EventCreated, EventDeleted, EventDataChanged}},
		"children": {func(ctx context.Context, c *Client) (*Watch, error) {
			_, _, w, err := c.ChildrenW(ctx, "/a")
			return w, err
		}, []EventType{EventDeleted, EventChildrenChanged}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fire := EventCreated
				f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
					switch {
					case r.Op == wire.OpSync:
						c.event(fire, r.path)
						c.event(fire, "/other")
					case r.path == "/missing":
						c.reply(r, wire.NoNode)
						return true
					}
					return false
				}))
				c := f.client()
				for _, fire = range all {
					w, err := tc.watch(testContext(t), c)
					require.NoError(t, err)
					require.NoError(t, c.Sync(testContext(t), w.Path()))
					if !slices.Contains(tc.ends, fire) {
						require.Empty(t, w.C())
						require.NoError(t, w.Remove(testContext(t)))
						continue
					}
					ev, err := w.Wait(testContext(t))
					require.NoError(t, err)
					require.Equal(t, Event{Type: fire, Path: w.Path()}, ev)
					_, err = w.Wait(testContext(t))
					require.ErrorContains(t, err, "taken already")
				}
				require.Zero(t, c.Stats().Watches)
			})
		})
	}
}

func TestOneEventServesAllWatchersOfAPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSync {
				c.event(EventDeleted, "/a")
			}
			return false
		}))
		c := f.client()
		var ws []*Watch
		for range 10 {
			_, _, w1, err := c.GetW(testContext(t), "/a")
			require.NoError(t, err)
			_, _, w2, err := c.ChildrenW(testContext(t), "/a")
			require.NoError(t, err)
			ws = append(ws, w1, w2)
		}
		require.Equal(t, 20, c.Stats().Watches)
		require.NoError(t, c.Sync(testContext(t), "/"))
		for _, w := range ws {
			require.Equal(t, EventDeleted, (<-w.C()).Type)
		}
		require.Zero(t, entries(c))
	})
}

func TestRemovingTheLastWatchRemovesItOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client()
		ctx := testContext(t)
		_, _, d1, err := c.GetW(ctx, "/a")
		require.NoError(t, err)
		_, _, d2, err := c.ExistsW(ctx, "/a")
		require.NoError(t, err)
		_, _, ch, err := c.ChildrenW(ctx, "/a")
		require.NoError(t, err)

		require.NoError(t, d1.Remove(ctx))
		require.Zero(t, got.count(wire.OpRemoveWatches), "another one still needs it")
		require.NoError(t, d2.Remove(ctx))
		require.Equal(t, int32(wire.WatcherData), new(got.last(wire.OpRemoveWatches)).number())
		require.NoError(t, ch.Remove(ctx))
		require.Equal(t, int32(wire.WatcherAny), new(got.last(wire.OpRemoveWatches)).number())
		require.Equal(t, 2, got.count(wire.OpRemoveWatches))
		for _, w := range []*Watch{d1, d2, ch} {
			_, err := w.Wait(ctx)
			require.ErrorIs(t, err, ErrWatchRemoved)
			require.NoError(t, w.Remove(ctx), "again")
		}
		require.Zero(t, entries(c))
	})
}

// The caller is gone when the reply comes: nothing may be left, here or there.
func TestCancelledReadLeavesNoWatch(t *testing.T) {
	for name, read := range map[string]func(context.Context, *Client) error{
		"get":      func(ctx context.Context, c *Client) error { _, _, _, err := c.GetW(ctx, "/a"); return err },
		"exists":   func(ctx context.Context, c *Client) error { _, _, _, err := c.ExistsW(ctx, "/a"); return err },
		"children": func(ctx context.Context, c *Client) error { _, _, _, err := c.ChildrenW(ctx, "/a"); return err },
		"persistent": func(ctx context.Context, c *Client) error {
			_, err := c.Subscribe(ctx, "/a", Recursive)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got seen
				f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
					if r.path == "/a" && r.Op != wire.OpRemoveWatches {
						time.Sleep(2 * time.Second)
					}
					return false
				}))
				c := f.client()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, read(ctx, c), context.DeadlineExceeded)
				eventually(t, "the server's watch is removed", func() bool { return got.count(wire.OpRemoveWatches) == 1 })
				synctest.Wait()
				require.Zero(t, entries(c))
			})
		})
	}
}

// The caller leaves at the very moment in which the reply arrives, in both orders.
func TestCancelRacingTheReplyLeavesNoWatch(t *testing.T) {
	var got seen
	f := newFake(t, recorded(&got, nil))
	c := f.client()
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, _, w, err := c.GetW(ctx, "/a")
		if err == nil {
			require.NoError(t, w.Remove(testContext(t)))
		}
	}
	eventually(t, "nothing is left", func() bool {
		c.k.mu.Lock()
		defer c.k.mu.Unlock()
		return len(c.k.watches.entries) == 0
	})
}

// A removal must not take away a watch that another call is just about to set.
func TestRemovalWaitsForCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		hold := make(chan struct{})
		slow := false
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpGetData && slow {
				<-hold
			}
			return false
		}))
		c := f.client()
		_, _, w1, err := c.GetW(testContext(t), "/a")
		require.NoError(t, err)
		slow = true
		second := make(chan *Watch)
		go func() {
			_, _, w2, err := c.GetW(t.Context(), "/a")
			require.NoError(t, err)
			second <- w2
		}()
		synctest.Wait()
		removed := make(chan error, 1)
		go func() { removed <- w1.Remove(t.Context()) }()
		synctest.Wait()
		close(hold)
		w2 := <-second
		require.NoError(t, <-removed)
		require.Zero(t, got.count(wire.OpRemoveWatches), "the second watch needs it")
		require.NoError(t, w2.Remove(testContext(t)))
		require.Equal(t, 1, got.count(wire.OpRemoveWatches))
	})
}

func decodeSetWatches(r fakeRequest) (sw wire.SetWatches2) {
	d := wire.NewDecoder(r.body)
	if r.Op == wire.OpSetWatches {
		sw.DecodeSetWatches(&d)
	} else {
		sw.Decode(&d)
	}
	return sw
}

func TestWatchesAreSetAgainAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			if r.path == "/missing" && r.Op == wire.OpExists {
				c.reply(r, wire.NoNode)
				return true
			}
			if r.Op == wire.OpSetWatches {
				c.event(EventDataChanged, "/data") // it changed in the gap
			}
			return false
		}))
		c := f.client()
		ctx := testContext(t)
		_, _, data, err := c.GetW(ctx, "/data")
		require.NoError(t, err)
		_, _, exist, err := c.ExistsW(ctx, "/missing")
		require.NoError(t, err)
		_, _, child, err := c.ChildrenW(ctx, "/child")
		require.NoError(t, err)
		p, err := c.Subscribe(ctx, "/p", Persistent)
		require.NoError(t, err)
		r, err := c.Subscribe(ctx, "/r", Recursive)
		require.NoError(t, err)
		zxid := c.LastZxid()
		before := len(got.ops())
		f.cut()
		require.NoError(t, c.Sync(ctx, "/"))
		require.Equal(t, []wire.OpCode{wire.OpSetWatches, wire.OpSetWatches2, wire.OpSync}, got.ops()[before:], "before any user's request")
		sw := decodeSetWatches(got.last(wire.OpSetWatches))
		require.Equal(t, wire.SetWatches2{
			RelativeZxid: zxid, DataWatches: []string{"/data"}, ExistWatches: []string{"/missing"}, ChildWatches: []string{"/child"},
		}, sw)
		sw = decodeSetWatches(got.last(wire.OpSetWatches2))
		require.Equal(t, wire.SetWatches2{
			RelativeZxid: zxid, PersistentWatches: []string{"/p"}, PersistentRecursiveWatches: []string{"/r"},
		}, sw)
		require.Equal(t, EventDataChanged, (<-data.C()).Type)
		require.Empty(t, exist.C())
		require.Empty(t, child.C())
		for _, s := range []*Subscription{p, r} {
			for range 2 { // of the beginning, and of the reconnect
				ev, err := s.Next(ctx)
				require.NoError(t, err)
				require.Equal(t, Event{Type: EventReset, Path: s.Path()}, ev)
			}
			require.Zero(t, s.Lag())
		}
	})
}

func TestManyWatchesAreSetAgainInFramesOf128KiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watches = 100_000
		var mu sync.Mutex
		paths := map[string]bool{}
		frames := 0
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetWatches {
				mu.Lock()
				defer mu.Unlock()
				frames++
				require.LessOrEqual(t, len(r.body)+8+4, rewatchBytes)
				sw := decodeSetWatches(r)
				for _, p := range slices.Concat(sw.DataWatches, sw.ChildWatches) {
					require.False(t, paths[p], "twice: %s", p)
					paths[p] = true
				}
			}
			return false
		}))
		c := f.client(WithTimeout(time.Minute))
		c.k.mu.Lock()
		for i := range watches {
			w := c.newWatch(fmt.Sprintf("/some/where/%06d", i), watchKind(i%2)*kindChild)
			c.k.watches.entry(w.path).attach(w)
		}
		c.k.mu.Unlock()
		f.cut()
		require.NoError(t, c.Sync(testContext(t), "/"))
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, paths, watches)
		require.Greater(t, frames, 15)
		require.Less(t, frames, 25)
	})
}

func TestWatchesThatCannotBeSetAgainEndWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetWatches || r.Op == wire.OpSetWatches2 {
				c.reply(r, wire.MarshallingError)
				return true
			}
			return false
		}))
		c := f.client()
		ctx := testContext(t)
		_, _, w, err := c.GetW(ctx, "/a")
		require.NoError(t, err)
		s, err := c.Subscribe(ctx, "/a", Persistent)
		require.NoError(t, err)
		f.cut()
		_, err = w.Wait(ctx)
		require.ErrorIs(t, err, ErrMarshalling)
		require.ErrorContains(t, err, "could not be set again")
		_, err = s.Next(ctx)
		require.NoError(t, err)
		_, err = s.Next(ctx)
		require.ErrorIs(t, err, ErrMarshalling)
		require.NoError(t, c.Sync(ctx, "/"), "the client goes on")
	})
}

// Up to ZooKeeper 3.8 a one-shot watch would overwrite a lasting one of the same path.
func TestOneShotWatchesHangOnALastingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSync {
				c.event(EventDataChanged, "/a")
			}
			return false
		}))
		c := f.client()
		ctx := testContext(t)
		s, err := c.Subscribe(ctx, "/a", Persistent)
		require.NoError(t, err)
		_, _, w, err := c.GetW(ctx, "/a")
		require.NoError(t, err)
		require.False(t, new(got.last(wire.OpGetData)).watched())
		s2, err := c.Subscribe(ctx, "/a", Persistent)
		require.NoError(t, err)
		require.Equal(t, 1, got.count(wire.OpAddWatch), "one on the server serves all")
		s.Close()
		s2.Close()
		synctest.Wait()
		require.Zero(t, got.count(wire.OpRemoveWatches), "the Watch hangs on it")
		require.NoError(t, c.Sync(ctx, "/"))
		require.Equal(t, EventDataChanged, (<-w.C()).Type)
		synctest.Wait()
		require.Equal(t, 1, got.count(wire.OpRemoveWatches), "now nobody needs it")
		require.Equal(t, int32(wire.WatcherAny), new(got.last(wire.OpRemoveWatches)).number())
		_, _, w, err = c.GetW(ctx, "/a")
		require.NoError(t, err)
		require.True(t, new(got.last(wire.OpGetData)).watched())
		require.NoError(t, w.Remove(ctx))
	})
}

// A recursive watch never tells NodeChildrenChanged, yet others at its path wait for it. A
// server that does tell it, because it keeps both, must not make it two.
func TestChildEventsAreDerivedFromARecursiveWatch(t *testing.T) {
	for _, both := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
				if r.Op == wire.OpSync {
					c.event(EventCreated, "/a/x")
					if both {
						c.event(EventChildrenChanged, "/a")
					}
					c.event(EventDataChanged, "/a/x")
					c.event(EventCreated, "/a/x/deep")
				}
				return false
			}))
			c := f.client()
			ctx := testContext(t)
			r, err := c.Subscribe(ctx, "/a", Recursive)
			require.NoError(t, err)
			p, err := c.Subscribe(ctx, "/a", Persistent)
			require.NoError(t, err)
			_, _, w, err := c.ChildrenW(ctx, "/a")
			require.NoError(t, err)
			require.NoError(t, c.Sync(ctx, "/"))
			require.Equal(t, Event{Type: EventChildrenChanged, Path: "/a"}, <-w.C())
			requireEvents(t, p, "Reset /a", "NodeChildrenChanged /a")
			requireEvents(t, r, "Reset /a", "NodeCreated /a/x", "NodeDataChanged /a/x", "NodeCreated /a/x/deep")
		})
	}
}

// A children event that was derived leaves nothing behind: when the recursive watch has gone, the next
// one is for whoever watches then.
func TestChildEventIsNotTakenForOneThatWasDerived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			switch r.Op {
			case wire.OpSync:
				c.event(EventCreated, "/a/x")
			case wire.OpExists:
				c.event(EventChildrenChanged, "/a")
			}
			return false
		}))
		c := f.client()
		ctx := testContext(t)
		s, err := c.Subscribe(ctx, "/a", Recursive)
		require.NoError(t, err)
		require.NoError(t, c.Sync(ctx, "/"))
		s.Close()
		_, _, w, err := c.ChildrenW(ctx, "/a")
		require.NoError(t, err)
		_, _, err = c.Exists(ctx, "/")
		require.NoError(t, err)
		require.Equal(t, 1, len(w.C()), "the event is lost")
	})
}

func requireEvents(t *testing.T, s *Subscription, want ...string) {
	t.Helper()
	var got []string
	for s.Lag() > 0 {
		ev, err := s.Next(testContext(t))
		if err != nil {
			got = append(got, err.Error())
		} else {
			got = append(got, ev.String())
		}
	}
	require.Equal(t, want, got)
}

func TestRecursiveSubscriptionSeesTheTreeBelowItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSync {
				for _, p := range []string{"/a", "/a/b", "/a/b/c", "/ab", "/", "/z"} {
					c.event(EventCreated, p)
				}
			}
			return false
		}))
		c := f.client()
		ctx := testContext(t)
		a, err := c.Subscribe(ctx, "/a", Recursive)
		require.NoError(t, err)
		root, err := c.Subscribe(ctx, "/", Recursive)
		require.NoError(t, err)
		b, err := c.Chroot("/a").Subscribe(ctx, "/b", Recursive)
		require.NoError(t, err)
		require.NoError(t, c.Sync(ctx, "/"))
		requireEvents(t, a, "Reset /a", "NodeCreated /a", "NodeCreated /a/b", "NodeCreated /a/b/c")
		requireEvents(t, root, "Reset /", "NodeCreated /a", "NodeCreated /a/b", "NodeCreated /a/b/c", "NodeCreated /ab", "NodeCreated /", "NodeCreated /z")
		requireEvents(t, b, "Reset /b", "NodeCreated /b", "NodeCreated /b/c")
	})
}

// addWatch is refused while a one-shot watch already relies on it: all watches are set again.
func TestRefusedLastingWatchDoesNotStrandOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			switch r.Op {
			case wire.OpAddWatch:
				// The read was sent behind it and relies on it.
				get := c.next()
				got.add(get)
				require.False(t, get.watched())
				c.reply(r, wire.NoAuth)
				c.usual(get)
				return true
			case wire.OpSetWatches:
				c.event(EventDataChanged, "/a")
			}
			return false
		}))
		c := f.client()
		refused := make(chan error, 1)
		go func() {
			_, err := c.Subscribe(t.Context(), "/a", Persistent)
			refused <- err
		}()
		synctest.Wait()
		_, _, w, err := c.GetW(testContext(t), "/a")
		require.NoError(t, err)
		require.ErrorIs(t, <-refused, ErrNoAuth)
		require.Equal(t, EventDataChanged, (<-w.C()).Type)
		require.Equal(t, 2, f.dials())
	})
}

func TestEventsReadWell(t *testing.T) {
	require.Equal(t, "Reset", EventReset.String())
	require.Equal(t, "NodeDeleted /a", Event{Type: EventDeleted, Path: "/a"}.String())
	require.True(t, strings.HasPrefix(Event{Path: "/a", Err: ErrClosed}.String(), "watch of /a ended"))
	require.Equal(t, "Recursive", Recursive.String())
	require.Equal(t, "Persistent", Persistent.String())
}

func TestRemoveWatchesEndsWhatItNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client().Chroot("/app")
		ctx := testContext(t)
		require.ErrorIs(t, c.RemoveWatches(ctx, "/a", AllWatches), ErrNoWatcher)
		_, _, data, err := c.GetW(ctx, "/a")
		require.NoError(t, err)
		_, _, child, err := c.ChildrenW(ctx, "/a")
		require.NoError(t, err)
		require.ErrorIs(t, c.RemoveWatches(ctx, "/a", Subscribed), ErrNoWatcher)
		require.NoError(t, c.RemoveWatches(ctx, "/a", ChildWatches))
		require.ErrorIs(t, (<-child.C()).Err, ErrWatchRemoved)
		require.Empty(t, data.C())
		require.Equal(t, int32(wire.WatcherChildren), new(got.last(wire.OpRemoveWatches)).number())
		s, err := c.Subscribe(ctx, "/a", Recursive)
		require.NoError(t, err)
		require.NoError(t, c.RemoveWatches(ctx, "/a", AllWatches))
		require.ErrorIs(t, (<-data.C()).Err, ErrWatchRemoved)
		_, err = s.Next(ctx)
		require.NoError(t, err)
		_, err = s.Next(ctx)
		require.ErrorIs(t, err, ErrWatchRemoved)
		require.Equal(t, int32(wire.WatcherAny), new(got.last(wire.OpRemoveWatches)).number())
		require.Zero(t, entries(c))
		require.ErrorIs(t, c.RemoveWatches(ctx, "bad", AllWatches), ErrBadArguments)
	})
}

// entries is the number of paths that the client thinks of.
func entries(c *Client) int {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return len(c.k.watches.entries)
}
