package replication

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// measured is what the meters of a member were told.
type measured struct {
	mu      sync.Mutex
	counts  map[string]int
	started Startup
	longest time.Duration // of the ways that were found
}

// measure counts what the meters of an options are told from now on.
func measure(o *Options) *measured {
	m := &measured{counts: map[string]int{}}
	o.Meters = Meters{
		Propagated: func(time.Duration) { m.note("propagated") },
		Started: func(u Startup) {
			m.note("started")
			m.mu.Lock()
			m.started = u
			m.mu.Unlock()
		},
		Looking: func() { m.note("looking") },
		Elected: func(time.Duration) { m.note("elected") },
		Routed: func(took time.Duration, leads bool) {
			m.note("routed")
			if leads {
				m.note("leads")
			}
			m.mu.Lock()
			m.longest = max(m.longest, took)
			m.mu.Unlock()
		},
		Synced: func(_ time.Duration, votes bool) {
			if votes {
				m.note("synced")
			} else {
				m.note("observer synced")
			}
		},
		SnapshotSent: func() { m.note("snapshot sent") },
	}
	return m
}

func (m *measured) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

func (m *measured) of(what string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[what]
}

// found says whether no search is under way, and each of them was measured once.
func (m *measured) found() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.counts["looking"]
	return m.counts["routed"] == n && m.counts["elected"] == n && m.counts["leads"]+m.counts["synced"] == n
}

// measuredTrio is a cluster whose meters are looked at. What a member has measured begins anew with
// each of its starts.
func measuredTrio(t *testing.T) (*trio, func(*voice) *measured) {
	c := newTrio(t, 3)
	now := map[*voice]*measured{}
	for _, v := range c.members {
		v.tuned(func(o *Options) { now[v] = measure(o) })
	}
	return c, func(v *voice) *measured { return now[v] }
}

func TestASearchForALeaderIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, of := measuredTrio(t)
		c.start(1, 2, 3)
		c.sessions()
		for _, v := range c.members {
			m := of(v)
			require.NotZero(t, m.of("looking"), "member %d: the start is a search", v.number)
			awaitCondition(t, "the end of the search", m.found)
			require.Equal(t, 1, m.of("started"), "member %d", v.number)
			v.write()
			v.settled()
			require.NotZero(t, m.of("propagated"), "member %d", v.number)
		}
		old := c.leader()
		require.NotZero(t, of(old).of("leads"))
		before := map[*voice]int{}
		for _, v := range c.others(old) {
			before[v] = of(v).of("routed")
		}
		c.net.Crash(old.host())
		old.stop()
		next := c.leaderAmong(c.others(old))
		for _, v := range c.others(old) {
			awaitCondition(t, "the way to the new leader", func() bool { return of(v).of("routed") > before[v] })
			awaitCondition(t, "the end of the search", of(v).found)
		}
		require.NotZero(t, of(next).of("leads"))
		require.Positive(t, of(next).longest)
	})
}

func TestAnObserverMeasuresThatItCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, of := measuredTrio(t)
		c.plan[2].Observer = true
		c.start(1, 2, 3)
		observer := of(c.members[2])
		awaitCondition(t, "the observer", func() bool { return observer.of("observer synced") > 0 })
		require.Zero(t, observer.of("synced")+observer.of("leads"))
	})
}

// A member that has fallen behind what the log of the leader reaches back to gets a snapshot.
func TestSnapshotsThatAreSentAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, of := measuredTrio(t)
		for _, v := range c.members {
			v.tuned(func(o *Options) { o.SnapRetain, o.MaxInflight = 1, 1 })
		}
		c.start(1, 2, 3)
		c.sessions()
		late := c.others(c.leader())[0]
		late.stop()
		for _, v := range c.others(late) {
			for range 50 {
				v.write()
				v.settled()
			}
		}
		for _, v := range c.others(late) {
			require.NoError(t, v.node.SnapshotNow(testContext(t)))
		}
		c.start(late.number)
		awaitCondition(t, "a snapshot that was sent", func() bool {
			sent := 0
			for _, v := range c.members {
				sent += of(v).of("snapshot sent")
			}
			return sent > 0
		})
	})
}

func TestARepairIsASnapshotThatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, of := measuredTrio(t)
		for _, v := range c.members {
			v.tuned(func(o *Options) { o.DigestInterval = 100 * time.Millisecond })
		}
		c.start(1, 2, 3)
		c.sessions()
		wrong := c.others(c.leader())[0]
		wrong.flip()
		wrong.healed()
		awaitCondition(t, "a snapshot that was sent", func() bool {
			return of(c.members[0]).of("snapshot sent")+of(c.members[1]).of("snapshot sent")+of(c.members[2]).of("snapshot sent") > 0
		})
	})
}

func TestAWayThatIsLostIsSearchedOnce(t *testing.T) {
	o := Options{Observer: noObserver{}, Cluster: &Cluster{}}
	m := measure(&o)
	o.Meters.setDefaults()
	q := newQueue(&Node{o: o})
	expect := func(looking, elected, routed, leads int) {
		t.Helper()
		require.Equal(t, []int{looking, elected, routed, leads}, []int{m.of("looking"), m.of("elected"), m.of("routed"), m.of("leads")})
		require.Equal(t, looking == routed, q.routed.Load())
	}
	expect(1, 0, 0, 0)
	q.knowsLeader()
	q.knowsLeader() // another one
	expect(1, 1, 0, 0)
	gen := q.setRoute(routeLeader)
	expect(1, 1, 1, 0)
	q.knowsLeader() // who has a way looks for nobody
	q.unroute(gen)
	q.unroute(gen)
	expect(2, 1, 1, 0)
	q.setRoute(routeLeader) // to a leader that it has known all the time
	expect(2, 2, 2, 0)
	gen = q.setRoute(routeLog) // one way takes the place of another
	expect(3, 3, 3, 1)
	q.close()
	q.unroute(gen)
	require.Equal(t, 3, m.of("looking"), "the end is no search")
}

// Who is alone looks for no leader.
func TestTheStartIsMeasured(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		m := measure(&o)
		r := openRig(t, o)
		require.Equal(t, 1, m.of("started"))
		require.Zero(t, m.started.Commands)
		require.Zero(t, m.started.Snapshot)
		r.session()
		for i := range 20 {
			r.mustDo(createNode(uint64(i+1), nodePath(i), nil))
		}
		require.NotZero(t, m.of("propagated"))

		m = measure(&o)
		r = r.reopen(o)
		require.Equal(t, 1, m.of("started"))
		require.Equal(t, 21, m.started.Commands, "a session and its nodes")
		require.Zero(t, m.started.Snapshot)
		require.Positive(t, m.started.Replay)
		require.GreaterOrEqual(t, m.started.Took, m.started.Replay)
		require.Zero(t, m.of("propagated"), "what an earlier run has proposed is not late")
		require.NoError(t, r.SnapshotNow(testContext(t)))
		for i := range 5 {
			r.mustDo(createNode(uint64(i+21), nodePath(i+20), nil))
		}

		m = measure(&o)
		r.reopen(o)
		require.Equal(t, 1, m.of("started"))
		require.Equal(t, 5, m.started.Commands, "behind the snapshot")
		require.Positive(t, m.started.Snapshot)
		require.GreaterOrEqual(t, m.started.Took, m.started.Snapshot+m.started.Replay)
		require.Zero(t, m.of("looking")+m.of("elected")+m.of("routed")+m.of("synced"))
	})
}
