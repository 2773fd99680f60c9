package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// memberPrefix begins the name of a member in its certificate.
const memberPrefix = "zkd-member-"

// VerifyMember is how a certificate is matched with a member by default: it must have the
// subject alternative name zkd-member-<myid>, as DNS name or URI. myid is what stands before
// the first "-" of the ServerID. The incarnation is not in the certificate, for it changes
// with the disk and the certificate does not; the handshake compares it.
func VerifyMember(id raft.ServerID, certificate *x509.Certificate) error {
	name := memberName(id)
	if slices.Contains(certificate.DNSNames, name) ||
		slices.ContainsFunc(certificate.URIs, func(u *url.URL) bool { return u.String() == name }) {
		return nil
	}
	return fmt.Errorf("the certificate of %q has no subject alternative name %s", certificate.Subject, name)
}

func memberName(id raft.ServerID) string {
	myid, _, _ := strings.Cut(string(id), "-")
	return memberPrefix + myid
}

// checkTLS says what a configuration lacks to prove both sides to each other.
func checkTLS(c *tls.Config) error {
	switch {
	case c.RootCAs == nil:
		return errors.New("peer: Options.TLS needs RootCAs: the cluster's own CA, not the system's")
	case len(c.Certificates) == 0 && (c.GetCertificate == nil || c.GetClientCertificate == nil):
		return errors.New("peer: Options.TLS needs Certificates, or both GetCertificate and GetClientCertificate")
	case c.GetConfigForClient != nil:
		return errors.New("peer: Options.TLS must not have GetConfigForClient: it could do without the client's certificate")
	}
	return nil
}

// serverTLS is the side that accepts. The member id is checked when the hello has named it.
func serverTLS(c *tls.Config) *tls.Config {
	c = harden(c)
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if c.ClientCAs == nil {
		c.ClientCAs = c.RootCAs
	}
	return c
}

// clientTLS is the side that dials id. crypto/tls would compare the certificate with the host
// name, which says nothing here: an address may change hands, the member id may not. So its
// check is off, and the chain is verified below as it would have been.
func (t *Transport) clientTLS(id raft.ServerID) *tls.Config {
	c := harden(t.o.TLS)
	more := c.VerifyConnection
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		leaf := s.PeerCertificates[0] // a server always sends one
		o := x509.VerifyOptions{
			Roots:         c.RootCAs,
			Intermediates: x509.NewCertPool(),
			KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if c.Time != nil {
			o.CurrentTime = c.Time()
		}
		for _, between := range s.PeerCertificates[1:] {
			o.Intermediates.AddCert(between)
		}
		if _, err := leaf.Verify(o); err != nil {
			return err
		}
		if err := t.o.VerifyMember(id, leaf); err != nil {
			return err
		}
		if more != nil {
			return more(s)
		}
		return nil
	}
	return c
}

// harden returns a copy that speaks TLS 1.2 at least and resumes nothing: a resumed session
// would outlive its certificate.
func harden(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.SessionTicketsDisabled = true
	c.ClientSessionCache = nil
	return c
}
