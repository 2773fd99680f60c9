package config

import (
	"fmt"
	"slices"
)

// checkPlaces is about 0.0.0.0 as a peer address. In a server's own line it says to listen
// everywhere, as in ZooKeeper; where the server is, the lines of the others say. In the line of
// another server it leads back to this one.
func (b *builder) checkPlaces() {
	c := &b.cfg.Cluster
	self := c.Self()
	if !c.Ensemble || self == nil {
		return
	}
	oneMachine := slices.ContainsFunc(self.Peers, func(p PeerAddress) bool { return wildcard(p.Host) || loopback(p.Host) })
	for i := range b.members {
		m := &b.members[i]
		at := slices.IndexFunc(m.Peers, func(p PeerAddress) bool { return wildcard(p.Host) })
		switch {
		case at < 0:
		case m.ID != self.ID && !oneMachine:
			b.problem(m.value.origin, m.value.written, "%s is this machine, and server.%d is another one;"+
				" allowed: the host at which it is found; to have it listen everywhere set quorumListenOnAllIPs=true there",
				m.Peers[at].Host, m.ID)
		case m.ID == self.ID && len(b.members) == 1:
			b.warn(m.value.origin, m.value.written, fmt.Sprintf("members that are added will not find this server by %s;"+
				" name its host, and set quorumListenOnAllIPs=true to listen everywhere", m.Peers[at].Host))
		}
	}
}
