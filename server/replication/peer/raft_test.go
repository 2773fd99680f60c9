package peer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

func TestClusterElectsAndReplicates(t *testing.T) {
	onBothNetworks(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		var last uint64
		for i := range 200 {
			last = leader.apply(fmt.Sprint("entry ", i))
		}
		r.await(last, r.members...)
		for _, m := range r.members {
			require.Equal(t, "entry 199", m.fsm.at(last))
			require.Equal(t, "entry 0", m.fsm.at(last-199))
		}
		for _, s := range leader.t.Peers() {
			require.True(t, s.Connected)
			require.NotZero(t, s.Acked)
			require.LessOrEqual(t, s.Acked, last)
			require.False(t, s.Contact.IsZero())
		}
	})
}

// In a pipeline raft sends MaxAppendEntries at a time, and what is left then waits for the
// next write or for CommitTimeout: hence more of them than by default.
func TestManyWritesAtOnceReachEverybodyInOrder(t *testing.T) {
	many := func(c *raft.Config) { c.MaxAppendEntries = 1024 }
	onBothNetworks(t, setup{config: many}, func(t *testing.T, r *rig) {
		leader := r.leader()
		var futures []raft.ApplyFuture
		for i := range 1000 {
			futures = append(futures, leader.r().Apply(fmt.Append(nil, i), patience))
		}
		for _, f := range futures {
			require.NoError(t, f.Error())
		}
		first, last := futures[0].Index(), futures[len(futures)-1].Index()
		r.await(last, r.members...)
		for _, m := range r.members {
			for i := range futures {
				require.Equal(t, fmt.Sprint(i), m.fsm.at(first+uint64(i)))
			}
		}
	})
}

// Entries of several megabytes go in several frames, and raft sees one request.
func TestLargeEntriesAreReplicated(t *testing.T) {
	onBothNetworks(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		var futures []raft.ApplyFuture
		for i := range 8 {
			data := make([]byte, 700_000*(i%4+1))
			data[0] = byte(i)
			futures = append(futures, leader.r().Apply(data, patience))
		}
		for _, f := range futures {
			require.NoError(t, f.Error())
		}
		r.await(futures[7].Index(), r.members...)
		for _, m := range r.members {
			for i, f := range futures {
				got := m.fsm.at(f.Index())
				require.Len(t, got, 700_000*(i%4+1))
				require.Equal(t, byte(i), got[0])
			}
		}
	})
}

func TestAMemberThatWasAwayCatchesUp(t *testing.T) {
	onBothNetworks(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		away := r.followers(leader)[0]
		away.stop()
		var last uint64
		for i := range 300 {
			last = leader.apply(fmt.Sprint(i))
		}
		away.open()
		away.start()
		r.await(last, away)
		require.Zero(t, away.fsm.restored, "the log was enough")
	})
}

func TestLeadershipIsHandedOver(t *testing.T) {
	onBothNetworks(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		leader.apply("before")
		heir := r.followers(leader)[0]
		f := leader.r().LeadershipTransferToServer(heir.id, raft.ServerAddress(heir.id))
		require.NoError(t, f.Error())
		require.Same(t, heir, r.leader())
		r.await(heir.apply("after"), r.members...)
	})
}

// A member that was cut off must not come back with a term that deposes the leader.
func TestPreVoteKeepsAReturningMemberFromDeposing(t *testing.T) {
	inMemory(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		leader.apply("x")
		term := leader.r().CurrentTerm()
		away := r.followers(leader)[0]
		for _, m := range r.members {
			if m != away {
				r.net.Partition([]string{m.host()}, []string{away.host()})
			}
		}
		r.changed.await(t, "the member to stand for election", func() bool { return away.r().State() == raft.Candidate })
		time.Sleep(5 * time.Second) // of virtual time, for many campaigns
		require.Equal(t, term, away.r().CurrentTerm())
		r.net.Heal()
		require.Same(t, leader, r.leader())
		require.Equal(t, term, leader.r().CurrentTerm())
		r.await(leader.apply("y"), r.members...)
	})
}

// A snapshot of 20 MiB takes 1.6 s over a way that is 20 ms long, five times the heartbeat
// timeout. All the time the leader hears its follower, and the follower its leader.
func TestHeartbeatsGoOnDuringASnapshot(t *testing.T) {
	const pad = 20 << 20
	inMemory(t, setup{pad: pad}, func(t *testing.T, r *rig) {
		leader := r.leader()
		lagging := r.followers(leader)[0]
		term := leader.r().CurrentTerm()
		snapshotBehind(t, r, leader, lagging)

		r.net.Delay(leader.host(), lagging.host(), 20*time.Millisecond)
		began := time.Now()
		r.net.Unblock(leader.host(), lagging.host())
		r.net.Unblock(lagging.host(), leader.host())
		r.changed.await(t, "contact", func() bool {
			return lagging.r().LastContact().After(began)
		})
		last := leader.r().LastIndex()
		longest := time.Duration(0)
		for lagging.fsm.lastApplied() < last {
			time.Sleep(time.Millisecond) // virtual
			longest = max(longest, time.Since(lagging.r().LastContact()), time.Since(leader.contactWith(lagging.id)))
		}
		require.Equal(t, 1, lagging.fsm.restored)
		require.Greater(t, time.Since(began), time.Second, "the transfer was too quick to show anything")
		require.Less(t, longest, 200*time.Millisecond)
		require.Equal(t, term, leader.r().CurrentTerm(), "nobody stood for election")
		require.Equal(t, raft.Leader, leader.r().State())
	})
}

func TestASnapshotIsInstalledWithEverySpoolAndWithout(t *testing.T) {
	for name, spool := range map[string]func(*testing.T) func(int64) (Spool, error){
		"memory": func(*testing.T) func(int64) (Spool, error) { return SpoolMemory },
		"files":  func(t *testing.T) func(int64) (Spool, error) { return SpoolDir(vfs.OS, t.TempDir()) },
		"none":   func(*testing.T) func(int64) (Spool, error) { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := spool(t)
			s := setup{pad: 3 << 20, options: func(_ *member, o *Options) { o.Spool = dir }}
			onBothNetworks(t, s, func(t *testing.T, r *rig) {
				leader := r.leader()
				lagging := r.followers(leader)[0]
				lagging.stop()
				leader.apply("a")
				require.NoError(t, leader.r().Snapshot().Error())
				last := leader.apply("b")
				// With an empty log, so that the leader's is not enough.
				lagging.logs, lagging.stable, lagging.snaps = raft.NewInmemStore(), raft.NewInmemStore(), raft.NewInmemSnapshotStore()
				lagging.open()
				lagging.start()
				r.await(last, lagging)
				require.Equal(t, 1, lagging.fsm.restored)
				require.Equal(t, "b", lagging.fsm.at(last))
			})
		})
	}
}

// snapshotBehind cuts a follower off and has the leader drop the log that it would need.
func snapshotBehind(t *testing.T, r *rig, leader, lagging *member) {
	t.Helper()
	r.net.Partition([]string{leader.host()}, []string{lagging.host()})
	r.net.Cut(leader.host(), lagging.host()) // else what is on its way would arrive later
	for i := range 100 {
		leader.apply(fmt.Sprint(i))
	}
	require.NoError(t, leader.r().Snapshot().Error())
	leader.apply("after the snapshot")
}

func (m *member) host() string { return string(m.id[0]) }

func (m *member) contactWith(id raft.ServerID) time.Time {
	for _, s := range m.t.Peers() {
		if s.ID == id {
			return s.Contact
		}
	}
	return time.Time{}
}

// hashicorp/raft takes min(leader commit, its own last index). A follower with entries of an
// older term behind those that a request matches would commit them; see cut.
func TestCommitStaysWithinWhatTheFollowerMatched(t *testing.T) {
	onBothNetworks(t, setup{noStart: true, nodes: 2}, func(t *testing.T, r *rig) {
		leader, follower := r.members[0], r.members[1]
		require.NoError(t, raft.BootstrapCluster(follower.config(), follower.logs, follower.stable, follower.snaps, follower.t, r.configuration()))
		require.NoError(t, follower.logs.StoreLogs([]*raft.Log{
			{Index: 2, Term: 1, Data: []byte("shared")},
			{Index: 3, Term: 1, Data: []byte("of a leader that is gone")},
		}))
		follower.start()
		// The leader of term 2 has replaced entry 3, and a majority has it.
		request := func(prev uint64) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{
				RPCHeader: header(3, leader.t.idBytes), Term: 2, PrevLogEntry: prev, PrevLogTerm: 1, LeaderCommitIndex: 3,
			}
		}
		var resp raft.AppendEntriesResponse
		require.NoError(t, leader.t.AppendEntries(follower.id, "", request(2), &resp))
		require.True(t, resp.Success)
		r.await(2, follower)

		replace := request(2)
		replace.Entries = []*raft.Log{{Index: 3, Term: 2, Data: []byte("of the leader")}}
		require.NoError(t, leader.t.AppendEntries(follower.id, "", replace, &resp))
		require.True(t, resp.Success)
		r.await(3, follower)
		require.Equal(t, "of the leader", follower.fsm.at(3))
	})
}

func TestCommitLimitIsKept(t *testing.T) {
	limit := make(chan uint64, 1)
	limit <- math.MaxUint64
	read := func() uint64 { v := <-limit; limit <- v; return v }
	set := func(v uint64) { <-limit; limit <- v }
	s := setup{options: func(_ *member, o *Options) { o.CommitLimit = read }}
	onBothNetworks(t, s, func(t *testing.T, r *rig) {
		set(math.MaxUint64)
		leader := r.leader()
		base := leader.apply("base")
		r.await(base, r.members...)
		set(base)
		for range 50 {
			leader.apply("not durable here yet")
		}
		for _, m := range r.followers(leader) {
			require.Equal(t, base, m.fsm.lastApplied())
		}
		for _, s := range leader.t.Peers() {
			require.Equal(t, base, s.Told)
		}
		set(base + 30)
		leader.t.Advance(leader.r().CurrentTerm(), base+30)
		r.await(base+30, r.members...)
		for _, m := range r.followers(leader) {
			require.Equal(t, base+30, m.fsm.lastApplied())
		}
		set(math.MaxUint64)
		leader.t.Advance(leader.r().CurrentTerm(), base+50)
		r.await(base+50, r.members...)
	})
}

// The handshake vouches for the identity that raft puts into its headers.
func TestRaftUnderAnotherIdentityIsRefused(t *testing.T) {
	onBothNetworks(t, setup{noStart: true, nodes: 2}, func(t *testing.T, r *rig) {
		a := r.members[0].t
		h := header(3, []byte("9-somebody"))
		require.ErrorIs(t, a.AppendEntries("2-inc2", "", &raft.AppendEntriesRequest{RPCHeader: h}, &raft.AppendEntriesResponse{}), errNotOurs)
		require.ErrorIs(t, a.RequestVote("2-inc2", "", &raft.RequestVoteRequest{RPCHeader: h}, &raft.RequestVoteResponse{}), errNotOurs)
		require.ErrorIs(t, a.InstallSnapshot("2-inc2", "", &raft.InstallSnapshotRequest{RPCHeader: h}, &raft.InstallSnapshotResponse{}, nil), errNotOurs)
	})
}

// In raft's fast path a heartbeat of a newer term can have a leader stamp entries with a term
// that it does not lead in.
func TestHeartbeatsGoThroughRaftsMainLoop(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.all[1].SetHeartbeatHandler(func(raft.RPC) { t.Error("the fast path was taken") })
		sent := s.raftSends(2, &raft.AppendEntriesRequest{Term: 4})
		require.Empty(t, s.accept(2).Entries)
		require.True(t, s.finish(sent).Success)
	})
}

func TestAddressesOfRaftAreConstantIDs(t *testing.T) {
	onBothNetworks(t, setup{noStart: true, nodes: 1}, func(t *testing.T, r *rig) {
		a := r.members[0].t
		require.Equal(t, raft.ServerAddress("1-inc1"), a.LocalAddr())
		require.Equal(t, []byte("2-inc2"), a.EncodePeer("2-inc2", "10.0.0.2:2888"))
		require.Equal(t, raft.ServerAddress("2-inc2"), a.DecodePeer([]byte("2-inc2")))
	})
}
