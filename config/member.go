package config

import "github.com/zkd-project/zkd/server/ensemble"

// What a server.N line says is read by package ensemble, because reconfig requests say it, too.
type (
	// A Member is one server of the ensemble.
	Member = ensemble.Member
	// A PeerAddress is one of the addresses at which other servers reach a server.
	PeerAddress = ensemble.PeerAddress
	// A Role says whether a server votes.
	Role = ensemble.Role
	// A HostPort is where something can be reached. The zero HostPort is nowhere.
	HostPort = ensemble.HostPort
)

// The roles, as they are written in a server line.
const (
	Participant = ensemble.Participant
	Observer    = ensemble.Observer
)

// ParseMember reads the text of a member.
func ParseMember(id int, text string) (Member, error) { return ensemble.ParseMember(id, text) }

// The parts of a server line occur in other keys as well.

func parseRole(text string) (Role, error) { return ensemble.ParseRole(text) }

func parseClientAddress(text string) (HostPort, error) { return ensemble.ParseClientAddress(text) }

func splitHost(text string) (host string, fields []string, err error) {
	return ensemble.SplitHost(text)
}

func checkHost(host string) error { return ensemble.CheckHost(host) }
