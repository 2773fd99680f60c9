package acl

import (
	"strings"

	"github.com/zkd-project/zkd/wire"
)

// The schemes of identities and of entries.
const (
	SchemeWorld  = "world"
	SchemeAuth   = "auth"
	SchemeDigest = "digest"
	SchemeIP     = "ip"
	SchemeSASL   = "sasl"
	SchemeX509   = "x509"
	SchemeSuper  = "super"
)

// anyone is the only name in the scheme world.
const anyone = "anyone"

// Settings are the switches that a check consults. They travel in every batch header, so
// that all servers judge alike.
type Settings struct {
	SkipACL          bool   // everything is allowed
	LetAnySASLUserDo string // entries with this sasl name match every sasl identity; empty: off
	DigestDisabled   bool   // scheme digest is unknown
	SASLEnabled      bool   // scheme sasl is known
	X509Enabled      bool   // scheme x509 is known
}

// Super is the identity that passes every check. The server gives it to a connection that
// has proved to be the configured super user.
var Super = wire.ID{Scheme: SchemeSuper}

// registered says whether a scheme has a provider (ProviderRegistry in Apache ZooKeeper).
// World, auth and super have none: they are handled before providers are asked.
func (s *Settings) registered(scheme string) bool {
	switch scheme {
	case SchemeIP:
		return true
	case SchemeDigest:
		return !s.DigestDisabled
	case SchemeSASL:
		return s.SASLEnabled
	case SchemeX509:
		return s.X509Enabled
	}
	return false
}

// authenticates says whether an identity of the scheme may stand in for an auth entry: an
// address is not something that its user has proved.
func (s *Settings) authenticates(scheme string) bool {
	return scheme != SchemeIP && s.registered(scheme)
}

// valid says whether id may be stored in an entry of a scheme that has a provider.
func (s *Settings) valid(scheme, id string) bool {
	if !s.registered(scheme) {
		return false
	}
	switch scheme {
	case SchemeDigest:
		return validDigest(id)
	case SchemeIP:
		_, ok := parseCIDR(id)
		return ok
	case SchemeSASL:
		return validPrincipal(id)
	}
	return validDN(id)
}

// matches says whether the identity id of a caller is meant by the entry's name; both are
// of the scheme. The caller of matches has seen to it that the scheme is registered.
func (s *Settings) matches(scheme, id, entry string) bool {
	switch scheme {
	case SchemeIP:
		return matchesCIDR(id, entry)
	case SchemeSASL:
		// A sasl user named super may do what any sasl user may, but no more.
		return id == entry || id == SchemeSuper ||
			s.LetAnySASLUserDo != "" && entry == s.LetAnySASLUserDo
	}
	return id == entry
}

// validPrincipal says whether id is a Kerberos name, name[/host][@REALM]. Without an @
// anything goes (KerberosName in Apache ZooKeeper).
func validPrincipal(id string) bool {
	name, realm, found := strings.Cut(id, "@")
	if !found {
		return true
	}
	return strings.Count(name, "/") <= 1 && !strings.ContainsAny(realm, "/@")
}

// UserName is what whoAmI shows of an identity: nothing that would help to guess a
// password, and nothing for schemes that have no users.
func UserName(id wire.ID) string {
	switch id.Scheme {
	case SchemeDigest:
		user, _, _ := strings.Cut(id.ID, ":")
		return user
	case SchemeIP, SchemeSASL, SchemeX509:
		return id.ID
	}
	return ""
}
