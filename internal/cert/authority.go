package cert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/tlsconf"
)

// backdate is how far before their making certificates begin to be good: a member whose clock
// is a little behind believes them, too.
const backdate = time.Hour

// maxClusterBytes is the longest name of an organisation in a certificate (RFC 5280).
const maxClusterBytes = 64

// MaxMember is the highest number of a member.
const MaxMember = 255

// An Authority signs the certificates of one cluster.
type Authority struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// A Member is what a certificate says of its owner.
type Member struct {
	ID    int      // 1 to MaxMember
	Hosts []string // names and addresses, none is fine
}

// NewAuthority makes the authority of a cluster, good for so long from now on.
func NewAuthority(cluster string, now time.Time, lifetime time.Duration) (*Authority, error) {
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "zkd cluster CA", Organization: []string{cluster}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // it signs members, and no other authority
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	certificate, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Authority{certificate, key}, nil
}

func checkCluster(name string) error {
	printable := !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	if name == "" || len(name) > maxClusterBytes || !printable {
		return fmt.Errorf("%q cannot be the name of a cluster; allowed: 1 to %d bytes that can be printed", name, maxClusterBytes)
	}
	return nil
}

// Cluster is the name that the authority was made with.
func (a *Authority) Cluster() string { return strings.Join(a.Certificate.Subject.Organization, " ") }

// Issue draws a key and signs a certificate for it, good for so long from now on but never
// longer than the authority itself. The file it returns is what a server reads: the key, then
// the certificate.
func (a *Authority) Issue(m Member, now time.Time, lifetime time.Duration) (file []byte, certificate *x509.Certificate, err error) {
	if !now.Before(a.Certificate.NotAfter) {
		return nil, nil, fmt.Errorf("the CA has expired on %s; make a new one with zkd cert init --force, and certificates for all servers", date(a.Certificate.NotAfter))
	}
	if m.ID < 1 || m.ID > MaxMember {
		return nil, nil, fmt.Errorf("%d is no number of a server; allowed: 1 to %d", m.ID, MaxMember)
	}
	name := tlsconf.MemberName(m.ID)
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name, Organization: a.Certificate.Subject.Organization},
		DNSNames:              []string{name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if template.NotAfter.After(a.Certificate.NotAfter) {
		template.NotAfter = a.Certificate.NotAfter
	}
	if err := addHosts(template, m.Hosts); err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	certificate, err = sign(template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	file, err = keyBlock(key)
	return append(file, certificateBlock(certificate)...), certificate, err
}

// sign leaves the serial number to crypto/x509, which draws one.
func sign(template, issuer *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func addHosts(template *x509.Certificate, hosts []string) error {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if err := checkHost(host); err != nil {
			return err
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return nil
}

// checkHost takes names of hosts. Those that name a member are refused: the certificate would
// be that of another member as well.
func checkHost(host string) error {
	if strings.HasPrefix(strings.ToLower(host), tlsconf.MemberPrefix) {
		return fmt.Errorf("host %q names a server, and a certificate is for one server only; allowed: names of hosts, and addresses", host)
	}
	bad := host == "" || len(host) > 253
	for label := range strings.SplitSeq(host, ".") {
		bad = bad || label == "" || len(label) > 63
	}
	for _, r := range host {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		bad = bad || !letter && r != '-' && r != '.' && r != '_'
	}
	if bad {
		return fmt.Errorf("%q is no host; allowed: a name without port, or an IP address without brackets", host)
	}
	return nil
}

// Save writes the authority into a folder, which it makes if need be. Files that exist are
// replaced only with replace.
func (a *Authority) Save(dir string, replace bool) error {
	certFile, keyFile := config.PeerCAFile(dir), KeyFile(dir)
	key, err := keyBlock(a.key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if !replace {
		// Looked at before anything is written: one new and one old file would be no authority.
		for _, name := range []string{certFile, keyFile} {
			if err := mustBeMissing(name); err != nil {
				return err
			}
		}
	}
	if err := Write(keyFile, key, replace); err != nil {
		return err
	}
	return write(certFile, certificateBlock(a.Certificate), publicMode, replace)
}

// KeyFile is the file of the authority's key in its folder.
func KeyFile(dir string) string { return filepath.Join(dir, tlsconf.CAKeyFile) }

// Load reads the authority in a folder.
func Load(dir string) (*Authority, error) {
	certFile, keyFile := config.PeerCAFile(dir), KeyFile(dir)
	file, err := ReadFile(certFile)
	if err != nil {
		return nil, noAuthority(dir, err)
	}
	block, _ := pem.Decode(file)
	if block == nil || block.Type != typeCertificate {
		return nil, fmt.Errorf("%s does not begin with a certificate in PEM", certFile)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	if !certificate.IsCA {
		return nil, fmt.Errorf("%s is the certificate of %s, which is no CA", certFile, printable(certificate.Subject.String()))
	}
	file, err = ReadFile(keyFile)
	if err != nil {
		return nil, noAuthority(dir, err)
	}
	key, err := parseKey(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	if !belong(key.Public(), certificate) {
		return nil, fmt.Errorf("the key in %s is not that of the certificate in %s; put back the file that belongs to the other", keyFile, certFile)
	}
	return &Authority{certificate, key}, nil
}

func noAuthority(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no CA in %s (%w); make one with zkd cert init --dir %s", dir, err, dir)
	}
	return err
}
