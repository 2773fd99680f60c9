package peer

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestConfirmSucceedsForALeader(t *testing.T) {
	onBothNetworks(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		term := leader.r().CurrentTerm()
		leader.apply("x")
		for range 20 {
			require.NoError(t, leader.t.Confirm(within(t, patience), term))
		}
		require.ErrorIs(t, leader.t.Confirm(within(t, patience), term-1), ErrDeposed)
		require.ErrorIs(t, leader.t.Confirm(within(t, patience), term+1), ErrTooEarly)
		for _, m := range r.followers(leader) {
			require.ErrorIs(t, m.t.Confirm(within(t, patience), term), ErrTooEarly)
		}
	})
}

// A new leader may not know yet what is committed.
func TestConfirmWaitsForAnEntryOfTheTerm(t *testing.T) {
	inMemory(t, setup{noAdvance: true}, func(t *testing.T, r *rig) {
		leader := r.leader()
		term := leader.r().CurrentTerm()
		require.ErrorIs(t, leader.t.Confirm(t.Context(), term), ErrTooEarly)
		leader.t.Advance(term, leader.apply("x"))
		require.NoError(t, leader.t.Confirm(t.Context(), term))
	})
}

func TestConfirmFailsOnALeaderThatIsCutOff(t *testing.T) {
	inMemory(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		term := leader.r().CurrentTerm()
		r.await(leader.apply("x"), r.members...)
		for _, m := range r.followers(leader) {
			r.net.Partition([]string{leader.host()}, []string{m.host()})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, leader.t.Confirm(ctx, term), ErrNotConfirmed)
		began := time.Now()
		require.ErrorIs(t, leader.t.Confirm(t.Context(), term), ErrNotConfirmed)
		require.LessOrEqual(t, time.Since(began), 3*time.Second, "Timeout ends a round")
	})
}

func TestConfirmFailsOnALeaderThatWasDeposed(t *testing.T) {
	inMemory(t, setup{}, func(t *testing.T, r *rig) {
		old := r.leader()
		term := old.r().CurrentTerm()
		r.await(old.apply("x"), r.members...)
		others := r.followers(old)
		r.net.Partition([]string{old.host()}, []string{others[0].host(), others[1].host()})
		leader := r.leader(others...)
		r.await(leader.apply("y"), others...)
		r.net.Heal()
		require.Error(t, old.t.Confirm(t.Context(), term))
		r.await(leader.apply("z"), r.members...)
		require.ErrorIs(t, old.t.Confirm(t.Context(), term), ErrDeposed)
	})
}

// With one of three down a majority still answers; with two it cannot.
func TestConfirmNeedsAMajorityOnly(t *testing.T) {
	onBothNetworks(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		term := leader.r().CurrentTerm()
		r.await(leader.apply("x"), r.members...)
		followers := r.followers(leader)
		followers[0].stop()
		require.NoError(t, leader.t.Confirm(within(t, patience), term))
		followers[1].stop()
		require.ErrorIs(t, leader.t.Confirm(within(t, patience), term), ErrNotConfirmed)
	})
}

// leads makes member 1 of a script the leader of term 4, as far as its transport can see.
func (s *script) leads() {
	s.t.Helper()
	for to := 2; to <= len(s.all); to++ {
		sent := s.raftSends(to, &raft.AppendEntriesRequest{Term: 4, Entries: entries(1, 4), LeaderCommitIndex: 1})
		s.accept(to)
		s.finish(sent)
	}
	s.all[0].Advance(4, 1)
	synctest.Wait()
	for to := 2; to <= len(s.all); to++ {
		s.nothing(to, "they were told")
	}
}

// confirm calls Confirm and returns where its result will be.
func (s *script) confirm(term uint64) <-chan error {
	result := make(chan error, 1)
	go func() { result <- s.all[0].Confirm(s.t.Context(), term) }()
	return result
}

// The answer to a heartbeat that was on its way before the call says nothing about the time
// after it. (raft's VerifyLeader counts it.)
func TestConfirmDoesNotCountOlderAnswers(t *testing.T) {
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.leads()
		before := []*sending{
			s.raftSends(2, &raft.AppendEntriesRequest{Term: 4}),
			s.raftSends(3, &raft.AppendEntriesRequest{Term: 4}),
		}
		result := s.confirm(4)
		synctest.Wait()
		s.accept(2)
		s.accept(3)
		s.finish(before[0])
		s.finish(before[1])
		synctest.Wait()
		select {
		case err := <-result:
			t.Fatalf("confirmed by older answers: %v", err)
		default:
		}
		require.Zero(t, s.accept(3).PrevLogEntry)
		require.NoError(t, <-result)
		s.accept(2)
	})
}

func TestConfirmDoesNotCountWhatIsNoSuccessInTheTerm(t *testing.T) {
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.leads()
		result := s.confirm(4)
		for at := 2; at <= 3; at++ {
			s.answer(at, s.arrives(at), raft.AppendEntriesResponse{Term: 4})
		}
		require.ErrorIs(t, <-result, ErrNotConfirmed)

		result = s.confirm(4)
		s.answer(2, s.arrives(2), raft.AppendEntriesResponse{Term: 3, Success: true})
		rpc := s.arrives(3)
		rpc.Respond(nil, raft.ErrRaftShutdown)
		require.ErrorIs(t, <-result, ErrNotConfirmed)

		result = s.confirm(4)
		s.answer(2, s.arrives(2), raft.AppendEntriesResponse{Term: 5})
		require.ErrorIs(t, <-result, ErrDeposed)
		require.ErrorIs(t, s.all[0].Confirm(t.Context(), 4), ErrDeposed, "that is not forgotten")
	})
}

// This member counts itself, so what it votes for counts, too: be it before the call or until
// the others have answered.
func TestConfirmFailsAfterAVoteForAnother(t *testing.T) {
	vote := func(t *testing.T, s *script) {
		var resp raft.RequestVoteResponse
		voted := make(chan error, 1)
		go func() {
			voted <- s.all[1].RequestVote(serverID(1), "", &raft.RequestVoteRequest{
				RPCHeader: header(3, s.all[1].idBytes), Term: 5, LeadershipTransfer: true,
			}, &resp)
		}()
		rpc := s.arrives(1)
		require.Equal(t, s.all[1].idBytes, rpc.Command.(*raft.RequestVoteRequest).ID)
		rpc.Respond(&raft.RequestVoteResponse{RPCHeader: header(3, s.all[0].idBytes), Term: 5, Granted: true}, nil)
		require.NoError(t, <-voted)
		require.True(t, resp.Granted)
	}
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.leads()
		vote(t, s)
		require.ErrorIs(t, s.all[0].Confirm(t.Context(), 4), ErrDeposed)
	})
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.leads()
		result := s.confirm(4)
		synctest.Wait()
		vote(t, s)
		s.accept(3) // which has not heard of the election, and with member 1 were a majority
		require.ErrorIs(t, <-result, ErrDeposed)
	})
}

func TestAPreVoteChangesNothingForConfirm(t *testing.T) {
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.leads()
		var resp raft.RequestPreVoteResponse
		asked := make(chan error, 1)
		go func() {
			asked <- s.all[1].RequestPreVote(serverID(1), "", &raft.RequestPreVoteRequest{RPCHeader: header(3, s.all[1].idBytes), Term: 5}, &resp)
		}()
		rpc := s.arrives(1)
		rpc.Respond(&raft.RequestPreVoteResponse{Term: 5}, nil)
		require.NoError(t, <-asked)
		result := s.confirm(4)
		s.accept(3)
		require.NoError(t, <-result)
		s.accept(2)
	})
}

func TestConfirmIsShared(t *testing.T) {
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.leads()
		var asked atomic.Int64
		var tasks sync.WaitGroup
		stop := make(chan struct{})
		for at := 2; at <= 3; at++ {
			tasks.Go(func() {
				for {
					select {
					case rpc := <-s.all[at-1].Consumer():
						time.Sleep(time.Millisecond) // virtual
						asked.Add(1)
						s.answer(at, rpc, raft.AppendEntriesResponse{Term: 4, Success: true})
					case <-stop:
						return
					}
				}
			})
		}
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				if err := s.all[0].Confirm(t.Context(), 4); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		close(stop)
		tasks.Wait()
		require.LessOrEqual(t, asked.Load(), int64(2*(maxRounds+1)))
	})
}

func TestConfirmOfALoneVoterIsItsOwn(t *testing.T) {
	play(t, 1, nil, func(t *testing.T, s *script) {
		s.all[0].Advance(4, 1)
		require.NoError(t, s.all[0].Confirm(t.Context(), 4))
		s.all[0].noteTerm(5)
		require.ErrorIs(t, s.all[0].Confirm(t.Context(), 4), ErrDeposed)
	})
}

func TestConfirmEndsWithTheTransport(t *testing.T) {
	play(t, 3, nil, func(t *testing.T, s *script) {
		s.leads()
		result := s.confirm(4)
		synctest.Wait()
		s.all[0].Close()
		require.Error(t, <-result)
		require.ErrorIs(t, s.all[0].Confirm(t.Context(), 4), ErrClosed)
	})
}
