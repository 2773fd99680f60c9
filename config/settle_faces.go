package config

import (
	"fmt"
	"net"
	"strings"
)

// leastToken is the length of the shortest token: it can be tried out as fast as the port
// answers.
const leastToken = 16

// settleFaces refuses operators' ports that could not work. That a port is taken is seen
// only when it is opened.
func (b *builder) settleFaces() {
	c := b.cfg
	if c.Admin.Enabled {
		b.settleToken()
		b.checkAdminTLS()
		b.warnOpenAdmin()
	}
	m := &c.Metrics
	if !m.Prometheus {
		return
	}
	if m.HTTPPort == 0 && m.HTTPSPort == 0 {
		v := b.values["metricsProvider.className"]
		b.warn(v.origin, v.written, "no port shows the metrics: metricsProvider.httpPort and httpsPort are 0")
	}
	if m.HTTPSPort > 0 {
		v := b.values["metricsProvider.httpsPort"]
		b.needStores(v, &m.TLS, m.TLS.ClientAuth != ClientAuthNone, "metricsProvider.ssl.")
		if m.HTTPSPort == m.HTTPPort {
			b.problem(v.origin, v.written, "port %d is metricsProvider.httpPort already; allowed: another port", m.HTTPSPort)
		}
	}
}

// settleToken takes the token from its file, if there is one.
func (b *builder) settleToken() {
	token := &b.cfg.Admin.Token
	v, set := b.values["zkd.adminToken"]
	if file, inFile := b.values["zkd.adminTokenFile"]; inFile && file.text != "" {
		text, ok := b.read(file.text, file.written, file.origin)
		if !ok {
			return
		}
		*token = NewSecret(strings.TrimSpace(string(text)))
		v, set = file, true
	}
	if set && len(token.Reveal()) < leastToken {
		b.problem(v.origin, v.written, "the token has %d characters, which can be guessed; allowed: %d or more",
			len(token.Reveal()), leastToken)
	}
}

func (b *builder) checkAdminTLS() {
	c := b.cfg
	a := &c.Admin
	tls := a.PortUnification || a.ForceHTTPS
	v, set := b.values["admin.forceHttps"]
	if !set || !a.ForceHTTPS {
		v = b.values["admin.portUnification"]
	}
	if tls {
		b.needStores(v, &c.Cluster.TLS, a.NeedClientAuth, "ssl.quorum.")
	}
	if v, set := b.values["admin.needClientAuth"]; set && a.NeedClientAuth && !tls {
		b.problem(v.origin, v.written, "nobody can show a certificate over plain HTTP; set admin.forceHttps=true or admin.portUnification=true")
	}
}

// needStores is for a port with HTTPS that v asks for.
func (b *builder) needStores(v value, t *TLS, trust bool, prefix string) {
	if t.KeyStore.Location == "" {
		b.problem(v.origin, v.written, "HTTPS needs a key; set %skeyStore.location", prefix)
	}
	if trust && t.TrustStore.Location == "" {
		b.problem(v.origin, v.written, "certificates of clients cannot be checked; set %strustStore.location", prefix)
	}
}

// warnOpenAdmin is about a port that others can reach and that would answer none of them.
// One that is bound to all addresses is such a port.
func (b *builder) warnOpenAdmin() {
	a := &b.cfg.Admin
	v, set := b.values["admin.serverAddress"]
	certs := (a.PortUnification || a.ForceHTTPS) && b.cfg.Cluster.TLS.TrustStore.Location != ""
	if !set || a.Token.IsSet() || certs || strings.EqualFold(a.Address, "localhost") {
		return
	}
	if ip := net.ParseIP(a.Address); ip != nil && ip.IsLoopback() {
		return
	}
	b.warn(v.origin, v.written, fmt.Sprintf("%s can be reached from other machines, so commands are refused; set zkd.adminToken or zkd.adminTokenFile", a.Address))
}
