package peer

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// With raft's own way of telling set to an hour, a write must still reach the followers.
func TestFollowersHearOfACommitAtOnce(t *testing.T) {
	onBothNetworks(t, setup{commitTimeout: time.Hour}, func(t *testing.T, r *rig) {
		leader := r.leader()
		var took []time.Duration
		for i := range 100 {
			index := leader.apply(fmt.Sprint(i))
			began := time.Now()
			r.await(index, r.members...)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("from the leader's apply to that of all followers: median %s, longest %s", took[50], took[99])
		if r.net != nil { // over TCP it is enough that they hear of it within the hour
			require.Less(t, took[50], 50*time.Millisecond)
		}
	})
}

// The control of the test above: it is the courier that tells them.
func TestWithoutAdvanceFollowersWaitForCommitTimeout(t *testing.T) {
	inMemory(t, setup{commitTimeout: time.Hour, noAdvance: true}, func(t *testing.T, r *rig) {
		leader := r.leader()
		index := leader.apply("x")
		time.Sleep(time.Minute) // virtual
		a, b := r.followers(leader)[0], r.followers(leader)[1]
		// The one whose acknowledgement made the majority cannot know. The other one may have
		// been sent the entry after it was committed.
		require.Less(t, min(a.fsm.lastApplied(), b.fsm.lastApplied()), index)
	})
}

func TestASlowFollowerIsToldWhenItHasAcknowledged(t *testing.T) {
	inMemory(t, setup{commitTimeout: time.Hour}, func(t *testing.T, r *rig) {
		leader := r.leader()
		slow := r.followers(leader)[0]
		r.net.Block(leader.host(), slow.host())
		index := leader.apply("x") // the other one is a majority
		r.net.Unblock(leader.host(), slow.host())
		began := time.Now()
		r.await(index, slow)
		require.Less(t, time.Since(began), 300*time.Millisecond)
	})
}

// The message itself, and when it is sent.

func TestCourierCarriesACommitOnce(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 4, PrevLogTerm: 3, Entries: entries(5, 4, 4), LeaderCommitIndex: 4})
		s.all[0].Advance(4, 6)
		got := s.accept(2)
		require.Equal(t, &raft.AppendEntriesRequest{
			RPCHeader: header(3, s.all[0].idBytes), Term: 4, PrevLogEntry: 6, PrevLogTerm: 4, LeaderCommitIndex: 6,
		}, got)
		s.all[0].Advance(4, 6)
		s.nothing(2, "it has been told")
		s.all[0].Advance(4, 5)
		s.nothing(2, "it has been told more")
	})
}

func TestCourierWaitsForTheAcknowledgement(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 4, PrevLogTerm: 3, Entries: entries(5, 4)})
		sent := s.raftSends(2, &raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 5, PrevLogTerm: 4, Entries: entries(6, 4, 4), LeaderCommitIndex: 5})
		rpc := s.arrives(2)
		s.all[0].Advance(4, 7) // the others are a majority
		s.nothing(2, "nothing beyond 5 is acknowledged, and 5 it is being told")
		s.answer(2, rpc, raft.AppendEntriesResponse{Term: 4, LastLog: 7, Success: true})
		s.finish(sent)
		require.EqualValues(t, 7, s.accept(2).LeaderCommitIndex)
		s.nothing(2, "once is enough")
	})
}

func TestCourierTellsAsMuchAsIsAcknowledged(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 4, PrevLogTerm: 3, Entries: entries(5, 4, 4)})
		s.all[0].Advance(4, 100)
		require.EqualValues(t, 6, s.accept(2).LeaderCommitIndex)
	})
}

func TestCourierIsSilent(t *testing.T) {
	own := func(s *script) { // entry 6 is of the leader's term, 5 is not
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 4, PrevLogTerm: 3, Entries: entries(5, 3, 4)})
	}
	for _, test := range []struct {
		name string
		do   func(t *testing.T, s *script)
	}{
		{"about entries of an older term", func(_ *testing.T, s *script) {
			own(s)
			s.all[0].Advance(4, 5)
		}},
		{"before raft has sent an entry of its term", func(_ *testing.T, s *script) {
			s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 4, PrevLogTerm: 3, Entries: entries(5, 3)})
			s.all[0].Advance(4, 5)
		}},
		{"before raft has sent anything", func(_ *testing.T, s *script) {
			s.all[0].Advance(4, 5)
		}},
		{"after a heartbeat alone", func(_ *testing.T, s *script) {
			s.replicate(&raft.AppendEntriesRequest{Term: 4})
			s.all[0].Advance(4, 5)
		}},
		{"in a term that raft has left", func(_ *testing.T, s *script) {
			own(s)
			s.replicate(&raft.AppendEntriesRequest{Term: 5})
			s.all[0].Advance(4, 6)
		}},
		{"about what was acknowledged in another term", func(_ *testing.T, s *script) {
			own(s)
			s.replicate(&raft.AppendEntriesRequest{Term: 5})
			s.all[0].Advance(5, 6)
		}},
		{"in a term that raft has not reached", func(_ *testing.T, s *script) {
			own(s)
			s.all[0].Advance(5, 6)
		}},
		{"to who knows a newer term", func(_ *testing.T, s *script) {
			own(s)
			sent := s.raftSends(2, &raft.AppendEntriesRequest{Term: 4})
			s.answer(2, s.arrives(2), raft.AppendEntriesResponse{Term: 5})
			s.finish(sent)
			s.all[0].Advance(4, 6)
		}},
		{"to who has refused", func(_ *testing.T, s *script) {
			own(s)
			sent := s.raftSends(2, &raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 7, PrevLogTerm: 4})
			s.answer(2, s.arrives(2), raft.AppendEntriesResponse{Term: 4, LastLog: 3})
			s.finish(sent)
			s.all[0].Advance(4, 6)
		}},
		{"where raft's request carries it", func(_ *testing.T, s *script) {
			own(s)
			s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 6, PrevLogTerm: 4, LeaderCommitIndex: 6})
			s.all[0].Advance(4, 6)
		}},
		{"to who raft has left alone", func(_ *testing.T, s *script) {
			own(s)
			time.Sleep(3 * time.Second) // virtual; a removed member hears nothing more
			s.all[0].Advance(4, 6)
		}},
		{"over a connection that is down", func(_ *testing.T, s *script) {
			own(s)
			s.net.Cut("1", "2")
			synctest.Wait()
			s.all[0].Advance(4, 6)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, 2, nil, func(t *testing.T, s *script) {
				test.do(t, s)
				s.nothing(2, test.name)
			})
		})
	}
}

func TestCourierHasOneMessageOnItsWay(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 0, Entries: entries(1, 4, 4, 4, 4, 4, 4)})
		s.all[0].Advance(4, 1)
		first := s.arrives(2)
		require.EqualValues(t, 1, first.Command.(*raft.AppendEntriesRequest).LeaderCommitIndex)
		for i := uint64(2); i <= 6; i++ {
			s.all[0].Advance(4, i)
			s.nothing(2, "one is on its way")
		}
		s.answer(2, first, raft.AppendEntriesResponse{Term: 4, LastLog: 6, Success: true})
		require.EqualValues(t, 6, s.accept(2).LeaderCommitIndex, "what has moved meanwhile is told at once")
		s.nothing(2, "all is told")
	})
}

func TestCourierTellsAgainAfterAReconnect(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 0, Entries: entries(1, 4, 4)})
		s.all[0].Advance(4, 2)
		s.arrives(2) // and is lost with the connection
		s.net.Cut("1", "2")
		synctest.Wait()
		sent := s.raftSends(2, &raft.AppendEntriesRequest{Term: 4}) // raft's next heartbeat dials
		var seen []uint64
		for range 2 { // the order of the two is open
			seen = append(seen, s.accept(2).LeaderCommitIndex)
		}
		s.finish(sent)
		slices.Sort(seen)
		require.Equal(t, []uint64{0, 2}, seen)
		s.nothing(2, "once is enough")
	})
}

// A process that comes back may have lost what it acknowledged, if its disk lies.
func TestCourierForgetsWhatAnotherProcessAcknowledged(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 0, Entries: entries(1, 4, 4)})
		again := s.all[1].o
		s.net.Crash("2")
		s.all[1].Close()
		synctest.Wait()
		again.Boot++
		next, err := New(again)
		require.NoError(t, err)
		t.Cleanup(func() { next.Close() })
		s.all[1] = next
		s.replicate(&raft.AppendEntriesRequest{Term: 4})
		s.all[0].Advance(4, 2)
		s.nothing(2, "nothing is acknowledged by this process")
	})
}

func TestCourierKeepsTheCommitLimit(t *testing.T) {
	var limit atomic.Uint64
	limited := func(o *Options) { o.CommitLimit = limit.Load }
	play(t, 2, limited, func(t *testing.T, s *script) {
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 0, Entries: entries(1, 4, 4, 4), LeaderCommitIndex: 1})
		s.all[0].Advance(4, 3)
		s.nothing(2, "nothing is durable here")
		limit.Store(2)
		s.all[0].Advance(4, 2)
		require.EqualValues(t, 2, s.accept(2).LeaderCommitIndex)
		limit.Store(3)
		s.all[0].Advance(4, 3)
		require.EqualValues(t, 3, s.accept(2).LeaderCommitIndex)
	})
}

// An answer that was given before the member acknowledged an entry, and is looked at afterwards,
// is no sign of a lost disk; one to a later request is.
func TestLackOfWhatWasAcknowledgedIsToldFromALateAnswer(t *testing.T) {
	var said bytes.Buffer
	logged := func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) }
	play(t, 2, logged, func(t *testing.T, s *script) {
		const message = "lacks log entries"
		refuse := func() { s.answer(2, s.arrives(2), raft.AppendEntriesResponse{Term: 4, LastLog: 4}) }
		late := s.raftSends(2, &raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 5, PrevLogTerm: 4, Entries: entries(6, 4)})
		refuse()
		s.replicate(&raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 4, PrevLogTerm: 3, Entries: entries(5, 4, 4)})
		s.all[0].Advance(4, 6)
		s.accept(2)
		synctest.Wait()
		require.False(t, s.finish(late).Success)
		require.NotContains(t, said.String(), message)

		lost := s.raftSends(2, &raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 6, PrevLogTerm: 4, Entries: entries(7, 4)})
		refuse()
		require.False(t, s.finish(lost).Success)
		require.Contains(t, said.String(), message)
		require.Contains(t, said.String(), "has=4 had=6")
	})
}

// A leader that was deposed tells nothing that could do harm: its messages have its old term.
func TestADeposedLeadersCommitIsRefused(t *testing.T) {
	inMemory(t, setup{commitTimeout: time.Hour}, func(t *testing.T, r *rig) {
		old := r.leader()
		last := old.apply("x")
		r.await(last, r.members...)
		term := old.r().CurrentTerm()
		others := r.followers(old)
		r.net.Partition([]string{old.host()}, []string{others[0].host(), others[1].host()})
		lost := old.r().Apply([]byte("never committed"), patience)
		leader := r.leader(others...)
		kept := leader.apply("y")
		r.await(kept, others...)
		require.Error(t, lost.Error())
		r.net.Heal()
		old.t.Advance(term, last+1) // a caller that has not noticed
		require.Same(t, leader, r.leader())
		r.await(kept, old)
		require.Equal(t, "y", old.fsm.at(kept))
		for _, m := range r.members {
			for i := uint64(1); i <= kept; i++ {
				require.NotEqual(t, "never committed", m.fsm.at(i))
			}
		}
	})
}
