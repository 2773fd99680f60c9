package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that has 0.0.0.0 in its own line is found by what the others call it, whoever leads
// first, and that is what the cluster agrees on.
func TestAnOwnLineThatSaysOnlyWhereToListen(t *testing.T) {
	c := newTrio(t, 3)
	for _, v := range c.members {
		v.tuned(func(o *Options) {
			at := c.plan[v.number-1].Address
			everywhere := strings.Replace(at, v.host(), []string{"0.0.0.0", "[::]"}[v.number%2], 1)
			members := slices.Clone(c.plan)
			members[v.number-1].Address = everywhere
			o.Cluster.Members = members
			o.Ensemble = strings.Replace(o.Ensemble, at, everywhere, 1)
		})
	}
	c.start(1, 2, 3)
	c.sessions()
	for range c.members { // each one goes once, and comes back
		leader := c.leader()
		c.net.Crash(leader.host())
		leader.stop()
		for _, v := range c.others(leader) {
			v.write()
			v.settled()
		}
		c.start(leader.number)
		leader.write()
		leader.settled()
	}
	c.same()
	for _, v := range c.members {
		v.node.RLock()
		agreed, _, ok := v.node.Machine().Ensemble()
		v.node.RUnlock()
		require.True(t, ok)
		for _, m := range c.plan {
			require.Equal(t, []string{m.Address}, addresses(agreed.Member(m.Number)), "member %d, of member %d", v.number, m.Number)
		}
	}
}

// Where nobody has another address for a server its own line stays, and a cluster on one machine
// works with it.
func TestPlacesAreThoseOfTheLineAndThenOfTheCluster(t *testing.T) {
	for _, tt := range []struct{ name, line, agreed, want string }{
		{"the same", "b:1 a:1", "a:1 b:1", "b:1 a:1"},
		{"moved by an edit of the lines, or by a reconfig", "a:1", "b:1", "a:1 b:1"},
		{"not yet agreed on", "a:1", "", "a:1"},
		{"in no line", "", "a:1", "a:1"},
		{"to listen at only", "a:1", "0.0.0.0:1", "a:1"},
		{"to listen at only, in the line", "0.0.0.0:1", "a:1", "a:1"},
		{"one of several to listen at only", "b:1", "[::]:1 a:2", "b:1 a:2"},
		{"on one machine", "0.0.0.0:1", "0.0.0.0:1", "0.0.0.0:1"},
		{"without a host", "a:1", ":1", "a:1"},
		{"nobody knows", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, strings.Join(placesOf(strings.Fields(tt.line), strings.Fields(tt.agreed)), " "))
		})
	}
}

// Where the servers are may be changed in their server lines alone, all at once, as ZooKeeper
// allows while nobody has used reconfig.
func TestServersThatHaveMovedAreFoundByTheServerLines(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	for _, v := range c.members {
		v.write()
		v.settled()
	}
	for _, v := range c.members {
		require.NoError(t, v.node.SnapshotNow(testContext(t))) // which has what was agreed on
	}
	for _, v := range c.members {
		c.net.Crash(v.host())
		v.stop()
	}
	for i := range c.plan {
		c.plan[i].Address = fmt.Sprintf("host%d:3999", i+1)
	}
	for _, v := range c.members {
		v.tuned(func(o *Options) { o.Cluster.Listen = c.plan[v.number-1].Address })
	}
	c.start(1, 2, 3)
	for _, v := range c.members {
		v.write()
		v.settled()
	}
	c.same()
}

func FuzzPlace(f *testing.F) {
	f.Add([]byte("zoo1:2888:3888:participant;0.0.0.0:2181"))
	f.Add([]byte("0.0.0.0:2888:3888|zoo1:2889:3889"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		at, err := decodePlace(1, b)
		require.Equal(t, err == nil, len(at) > 0)
		for _, p := range at {
			require.NotEmpty(t, p.Host)
			require.NotEqual(t, "0.0.0.0", p.Host)
		}
	})
}
