package recipes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

var queueForms = map[string]QueueForm{
	"simple": QueueSimple, "kazoo": QueueKazoo, "kazoo locking": QueueKazooLocking, "curator": QueueCurator,
}

func newTestQueue(t testing.TB, c *client.Client, form QueueForm) *Queue[string] {
	q := NewQueue(c, "/queue", form, Text())
	t.Cleanup(q.Close)
	return q
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	for name, form := range queueForms {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			q, other := newTestQueue(t, r.dial(), form), newTestQueue(t, r.dial(), form)
			_, ok, err := q.TryTake(testContext(t))
			require.NoError(t, err)
			require.False(t, ok)
			for i := range 10 {
				require.NoError(t, other.Put(testContext(t), fmt.Sprint(i)))
			}
			n, err := q.Len(testContext(t))
			require.NoError(t, err)
			require.Equal(t, 10, n)
			for i := range 10 {
				take := q.Take
				if i%2 == 1 {
					take = other.Take
				}
				s, err := take(testContext(t))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(i), s)
			}
			got := make(chan string, 1)
			go func() {
				s, err := q.Take(testContext(t))
				if err != nil {
					t.Error(err)
				}
				got <- s
			}()
			eventually(t, "it waits", func() bool { return q.c.Stats().Watches >= 1 })
			require.NoError(t, other.Put(testContext(t), "late"))
			require.Equal(t, "late", <-got)
			ctx, cancel := context.WithCancel(testContext(t))
			go cancel()
			_, err = q.Take(ctx)
			require.ErrorIs(t, err, context.Canceled)
			q.Close()
			other.Close()
		})
	}
}

// The names are those that the other programs read and write.
func TestQueueNames(t *testing.T) {
	at := time.UnixMilli(0x18f00000000)
	for _, tc := range []struct {
		form QueueForm
		opts []PutOption
		want string // "" is an error
		e    entry
	}{
		{QueueSimple, nil, "qn-", entry{}},
		{QueueSimple, []PutOption{Priority(1)}, "", entry{}},
		{QueueSimple, []PutOption{ID("x")}, "", entry{}},
		{QueueKazoo, nil, "entry-100-", entry{priority: 100}},
		{QueueKazooLocking, []PutOption{Priority(7)}, "entry-007-", entry{priority: 7}},
		{QueueKazoo, []PutOption{Priority(1000)}, "", entry{}},
		{QueueKazoo, []PutOption{At(at)}, "", entry{}},
		{QueueCurator, nil, "queue-", entry{}},
		{QueueCurator, []PutOption{Priority(5)}, "queue-100000005", entry{priority: 5}},
		{QueueCurator, []PutOption{Priority(-5)}, "queue-0FFFFFFFB", entry{priority: -5}},
		{QueueCurator, []PutOption{ID("a/b|c")}, "queue-|a_b_c|", entry{}},
		{QueueCurator, []PutOption{At(at)}, "queue-|18F00000000|", entry{at: at.UnixMilli()}},
		{QueueCurator, []PutOption{At(at), Priority(1)}, "", entry{}},
	} {
		var cfg putConfig
		for _, o := range tc.opts {
			o(&cfg)
		}
		name, err := tc.form.name(cfg)
		if tc.want == "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.want, name)
		e, ok := tc.form.read(name + "0000000042")
		require.True(t, ok, name)
		tc.e.name, tc.e.seq = name+"0000000042", 42
		require.Equal(t, tc.e, e)
	}
	for _, name := range []string{"", "qn-", "other-0000000001", "entry-0000000001", "queue-|x0000000001", "queue-300000001" + "0000000001"} {
		for form := range QueueCurator + 1 {
			_, ok := form.read(name)
			require.False(t, ok, "%d %q", form, name)
		}
	}
}

func TestPrioritiesGoFirst(t *testing.T) {
	for name, form := range queueForms {
		if form == QueueSimple {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			q := newTestQueue(t, r.dial(), form)
			for _, p := range []int32{200, 5, 100, 5} {
				require.NoError(t, q.Put(testContext(t), fmt.Sprint(p), Priority(p)))
			}
			s, err := q.Take(testContext(t))
			require.NoError(t, err)
			require.Equal(t, "5", s)
			require.NoError(t, newTestQueue(t, r.dial(), form).Put(testContext(t), "1", Priority(1)))
			eventually(t, "q hears of it", func() bool { return q.c.Stats().Watches == 0 })
			for _, want := range []string{"1", "5", "100", "200"} {
				s, err := q.Take(testContext(t))
				require.NoError(t, err)
				require.Equal(t, want, s)
			}
			q.Close()
		})
	}
}

func TestCuratorQueueKnowsTimesAndIDs(t *testing.T) {
	r := newRig(t)
	q := newTestQueue(t, r.dial(), QueueCurator)
	began := time.Now()
	require.NoError(t, q.Put(testContext(t), "much later", At(began.Add(time.Hour))))
	_, ok, err := q.TryTake(testContext(t))
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, q.Put(testContext(t), "later", At(began.Add(150*time.Millisecond))))
	require.NoError(t, q.Put(testContext(t), "sooner", At(began.Add(50*time.Millisecond))))
	for _, want := range []string{"sooner", "later"} {
		s, err := q.Take(testContext(t))
		require.NoError(t, err)
		require.Equal(t, want, s)
	}
	require.GreaterOrEqual(t, time.Since(began), 149*time.Millisecond)
	for _, id := range []string{"a", "b", "a"} {
		require.NoError(t, q.Put(testContext(t), id, ID(id)))
	}
	n, err := q.Remove(testContext(t), "a")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	s, err := q.Take(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "b", s)
	left := r.children(q.c, "/queue")
	require.Len(t, left, 1, "what is due in an hour")
	remove(t, q.c, "/queue/"+left[0])
	q.Close()
}

// A node that Curator's putMulti has written holds several items.
func TestCuratorQueueUnpacksSeveralItems(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	q := newTestQueue(t, c, QueueCurator)
	put := func(data []byte) {
		_, _, err := c.Create(testContext(t), "/queue/queue-", data, client.ModePersistentSequential, nil, client.MakeParents())
		require.NoError(t, err)
	}
	put(packItems([]byte("a"), []byte("b"), nil))
	for _, want := range []string{"a", "b", ""} {
		s, err := q.Take(testContext(t))
		require.NoError(t, err)
		require.Equal(t, want, s)
	}
	put([]byte("no frame"))
	_, err := q.Take(testContext(t))
	require.ErrorIs(t, err, errNoFrame)
	n, err := q.Len(testContext(t))
	require.NoError(t, err)
	require.Equal(t, 1, n, "it stays where it is")
	remove(t, c, "/queue/"+r.children(c, "/queue")[0])
	q.Close()
}

// Several items that are put together come together, in one node where the form has that.
func TestItemsArePutTogether(t *testing.T) {
	for name, form := range queueForms {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.dial()
			q := newTestQueue(t, c, form)
			require.NoError(t, q.PutAll(testContext(t), nil))
			require.NoError(t, q.PutAll(testContext(t), []string{"a", "b", "c"}))
			n, err := q.Len(testContext(t))
			require.NoError(t, err)
			want := [][]string{{"a"}, {"b"}, {"c"}}
			if form == QueueCurator {
				want = [][]string{{"a", "b", "c"}}
			}
			require.Len(t, want, n)
			for _, values := range want {
				it, err := q.Hold(testContext(t))
				require.NoError(t, err)
				require.Equal(t, values, it.Values)
				require.NoError(t, it.Finish(testContext(t)))
			}
			q.Close()
		})
	}
}

// The node that says who works on an item has the item's name. One whose session has ended must not
// take it from the next consumer when it gives back what it has lost.
func TestLateReturnOfAnItemLeavesTheNextConsumerAlone(t *testing.T) {
	for name, form := range queueForms {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c, d := r.dial(), r.dial()
			q, other := newTestQueue(t, c, form), newTestQueue(t, d, form)
			require.NoError(t, q.Put(testContext(t), "x"))
			lost, err := q.Hold(testContext(t))
			require.NoError(t, err)
			r.srv.ExpireSession(c.SessionID())
			await(t, "the item is lost", lost.Done())
			it, err := other.Hold(testContext(t))
			require.NoError(t, err)
			require.Equal(t, []string{"x"}, it.Values)
			require.NoError(t, c.Sync(testContext(t), "/")) // c has seen the other's node
			require.Error(t, lost.Finish(testContext(t)), "it is not ours any more")
			require.NoError(t, lost.Release(testContext(t)))
			require.NoError(t, it.Verify(testContext(t)))
			require.NoError(t, it.Finish(testContext(t)))
			q.Close()
			other.Close()
		})
	}
}

func FuzzUnpackItems(f *testing.F) {
	f.Add(packItems([]byte("a"), nil))
	f.Add([]byte{0, 1, 0, 1, 1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		items, err := unpackItems(b)
		if err == nil && string(packItems(items...)) != string(b) {
			t.Errorf("%x became %x", b, packItems(items...))
		}
	})
}

func FuzzQueueName(f *testing.F) {
	f.Add("queue-|18F00000000|0000000001")
	f.Add("entry-100-0000000001")
	f.Fuzz(func(t *testing.T, name string) {
		for form := range QueueCurator + 1 {
			if e, ok := form.read(name); ok && e.name != name {
				t.Errorf("%q became %q", name, e.name)
			}
		}
	})
}

// T13: every item is taken once.
func TestEveryItemIsTakenOnce(t *testing.T) {
	for name, form := range queueForms {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			const items = 100
			var mu sync.Mutex
			got := map[string]int{}
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var wg sync.WaitGroup
			for range 4 {
				q := newTestQueue(t, r.dial(), form)
				wg.Go(func() {
					defer q.Close()
					for {
						s, err := q.Take(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						if got[s]++; len(got) == items {
							cancel()
						}
						mu.Unlock()
					}
				})
			}
			for i := range 2 {
				q := newTestQueue(t, r.dial(), form)
				wg.Go(func() {
					for n := range items / 2 {
						if err := q.Put(testContext(t), fmt.Sprintf("%d-%d", i, n)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.Len(t, got, items)
			for s, n := range got {
				require.Equal(t, 1, n, s)
			}
		})
	}
}

// T13: with Hold an item outlives its consumer: sessions end, replies are lost, and each item is
// finished at least once, and once only by those who were told that it is.
func TestEveryHeldItemIsFinished(t *testing.T) {
	for name, form := range queueForms {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			const items = 40
			producer := newTestQueue(t, r.dial(), form)
			for i := range items {
				require.NoError(t, producer.Put(testContext(t), fmt.Sprint(i)))
			}
			var mu sync.Mutex
			done := map[string]int{}
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var wg sync.WaitGroup
			var lostSessions, cuts atomic.Int32
			for i := range 4 {
				var n atomic.Int32
				p := tap{reply: func(op wire.OpCode, _ []byte) bool {
					if op != wire.OpMulti && op != wire.OpCreate2 || n.Add(1)%11 != 0 {
						return true
					}
					cuts.Add(1)
					return false
				}}
				c := r.dial(p.option(), client.WithReconnect(client.RetryTimes(0)))
				q := newTestQueue(t, c, form)
				wg.Go(func() {
					defer q.Close()
					for k := 0; ; k++ {
						it, err := q.Hold(ctx)
						if err != nil {
							if ctx.Err() == nil {
								t.Errorf("hold: %v", err)
							}
							return
						}
						if k%9 == 4 && i == 0 {
							r.srv.ExpireSession(c.SessionID())
							<-it.Done()
							lostSessions.Add(1)
						}
						if !work(t, it, k%7 == 6) {
							continue
						}
						mu.Lock()
						if done[it.Values[0]]++; len(done) == items {
							cancel()
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			require.Len(t, done, items)
			for s, n := range done {
				require.Equal(t, 1, n, s)
			}
			n, err := producer.Len(testContext(t))
			require.NoError(t, err)
			require.Zero(t, n)
			t.Logf("%d lost sessions, %d lost replies", lostSessions.Load(), cuts.Load())
		})
	}
}

// work finishes an item, unless it is lost or is to be given back, and says whether it did.
func work(t *testing.T, it *Item[string], giveBack bool) bool {
	if it.Err() != nil || giveBack {
		if err := it.Release(testContext(t)); err != nil {
			t.Errorf("give back: %v", err)
		}
		return false
	}
	if err := it.Finish(testContext(t)); err != nil {
		t.Errorf("finish: %v", err)
		return false
	}
	return true
}

func TestItemThatWasTakenAwayIsNotFinished(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	q := newTestQueue(t, c, QueueKazooLocking)
	require.NoError(t, q.Put(testContext(t), "x"))
	it, err := q.Hold(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, it.Values)
	require.True(t, slices.Contains(r.children(c, "/queue/taken"), base(it.Path())))
	remove(t, c, it.Path())
	await(t, "the item is lost", it.Done())
	require.ErrorIs(t, it.Err(), ErrRevoked)
	require.ErrorIs(t, it.Finish(testContext(t)), client.ErrNoNode)
	it, err = q.Hold(testContext(t))
	require.NoError(t, err)
	require.NoError(t, it.Finish(testContext(t)))
	q.Close()
}
