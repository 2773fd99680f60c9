package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// memberLine is a Member with the place that it comes from.
type memberLine struct {
	Member
	value value
}

// maxServerID is where server numbers end: one byte of a session id. The largest marks TTL
// nodes where they are allowed.
const maxServerID = 255

// addServer is the setter of server.N.
func addServer(b *builder, v value) error {
	id, err := memberNumber(v)
	if err != nil {
		return err
	}
	m, err := ParseMember(id, v.text)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "allowed:"): // of the part that is wrong
		return err
	default:
		return fmt.Errorf("%w; allowed: %s", err, v.key.Allowed)
	}
	b.members = append(b.members, memberLine{m, v})
	return nil
}

// memberNumber is the N of server.N.
func memberNumber(v value) (int, error) {
	n, err := parseInteger(strings.TrimPrefix(v.name, v.key.prefix), 1, maxServerID)
	if err != nil {
		return 0, fmt.Errorf("the number after %q: %w", v.key.prefix, err)
	}
	return int(n), nil
}

// dynamicFile adds the lines of dynamicConfigFile, if there is one.
func (b *builder) dynamicFile() {
	v, set := b.values["dynamicConfigFile"]
	if !set || v.text == "" {
		return
	}
	for _, other := range b.sorted() {
		if membership(other.key) {
			b.problem(other.origin, other.written, "must be in %s, which dynamicConfigFile names, and not here", v.text)
		}
	}
	text, ok := b.read(v.text, v.written, v.origin)
	if !ok {
		return
	}
	entries := parseProperties(text)
	for _, e := range entries {
		if k, _, known := table().lookup(e.key); e.err == nil && (!known || !membership(k)) {
			b.problem(Origin{File: v.text, Line: e.line}, e.key, "must not be in this file; allowed: server.N, group.N and weight.N")
		}
	}
	b.addEntries(v.text, slices.DeleteFunc(entries, func(e entry) bool {
		k, _, known := table().lookup(e.key)
		return e.err == nil && (!known || !membership(k))
	}))
}

func membership(k *Key) bool {
	return k.prefix == "server." || k.prefix == "group." || k.prefix == "weight."
}

// settleCluster decides who the servers are and which of them this one is.
func (b *builder) settleCluster() {
	c := &b.cfg.Cluster
	slices.SortFunc(b.members, func(x, y memberLine) int { return cmp.Compare(x.ID, y.ID) })
	b.settleGroups()
	voters := 0
	for _, m := range b.members {
		c.Members = append(c.Members, m.Member)
		if m.Role == Participant {
			voters++
		}
	}
	b.checkMembers()
	alone := b.flag("standaloneEnabled")
	b.checkVoters(voters, alone)
	c.SingleVoter, c.MultiAddress = !alone, b.flag("multiAddress.enabled")
	c.Ensemble = (!b.cfg.InMemory || b.src.MyID > 0) && (voters > 1 || !alone)
	b.findSelf()
	b.checkPlaces()
	b.checkPeerType()
}

func (b *builder) checkMembers() {
	several := b.flag("multiAddress.enabled")
	owner := map[HostPort]int{}
	for _, m := range b.members {
		if len(m.Peers) > 1 && !several {
			b.problem(m.value.origin, m.value.written, "has several addresses; allowed: one, or multiAddress.enabled=true")
		}
		if m.ID == maxServerID && b.cfg.ExtendedTypesEnabled {
			b.problem(m.value.origin, m.value.written, "number %d is taken by TTL nodes; allowed: 1 to %d, or extendedTypesEnabled=false",
				maxServerID, maxServerID-1)
		}
		for _, p := range m.Peers {
			address := HostPort{Host: p.Host, Port: p.Port}
			if other, taken := owner[address]; taken && other != m.ID {
				b.problem(m.value.origin, m.value.written, "%s is the peer address of server.%d, too; allowed: an address of its own", address, other)
			}
			owner[address] = m.ID
		}
	}
}

func (b *builder) checkVoters(voters int, alone bool) {
	observers := len(b.members) - voters
	switch {
	case voters == 0 && !alone:
		v := b.values["standaloneEnabled"]
		b.problem(v.origin, v.written, "is false, but no server.N line is a participant; allowed: at least one")
	case observers > 0 && (voters == 0 || voters == 1 && alone):
		v := b.members[0].value
		b.problem(v.origin, v.written, "observers need an ensemble, and there is %d participant; allowed: at least 2, or standaloneEnabled=false", voters)
	case voters == 2:
		b.warn(Origin{}, "", "two servers bear the failure of none; three bear the failure of one")
	case voters > 2 && voters%2 == 0:
		b.warn(Origin{}, "", fmt.Sprintf("%d servers bear no more failures than %d; an odd number is better", voters, voters-1))
	}
}

// findSelf reads myid. An ensemble needs it; for a single node the only server line, or 1,
// does as well.
func (b *builder) findSelf() {
	c := &b.cfg.Cluster
	c.ServerID = 1
	if len(c.Members) == 1 {
		c.ServerID = c.Members[0].ID
	}
	if b.cfg.InMemory && b.src.MyID > 0 {
		c.ServerID = b.src.MyID
	}
	if b.cfg.InMemory || b.cfg.DataDir == "" {
		return
	}
	name := filepath.Join(b.cfg.DataDir, "myid")
	id, err := b.readMyID(name)
	switch {
	case err == nil:
		c.ServerID = id
	case !c.Ensemble && errors.Is(err, fs.ErrNotExist):
		return
	case !c.Ensemble:
		b.warn(Origin{File: name}, "", fmt.Sprintf("%v; ignored, because this is a single node", err))
		return
	default:
		c.ServerID = 0 // no line of Members is ours
		if errors.Is(err, fs.ErrNotExist) {
			b.problem(Origin{File: name}, "", "is missing; write the number of this server's server.N line into it")
		} else {
			b.problem(Origin{File: name, Line: 1}, "", "%v", err)
		}
		return
	}
	if c.Ensemble && c.Self() == nil {
		b.problem(Origin{File: name, Line: 1}, "", "there is no line server.%d; allowed: the number of one of the server.N lines", id)
	}
}

// readMyID takes the first line, as ZooKeeper does.
func (b *builder) readMyID(name string) (int, error) {
	b.files = append(b.files, name)
	text, err := b.src.ReadFile(name)
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	high := int64(maxServerID)
	if b.cfg.ExtendedTypesEnabled {
		high--
	}
	id, err := parseInteger(javaTrim(line), 1, high)
	return int(id), err
}

func (b *builder) checkPeerType() {
	v, set := b.values["peerType"]
	if !set {
		return
	}
	role, err := parseRole(v.text)
	if err != nil {
		b.problem(v.origin, v.written, "%v", err)
		return
	}
	if self := b.cfg.Cluster.Self(); b.cfg.Cluster.Ensemble && self != nil && self.Role != role {
		b.warn(v.origin, v.written, fmt.Sprintf("%s, but server.%d is a line of a %s; the line counts", role, self.ID, self.Role))
	}
}
