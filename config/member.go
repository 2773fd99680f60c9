package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// A HostPort is where something can be reached. The zero HostPort is nowhere.
type HostPort struct {
	Host string // IP address without brackets, or name
	Port int
}

// String is "host:port" with brackets around an IPv6 address.
func (h HostPort) String() string { return net.JoinHostPort(h.Host, strconv.Itoa(h.Port)) }

// A PeerAddress is one of the addresses at which other servers reach a server.
type PeerAddress struct {
	Host string
	Port int // everything between servers goes here
	// ElectionPort is kept because ZooKeeper's tools show it; nothing listens there.
	ElectionPort int
}

// A Member is one server of the ensemble. Its text, in a server.N line, in
// /zookeeper/config and in a reconfig request:
//
//	member  = peer *( "|" peer ) [ ";" [ address ] [ ";" [ address ] ] ]
//	peer    = host ":" port ":" electionPort [ ":" ( "participant" | "observer" ) ]
//	address = [ host ":" ] port              plain port, then TLS port; no host: 0.0.0.0
//	host    = name | IPv4 | "[" IPv6 "]"
type Member struct {
	ID           int
	Role         Role
	Peers        []PeerAddress // at least one, in the order of the line
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
	for i, peer := range strings.Split(parts[0], "|") {
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
		if *client, err = parseClientAddress(parts[i+1]); err != nil {
			return Member{}, err
		}
	}
	return m, nil
}

// String is the text of the member, always with the role, as /zookeeper/config shows it.
func (m Member) String() string {
	var b strings.Builder
	for i, p := range m.Peers {
		if i > 0 {
			b.WriteByte('|')
		}
		fmt.Fprintf(&b, "%s:%d", HostPort{p.Host, p.Port}, p.ElectionPort)
	}
	b.WriteString(":" + string(m.Role))
	if m.Client != (HostPort{}) {
		b.WriteString(";" + m.Client.String())
	}
	if m.SecureClient != (HostPort{}) {
		if m.Client == (HostPort{}) {
			b.WriteByte(';')
		}
		b.WriteString(";" + m.SecureClient.String())
	}
	return b.String()
}

func parsePeer(text string) (a PeerAddress, role Role, err error) {
	host, fields, err := splitHost(text)
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
		role, err = parseRole(fields[2])
	}
	return a, role, err
}

func parseRole(text string) (Role, error) {
	role := Role(strings.ToLower(strings.TrimSpace(text)))
	if role != Participant && role != Observer {
		return "", fmt.Errorf("%q is not a role; allowed: participant or observer", strings.TrimSpace(text))
	}
	return role, nil
}

// parseClientAddress reads "port" or "host:port".
func parseClientAddress(text string) (HostPort, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, ":") {
		port, err := parsePort(text)
		return HostPort{"0.0.0.0", port}, err
	}
	host, fields, err := splitHost(text)
	if err != nil {
		return HostPort{}, err
	}
	if len(fields) != 1 {
		return HostPort{}, fmt.Errorf("%q is not a port or host:port", text)
	}
	port, err := parsePort(fields[0])
	return HostPort{host, port}, err
}

// splitHost cuts the host off and returns the fields between the colons after it.
func splitHost(text string) (host string, fields []string, err error) {
	text = strings.TrimSpace(text)
	rest := ""
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", nil, fmt.Errorf(`%q has no "]"`, text)
		}
		host, rest = text[1:end], text[end+1:]
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is6() {
			return "", nil, fmt.Errorf("%q in brackets is not an IPv6 address", host)
		}
	} else {
		host, rest = text, ""
		if i := strings.IndexByte(text, ':'); i >= 0 {
			host, rest = text[:i], text[i:]
		}
		if err := checkHost(host); err != nil {
			return "", nil, err
		}
	}
	if rest == "" {
		return host, nil, nil
	}
	if rest[0] != ':' {
		return "", nil, fmt.Errorf(`%q goes on with %q instead of ":" and a port`, text[:len(text)-len(rest)], rest)
	}
	return host, strings.Split(rest[1:], ":"), nil
}

// checkHost accepts IP addresses and what may be a name; it resolves nothing.
func checkHost(host string) error {
	if host == "" {
		return errors.New("the host is empty; allowed: a name or an IP address")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if strings.Trim(host, "0123456789.") == "" {
		return fmt.Errorf("%q is no host; allowed: a name or an IP address", host)
	}
	for _, r := range host {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 0x7f
		if !letter && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_' {
			return fmt.Errorf("%q is no host; allowed: a name or an IP address, IPv6 in brackets where a port follows", host)
		}
	}
	return nil
}

func parsePort(text string) (int, error) {
	n, err := parseInteger(strings.TrimSpace(text), 1, 65535)
	if err != nil {
		return 0, fmt.Errorf("port %w", err)
	}
	return int(n), nil
}
