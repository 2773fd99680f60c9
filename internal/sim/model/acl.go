package model

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

// allowed says whether one of the identities has one of the permissions (protocol: the
// check of an ACL). An empty list allows everything, "super" may do everything.
func allowed(s *acl.Settings, list []wire.ACL, perm int32, ids []wire.ID) bool {
	if s.SkipACL || len(list) == 0 {
		return true
	}
	for _, id := range ids {
		if id.Scheme == "super" {
			return true
		}
	}
	for _, entry := range list {
		if entry.Perms&perm == 0 {
			continue
		}
		if entry.ID.Scheme == "world" && entry.ID.ID == "anyone" {
			return true
		}
		for _, id := range ids {
			if id.Scheme == entry.ID.Scheme && registered(s, id.Scheme) && matches(s, id, entry.ID) {
				return true
			}
		}
	}
	return false
}

// registered says whether a scheme has a provider.
func registered(s *acl.Settings, scheme string) bool {
	switch scheme {
	case "ip":
		return true
	case "digest":
		return !s.DigestDisabled
	case "sasl":
		return s.SASLEnabled
	case "x509":
		return s.X509Enabled
	}
	return false
}

// matches compares an identity with an entry of the same scheme.
func matches(s *acl.Settings, id, entry wire.ID) bool {
	switch id.Scheme {
	case "ip":
		addr, err := netip.ParseAddr(id.ID)
		prefix, ok := parseIP(entry.ID)
		return err == nil && ok && prefix.Contains(addr)
	case "sasl":
		return id.ID == entry.ID || id.ID == "super" ||
			(s.LetAnySASLUserDo != "" && entry.ID == s.LetAnySASLUserDo)
	}
	return id.ID == entry.ID
}

// parseIP reads an address with optional "/bits".
func parseIP(text string) (netip.Prefix, bool) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, false
		}
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err == nil
}

// valid says whether an id may stand in a list.
func valid(s *acl.Settings, id wire.ID) bool {
	if id.Scheme == "world" {
		return id.ID == "anyone"
	}
	if !registered(s, id.Scheme) {
		return false
	}
	switch id.Scheme {
	case "ip":
		_, ok := parseIP(id.ID)
		return ok
	case "digest":
		return strings.Count(id.ID, ":") == 1
	case "sasl":
		return validKerberosName(id.ID)
	case "x509":
		return validDistinguishedName(id.ID)
	}
	return false
}

// kerberosName is what KerberosName of Apache ZooKeeper parses if there is an @ in it; it
// takes everything else for the name of a service.
var kerberosName = regexp.MustCompile(`^[^/@]*(/[^/@]*)?@[^/@]*$`)

func validKerberosName(text string) bool {
	return !strings.Contains(text, "@") || kerberosName.MatchString(text)
}

// validDistinguishedName wants attribute=value pairs; the histories use no quoting.
func validDistinguishedName(text string) bool {
	if text == "" {
		return false
	}
	for _, part := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || strings.TrimSpace(key) == "" || strings.TrimSpace(value) == "" {
			return false
		}
	}
	return true
}

// expand makes of the list that a client sent the one that is stored: duplicates go,
// every entry must be well formed, and "auth" becomes one entry for each identity by which
// the connection has authenticated itself.
func expand(s *acl.Settings, list []wire.ACL, ids []wire.ID) ([]wire.ACL, bool) {
	var unique []wire.ACL
	for _, a := range list {
		seen := false
		for _, u := range unique {
			seen = seen || u == a
		}
		if !seen {
			unique = append(unique, a)
		}
	}
	if len(unique) == 0 {
		return nil, false
	}
	var out []wire.ACL
	for _, a := range unique {
		if a.ID.Scheme != "auth" {
			if !valid(s, a.ID) {
				return nil, false
			}
			out = append(out, a)
			continue
		}
		before := len(out)
		for _, id := range ids {
			if id.Scheme != "ip" && registered(s, id.Scheme) {
				out = append(out, wire.ACL{Perms: a.Perms, ID: id})
			}
		}
		if len(out) == before {
			return nil, false
		}
	}
	return out, true
}

// redact hides the hashes of digest entries from those who may not change the list.
func redact(list []wire.ACL) []wire.ACL {
	out := append([]wire.ACL(nil), list...)
	for i, a := range out {
		if user, _, ok := strings.Cut(a.ID.ID, ":"); ok && a.ID.Scheme == "digest" {
			out[i].ID.ID = user + ":x"
		}
	}
	return out
}
