package config

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// settleTLS turns names of formats, versions and suites into what crypto/tls takes, and
// refuses a TLS port that could not work.
func (b *builder) settleTLS() {
	c := b.cfg
	b.settleSide("ssl.", &c.TLS)
	b.settleSide("ssl.quorum.", &c.Cluster.TLS)
	b.settleStores("metricsProvider.ssl.", &c.Metrics.TLS)
	b.settleVersions("metricsProvider.ssl.", &c.Metrics.TLS)
	need, want := b.flag("metricsProvider.ssl.need.client.auth"), b.flag("metricsProvider.ssl.want.client.auth")
	switch {
	case need:
		c.Metrics.TLS.ClientAuth = ClientAuthNeed
	case want:
		c.Metrics.TLS.ClientAuth = ClientAuthWant
	default:
		c.Metrics.TLS.ClientAuth = ClientAuthNone
	}
	c.Metrics.TLS.Reload = c.TLS.Reload
	if v, set := b.values["ssl.authProvider"]; set && v.text != "" && v.text != "x509" {
		b.problem(v.origin, v.written, "%q is unknown: zkd cannot load Java classes; allowed: x509", v.text)
	}
	if c.SecureClientPort >= 0 || c.ClientPortUnification {
		b.checkServerTLS()
	}
	if c.Cluster.Ensemble { // else nobody listens at the peer port
		b.settlePeerTLS()
	}
}

// checkServerTLS is for a TLS port that is open.
func (b *builder) checkServerTLS() {
	t := &b.cfg.TLS
	v, set := b.values["secureClientPort"]
	if !set || b.cfg.SecureClientPort < 0 {
		v = b.values["client.portUnification"]
	}
	if v.key == nil { // the port is in the server line
		v.written = "secureClientPort"
	}
	if t.KeyStore.Location == "" {
		b.problem(v.origin, v.written, "a TLS port needs a key; set ssl.keyStore.location")
	}
	if t.TrustStore.Location == "" && t.ClientAuth != ClientAuthNone {
		b.problem(v.origin, v.written, "certificates of clients (ssl.clientAuth=%s) cannot be checked; set ssl.trustStore.location, or ssl.clientAuth=none", t.ClientAuth)
	}
}

func (b *builder) settleSide(prefix string, t *TLS) {
	b.settleStores(prefix, t)
	b.settleVersions(prefix, t)
	verify := b.flag(prefix + "hostnameVerification")
	t.VerifyClientHost = b.flag(prefix+"clientHostnameVerification") && verify
	for _, name := range []string{"crl", "ocsp"} {
		if b.flag(prefix + name) {
			v := b.values[prefix+name]
			b.problem(v.origin, v.written, "zkd does not check whether certificates are revoked; allowed: false, with short-lived certificates")
		}
	}
}

func (b *builder) settleStores(prefix string, t *TLS) {
	b.settleStore(prefix+"keyStore.", &t.KeyStore)
	b.settleStore(prefix+"trustStore.", &t.TrustStore)
}

// settleStore finds the format of a store: its type key, else its file extension. That of a
// store without a location is looked at, too, so that a bad word does not hide.
func (b *builder) settleStore(prefix string, s *Store) {
	v, set := b.values[prefix+"type"]
	if set && v.text != "" {
		s.Type = StoreType(strings.ToUpper(v.text))
		if s.Type != StorePEM && s.Type != StorePKCS12 && s.Type != StoreJKS {
			b.problem(v.origin, v.written, "%q cannot be read; allowed: JKS, PEM or PKCS12", v.text)
		}
		return
	}
	if s.Location == "" {
		return
	}
	switch strings.ToLower(filepath.Ext(s.Location)) {
	case ".pem", ".crt", ".cer":
		s.Type = StorePEM
	case ".p12", ".pfx", ".pkcs12":
		s.Type = StorePKCS12
	case ".jks":
		s.Type = StoreJKS
	default:
		v := b.values[prefix+"location"]
		b.problem(v.origin, v.written, "the format of %s is unknown; set %stype to JKS, PEM or PKCS12, or let the name end in .jks, .pem or .p12",
			s.Location, prefix)
	}
}

// settleVersions chooses versions and suites.
func (b *builder) settleVersions(prefix string, t *TLS) {
	t.MinVersion, t.MaxVersion = tls.VersionTLS12, tls.VersionTLS13
	if v, set := b.values[prefix+"protocol"]; set {
		switch v.text {
		case "", "TLS", "TLSv1.3":
		case "TLSv1.2":
			t.MaxVersion = tls.VersionTLS12
		default:
			b.problem(v.origin, v.written, "%q is too old or unknown; allowed: TLS, TLSv1.2 or TLSv1.3", v.text)
		}
	}
	if v, set := b.values[prefix+"enabledProtocols"]; set && v.text != "" {
		b.enabledProtocols(v, t)
	}
	if v, set := b.values[prefix+"ciphersuites"]; set && v.text != "" {
		b.cipherSuites(v, t)
	}
}

func (b *builder) enabledProtocols(v value, t *TLS) {
	list := splitList(v.text)
	has12, has13 := slices.Contains(list, "TLSv1.2"), slices.Contains(list, "TLSv1.3")
	var dropped []string
	for _, name := range list {
		switch name {
		case "TLSv1.2", "TLSv1.3":
		case "TLSv1", "TLSv1.1", "SSLv3", "SSLv2Hello":
			dropped = append(dropped, name)
		default:
			b.problem(v.origin, v.written, "%q is unknown; allowed: TLSv1.2 and TLSv1.3", name)
		}
	}
	switch {
	case !has12 && !has13:
		b.problem(v.origin, v.written, "no version is left that is safe; allowed: TLSv1.2 and TLSv1.3")
	case !has12:
		t.MinVersion, t.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	case !has13:
		t.MinVersion, t.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	default:
		t.MinVersion, t.MaxVersion = tls.VersionTLS12, tls.VersionTLS13
	}
	if len(dropped) > 0 {
		b.warn(v.origin, v.written, strings.Join(dropped, ", ")+" is not offered: too old to be safe")
	}
}

// cipherSuites narrows the choice. Go always offers its three suites of TLS 1.3; a list
// without any of them switches that version off, a list with nothing else the older one,
// which is what such a list does in Java.
func (b *builder) cipherSuites(v value, t *TLS) {
	var dropped, allowed []string
	has13 := false
	for _, s := range tls.CipherSuites() {
		allowed = append(allowed, s.Name)
	}
	for _, name := range splitList(v.text) {
		i := slices.IndexFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name })
		switch {
		case i < 0:
			dropped = append(dropped, name)
		case tls.CipherSuites()[i].SupportedVersions[0] == tls.VersionTLS13:
			has13 = true
		default:
			t.CipherSuites = append(t.CipherSuites, tls.CipherSuites()[i].ID)
		}
	}
	if !has13 {
		t.MaxVersion = min(t.MaxVersion, tls.VersionTLS12)
	}
	if len(t.CipherSuites) == 0 {
		t.MinVersion = max(t.MinVersion, tls.VersionTLS13)
	}
	if t.MinVersion > t.MaxVersion {
		b.problem(v.origin, v.written, "no suite is left for the TLS versions that are allowed; known: %s", strings.Join(allowed, ", "))
		return
	}
	if len(dropped) > 0 {
		b.warn(v.origin, v.written, fmt.Sprintf("%s: unknown or not safe, not offered", strings.Join(dropped, ", ")))
	}
}
