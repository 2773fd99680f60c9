package config

// Cluster is who the servers are. Kept, but for ServerID and the ports of a single node.
type Cluster struct {
	// Ensemble: this server is one of several, or standaloneEnabled=false. If not, Members
	// has at most one voter and does not make it an ensemble: HBase relies on that.
	Ensemble bool
	// ServerID is the number in DataDir/myid; for a single node without that file the number
	// of the only server line, else 1.
	ServerID int
	// Members are the server.N lines in the order of N.
	Members []Member
	// DynamicFile (dynamicConfigFile) is where Members was found, "" for the other sources.
	DynamicFile string
	// PeerInsecure (zkd.peerInsecure): the peer port may be open to the network without TLS.
	// Default false. True: whoever reaches the port can write anything.
	PeerInsecure bool
	// ListenOnAllIPs (quorumListenOnAllIPs): the peer port is bound everywhere instead of to
	// the addresses of the server line. Default false.
	ListenOnAllIPs bool
	// LeaderServes (leaderServes): the leader takes clients. Default true.
	LeaderServes bool
	// SSLQuorum (sslQuorum) and PortUnification (portUnification) as they are set, default
	// false, and the key and trust stores of the peer port (ssl.quorum.*).
	SSLQuorum, PortUnification bool
	TLS                        TLS
}

// Self returns the line of this server, nil if it has none.
func (c *Cluster) Self() *Member {
	for i := range c.Members {
		if c.Members[i].ID == c.ServerID {
			return &c.Members[i]
		}
	}
	return nil
}
