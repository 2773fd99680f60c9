package interop

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/freeport"
)

// clusterSize is the number of processes: the smallest that outlives one.
const clusterSize = 3

// cluster is so many running servers that form one ensemble. All its addresses are
// loopback, and a member that is started again has the same.
type cluster struct {
	t         *testing.T
	members   []*server // number N is at N-1
	peers     []string  // host:port:electionPort of each
	disturber *disturber
}

// startCluster starts the members, which the test's end stops, and returns when all serve.
func startCluster(t *testing.T, kind string, want settings) *cluster {
	t.Helper()
	c := newCluster(t, kind, want)
	for _, s := range c.members {
		s.launch()
	}
	for _, s := range c.members {
		if err := s.awaitServing(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// newCluster prepares the members.
func newCluster(t *testing.T, kind string, want settings) *cluster {
	t.Helper()
	c := &cluster{t: t}
	for range clusterSize {
		c.members = append(c.members, prepareServer(t, kind, want))
		_, election, _ := net.SplitHostPort(freeport.Addr(t))
		c.peers = append(c.peers, freeport.Addr(t)+":"+election)
	}
	// With a syncLimit of half a minute a member keeps its clients while a machine stands still, and
	// then one after another, in the election and with their disks.
	config := map[string]string{"initLimit": "20", "syncLimit": "60"}
	for i, s := range c.members {
		s.cluster = c
		line := c.peers[i]
		if want.lines {
			line += ":participant;" + s.addr
		}
		config[fmt.Sprintf("server.%d", i+1)] = line
	}
	maps.Copy(config, want.config)
	want.config = config
	for i, s := range c.members {
		s.configure(want)
		s.write("data/myid", fmt.Sprintf("%d\n", i+1))
	}
	return c
}

// addrs are the addresses for clients of all members, as a connection string.
func (c *cluster) addrs() string {
	var all []string
	for _, s := range c.members {
		all = append(all, s.addr)
	}
	return strings.Join(all, ",")
}

// awaitLeader returns the member that says that it leads, apart from the ones left out: it
// asks them nothing. It gives up when nobody leads for long, or when stop says so.
func (c *cluster) awaitLeader(stop func() bool, leftOut ...*server) (*server, error) {
	deadline := time.Now().Add(patience)
	for {
		for _, s := range c.without(leftOut...) {
			if s.mode() == "leader" {
				return s, nil
			}
		}
		if stop() {
			return nil, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("nobody leads for %v", patience)
		}
		time.Sleep(5 * time.Millisecond) // between two looks at the condition
	}
}

// leader returns the member that leads.
func (c *cluster) leader() *server {
	c.t.Helper()
	s, err := c.awaitLeader(func() bool { return false })
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// without are the members but for these.
func (c *cluster) without(these ...*server) []*server {
	var rest []*server
	for _, s := range c.members {
		out := false
		for _, u := range these {
			out = out || s == u
		}
		if !out {
			rest = append(rest, s)
		}
	}
	return rest
}
