package config

import (
	"fmt"
	"slices"
	"strings"
)

// authProvider is what an authProvider.N line adds.
type authProvider struct {
	scheme string
	value  value
}

// providerSchemes are ZooKeeper's own provider classes and the schemes that they bring.
var providerSchemes = map[string]string{
	"org.apache.zookeeper.server.auth.SASLAuthenticationProvider":     "sasl",
	"org.apache.zookeeper.server.auth.X509AuthenticationProvider":     "x509",
	"org.apache.zookeeper.server.auth.DigestAuthenticationProvider":   "digest",
	"org.apache.zookeeper.server.auth.IPAuthenticationProvider":       "ip",
	"org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider": "ensemble",
}

// addAuthProvider is the setter of authProvider.N. An unknown class is no reason not to
// start: its ids match nothing, so whoever relied on it is kept out, not let in. ZooKeeper
// starts without a class that it cannot load, too.
func addAuthProvider(b *builder, v value) error {
	scheme, known := providerSchemes[v.text]
	if !known {
		b.warn(v.origin, v.written, v.text+" is not known and zkd cannot load Java classes: ACLs with its scheme let nobody in; known: "+
			"ZooKeeper's SASL, X509, Digest, IP and EnsembleAuthenticationProvider")
		return nil
	}
	b.providers = append(b.providers, authProvider{scheme, v})
	return nil
}

func (b *builder) hasProvider(scheme string) bool {
	return slices.ContainsFunc(b.providers, func(p authProvider) bool { return p.scheme == scheme })
}

// settleSASL reads the users from the JAAS file.
func (b *builder) settleSASL() {
	s := &b.cfg.SASL
	s.Provider = b.hasProvider("sasl")
	for _, v := range b.sorted() {
		if (v.name == "superUser" || v.key.prefix == "superUser.") && v.text != "" {
			s.SuperUsers = append(s.SuperUsers, v.text)
		}
	}
	section, sectionSet := b.values["sasl.serverconfig"]
	file, fileSet := b.values["java.security.auth.login.config"]
	if !fileSet || s.JAASFile == "" {
		if sectionSet {
			b.problem(section.origin, section.written, "names a section, but there is no JAAS file; set java.security.auth.login.config")
		}
		if v, set := b.values["SASLAuthenticationProvider.superPassword"]; set {
			b.warn(v.origin, v.written, "has no effect without a JAAS file")
		}
		return
	}
	s.JAASFile = jaasPath(s.JAASFile)
	text, ok := b.read(s.JAASFile, file.written, file.origin)
	if !ok {
		return
	}
	sections, err := parseJAAS(text)
	if err != nil {
		b.problem(Origin{File: s.JAASFile, Line: err.line}, "", "%s", err.text)
		return
	}
	i := slices.IndexFunc(sections, func(x jaasSection) bool { return x.name == s.Section })
	switch {
	case i >= 0:
		b.useSection(sections[i])
	case sectionSet:
		b.problem(section.origin, section.written, "%s has no section %s", s.JAASFile, s.Section)
	default:
		b.warn(file.origin, file.written, fmt.Sprintf("%s has no section %s: SASL is off", s.JAASFile, s.Section))
	}
}

// jaasPath undoes what Java lets one write for the file: a URL, or "=" in front to mean
// this file and no other.
func jaasPath(text string) string {
	text = strings.TrimPrefix(text, "=")
	if rest, ok := strings.CutPrefix(text, "file:"); ok {
		text = "/" + strings.TrimLeft(rest, "/")
	}
	return text
}

func (b *builder) useSection(section jaasSection) {
	s := &b.cfg.SASL
	s.Users = map[string]Secret{}
	for _, m := range section.modules {
		for _, o := range m.options {
			if name, ok := strings.CutPrefix(o.key, "user_"); ok && name != "" {
				s.Users[name] = NewSecret(o.value)
			}
		}
	}
	at := Origin{File: s.JAASFile, Line: section.line}
	if len(s.Users) == 0 {
		b.problem(at, "", `section %s has no user; allowed: org.apache.zookeeper.server.auth.DigestLoginModule with user_<name>="<password>" (Kerberos is not supported)`,
			section.name)
		return
	}
	for _, m := range section.modules {
		if !strings.HasSuffix(m.class, ".DigestLoginModule") {
			b.warn(Origin{File: s.JAASFile, Line: m.line}, "", m.class+" is not supported; users come from DigestLoginModule")
		}
	}
	s.Enabled = true
	v, set := b.values["SASLAuthenticationProvider.superPassword"]
	if !set || v.text == "" {
		return
	}
	if _, known := s.Users["super"]; !known {
		b.warn(v.origin, v.written, fmt.Sprintf("has no effect: section %s of %s has no user_super", section.name, s.JAASFile))
		return
	}
	s.Users["super"] = NewSecret(v.text)
}

// settleAuth decides which schemes exist and which are enforced.
func (b *builder) settleAuth() {
	a := &b.cfg.Auth
	a.X509Enabled = b.hasProvider("x509") || b.cfg.SecureClientPort >= 0 || b.cfg.ClientPortUnification
	a.EnsembleEnabled = b.hasProvider("ensemble")
	a.EnsembleNames = splitList(b.values["ensembleAuthName"].text)
	if v, set := b.values["DigestAuthenticationProvider.superDigest"]; set && v.text != "" && !strings.Contains(v.text, ":") {
		b.warn(v.origin, v.written, "is not of the form user:base64(hash), so nobody becomes super user by it")
	}
	if dn := a.X509SuperUser; dn != "" && (strings.Contains(dn, ", ") || !strings.Contains(dn, "=")) {
		v := b.values["X509AuthenticationProvider.superUser"]
		b.warn(v.origin, v.written, "is compared letter by letter with a subject like CN=admin,O=acme, without blanks after the commas")
	}
	b.settleEnforced()
}

func (b *builder) settleEnforced() {
	a := &b.cfg.Auth
	require, enforce := b.flag("sessionRequireClientSASLAuth"), b.flag("enforce.auth.enabled")
	v := b.values["enforce.auth.schemes"]
	switch {
	case require: // comes first, as in ZooKeeper
		v = b.values["sessionRequireClientSASLAuth"]
		a.EnforceSchemes = []string{"sasl"}
	case enforce:
		a.EnforceSchemes = splitList(v.text)
		if len(a.EnforceSchemes) == 0 {
			v = b.values["enforce.auth.enabled"]
			b.problem(v.origin, v.written, "is true, but enforce.auth.schemes is not set; add the schemes, for example enforce.auth.schemes=sasl")
		}
	default:
		return
	}
	for _, scheme := range a.EnforceSchemes {
		if why := b.missing(scheme); why != "" {
			b.problem(v.origin, v.written, "no client could authenticate with scheme %q: %s", scheme, why)
		}
	}
}

// missing says why a scheme does not exist here, "" if it does.
func (b *builder) missing(scheme string) string {
	c := b.cfg
	switch scheme {
	case "ip":
	case "digest":
		if !c.Auth.DigestEnabled && !b.hasProvider("digest") {
			return "DigestAuthenticationProvider.enabled is false"
		}
	case "sasl":
		if !c.SASL.Provider {
			return "add authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
		}
		if !c.SASL.Enabled {
			return "set java.security.auth.login.config to a JAAS file with users"
		}
	case "x509":
		if !c.Auth.X509Enabled {
			return "set secureClientPort"
		}
	default:
		return "it is unknown; allowed: ip, digest, sasl and x509"
	}
	return ""
}
