package ensemble

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rules are the settings that a change is judged by.
type Rules struct {
	// SingleVoter: any number of participants will do (standaloneEnabled=false). If not,
	// there must be two, because a ZooKeeper that finds one server line is no ensemble.
	SingleVoter bool
	// MultiAddress: a server may have several peer addresses (multiAddress.enabled).
	MultiAddress bool
	// ExtendedTypes: TTL nodes are allowed, and take the number MaxID.
	ExtendedTypes bool
}

// Change is the incremental change of a reconfig request: leaving is a list of numbers, joining
// one of server.N=text; both are separated by commas, blank entries do not count, and both may
// be empty. Servers leave before others join; a number that is no member's may leave, and one
// that is a member's may join: then its line is replaced. What a joining server is called
// before the last point does not matter. The version of the result is 0.
//
// The checks are those of PrepRequestProcessor in Apache ZooKeeper 3.8 and 3.10 in their order,
// each joining server by itself and then the whole; ZooKeeper checks less of a server: it lets
// number 0 and port 0 in, and two servers at one loopback address.
func (c Config) Change(joining, leaving string, r Rules) (Config, error) {
	leavers := make(map[int64]bool)
	for _, text := range splitList(leaving, ",") {
		id, err := parseNumber(text)
		if err != nil {
			return Config{}, fmt.Errorf("leaving: %w", err)
		}
		leavers[id] = true
	}
	var next Config
	taken := make(directory)
	for _, m := range c.Members {
		if !leavers[int64(m.ID)] {
			next.Members = append(next.Members, m)
			taken.add(m)
		}
	}
	for _, text := range splitList(joining, ",") {
		if err := next.join(text, taken, r); err != nil {
			return Config{}, fmt.Errorf("joining %q: %w", text, err)
		}
	}
	return c.settle(next, r)
}

// join adds one server, or replaces its line.
func (c *Config) join(text string, taken directory, r Rules) error {
	parts := splitList(text, "=")
	if len(parts) != 2 {
		return errors.New("is not server.N=text")
	}
	m, err := parseLine(parts[0][strings.LastIndexByte(parts[0], '.')+1:], parts[1])
	if err != nil {
		return err
	}
	if m.Client == (HostPort{}) && m.SecureClient == (HostPort{}) {
		return errors.New("has no client address; host:port:electionPort[:role];[host:]port is needed")
	}
	if err := m.obey(r); err != nil {
		return err
	}
	if a, other, both := taken.collision(m); both {
		return fmt.Errorf("%s is an address of server.%d, too", a, other)
	}
	if i, found := c.find(m.ID); found {
		taken.remove(c.Members[i])
		c.Members[i] = m
	} else {
		c.Members = slices.Insert(c.Members, i, m)
	}
	taken.add(m)
	return nil
}

// A directory says which servers claim to be at an address, in whatever role. Addresses that
// mean another place on every machine are not in it: all servers may have 0.0.0.0:2181. A
// server that names an address twice is there twice.
//
// It is there because anybody may send a long list, and all servers wait while it is judged.
type directory map[HostPort][]int

func (d directory) add(m Member) {
	for _, a := range m.addresses() {
		d[a] = append(d[a], m.ID)
	}
}

func (d directory) remove(m Member) {
	for _, a := range m.addresses() {
		d[a] = slices.DeleteFunc(d[a], func(id int) bool { return id == m.ID })
	}
}

// collision returns an address of m that another server has.
func (d directory) collision(m Member) (a HostPort, other int, found bool) {
	for _, a := range m.addresses() {
		for _, id := range d[a] {
			if id != m.ID {
				return a, id, true
			}
		}
	}
	return HostPort{}, 0, false
}

// obey is what the settings say of one member.
func (m Member) obey(r Rules) error {
	switch {
	case m.ID == MaxID && r.ExtendedTypes:
		return fmt.Errorf("number %d is taken by TTL nodes", MaxID)
	case len(m.Peers) > 1 && !r.MultiAddress:
		return errors.New("has several addresses, and multiAddress.enabled is false")
	}
	return nil
}

// Replace is the change of a reconfig request that names all members: text is for Parse, and a
// version in it does not count. The version of the result is 0.
//
// As in ZooKeeper the servers need no client address here, and are not held to the rule that
// all their addresses differ; but each must have a peer address of its own.
func (c Config) Replace(text string, r Rules) (Config, error) {
	next, err := Parse(text)
	if err != nil {
		return Config{}, err
	}
	next.Version = 0
	for _, m := range next.Members {
		if err := m.obey(r); err != nil {
			return Config{}, fmt.Errorf("server.%d: %w", m.ID, err)
		}
	}
	return c.settle(next, r)
}

// settle judges the result of a change as a whole.
func (c Config) settle(next Config, r Rules) (Config, error) {
	if err := next.Check(); err != nil {
		return Config{}, err
	}
	switch voters := len(next.Voters()); {
	case voters == 0:
		return Config{}, errors.New("no participant would be left")
	case voters > 1 || r.SingleVoter:
	case len(next.Members) > 1 || len(c.Members) != 1 || c.Members[0].ID != next.Members[0].ID:
		// Only the line of a lone server may change.
		return Config{}, errors.New("one participant would be left; two are needed unless standaloneEnabled is false")
	}
	return next, nil
}

// splitList cuts a list and drops blank entries.
func splitList(text, separator string) []string {
	var list []string
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
