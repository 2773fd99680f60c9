package peer

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

// A script is a set of transports without raft: the test plays raft at both ends.
type script struct {
	t   *testing.T
	net *memnet.Network
	all []*Transport
}

// play runs a script with n members under virtual time.
func play(t *testing.T, n int, options func(o *Options), f func(t *testing.T, s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, net: memnet.New()}
		var ids []raft.ServerID
		for i := 1; i <= n; i++ {
			ids = append(ids, serverID(i))
		}
		for i, id := range ids {
			o := Options{
				ID: id, Cluster: "test", Network: s.net.Host(fmt.Sprint(i + 1)), Listen: fmt.Sprintf("%d:1", i+1),
				Resolve: func(id raft.ServerID) ([]string, error) {
					if !slices.Contains(ids, id) {
						return nil, fmt.Errorf("no member %s", id)
					}
					return []string{string(id[0]) + ":1"}, nil
				},
				Voters:  func() []raft.ServerID { return ids },
				Timeout: 2 * time.Second,
			}
			if options != nil {
				options(&o)
			}
			tr, err := New(o)
			require.NoError(t, err)
			s.all = append(s.all, tr)
			t.Cleanup(func() { tr.Close() })
		}
		f(t, s)
	})
}

// entries makes log entries with the given terms, from index on.
func entries(index uint64, terms ...uint64) []*raft.Log {
	var all []*raft.Log
	for i, term := range terms {
		all = append(all, &raft.Log{Index: index + uint64(i), Term: term, Data: []byte("x")})
	}
	return all
}

// raftSends has member 1 send an AppendEntries to member 2, as raft does, without waiting.
func (s *script) raftSends(to int, r *raft.AppendEntriesRequest) *sending {
	s.t.Helper()
	r.RPCHeader = header(3, s.all[0].idBytes)
	p, err := s.all[0].peer(serverID(to))
	require.NoError(s.t, err)
	sent, err := p.appendEntries(r)
	require.NoError(s.t, err)
	return sent
}

// replicate has member 2 accept an AppendEntries.
func (s *script) replicate(r *raft.AppendEntriesRequest) {
	s.t.Helper()
	sent := s.raftSends(2, r)
	s.accept(2)
	s.finish(sent)
}

func (s *script) finish(sent *sending) raft.AppendEntriesResponse {
	s.t.Helper()
	resp, err := sent.wait(nil)
	require.NoError(s.t, err)
	return resp
}

// arrives waits for the next request that a member's raft gets.
func (s *script) arrives(at int) raft.RPC {
	s.t.Helper()
	select {
	case rpc := <-s.all[at-1].Consumer():
		return rpc
	case <-time.After(patience):
		s.t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

// accept has a member's raft accept the next AppendEntries.
func (s *script) accept(at int) *raft.AppendEntriesRequest {
	s.t.Helper()
	rpc := s.arrives(at)
	r := rpc.Command.(*raft.AppendEntriesRequest)
	s.answer(at, rpc, raft.AppendEntriesResponse{Term: r.Term, LastLog: r.PrevLogEntry + uint64(len(r.Entries)), Success: true})
	return r
}

func (s *script) answer(at int, rpc raft.RPC, a raft.AppendEntriesResponse) {
	a.RPCHeader = header(3, s.all[at-1].idBytes)
	rpc.Respond(&a, nil)
}

// nothing checks that nothing arrives at a member, whatever time passes.
func (s *script) nothing(at int, why string) {
	s.t.Helper()
	synctest.Wait()
	select {
	case rpc := <-s.all[at-1].Consumer():
		s.t.Fatalf("%s: %+v arrived", why, rpc.Command)
	default:
	}
}
