package config

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
)

// Cluster is who the servers are.
type Cluster struct {
	// Ensemble: this server is one of several, or standaloneEnabled=false. If not, Members
	// has at most one voter and does not make it an ensemble: HBase relies on that.
	Ensemble bool
	// SingleVoter: a reconfig may leave a single voter (standaloneEnabled=false). Default false.
	SingleVoter bool
	// MultiAddress (multiAddress.enabled): a server may have several peer addresses. Default
	// false.
	MultiAddress bool
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
	// LeaderServes (leaderServes): the leader takes clients. Default true. False: those that are
	// connected where a leader is elected have to move.
	LeaderServes bool
	// PeerTLSDir (zkd.peerTLSDir): folder with ca.pem and node-N.pem, as `zkd cert` makes
	// them; the peer port speaks TLS with them. Default none.
	PeerTLSDir string
	// SSLQuorum (sslQuorum): without PeerTLSDir, the peer port speaks TLS with the stores of
	// TLS. Default false.
	SSLQuorum bool
	// TLS has the key and trust store of ssl.quorum.*, for the peer port and for the admin
	// server. What the peer port makes of them is PeerTLS.
	TLS TLS
}

// PeerTLS returns what the peer port speaks TLS with, and false if it speaks none. Both sides
// always show a certificate, over TLS 1.3 at least: the port is spoken by zkd alone, so that
// there is nobody to be lenient with.
func (c *Cluster) PeerTLS() (t TLS, on bool) {
	t = TLS{ClientAuth: ClientAuthNeed, MinVersion: tls.VersionTLS13, Reload: c.TLS.Reload}
	switch {
	case c.PeerTLSDir != "":
		t.KeyStore = Store{Location: PeerNodeFile(c.PeerTLSDir, c.ServerID), Type: StorePEM}
		t.TrustStore = Store{Location: PeerCAFile(c.PeerTLSDir), Type: StorePEM}
	case c.SSLQuorum:
		t.KeyStore, t.TrustStore = c.TLS.KeyStore, c.TLS.TrustStore
	default:
		return TLS{}, false
	}
	return t, true
}

// PeerCAFile is the file of trusted certificates in a folder for zkd.peerTLSDir.
func PeerCAFile(dir string) string { return filepath.Join(dir, "ca.pem") }

// PeerNodeFile is the file with key and certificate of a server in a folder for
// zkd.peerTLSDir. The number in its name lets all servers have the same configuration, and one
// file for both lets a renewal be one step.
func PeerNodeFile(dir string, id int) string {
	return filepath.Join(dir, fmt.Sprintf("node-%d.pem", id))
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
