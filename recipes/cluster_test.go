package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// What needs more than one server: leaders that die, followers that lag, sessions that move. The
// other tests run on a cluster, too, with -nodes=3.

const stormLeaders = 800 * time.Millisecond

// leaderOf waits until a server leads: one that has just stood still may lead no more.
func leaderOf(t testing.TB, cl *zkdtest.Cluster) (node int) {
	t.Helper()
	eventually(t, "somebody leads", func() bool { node = cl.Leader(); return node != 0 })
	return node
}

// T2: the reply to the create is lost with the leader's connection, and the only server that is
// left has not heard of the create yet.
func TestLostCreateIsFoundOnAFollowerThatWasHeldBack(t *testing.T) {
	forEachForm(t, func(t *testing.T, opts ...Option) {
		r := newRigOf(t, 3)
		cl := r.srv.(several).Cluster
		direct := r.dial()
		release(t, mustLock(t, NewMutex(direct, "/lock", opts...).Lock)) // so that the first write is the one that matters
		leader := leaderOf(t, cl)
		behind := leader%3 + 1
		lead, follow := cl.Proxy(leader), cl.Proxy(behind)
		follow.Refuse(true)
		c := r.dialTo(lead.Addr()+","+follow.Addr(), fastReconnect())
		cl.Isolate(behind)
		var once atomic.Bool
		lead.On(func(f zkdtest.Frame) zkdtest.Action {
			if f.Direction != zkdtest.ToClient || f.Op != wire.OpCreate2 && f.Op != wire.OpMulti || once.Swap(true) {
				return zkdtest.Pass()
			}
			lead.Refuse(true)
			follow.Refuse(false)
			return zkdtest.Cut()
		})
		p := start(t, testContext(t), NewMutex(c, "/lock", opts...).Lock)
		eventually(t, "the reply is lost", once.Load)
		p.waits()
		cl.Heal()
		l := p.got()
		all, err := NewMutex(direct, "/lock", opts...).Participants(testContext(t))
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, l.Path(), all[0].Path)
		require.NoError(t, l.Verify(testContext(t)))
		release(t, l)
		r.close(c) // before its proxies
	})
}

// T11 on a cluster: everybody has a turn, one at a time, whatever happens.
func TestElectionInAStorm(t *testing.T) {
	for _, form := range []string{"latch", "unfair"} {
		t.Run(form, func(t *testing.T) {
			s := newStorm(t)
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var mu sync.Mutex
			var leads Lease
			turns := map[int]int{}
			var wg sync.WaitGroup
			for i := range 5 {
				e := NewElection(s.join(client.WithTimeout(2*time.Second)), "/election", append(electionForms[form], AutoRequeue())...)
				wg.Go(func() {
					err := e.Run(ctx, func(ctx context.Context, l Lease) error {
						mu.Lock()
						if leads != nil && leads.Valid() && l.Valid() {
							t.Errorf("%s leads beside %s", l.Path(), leads.Path())
						}
						if leads != nil && l.Token() <= leads.Token() && l.Valid() {
							t.Errorf("token %d behind %d", l.Token(), leads.Token())
						}
						if leads == nil || l.Token() > leads.Token() {
							leads = l
						}
						turns[i]++
						mu.Unlock()
						select {
						case <-ctx.Done():
						case <-time.After(2 * time.Millisecond): // it works
						}
						return nil
					})
					if !errors.Is(err, context.Canceled) {
						t.Errorf("run: %v", err)
					}
				})
			}
			s.begin(stormLeaders)
			began := time.Now()
			eventually(t, "all have led, and again", func() bool {
				mu.Lock()
				defer mu.Unlock()
				n := 0
				for _, k := range turns {
					if k >= 3 || form == "unfair" && k >= 1 {
						n++
					}
				}
				return n == 5 && time.Since(began) > time.Second
			})
			s.end()
			cancel()
			wg.Wait()
		})
	}
}

// T13 on a cluster: the sum is that of the adds.
func TestCounterInAStorm(t *testing.T) {
	s := newStorm(t)
	s.stays("/n")
	var wg sync.WaitGroup
	var added, unknown atomic.Int64
	began := time.Now()
	for range 4 {
		k := NewCounter(s.join(client.WithTimeout(10*time.Second)), "/n")
		wg.Go(func() {
			for n := 0; n < 20 || time.Since(began) < time.Second; n++ {
				switch _, err := k.AddOnce(testContext(t), 1); {
				case err == nil:
					added.Add(1)
				case errors.Is(err, ErrUnknownOutcome): // only when the session was lost with the reply
					unknown.Add(1)
				default:
					t.Errorf("add: %v", err)
				}
			}
		})
	}
	s.begin(stormLeaders)
	wg.Wait()
	s.end()
	sum, err := NewCounter(s.dial(), "/n").Get(testContext(t))
	require.NoError(t, err)
	require.GreaterOrEqual(t, sum, added.Load())
	require.LessOrEqual(t, sum, added.Load()+unknown.Load())
	t.Logf("%d added, %d of unknown outcome", added.Load(), unknown.Load())
}

// T13 on a cluster: every item is taken once by those who know that they have it, and by somebody.
func TestQueueInAStorm(t *testing.T) {
	for _, name := range []string{"simple", "curator"} { // the others differ by their names only
		form := queueForms[name]
		t.Run(name, func(t *testing.T) {
			s := newStorm(t)
			s.stays("/queue")
			const items = 60
			put := NewQueue(s.dial(), "/queue", form, Text())
			for i := 0; i < items; {
				err := put.Put(testContext(t), fmt.Sprint(i))
				if !errors.Is(err, ErrUnknownOutcome) {
					require.NoError(t, err)
					i++
					continue
				}
				i, err = put.Len(testContext(t)) // the leader was lost, and with it a reply
				require.NoError(t, err)
			}
			var mu sync.Mutex
			known, unknown := map[string]int{}, map[string]int{}
			all := func() bool {
				mu.Lock()
				defer mu.Unlock()
				for i := range items {
					if k := fmt.Sprint(i); known[k]+unknown[k] == 0 {
						return false
					}
				}
				return true
			}
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var wg sync.WaitGroup
			for range 4 {
				q := NewQueue(s.join(), "/queue", form, Text())
				wg.Go(func() {
					defer q.Close()
					for !all() {
						v, ok, err := q.TryTake(ctx)
						mu.Lock()
						switch {
						case ok:
							known[v]++
						case errors.Is(err, ErrUnknownOutcome) && v != "":
							unknown[v]++
						case err != nil && ctx.Err() == nil && !errors.Is(err, client.ErrSessionExpired):
							t.Errorf("take: %v", err)
						}
						mu.Unlock()
						_ = pause(ctx, 15*time.Millisecond) // so that the storm has time
					}
				})
			}
			s.begin(stormLeaders)
			eventually(t, "all are taken", all)
			cancel()
			wg.Wait()
			s.end()
			for v, n := range known {
				require.Equal(t, 1, n, v)
			}
			t.Logf("%d known, %d unknown", len(known), len(unknown))
		})
	}
}

// T13 on a cluster: the partition is disjoint in the storm, and complete after it.
func TestPartitionInAStorm(t *testing.T) {
	for name, opts := range partitionForms {
		t.Run(name, func(t *testing.T) {
			s := newStorm(t)
			s.stays("/part/assignment")
			items := []string{"a", "b", "c", "d", "e", "f", "g"}
			var mu sync.Mutex
			of := map[string]Lease{}
			have := map[string]int{}
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var wg sync.WaitGroup
			for i := range 3 {
				c := s.join(client.WithTimeout(2 * time.Second))
				wg.Go(func() {
					id := fmt.Sprint("m", i)
					for p, err := range NewPartitioner(c, "/part", id, items, 50*time.Millisecond, opts...).Run(ctx) {
						if err != nil && ctx.Err() == nil {
							t.Errorf("%s: %v", id, err)
						}
						mu.Lock()
						have[id] = 0
						if p.State == PartitionAcquired {
							have[id] = len(p.Items)
							for _, item := range p.Items {
								if old := of[item]; old != nil && old != p.Lease && old.Valid() && p.Lease.Valid() {
									t.Errorf("two have %s", item)
								}
								of[item] = p.Lease
							}
						}
						mu.Unlock()
					}
				})
			}
			s.begin(stormLeaders)
			_ = pause(ctx, 1500*time.Millisecond) // the storm lasts
			s.end()
			eventually(t, "all is divided", func() bool {
				mu.Lock()
				defer mu.Unlock()
				n := 0
				for _, k := range have {
					if k < len(items)/3 {
						return false
					}
					n += k
				}
				return n == len(items)
			})
			cancel()
			wg.Wait()
		})
	}
}

// T14 on a cluster: what A has written before it tells B, B reads, on a follower that may lag.
func TestFreshReadSeesWhatOneWasToldOf(t *testing.T) {
	r := newRigOf(t, 3)
	r.stays("/n")
	cl := r.srv.(several).Cluster
	leader := leaderOf(t, cl)
	a, b := r.dialTo(cl.Addr(leader)), r.dialTo(cl.Addr(leader%3+1))
	create(t, a, "/n", "")
	require.NoError(t, b.Sync(testContext(t), "/n")) // from here on it is there, with whatever data
	stale := 0
	version := int32(0)
	for i := 0; i < 300; i++ {
		want := fmt.Sprint(i)
		stat, err := a.Set(testContext(t), "/n", []byte(want), version)
		if errors.Is(err, client.ErrUncertain) || errors.Is(err, client.ErrBadVersion) {
			_, now, err := a.Get(testContext(t), "/n", client.Fresh()) // the machine stood still, and the leader was lost
			require.NoError(t, err)
			version = now.Version
			continue // b is told of nothing
		}
		require.NoError(t, err)
		version = stat.Version
		_, plain, err := b.Exists(testContext(t), "/n")
		require.NoError(t, err)
		require.True(t, plain)
		if old, _, err := b.Get(testContext(t), "/n"); err == nil && string(old) != want {
			stale++
		}
		data, seen, err := b.Get(testContext(t), "/n", client.Fresh())
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		require.GreaterOrEqual(t, seen.Mzxid, stat.Mzxid)
	}
	t.Logf("%d of 300 reads without Fresh were behind", stale)
}

// T14 on a cluster: an event is there before the read that shows its change.
func TestEventComesBeforeTheReadThatShowsIt(t *testing.T) {
	s := newStorm(t)
	s.stays("/n")
	c, w := s.join(), s.dial()
	create(t, w, "/n", "")
	require.NoError(t, c.Sync(testContext(t), "/n")) // its server may lag
	sub, err := c.Subscribe(testContext(t), "/n", client.Persistent)
	require.NoError(t, err)
	defer sub.Close()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := w.Set(ctx, "/n", fmt.Append(nil, i), client.AnyVersion); err != nil && ctx.Err() == nil && !errors.Is(err, client.ErrUncertain) {
				t.Errorf("write: %v", err)
			}
		}
	})
	s.begin(stormLeaders)
	newest, judged := int64(0), 0
	for began := time.Now(); time.Since(began) < time.Second || judged < 100; {
		before := c.Stats().Connections
		_, stat, err := c.Get(testContext(t), "/n")
		require.NoError(t, err)
		reset := c.Stats().Connections != before || c.State() != client.StateConnected
		for sub.Lag() > 0 {
			ev, err := sub.Next(testContext(t))
			require.NoError(t, err)
			reset = reset || ev.Type == client.EventReset
			newest = max(newest, ev.Zxid)
		}
		if reset { // what came in between is for the reader of an EventReset to look up
			newest = max(newest, stat.Mzxid)
			continue
		}
		if judged++; stat.Mzxid > newest {
			t.Fatalf("the read shows 0x%x, and the newest event is of 0x%x", stat.Mzxid, newest)
		}
	}
	s.end()
	cancel()
	writer.Wait()
}
