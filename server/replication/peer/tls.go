package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

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

// checkTLS says what a configuration lacks to prove both sides to each other. roots: those come
// from elsewhere.
func checkTLS(c *tls.Config, roots bool) error {
	switch {
	case c.RootCAs == nil && !roots:
		return errors.New("peer: Options.TLS needs RootCAs: the cluster's own CA, not the system's")
	case len(c.Certificates) == 0 && (c.GetCertificate == nil || c.GetClientCertificate == nil):
		return errors.New("peer: Options.TLS needs Certificates, or both GetCertificate and GetClientCertificate")
	case c.GetConfigForClient != nil:
		return errors.New("peer: Options.TLS must not have GetConfigForClient: it could do without the client's certificate")
	}
	return nil
}

// serverTLS is the side that accepts. The member id is checked when the hello has named it.
func (t *Transport) serverTLS() *tls.Config {
	roots := t.roots()
	if s := t.accepting.Load(); s != nil && s.RootCAs == roots {
		return s
	}
	c := harden(t.o.TLS)
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if t.o.Roots != nil || c.ClientCAs == nil {
		c.ClientCAs = roots
	}
	c.RootCAs = roots
	t.accepting.Store(c)
	return c
}

// roots are the authorities that are trusted now.
func (t *Transport) roots() *x509.CertPool {
	if t.o.Roots == nil {
		return t.o.TLS.RootCAs
	}
	return t.o.Roots()
}

// watchRoots looks now and then whether others are trusted than before, until Close. Without
// that somebody whose authority is trusted no more could stay for as long as he likes.
func (t *Transport) watchRoots() {
	tick := time.NewTicker(rootsInterval)
	defer tick.Stop()
	before := t.roots()
	for {
		select {
		case <-tick.C:
		case <-t.ctx.Done():
			return
		}
		if now := t.roots(); now != before {
			before = now
			t.recheck(now)
		}
	}
}

// errDistrusted ends connections of members whose authority is trusted no more.
var errDistrusted = errors.New("the authority of its certificate is not trusted any more")

// recheck closes the connections that could not be made any more.
func (t *Transport) recheck(roots *x509.CertPool) {
	t.mu.Lock()
	conns := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		conns = append(conns, c)
	}
	t.mu.Unlock()
	for _, c := range conns {
		secure, ok := c.nc.(*tls.Conn)
		if !ok {
			continue
		}
		// Who dials shows a certificate for clients, who accepts one for servers; each must be
		// good for both (tlsconf), and here only the authority counts.
		if err := verifyChain(secure.ConnectionState().PeerCertificates, roots, t.o.TLS.Time, x509.ExtKeyUsageAny); err != nil {
			t.o.Logger.Warn("closing the connection to a member", "member", c.peer, "reason", errDistrusted, "error", err)
			c.end(errDistrusted, true)
		}
	}
}

// verifyChain says whether roots vouch for the first certificate of a chain.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, now func() time.Time, use x509.ExtKeyUsage) error {
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{use}}
	if now != nil {
		o.CurrentTime = now()
	}
	for _, between := range chain[1:] {
		o.Intermediates.AddCert(between)
	}
	_, err := chain[0].Verify(o)
	return err
}

// clientTLS is the side that dials id. crypto/tls would compare the certificate with the host
// name, which says nothing here: an address may change hands, the member id may not. So its
// check is off, and the chain is verified below as it would have been.
func (t *Transport) clientTLS(id raft.ServerID) *tls.Config {
	c := harden(t.o.TLS)
	more := c.VerifyConnection
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		// A server always sends one.
		if err := verifyChain(s.PeerCertificates, t.roots(), c.Time, x509.ExtKeyUsageServerAuth); err != nil {
			return err
		}
		if err := t.o.VerifyMember(id, s.PeerCertificates[0]); err != nil {
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
