package peer

import (
	"context"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

// loner is a member that was started alone.
func loner(t *testing.T, net *memnet.Network, host string, id raft.ServerID, cluster string, members ...raft.ServerID) *Transport {
	t.Helper()
	tr, err := New(Options{
		ID: id, Cluster: cluster, Listen: host + ":1", Network: net.Host(host),
		Resolve: func(id raft.ServerID) ([]string, error) {
			return []string{map[int]string{1: "a:1", 2: "b:1", 3: "b:1"}[Number(id)]}, nil
		},
		Introduce: func() Introduction { return Introduction{Members: members, Plan: "p"} },
	})
	require.NoError(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr
}

func TestMembersAreMetByTheirNumber(t *testing.T) {
	net := memnet.New()
	empty := loner(t, net, "a", "1-x", "")
	old := loner(t, net, "b", "2-y", "c", "2-y", "3-z")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	in, err := empty.Meet(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, Introduction{ID: "2-y", Cluster: "c", Boot: old.Boot(), Members: []raft.ServerID{"2-y", "3-z"}, Plan: "p"}, in)
	in, err = old.Meet(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, raft.ServerID("1-x"), in.ID)
	require.Empty(t, in.Cluster)
	_, err = empty.Meet(ctx, 3)
	require.Error(t, err, "server 2 answered for server 3")
}

// Until a member belongs to a cluster, nothing but an introduction passes, in either direction.
func TestWithoutAClusterNothingElsePasses(t *testing.T) {
	net := memnet.New()
	empty := loner(t, net, "a", "1-x", "")
	other := loner(t, net, "b", "2-y", "")
	const kind = FirstKind
	for _, tr := range []*Transport{empty, other} {
		tr.Handle(kind, func(s *Stream) { _, _ = s.Receive() })
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	open := func() error {
		s, err := empty.Open(ctx, "2-y", kind)
		if err == nil {
			s.Close()
		}
		return err
	}
	var refused *RefusedError
	require.ErrorAs(t, open(), &refused)
	require.Equal(t, RefusedCluster, refused.Code)
	require.NoError(t, empty.Join("c"))
	require.ErrorAs(t, open(), &refused, "the other one belongs to none")
	require.NoError(t, other.Join("d"))
	require.ErrorAs(t, open(), &refused, "the other one belongs to another")
	require.NoError(t, other.Join("c"))
	require.NoError(t, open())
	require.Error(t, other.Join(""))
}

func TestNumberOfAServerID(t *testing.T) {
	for id, want := range map[raft.ServerID]int{"1-a": 1, "255-": 255, "256-a": 0, "0-a": 0, "-a": 0, "1": 0, "": 0, "x-a": 0} {
		require.Equal(t, want, Number(id), "%q", id)
	}
}

func FuzzIntroduction(f *testing.F) {
	in := Introduction{ID: "1-a", Cluster: "c", Boot: 5, SilenceMs: 6, Members: []raft.ServerID{"1-a", "2-b"}, Plan: "p"}
	f.Add(appendIntroduction(nil, &in))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := decodeIntroduction(body)
		if err == nil && string(body) != string(appendIntroduction(nil, &in)) {
			t.Fatalf("%x became %+v", body, in)
		}
	})
}
