package peer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func (m *member) down(t *testing.T) Down {
	t.Helper()
	select {
	case d := <-m.downs:
		return d
	case <-time.After(patience):
		t.Fatal("no PeerDown")
		panic("unreachable")
	}
}

func (m *member) noDown(t *testing.T) {
	t.Helper()
	select {
	case d := <-m.downs:
		t.Fatalf("PeerDown of %s: %v", d.ID, d.Cause)
	default:
	}
}

// The whole way of a failover: the leader's process dies, its followers see it, agree, and
// one of them stands for election at once.
func TestACrashedLeaderIsReplacedAtOnce(t *testing.T) {
	onBothNetworks(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		r.await(leader.apply("before"), r.members...)
		followers := r.followers(leader)
		boot := leader.t.Boot()

		leader.t.Close() // raft there goes on, and nobody hears it
		began := time.Now()
		for _, m := range followers {
			d := m.down(t)
			require.Equal(t, Down{ID: leader.id, Boot: boot, Cause: ErrGone}, d)
			if m == followers[0] {
				v := m.t.Ask(within(t, patience), d)
				require.True(t, v.Dead(), "%+v", v)
				require.NoError(t, m.t.TimeoutNow(m.id, "", &raft.TimeoutNowRequest{}, nil))
			}
		}
		next := r.leader(followers...)
		r.await(next.apply("after"), followers...)
		t.Logf("from the crash to the next write: %s", time.Since(began))
		if r.net != nil {
			require.Less(t, time.Since(began), 50*time.Millisecond)
		}
	})
}

func TestAQuickSuccessorCountsAsDeath(t *testing.T) {
	inMemory(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		boot := leader.t.Boot()
		followers := r.followers(leader)
		// While the way is blocked the followers cannot look; then the successor is there.
		for _, m := range followers {
			r.net.Block(leader.host(), m.host())
		}
		leader.stop()
		leader.open()
		r.net.Heal()
		for _, m := range followers {
			d := m.down(t)
			require.Equal(t, Down{ID: leader.id, Boot: boot, Cause: ErrRestarted}, d)
			require.True(t, m.t.Ask(t.Context(), d).Dead())
			require.False(t, m.t.Ask(t.Context(), Down{ID: leader.id, Boot: leader.t.Boot()}).Dead())
		}
		synctest.Wait()
		for _, m := range followers {
			m.noDown(t)
		}
	})
}

// A firewall that refuses one follower must not let it depose a healthy leader.
func TestOneBrokenPathIsNoDeath(t *testing.T) {
	inMemory(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		r.await(leader.apply("x"), r.members...)
		broken, other := r.followers(leader)[0], r.followers(leader)[1]
		r.net.Refuse(broken.host(), leader.host(), true)
		r.net.Refuse(leader.host(), broken.host(), true)
		r.net.Cut(broken.host(), leader.host())
		d := broken.down(t)
		require.ErrorIs(t, d.Cause, ErrGone)
		v := broken.t.Ask(t.Context(), d)
		require.False(t, v.Dead())
		require.Equal(t, 3, v.Voters)
		for _, a := range v.Answers {
			if a.Member == other.id {
				require.Equal(t, Alive, a.Sight)
			} else {
				require.NotEqual(t, Alive, a.Sight) // Unknown if the other one was quicker
			}
		}
		other.noDown(t)
		require.Equal(t, raft.Leader, leader.r().State())
	})
}

func TestWhatIsNoDeathIsNotReported(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(r *rig, leader, follower *member)
	}{
		{"connections that break", func(r *rig, leader, follower *member) {
			r.net.Cut(leader.host(), follower.host())
		}},
		{"a partition", func(r *rig, leader, follower *member) {
			r.net.Partition([]string{leader.host()}, []string{follower.host()})
			r.net.Cut(leader.host(), follower.host())
		}},
		{"connections that are not used", func(*rig, *member, *member) {
			time.Sleep(10 * time.Minute)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inMemory(t, setup{}, func(t *testing.T, r *rig) {
				leader := r.leader()
				r.await(leader.apply("x"), r.members...)
				test.do(r, leader, r.followers(leader)[0])
				time.Sleep(5 * time.Second) // virtual
				synctest.Wait()
				for _, m := range r.members {
					m.noDown(t)
				}
			})
		})
	}
}

// Each process is reported once, its successor again.
func TestEachProcessIsReportedOnce(t *testing.T) {
	inMemory(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		victim := r.followers(leader)[0]
		for range 3 {
			boot := victim.t.Boot()
			r.await(leader.apply("x"), victim)
			victim.stop()
			require.Equal(t, Down{ID: victim.id, Boot: boot, Cause: ErrGone}, leader.down(t))
			time.Sleep(5 * time.Second) // virtual: the leader dials again and again
			leader.noDown(t)
			victim.open()
			victim.start()
		}
	})
}

// Without an answer there is no majority for a death.
func TestAskDoesNotTakeSilenceForDeath(t *testing.T) {
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.net.Crash("3")
		s.all[2].Close()
		s.net.Partition([]string{"1"}, []string{"2"})
		began := time.Now()
		v := s.all[0].Ask(t.Context(), Down{ID: serverID(3)})
		require.False(t, v.Dead())
		require.Equal(t, []Sight{Dead, Unknown}, []Sight{v.Answers[0].Sight, v.Answers[1].Sight})
		require.LessOrEqual(t, time.Since(began), probeTimeout)

		s.net.Heal()
		time.Sleep(defaultDialTimeout) // virtual: the dial that was under way is over
		v = s.all[0].Ask(t.Context(), Down{ID: serverID(3)})
		require.True(t, v.Dead())
		v = s.all[0].Ask(t.Context(), Down{ID: serverID(2)})
		require.False(t, v.Dead())
	})
}

// A member that is asked about itself is alive, unless another process of it is meant.
func TestAskedAboutItselfAMemberKnows(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		a, b := s.all[0], s.all[1]
		sight, err := a.askOne(t.Context(), b.o.ID, Down{ID: b.o.ID, Boot: b.Boot()})
		require.NoError(t, err)
		require.Equal(t, Alive, sight)
		sight, err = a.askOne(t.Context(), b.o.ID, Down{ID: b.o.ID, Boot: b.Boot() + 1})
		require.NoError(t, err)
		require.Equal(t, Dead, sight)
		sight, err = a.askOne(t.Context(), b.o.ID, Down{ID: "9-unknown"})
		require.NoError(t, err)
		require.Equal(t, Unknown, sight)
	})
}

// A process that dies takes connections until the kernel has closed its listener.
func TestAListenerThatDropsIsLookedAtAgain(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.all[1].Close()
		l, err := s.net.Host("2").Listen("2:1")
		require.NoError(t, err)
		defer l.Close()
		go func() {
			for i := 0; ; i++ {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				nc.Close()
				if i == 2 {
					l.Close()
				}
			}
		}()
		sight, err := s.all[0].look(t.Context(), serverID(2), 7)
		require.Equal(t, Dead, sight)
		require.ErrorIs(t, err, ErrGone)
	})
}

func TestALoneVoterLeadsAtOnce(t *testing.T) {
	slow := func(c *raft.Config) {
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = time.Hour, time.Hour, time.Hour
	}
	onBothNetworks(t, setup{nodes: 1, config: slow}, func(t *testing.T, r *rig) {
		m := r.members[0]
		began := time.Now()
		require.NoError(t, m.t.TimeoutNow(m.id, "", &raft.TimeoutNowRequest{}, nil))
		require.Same(t, m, r.leader())
		t.Logf("leads after %s", time.Since(began))
	})
}

func TestTimeoutNowToOneselfEndsWithTheTransport(t *testing.T) {
	play(t, 1, nil, func(t *testing.T, s *script) {
		err := s.all[0].TimeoutNow(serverID(1), "", &raft.TimeoutNowRequest{}, nil)
		require.ErrorIs(t, err, errNoAnswer, "no raft consumes")
		time.AfterFunc(time.Second, func() { s.all[0].Close() })
		err = s.all[0].TimeoutNow(serverID(1), "", &raft.TimeoutNowRequest{}, nil)
		require.True(t, errors.Is(err, ErrClosed))
	})
}
