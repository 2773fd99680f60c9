package replication

import "github.com/hashicorp/raft"

// Followers are the members of the cluster as its leader sees them.
type Followers struct {
	Members         int // of the cluster, this server and those that cannot be reached included
	InContact       int // others that have answered lately
	SyncedVoters    int // of these, the ones that vote and have nearly all of the log
	SyncedObservers int // and those that do not vote
}

// Followers counts; a server that does not lead knows of no one but itself and the members.
func (n *Node) Followers() Followers {
	if n.peers == nil || !n.up.Load() {
		return Followers{Members: 1}
	}
	var f Followers
	self, leads := n.stores.id.serverID(), n.Leads()
	for _, s := range n.raft().GetConfiguration().Configuration().Servers {
		f.Members++
		if s.ID == self || !leads || !n.inContact(s.ID) {
			continue
		}
		f.InContact++
		switch {
		case !n.caughtUp(s.ID):
		case s.Suffrage == raft.Voter:
			f.SyncedVoters++
		default:
			f.SyncedObservers++
		}
	}
	return f
}
