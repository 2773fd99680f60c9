package ensemble

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Role says whether a server votes.
type Role string

// The roles, as they are written in a server line.
const (
	Participant Role = "participant"
	Observer    Role = "observer"
)

// ParseRole reads a role in any letter case.
func ParseRole(text string) (Role, error) {
	role := Role(strings.ToLower(strings.TrimSpace(text)))
	if role != Participant && role != Observer {
		return "", fmt.Errorf("%q is not a role; allowed: participant or observer", strings.TrimSpace(text))
	}
	return role, nil
}

// A PeerAddress is one of the addresses at which other servers reach a server.
type PeerAddress struct {
	Host string
	Port int // everything between servers goes here
	// ElectionPort is kept because ZooKeeper's tools show it; nothing listens there.
	ElectionPort int
}

// MaxID is the highest number of a server: one byte of ZooKeeper's session ids. It also marks
// TTL nodes, so where they are allowed the highest is one less.
const MaxID = 255

// maxPeers bounds the peer addresses of a server: whoever dials it may have to try them all.
const maxPeers = 16

// A Member is one server of the ensemble. Its text, in a server.N line, in
// /zookeeper/config and in a reconfig request:
//
//	member  = peer *( "|" peer ) [ ";" [ address ] [ ";" [ address ] ] ]
//	peer    = host ":" port ":" electionPort [ ":" ( "participant" | "observer" ) ]
//	address = [ host ":" ] port              plain port, then TLS port; no host: 0.0.0.0
//	host    = name | IPv4 | "[" IPv6 "]"
type Member struct {
	ID           int // 1 to MaxID
	Role         Role
	Peers        []PeerAddress // 1 to 16, in the order of the line
	Client       HostPort      // plain client port; zero: not in the line
	SecureClient HostPort      // TLS client port; zero: not in the line
}

// ParseMember reads the text of a member.
func ParseMember(id int, text string) (Member, error) {
	m := Member{ID: id}
	parts := strings.Split(text, ";")
	if len(parts) > 3 {
		return Member{}, errors.New(`more than two ";": only a plain and a TLS client address may follow`)
	}
	peers := strings.Split(parts[0], "|")
	if len(peers) > maxPeers {
		return Member{}, fmt.Errorf("%d peer addresses, at most %d are possible", len(peers), maxPeers)
	}
	for i, peer := range peers {
		a, role, err := parsePeer(peer)
		if err != nil {
			return Member{}, err
		}
		m.Peers = append(m.Peers, a)
		if i > 0 && role != "" && m.Role != "" && role != m.Role {
			return Member{}, fmt.Errorf("the addresses have different roles, %s and %s", m.Role, role)
		}
		if role != "" {
			m.Role = role
		}
	}
	if m.Role == "" {
		m.Role = Participant
	}
	for i, client := range []*HostPort{&m.Client, &m.SecureClient} {
		if i+1 >= len(parts) || strings.TrimSpace(parts[i+1]) == "" {
			continue
		}
		var err error
		if *client, err = ParseClientAddress(parts[i+1]); err != nil {
			return Member{}, err
		}
	}
	return m, nil
}

func parsePeer(text string) (a PeerAddress, role Role, err error) {
	host, fields, err := SplitHost(text)
	if err != nil {
		return a, "", err
	}
	if len(fields) < 2 || len(fields) > 3 {
		return a, "", fmt.Errorf("%q is not host:port:electionPort or host:port:electionPort:role", strings.TrimSpace(text))
	}
	a.Host = host
	if a.Port, err = parsePort(fields[0]); err != nil {
		return a, "", err
	}
	if a.ElectionPort, err = parsePort(fields[1]); err != nil {
		return a, "", err
	}
	if a.Port == a.ElectionPort {
		return a, "", fmt.Errorf("peer port and election port are both %d, they must differ", a.Port)
	}
	if len(fields) == 3 {
		role, err = ParseRole(fields[2])
	}
	return a, role, err
}

// String is the text of the member, always with the role.
func (m Member) String() string { return m.write(HostPort.String) }

// text is String as ZooKeeper writes it in a configuration.
func (m Member) text() string { return m.write(HostPort.text) }

func (m Member) write(address func(HostPort) string) string {
	var b strings.Builder
	for i, p := range m.Peers {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(address(HostPort{p.Host, p.Port}) + ":" + strconv.Itoa(p.ElectionPort))
	}
	b.WriteString(":" + string(m.Role))
	if m.Client != (HostPort{}) {
		b.WriteString(";" + address(m.Client))
	}
	if m.SecureClient != (HostPort{}) {
		if m.Client == (HostPort{}) {
			b.WriteByte(';')
		}
		b.WriteString(";" + address(m.SecureClient))
	}
	return b.String()
}

// Equal says whether m and o are written the same.
func (m Member) Equal(o Member) bool {
	return m.ID == o.ID && m.Role == o.Role && slices.Equal(m.Peers, o.Peers) &&
		m.Client == o.Client && m.SecureClient == o.SecureClient
}

// addresses are all at which the server listens, or says that it does, without those that mean
// another place on every machine. The hosts are in lower case.
func (m Member) addresses() []HostPort {
	var list []HostPort
	add := func(a HostPort) {
		if a != (HostPort{}) && !a.everywhere() {
			list = append(list, a.folded())
		}
	}
	for _, p := range m.Peers {
		add(HostPort{p.Host, p.Port})
		add(HostPort{p.Host, p.ElectionPort})
	}
	add(m.Client)
	add(m.SecureClient)
	return list
}
