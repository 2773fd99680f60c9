package tlsconf

import (
	"crypto/x509"
	"slices"
	"strconv"
	"strings"
)

// MemberPrefix begins the name of a member in its certificate. The peer port compares it, so
// that it must not change.
const MemberPrefix = "zkd-member-"

// CAKeyFile is where `zkd cert` keeps the key of a cluster's CA, in the folder of its
// certificate. It has no business on a server.
const CAKeyFile = "ca-key.pem"

// MemberName is the name that the certificate of a member must have among its alternative
// names, as DNS name or URI.
func MemberName(id int) string { return MemberPrefix + strconv.Itoa(id) }

// MembersOf returns what a certificate says after MemberPrefix: the number of its member. Most
// have one, certificates of others none.
func MembersOf(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	var ids []string
	for _, name := range names {
		if id, ok := strings.CutPrefix(name, MemberPrefix); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
