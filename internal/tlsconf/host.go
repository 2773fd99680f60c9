package tlsconf

import (
	"crypto/x509"
	"fmt"
	"net"
	"strings"
)

// verifyHost checks that the certificate of a client is for the address that it connects
// from: first the address itself, then, where reverse DNS is allowed, its names.
func (c *Config) verifyHost(certificate *x509.Certificate, remote net.Addr) error {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return fmt.Errorf("address of the client: %w", err)
	}
	host, _, _ = strings.Cut(host, "%") // no certificate has the zone of an IPv6 address
	if matchesHost(certificate, host) {
		return nil
	}
	if c.side.ReverseDNS {
		names, err := c.lookup(host)
		if err != nil {
			return fmt.Errorf("names of %s: %w", host, err)
		}
		for _, name := range names {
			if matchesHost(certificate, strings.TrimSuffix(name, ".")) {
				return nil
			}
		}
	}
	return fmt.Errorf("the certificate of %s is not for the address %s", SubjectDN(certificate), host)
}

// matchesHost goes by the subject's common name only if there is no alternative name, as
// ZooKeeper does; crypto/x509 has given that up.
func matchesHost(certificate *x509.Certificate, host string) bool {
	if len(certificate.DNSNames) == 0 && len(certificate.IPAddresses) == 0 {
		return strings.EqualFold(certificate.Subject.CommonName, host)
	}
	return certificate.VerifyHostname(host) == nil
}
