package replication

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// How empty servers become a cluster. An empty server knows the numbers and places of the
// others, and not whether their disks are empty, too: a server that has lost its disk must not
// found a second cluster beside the one that it belonged to, nor count as the voter that it
// was. So it asks all others:
//
//   - one belongs to a cluster: this server joins it, with an empty log and without a vote of
//     its own making. If the cluster's configuration names this incarnation, it is a voter
//     there and gets the log from the leader; if not, the leader takes it in as a learner.
//   - all are empty, and have the same server lines: each writes the same first entry, the
//     configuration of all of their incarnations, and the name that follows from it.
//   - one does not answer: it waits, for that one may hold the data.

const (
	gatherPause = 100 * time.Millisecond
	gatherSay   = 5 * time.Second
	meetTimeout = time.Second
)

// A gathering is what the others have said. Owned by gather.
type gathering struct {
	met     []peer.Introduction
	missing []string
}

// gather returns the first configuration of the cluster, or none, and the cluster to join.
func (n *Node) gather(ctx context.Context) (first raft.Configuration, cluster string, err error) {
	var said time.Time
	for {
		g := n.meetAll(ctx)
		if err := ctx.Err(); err != nil {
			return raft.Configuration{}, "", contextError(ctx, "the other servers: "+strings.Join(g.missing, "; "))
		}
		for _, in := range g.met {
			if in.Cluster != "" {
				n.o.Logger.Info("joining the cluster", "cluster", in.Cluster, "found at", in.ID)
				return raft.Configuration{}, in.Cluster, nil
			}
		}
		if n.complete(&g) {
			first = n.founders(g.met)
			return first, clusterName(first), nil
		}
		if time.Since(said) >= gatherSay {
			said = time.Now()
			n.o.Logger.Info("a new cluster waits until all its servers are there and empty", "missing", strings.Join(g.missing, "; "))
		}
		select {
		case <-time.After(gatherPause):
		case <-ctx.Done():
		case <-n.dead:
			return raft.Configuration{}, "", n.deadError()
		}
	}
}

// meetAll asks all other servers at once.
func (n *Node) meetAll(ctx context.Context) gathering {
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	type answer struct {
		in  peer.Introduction
		err error
	}
	answers := make(chan answer, len(n.o.Cluster.Members))
	asked := 0
	for _, m := range n.o.Cluster.Members {
		if m.Number == n.o.MyID {
			continue
		}
		asked++
		go func() {
			in, err := n.peers.Meet(ctx, m.Number)
			if err == nil && in.Cluster == "" && in.Plan != n.o.Cluster.plan() {
				err = fmt.Errorf("server %d has other server lines (%s) than this one (%s)", m.Number, in.Plan, n.o.Cluster.plan())
			}
			answers <- answer{in, err}
		}()
	}
	var g gathering
	for range asked {
		a := <-answers
		if a.err != nil {
			g.missing = append(g.missing, a.err.Error())
			continue
		}
		g.met = append(g.met, a.in)
	}
	slices.Sort(g.missing)
	return g
}

// complete says whether enough servers are there to found a cluster.
func (n *Node) complete(g *gathering) bool {
	if n.isObserver(n.o.MyID) {
		return false
	}
	all, there := 0, 1
	for _, m := range n.o.Cluster.Members {
		if !m.Observer {
			all++
		}
	}
	for _, in := range g.met {
		if !n.isObserver(peer.Number(in.ID)) {
			there++
		}
	}
	return there == all || n.o.Cluster.BootstrapMajority && 2*there > all
}

// founders is the first configuration. Observers are taken in by the leader later.
func (n *Node) founders(met []peer.Introduction) raft.Configuration {
	ids := []raft.ServerID{n.stores.id.serverID()}
	for _, in := range met {
		ids = append(ids, in.ID)
	}
	ids = slices.DeleteFunc(ids, func(id raft.ServerID) bool { return n.isObserver(peer.Number(id)) })
	slices.SortFunc(ids, func(a, b raft.ServerID) int { return peer.Number(a) - peer.Number(b) })
	var c raft.Configuration
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: id, Address: raft.ServerAddress(id)})
	}
	return c
}

func (n *Node) isObserver(number int) bool {
	return slices.ContainsFunc(n.o.Cluster.Members, func(m Member) bool { return m.Number == number && m.Observer })
}

// clusterName follows from who founds it, so that all founders arrive at the same.
func clusterName(c raft.Configuration) string {
	h := sha256.New()
	for _, s := range c.Servers {
		_, _ = h.Write([]byte(s.ID + "\n")) // never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// found forms or joins a cluster, and starts raft.
func (n *Node) found(ctx context.Context) error {
	first, cluster, err := n.gather(ctx)
	if err != nil {
		return err
	}
	n.stores.id.cluster = cluster
	if err := n.startRaft(first); err != nil {
		return err
	}
	return n.peers.Join(cluster)
}
