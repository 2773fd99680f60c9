package cert

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zkd-project/zkd/internal/tlsconf"
)

// Describe says in words what is in a file of keys and certificates in PEM: for each
// certificate whose it is, who signed it and how long it is good, for a key whether it is that
// of the first certificate. Of a key itself nothing is shown.
func Describe(file []byte, now time.Time) (string, error) {
	var b strings.Builder
	var certificates []*x509.Certificate
	var keys []*pem.Block
	for rest := file; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		switch {
		case strings.HasSuffix(block.Type, typeKey):
			keys = append(keys, block)
		case strings.HasSuffix(block.Type, typeCertificate):
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return "", fmt.Errorf("certificate %d: %w", len(certificates)+1, err)
			}
			certificates = append(certificates, c)
		default:
			fmt.Fprintf(&b, "%s: not looked at\n", printable(block.Type))
		}
	}
	if len(certificates) == 0 && len(keys) == 0 {
		return "", errors.New("neither a certificate nor a private key in PEM is in it")
	}
	for _, block := range keys {
		b.WriteString("private key: " + keyText(block, certificates) + "\n")
	}
	for _, c := range certificates {
		describeOne(&b, c, now)
	}
	return b.String(), nil
}

func describeOne(b *strings.Builder, c *x509.Certificate, now time.Time) {
	line := func(name, text string) { fmt.Fprintf(b, "  %-8s %s\n", name, text) }
	b.WriteString("certificate: " + owner(c) + "\n")
	line("subject", printable(c.Subject.String()))
	line("issuer", printable(c.Issuer.String()))
	if hosts := hostsOf(c); len(hosts) > 0 {
		line("hosts", strings.Join(hosts, ", "))
	}
	line("valid", fmt.Sprintf("%s to %s (%s)", date(c.NotBefore), date(c.NotAfter), left(c, now)))
	line("for", usesOf(c))
	line("key", publicText(c.PublicKey))
	line("serial", fmt.Sprintf("%x", c.SerialNumber))
	line("sha256", fmt.Sprintf("%x", sha256.Sum256(c.Raw)))
}

// owner is who a certificate makes of whoever has its key.
func owner(c *x509.Certificate) string {
	switch ids := tlsconf.MembersOf(c); {
	case c.IsCA:
		return "a CA, which signs others"
	case len(ids) == 0:
		return "of no server of a cluster"
	case len(ids) == 1:
		return "server " + printable(ids[0])
	default:
		return "servers " + printable(strings.Join(ids, ", "))
	}
}

func hostsOf(c *x509.Certificate) []string {
	var hosts []string
	for _, name := range c.DNSNames {
		if !strings.HasPrefix(name, tlsconf.MemberPrefix) {
			hosts = append(hosts, printable(name))
		}
	}
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func left(c *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(c.NotBefore):
		return "not yet"
	case now.After(c.NotAfter):
		return "expired"
	}
	switch days := int(c.NotAfter.Sub(now) / (24 * time.Hour)); days {
	case 0:
		return "less than a day left"
	case 1:
		return "1 day left"
	default:
		return strconv.Itoa(days) + " days left"
	}
}

func usesOf(c *x509.Certificate) string {
	if c.IsCA {
		return "signing certificates"
	}
	var uses []string
	for _, u := range c.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageServerAuth:
			uses = append(uses, "accepting connections")
		case x509.ExtKeyUsageClientAuth:
			uses = append(uses, "dialing")
		case x509.ExtKeyUsageAny:
			uses = append(uses, "everything")
		}
	}
	switch {
	case len(uses) > 0:
		return strings.Join(uses, ", ")
	case len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0:
		return "everything"
	}
	return "nothing that servers do with each other"
}

// keyText names the kind of a key, and says whose it is.
func keyText(block *pem.Block, certificates []*x509.Certificate) string {
	if block.Type != typeKey {
		return printable(block.Type) + ", not looked at"
	}
	key, err := parseKey(pem.EncodeToMemory(block))
	if err != nil {
		return "damaged (" + printable(err.Error()) + ")"
	}
	text := publicText(key.Public())
	switch {
	case len(certificates) == 0:
		return text
	case belong(key.Public(), certificates[0]):
		return text + ", of the certificate"
	}
	return text + ", NOT of the certificate"
}

func publicText(key any) string {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d bits", k.N.BitLen())
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return "unknown"
}

// printable is a text out of a certificate as it may go to a terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func date(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
