package admin

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/fourletter"
)

// members are the servers of the ensemble, from the text that conf shows.
func (c *commands) members() []config.Member {
	e := c.source.Config().Ensemble
	if e == nil {
		return nil
	}
	var all []config.Member
	for line := range strings.Lines(e.Membership) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), "=")
		number, isServer := strings.CutPrefix(key, "server.")
		id, err := strconv.Atoi(number)
		if !isServer || err != nil {
			continue // version=…, group.N, weight.N
		}
		if m, err := config.ParseMember(id, text); err == nil {
			all = append(all, m)
		}
	}
	return all
}

func (c *commands) member(id int64) (m config.Member, ok bool) {
	for _, m := range c.members() {
		if int64(m.ID) == id {
			return m, true
		}
	}
	return config.Member{}, false
}

func (c *commands) leader(_ url.Values, o *object) {
	if c.source.Config().Ensemble == nil {
		o.fail("server is not initialized")
		return
	}
	id, known := c.source.Leader()
	if !known {
		id = -1
	}
	ip := ""
	if m, ok := c.member(id); ok {
		ip = m.Peers[0].Host
	}
	o.boolean("is_leader", c.source.Status().Mode == fourletter.ModeLeader)
	integer(o, "leader_id", id)
	o.str("leader_ip", ip)
}

// votingView shows the servers that vote, by number.
func (c *commands) votingView(_ url.Values, o *object) {
	o.object("current_config", func() {
		for _, m := range c.members() {
			if m.Role != config.Participant {
				continue
			}
			o.object(strconv.Itoa(m.ID), func() {
				var quorum, election []string
				for _, p := range m.Peers {
					quorum = append(quorum, peer(p.Host, p.Port))
					election = append(election, peer(p.Host, p.ElectionPort))
				}
				o.strings("server_addresses", quorum...)
				o.strings("election_addresses", election...)
				o.str("client_address", client(m.Client))
				o.str("learner_type", string(m.Role))
			})
		}
	})
}

func peer(host string, port int) string { return config.HostPort{Host: host, Port: port}.String() }

func client(h config.HostPort) string {
	if h == (config.HostPort{}) {
		return ""
	}
	return h.String()
}

func (c *commands) observers(_ url.Values, o *object) {
	n := 0
	for range c.source.Observers() {
		n++
	}
	integer(o, "synced_observers", n)
	o.list("observers", func(element func(func()) bool) {
		for w := range c.source.Observers() {
			more := element(func() {
				o.str("remote_socket_address", "/"+address(w.Remote))
				integer(o, "sid", w.ID)
				integer(o, "established", w.EstablishedMs)
				integer(o, "queued_packets", w.Queued)
				integer(o, "queued_packets_size", w.QueuedBytes)
				integer(o, "packets_received", w.Received)
				integer(o, "packets_sent", w.Sent)
				integer(o, "requests", w.Requests)
				integer(o, "last_zxid", w.LastZxid)
			})
			if !more {
				return
			}
		}
	})
}

// zabState shows where a member of an ensemble stands. The fields of the addresses are the
// properties of Java's MultipleAddresses: nothing here probes which are reachable, so all
// are given as reachable.
func (c *commands) zabState(_ url.Values, o *object) {
	f, s := c.source.Config(), c.source.Status()
	if f.Ensemble == nil {
		o.boolean("voting", false)
		o.str("zabstate", "")
		return
	}
	m, known := c.member(f.ServerID)
	integer(o, "myid", f.ServerID)
	o.boolean("is_leader", s.Mode == fourletter.ModeLeader)
	if known {
		addresses(o, "quorum_address", m.Peers, func(p config.PeerAddress) int { return p.Port })
		addresses(o, "election_address", m.Peers, func(p config.PeerAddress) int { return p.ElectionPort })
		o.str("client_address", client(m.Client))
	}
	o.boolean("voting", !f.Ensemble.Observer)
	o.str("last_zxid", "0x"+hex(s.Zxid))
	integer(o, "zab_epoch", s.Zxid>>32)
	integer(o, "zab_counter", s.Zxid&0xffffffff)
	o.str("zabstate", phase(&s))
}

func addresses(o *object, name string, peers []config.PeerAddress, port func(config.PeerAddress) int) {
	var all, wildcards, hosts []string
	var ports []int64
	for _, p := range peers {
		all = append(all, peer(p.Host, port(p)))
		wildcards = append(wildcards, peer("0.0.0.0", port(p)))
		hosts = append(hosts, p.Host)
		ports = append(ports, int64(port(p)))
	}
	o.object(name, func() {
		o.boolean("empty", false)
		o.strings("all_addresses", all...)
		o.strings("all_reachable_addresses", all...)
		o.str("one", all[0])
		o.str("reachable_address", all[0])
		o.strings("wildcard_addresses", wildcards...)
		o.integers("all_ports", ports...)
		o.strings("all_host_strings", hosts...)
		o.strings("all_reachable_addresses_or_all", all...)
		o.str("reachable_or_one", all[0])
	})
}

// phase is the part of "leading - broadcast" behind the dash; a server without a leader is
// looking for one.
func phase(s *fourletter.Status) string {
	if _, p, ok := strings.Cut(s.PeerState, " - "); ok {
		return p
	}
	return "election"
}
