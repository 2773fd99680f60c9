// Package tlstest makes the certificates that tests of operators' ports need. They are good
// for an hour, on 127.0.0.1.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Keys are an authority, and a server and a client that it has signed.
type Keys struct {
	KeyStore   string // PEM file with the key and the certificate of the server
	TrustStore string // PEM file with the certificate of the authority
	Roots      *x509.CertPool
	Client     tls.Certificate
}

// New makes keys; the files are gone when the test ends.
func New(t testing.TB) *Keys {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	a.cert = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key)
	dir, serverKey, clientKey := t.TempDir(), newKey(t), newKey(t)
	k := &Keys{
		KeyStore: filepath.Join(dir, "key.pem"), TrustStore: filepath.Join(dir, "trust.pem"), Roots: x509.NewCertPool(),
		Client: tls.Certificate{Certificate: [][]byte{a.leaf("client", x509.ExtKeyUsageClientAuth, clientKey)}, PrivateKey: clientKey},
	}
	k.Roots.AddCert(a.cert)
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		t.Fatalf("tlstest: marshal a key: %v", err)
	}
	write(t, k.KeyStore, &pem.Block{Type: "PRIVATE KEY", Bytes: keyDER},
		&pem.Block{Type: "CERTIFICATE", Bytes: a.leaf("server", x509.ExtKeyUsageServerAuth, serverKey)})
	write(t, k.TrustStore, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return k
}

type authority struct {
	t      testing.TB
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate // nil until it has signed itself
	serial int64
}

func (a *authority) leaf(name string, usage x509.ExtKeyUsage, key *ecdsa.PrivateKey) []byte {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, key).Raw
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	a.serial++
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(a.serial), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatalf("tlstest: sign a certificate: %v", err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatalf("tlstest: read a certificate: %v", err)
	}
	return signed
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("tlstest: make a key: %v", err)
	}
	return key
}

func write(t testing.TB, name string, blocks ...*pem.Block) {
	t.Helper()
	var b []byte
	for _, block := range blocks {
		b = append(b, pem.EncodeToMemory(block)...)
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatalf("tlstest: %v", err)
	}
}
