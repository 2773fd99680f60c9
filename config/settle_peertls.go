package config

import (
	"net/netip"
	"slices"
	"strings"
)

// settlePeerTLS refuses a peer port that everybody could write to, and one without a key.
func (b *builder) settlePeerTLS() {
	c := &b.cfg.Cluster
	_, on := c.PeerTLS()
	if v, set := b.values["zkd.peerInsecure"]; set && c.PeerInsecure {
		if on {
			b.warn(v.origin, v.written, "is not needed: the peer port speaks TLS")
		} else if b.exposedPeer() != nil {
			b.warn(v.origin, v.written, "whoever reaches the peer port can write anything, past every ACL")
		}
	}
	switch {
	case on && c.PeerTLSDir == "":
		b.checkQuorumStores()
	case !on && !c.PeerInsecure:
		b.checkPlainPeer()
	}
}

// checkQuorumStores is for a peer port with the stores of ssl.quorum.*.
func (b *builder) checkQuorumStores() {
	t := &b.cfg.Cluster.TLS
	for _, s := range []struct{ location, key string }{
		{t.KeyStore.Location, "ssl.quorum.keyStore.location"},
		{t.TrustStore.Location, "ssl.quorum.trustStore.location"},
	} {
		if s.location == "" {
			v := b.values["sslQuorum"]
			b.problem(v.origin, v.written, "TLS between servers needs a key store and a trust store; set %s, or zkd.peerTLSDir", s.key)
		}
	}
	// agrees has the values that say what happens anyway; nil: none.
	var unused []string
	for _, k := range []struct {
		name   string
		agrees func(text string) bool
	}{
		{"clientAuth", func(text string) bool { return text == string(ClientAuthNeed) }},
		{"protocol", func(text string) bool { return text == "TLS" || text == "TLSv1.3" }},
		{"enabledProtocols", func(text string) bool { return slices.Contains(splitList(text), "TLSv1.3") }},
		{"ciphersuites", nil},
		{"hostnameVerification", func(text string) bool { return strings.EqualFold(text, "false") }},
		{"clientHostnameVerification", func(text string) bool { return strings.EqualFold(text, "false") }},
		{"allowReverseDnsLookup", func(text string) bool { return strings.EqualFold(text, "false") }},
		{"handshakeDetectionTimeoutMillis", nil},
	} {
		v, set := b.values["ssl.quorum."+k.name]
		if set && v.text != "" && (k.agrees == nil || !k.agrees(v.text)) {
			unused = append(unused, v.name)
		}
	}
	if len(unused) > 0 {
		b.warn(Origin{}, "", "between servers TLS 1.3 is spoken, both sides show a certificate, and it must name the server's number"+
			" instead of its host; not used there: "+strings.Join(unused, ", "))
	}
}

// checkPlainPeer refuses a port without TLS that other machines can reach: it takes entries of
// the log from whoever speaks its protocol.
func (b *builder) checkPlainPeer() {
	line := b.exposedPeer()
	if line == nil {
		return
	}
	b.problem(line.value.origin, line.value.written, "other machines reach this peer port, and without TLS they can write anything;"+
		" make certificates with \"zkd cert init --dir DIR\" and \"zkd cert node --dir DIR --id %d\" and set zkd.peerTLSDir,"+
		" or set zkd.peerInsecure=true where nobody else is in the network", line.ID)
}

// exposedPeer is the line of this server if its peer port is bound to more than loopback
// addresses, nil if it is not or there is no such line. No name is resolved: one that is not
// localhost counts as the address of a network.
func (b *builder) exposedPeer() *memberLine {
	i := slices.IndexFunc(b.members, func(m memberLine) bool { return m.ID == b.cfg.Cluster.ServerID })
	if i < 0 {
		return nil
	}
	if b.cfg.Cluster.ListenOnAllIPs {
		return &b.members[i]
	}
	for _, p := range b.members[i].Peers {
		if !loopback(p.Host) {
			return &b.members[i]
		}
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
	}
	return ip.Unmap().IsLoopback()
}
