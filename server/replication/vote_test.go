package replication

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// A filmedStable keeps what a crash after each of its writes would leave.
type filmedStable struct {
	mu     sync.Mutex
	now    map[string]string
	frames []map[string]string
}

func (s *filmedStable) Set(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now[string(key)] = string(value)
	s.frames = append(s.frames, maps.Clone(s.now))
	return nil
}

func (s *filmedStable) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.now[string(key)]
	if !ok {
		return nil, errKeyNotFound
	}
	return []byte(v), nil
}

func (s *filmedStable) SetUint64(key []byte, n uint64) error {
	return s.Set(key, []byte{byte(n)})
}

func (s *filmedStable) GetUint64(key []byte) (uint64, error) {
	v, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	return uint64(v[0]), nil
}

func (s *filmedStable) Close() error { return nil }

// A voter is raft on stores like those of a node, asked by hand.
type voter struct {
	t    *testing.T
	raft *raft.Raft
	port *soloTransport
	disk *filmedStable
}

// newVoter begins with the given values and a log of three entries, the last two of term 2.
func newVoter(t *testing.T, values map[string]string) *voter {
	v := &voter{t: t, port: newSoloTransport("1-a"), disk: &filmedStable{now: maps.Clone(values)}}
	var members raft.Configuration
	for _, id := range []raft.ServerID{"1-a", "2-b", "3-c"} {
		members.Servers = append(members.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
	}
	log := raft.NewInmemStore()
	require.NoError(t, log.StoreLogs([]*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(members)},
		{Index: 2, Term: 2, Type: raft.LogNoop},
		{Index: 3, Term: 2, Type: raft.LogNoop},
	}))
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger, conf.PreVoteDisabled = "1-a", hclog.NewNullLogger(), true
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = never, never, never
	var err error
	v.raft, err = raft.NewRaft(conf, &fsm{}, log, &guardedStable{stableStore: v.disk, n: &Node{}}, raft.NewInmemSnapshotStore(), v.port)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.raft.Shutdown().Error()) })
	return v
}

// asks says whether a candidate gets the vote of a term.
func (v *voter) asks(candidate string, term, lastIndex, lastTerm uint64) bool {
	v.t.Helper()
	answer := make(chan raft.RPCResponse, 1)
	v.port.rpcs <- raft.RPC{RespChan: answer, Command: &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(candidate), Addr: []byte(candidate)},
		Term:      term, LastLogIndex: lastIndex, LastLogTerm: lastTerm, LeadershipTransfer: true,
	}}
	select {
	case a := <-answer:
		require.NoError(v.t, a.Error)
		return a.Response.(*raft.RequestVoteResponse).Granted
	case <-time.After(patience):
		v.t.Fatal("no answer")
		return false
	}
}

// Server 2 got the vote of term 1 and has missed what came in term 2. In term 3 this server votes
// for somebody else, and ends in the middle of it: 2 must not get that vote, for it lacks entries
// that were acknowledged.
func TestAVoteThatWasCutOffIsGivenToNobodyElse(t *testing.T) {
	before := map[string]string{string(keyCurrentTerm): "\x02", keyLastVoteTerm: "\x01", keyLastVoteCand: "2-b"}
	for name, vote := range map[string]func(*voter){
		"for another": func(v *voter) { require.True(t, v.asks("3-c", 3, 3, 2)) },
		"for itself": func(v *voter) {
			v.port.elect("1-a")
			awaitCondition(t, "its own vote", func() bool {
				cand, err := v.disk.Get([]byte(keyLastVoteCand))
				return err == nil && string(cand) == "1-a" && v.raft.CurrentTerm() == 3
			})
			require.False(t, v.asks("3-c", 3, 3, 2), "it has voted")
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVoter(t, before)
			vote(v)
			require.NoError(t, v.raft.Shutdown().Error())
			require.GreaterOrEqual(t, len(v.disk.frames), 4, "the term, and the vote in two steps")
			for i, frame := range v.disk.frames {
				again := newVoter(t, frame)
				require.False(t, again.asks("2-b", 3, 1, 1), "after write %d: %q", i, frame)
			}
			// What is complete is kept.
			again := newVoter(t, v.disk.now)
			require.Equal(t, name == "for another", again.asks("3-c", 3, 3, 2))
		})
	}
}
