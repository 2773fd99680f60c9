package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// vote has member 1 ask member 2 for its vote.
func (s *script) vote() <-chan error {
	done := make(chan error, 1)
	go func() {
		var resp raft.RequestVoteResponse
		err := s.all[0].RequestVote(serverID(2), "", &raft.RequestVoteRequest{RPCHeader: header(3, s.all[0].idBytes), Term: 9}, &resp)
		if err == nil && !resp.Granted {
			err = errors.New("not granted")
		}
		done <- err
	}()
	return done
}

func (s *script) grant(at int) {
	s.t.Helper()
	rpc := s.arrives(at)
	rpc.Respond(&raft.RequestVoteResponse{RPCHeader: header(3, s.all[at-1].idBytes), Term: 9, Granted: true}, nil)
}

func TestAnErrorOfTheOtherRaftComesBack(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		done := s.vote()
		rpc := s.arrives(2)
		rpc.Respond(nil, errors.New("unexpected command"))
		require.ErrorContains(t, <-done, "unexpected command") // raft looks for this text
		done = s.vote()
		s.grant(2)
		require.NoError(t, <-done, "the connection lives on")
		done = s.vote()
		rpc = s.arrives(2)
		rpc.Respond("what is this", nil)
		require.ErrorContains(t, <-done, "cannot send that")
	})
}

func TestAConnectionThatIsNotUsedIsClosedInOrder(t *testing.T) {
	downs := make(chan Down, 10)
	play(t, 2, func(o *Options) { o.PeerDown = func(d Down) { downs <- d } }, func(t *testing.T, s *script) {
		done := s.vote()
		s.grant(2)
		require.NoError(t, <-done)
		require.Equal(t, 1, s.all[0].Stats().Open)
		time.Sleep(2 * defaultIdleTimeout) // virtual
		require.Zero(t, s.all[0].Stats().Open)
		require.Zero(t, s.all[1].Stats().Open)
		require.EqualValues(t, 1, s.all[1].Stats().Accepted)
		require.Zero(t, s.all[0].Stats().Accepted, "nobody looked after anybody")
		done = s.vote()
		s.grant(2)
		require.NoError(t, <-done)
		require.Empty(t, downs)
	})
}

func TestACallThatWaitsKeepsItsConnection(t *testing.T) {
	play(t, 2, func(o *Options) { o.Timeout, o.IdleTimeout = time.Minute, time.Second }, func(t *testing.T, s *script) {
		done := s.vote()
		rpc := s.arrives(2)
		time.Sleep(30 * time.Second) // virtual
		rpc.Respond(&raft.RequestVoteResponse{Term: 9, Granted: true}, nil)
		require.NoError(t, <-done)
	})
}

// Who gives up before the time is over leaves its call behind; the connection does not live on
// for it.
func TestACallThatNobodyWaitsForEnds(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p, err := s.all[0].peer(serverID(2))
		require.NoError(t, err)
		_, err = p.ask(ctx, lineRaft, frameVote, func(b []byte, call uint64) []byte {
			return appendVote(b, call, &raft.RequestVoteRequest{RPCHeader: header(3, s.all[0].idBytes)})
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.arrives(2)
		time.Sleep(defaultIdleTimeout / 2) // virtual
		require.Equal(t, 1, s.all[0].Stats().Open)
		time.Sleep(3 * defaultIdleTimeout)
		require.Zero(t, s.all[0].Stats().Open)
	})
}

func TestSilenceEndsCallAndConnection(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		began := time.Now()
		done := s.vote()
		rpc := s.arrives(2)
		require.ErrorIs(t, <-done, errNoAnswer)
		require.Equal(t, 2*time.Second, time.Since(began))
		rpc.Respond(&raft.RequestVoteResponse{Term: 9, Granted: true}, nil) // nobody listens
		done = s.vote()
		s.grant(2)
		require.NoError(t, <-done, "the next goes over a new connection")
	})
}

// A TimeoutNow or a vote that raft gets long after its sender has given up does harm.
func TestWhatRaftDoesNotTakeInTimeItNeverGets(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		done := s.vote()
		require.Error(t, <-done)
		synctest.Wait()
		s.nothing(2, "it is too late")
	})
}

func TestCallsEndWithTheTransport(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		waiting := s.vote()
		s.arrives(2)
		s.net.Block("1", "2")
		s.net.Cut("1", "2")
		require.Error(t, <-waiting)
		dialing := s.vote()
		synctest.Wait()
		began := time.Now()
		s.all[0].Close()
		require.ErrorIs(t, <-dialing, ErrClosed)
		require.Zero(t, time.Since(began))
		require.Error(t, <-s.vote())
		require.NoError(t, s.all[0].Close())
	})
}

// All who need a connection share one dial.
func TestOneDialForAll(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		s.net.Delay("1", "2", 50*time.Millisecond)
		var all []<-chan error
		for range 20 {
			all = append(all, s.vote())
		}
		for range 20 {
			s.grant(2)
		}
		for _, done := range all {
			require.NoError(t, <-done)
		}
		require.EqualValues(t, 1, s.all[1].Stats().Accepted)
	})
}

// A member that lost its connection dials anew while the other side still holds the old one.
func TestTheNewerConnectionReplacesTheOlder(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		done := s.vote()
		s.grant(2)
		require.NoError(t, <-done)
		s.net.Block("1", "2") // the end of the first connection does not arrive
		done = s.vote()
		require.Error(t, <-done)
		done = s.vote()
		synctest.Wait()
		s.net.Heal() // the end and the new connection are equally late
		s.grant(2)   // what the first connection still brought, or what the second did
		select {
		case err := <-done:
			require.NoError(t, err)
		case rpc := <-s.all[1].Consumer():
			rpc.Respond(&raft.RequestVoteResponse{Term: 9, Granted: true}, nil)
			require.NoError(t, <-done)
		}
		synctest.Wait()
		require.Equal(t, 1, s.all[1].Peers()[0].Inbound)
	})
}

// So does a member whose first connection has not ended at all, here.
func TestOfAMemberTheNewestConnectionCounts(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		dial := func() net.Conn {
			nc, err := s.net.Host("2").Dial(t.Context(), "1:1")
			require.NoError(t, err)
			_, err = nc.Write(helloBytes(nil))
			require.NoError(t, err)
			f, _, err := readPlain(nc, acceptHelloAnswer)
			require.NoError(t, err)
			require.Equal(t, frameWelcome, f)
			return nc
		}
		first := dial()
		defer first.Close()
		second := dial()
		defer second.Close()
		_, err := first.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		synctest.Wait()
		require.Equal(t, 1, s.all[0].Peers()[0].Inbound)
	})
}

func newPipeline(t *testing.T, s *script) raft.AppendPipeline {
	t.Helper()
	l, err := s.all[0].AppendEntriesPipeline(serverID(2), "")
	require.NoError(t, err)
	return l
}

func (s *script) request(index uint64) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{RPCHeader: header(3, s.all[0].idBytes), Term: 4, PrevLogEntry: index - 1, PrevLogTerm: 4, Entries: entries(index, 4)}
}

func TestAPipelineIsBoundedAndInOrder(t *testing.T) {
	play(t, 2, func(o *Options) { o.MaxInflight = 3 }, func(t *testing.T, s *script) {
		l := newPipeline(t, s)
		defer l.Close()
		sent := make(chan uint64, 10)
		go func() {
			for i := uint64(2); i < 8; i++ {
				if _, err := l.AppendEntries(s.request(i), new(raft.AppendEntriesResponse)); err != nil {
					t.Error(err)
				}
				sent <- i
			}
		}()
		synctest.Wait()
		require.Len(t, sent, 3, "three are on their way")
		for i := uint64(2); i < 8; i++ {
			r := s.accept(2)
			require.Equal(t, i, r.Entries[0].Index)
			f := <-l.Consumer()
			require.NoError(t, f.Error())
			require.Equal(t, i, f.Request().Entries[0].Index)
			require.True(t, f.Response().Success)
			require.False(t, f.Start().IsZero())
		}
	})
}

func TestAPipelineThatWasIdleGoesOnOverANewConnection(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		l := newPipeline(t, s)
		defer l.Close()
		for i := uint64(2); i < 5; i++ {
			_, err := l.AppendEntries(s.request(i), new(raft.AppendEntriesResponse))
			require.NoError(t, err)
			s.accept(2)
			require.True(t, (<-l.Consumer()).Response().Success)
			s.net.Cut("1", "2")
			synctest.Wait()
		}
	})
}

// raft gives a pipeline up when it finds no success in what comes back.
func TestAPipelineHandsBackWhatIsLost(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		l := newPipeline(t, s)
		_, err := l.AppendEntries(s.request(2), new(raft.AppendEntriesResponse))
		require.NoError(t, err)
		s.arrives(2)
		s.net.Cut("1", "2")
		f := <-l.Consumer()
		require.Error(t, f.Error())
		require.Equal(t, raft.AppendEntriesResponse{}, *f.Response())
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		_, err = l.AppendEntries(s.request(3), new(raft.AppendEntriesResponse))
		require.ErrorIs(t, err, raft.ErrPipelineShutdown)
	})
}

// A request in pieces has the answer of the first piece that is not accepted.
func TestPiecesHaveOneAnswer(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		r := &raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 1, PrevLogTerm: 4, LeaderCommitIndex: 9, Entries: entries(2, 4, 4, 4)}
		for _, e := range r.Entries {
			e.Data = make([]byte, splitBytes)
		}
		send := func() <-chan *sending { // it takes until the other side has read most of it
			sent := make(chan *sending, 1)
			go func() { sent <- s.raftSends(2, r) }()
			return sent
		}
		sent := send()
		for i := range 3 {
			require.EqualValues(t, 2+i, s.accept(2).LeaderCommitIndex)
		}
		require.True(t, s.finish(<-sent).Success)

		sent = send()
		s.accept(2)
		for i := range 2 {
			s.answer(2, s.arrives(2), raft.AppendEntriesResponse{Term: 4, LastLog: uint64(1 + i), NoRetryBackoff: true})
		}
		got := s.finish(<-sent)
		require.False(t, got.Success)
		require.True(t, got.NoRetryBackoff)
		require.EqualValues(t, 1, got.LastLog)
	})
}

func TestOptionsAreChecked(t *testing.T) {
	resolve := func(raft.ServerID) ([]string, error) { return nil, nil }
	for name, o := range map[string]Options{
		"no id":          {Cluster: "c", Listen: "127.0.0.1:0", Resolve: resolve},
		"a long id":      {ID: raft.ServerID(make([]byte, maxIDBytes+1)), Cluster: "c", Listen: "127.0.0.1:0", Resolve: resolve},
		"a long cluster": {ID: "1-a", Cluster: string(make([]byte, maxClusterBytes+1)), Listen: "127.0.0.1:0", Resolve: resolve},
		"no address":     {ID: "1-a", Cluster: "c", Resolve: resolve},
		"no resolver":    {ID: "1-a", Cluster: "c", Listen: "127.0.0.1:0"},
		"huge entries":   {ID: "1-a", Cluster: "c", Listen: "127.0.0.1:0", Resolve: resolve, MaxEntryBytes: maxMaxBytes + 1},
		"a bad address":  {ID: "1-a", Cluster: "c", Listen: "no such host:x", Resolve: resolve},
	} {
		_, err := New(o)
		require.Error(t, err, name)
	}
}
