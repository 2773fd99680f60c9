package server

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
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// An authority signs certificates that last as long as a test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	issued := a.issue(template)
	a.cert, a.key = issued.Leaf, issued.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate; the first one signs itself.
func (a *authority) issue(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	issuer, signer := a.cert, a.key
	if issuer == nil {
		issuer, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// write puts a certificate, with its key if it has one, into a file.
func (a *authority) write(file string, c tls.Certificate) {
	a.t.Helper()
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	if c.PrivateKey != nil {
		der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		if err != nil {
			a.t.Fatal(err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	}
	if err := os.WriteFile(file, out, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func serverCertificate(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

// A tlsSetup is the files of a TLS port.
type tlsSetup struct {
	*authority
	keyFile string
}

func newTLSSetup(t testing.TB) (*tlsSetup, option) {
	s := &tlsSetup{newAuthority(t), filepath.Join(t.TempDir(), "key.pem")}
	trust := filepath.Join(t.TempDir(), "trust.pem")
	s.write(trust, tls.Certificate{Certificate: [][]byte{s.cert.Raw}})
	s.write(s.keyFile, s.issue(serverCertificate("first")))
	return s, func(st *setup) {
		set("ssl.keyStore.location", s.keyFile)(st)
		set("ssl.trustStore.location", trust)(st)
		set("ssl.clientAuth", "want")(st)
	}
}

// client is a client's configuration, with a certificate of that name if it is not "".
func (s *tlsSetup) client(name string) *tls.Config {
	c := &tls.Config{RootCAs: s.pool, ServerName: "127.0.0.1"}
	if name != "" {
		c.Certificates = []tls.Certificate{s.issue(&x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: []string{"acme"}}})}
	}
	return c
}

func startTLS(t testing.TB, opts ...option) (*testServer, *tlsSetup, string) {
	t.Helper()
	s, files := newTLSSetup(t)
	srv := startServer(t, append([]option{files, set("secureClientPort", "0"), set("secureClientPortAddress", "127.0.0.1")}, opts...)...)
	return srv, s, srv.Addrs()[1].String()
}

func TestTLSClientIsServed(t *testing.T) {
	srv, s, addr := startTLS(t)
	c := dialTLS(t, addr, s.client("")).create(10_000)
	c.call(wire.OpCreate, createBody("/big", make([]byte, 300_000), persistent), wire.OK)
	c.call(wire.OpGetData, readBody("/big", true), wire.OK)
	plain := open(t, srv.addr, 10_000)
	plain.call(wire.OpSetData, setBody("/big", "x"), wire.OK)
	c.expectEvent(wire.EventNodeDataChanged, "/big") // written by the apply loop's side
	const n = 100
	var frames []byte
	for i := range int32(n) {
		frames = append(frames, request(2*i, wire.OpSetData, setBody("/big", "y"))...)
		frames = append(frames, request(2*i+1, wire.OpGetData, readBody("/big", false))...)
	}
	c.write(frames)
	for i := range int32(2 * n) {
		c.expect(i, wire.OK)
	}
	c.call(wire.OpCloseSession, nil, wire.OK)
	c.expectClosed()
}

func TestCertificateGivesAnIdentity(t *testing.T) {
	_, s, addr := startTLS(t, set("X509AuthenticationProvider.superUser", "CN=admin,O=acme"))
	c := dialTLS(t, addr, s.client("bob")).create(10_000)
	if got := c.identities(); !slices.Equal(got, []string{"ip:127.0.0.1", "x509:CN=bob,O=acme"}) {
		t.Errorf("identities %q", got)
	}
	c.call(wire.OpAuth, authBody("x509", ""), wire.OK)
	admin := dialTLS(t, addr, s.client("admin")).create(10_000)
	if got := admin.identities(); !slices.Equal(got, []string{"ip:127.0.0.1", "super:", "x509:CN=admin,O=acme"}) {
		t.Errorf("identities %q", got)
	}
	nobody := dialTLS(t, addr, s.client("")).create(10_000)
	nobody.call(wire.OpAuth, authBody("x509", ""), wire.AuthFailed)
}

func TestStrangersCertificateIsRefused(t *testing.T) {
	srv, s, addr := startTLS(t)
	cfg := s.client("")
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c := newAuthority(t).issue(serverCertificate("mallory"))
		return &c, nil
	}
	c := dialTLS(t, addr, cfg)
	_, _ = c.nc.Write(frame((&wire.ConnectRequest{TimeoutMs: 10_000}).Append(nil)))
	if _, err := c.readFrame(); err == nil {
		t.Error("it was served")
	}
	// The client hears of it before it is counted.
	eventually(t, "it is counted", func() bool { return srv.stats.HandshakesFailed.Value(0) == 1 })
}

func TestUnfinishedTLSHandshakeEndsAtTheDeadline(t *testing.T) {
	_, _, addr := startTLS(t, set("zkd.handshakeTimeoutMs", "300"))
	c := dial(t, addr)
	c.write([]byte{0x16, 3, 1, 2, 0})
	c.expectClosed()
	dial(t, addr).expectClosed()
}

func TestPlainBytesOnTheTLSPortEndTheConnection(t *testing.T) {
	_, _, addr := startTLS(t)
	c := dial(t, addr)
	c.write(frame((&wire.ConnectRequest{TimeoutMs: 10_000}).Append(nil)))
	_, _ = c.readFrame() // an alert, or nothing
	eventually(t, "the end", func() bool { _, err := c.in.ReadByte(); return err != nil })
}

func TestReloadedCertificateIsShownToNewConnections(t *testing.T) {
	srv, s, addr := startTLS(t, set("client.certReload", "false"))
	shown := func() string {
		c := dialTLS(t, addr, s.client("")).create(10_000)
		return c.nc.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	old := dialTLS(t, addr, s.client("")).create(10_000)
	if got := shown(); got != "first" {
		t.Fatalf("certificate of %s", got)
	}
	s.write(s.keyFile, s.issue(serverCertificate("second")))
	if err := srv.ReloadTLS(); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "second" {
		t.Errorf("certificate of %s after the reload", got)
	}
	if err := os.WriteFile(s.keyFile, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := srv.ReloadTLS(); err == nil {
		t.Error("nonsense was loaded")
	}
	if got := shown(); got != "second" {
		t.Errorf("certificate of %s after a bad reload", got)
	}
	old.ping()
}

func TestUnifiedPortTakesBoth(t *testing.T) {
	t.Parallel() // it waits
	s, files := newTLSSetup(t)
	srv := startServer(t, files, set("client.portUnification", "true"), set("ssl.handshakeDetectionTimeoutMillis", "5000"))
	plain := open(t, srv.addr, 10_000)
	secure := dialTLS(t, srv.addr, s.client("bob")).create(10_000)
	plain.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	secure.call(wire.OpExists, readBody("/n", false), wire.OK)
	if got := secure.identities(); !slices.Contains(got, "x509:CN=bob,O=acme") {
		t.Errorf("identities %q", got)
	}
	if got := word(t, srv.addr, "ruok"); got != "imok" {
		t.Errorf("ruok answered %q", got)
	}
	dial(t, srv.addr).expectClosed() // says nothing
}

func TestWordOverTLS(t *testing.T) {
	_, s, addr := startTLS(t)
	c := dialTLS(t, addr, s.client(""))
	c.write([]byte("ruok"))
	got := make([]byte, 4)
	if _, err := c.in.Read(got); err != nil || string(got) != "imok" {
		t.Errorf("answered %q, %v", got, err)
	}
	c.expectClosed()
}

func TestNeverReadingTLSClientIsCut(t *testing.T) {
	srv, s, addr := startTLS(t, set("tickTime", "100"), set("maxSessionTimeout", "60000"))
	other := open(t, srv.addr, 60_000)
	other.call(wire.OpCreate, createBody("/big", make([]byte, 500_000), persistent), wire.OK)
	c := dialTLS(t, addr, s.client("")).create(300)
	f := request(1, wire.OpGetData, readBody("/big", false))
	go func() {
		for {
			if _, err := c.nc.Write(f); err != nil {
				return
			}
		}
	}()
	eventually(t, "it is cut", func() bool {
		other.ping()
		return srv.connectionCount() == 1
	})
}
