package tlsconf

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/config"
)

// identity is a certificate with its key and who signed it.
type identity struct {
	key          *ecdsa.PrivateKey
	leaf, issuer *x509.Certificate
}

func newIdentity(t *testing.T, template, issuer *x509.Certificate, signer *ecdsa.PrivateKey) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if issuer == nil {
		issuer, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if issuer == template {
		issuer = leaf
	}
	return &identity{key, leaf, issuer}
}

func newAuthority(t *testing.T, name string) *identity {
	t.Helper()
	return newIdentity(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
}

// issue signs a certificate that change may have changed.
func (i *identity) issue(t *testing.T, change func(*x509.Certificate)) *identity {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "node"}, DNSNames: []string{"node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	return newIdentity(t, template, i.leaf, i.key)
}

func (i *identity) certificate() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.leaf.Raw, i.issuer.Raw}, PrivateKey: i.key, Leaf: i.leaf}
}

// fixture is a server side over PEM files, and an authority that both sides trust.
type fixture struct {
	ca, server *identity
	side       config.TLS
	log        bytes.Buffer
	clock      time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{ca: newAuthority(t, "ca"), clock: time.Now()}
	f.server = f.ca.issue(t, nil)
	f.side = config.TLS{
		KeyStore:   writeStore(t, config.StorePEM, f.server.pemFile(t)),
		TrustStore: writeStore(t, config.StorePEM, pemBlock("CERTIFICATE", f.ca.leaf.Raw)),
		ClientAuth: config.ClientAuthNeed, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13, Reload: true,
	}
	return f
}

func (f *fixture) open(t *testing.T) *Config {
	t.Helper()
	c, err := New(&f.side, slog.New(slog.NewTextHandler(&f.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	c.now = func() time.Time { return f.clock }
	c.lastPoll.Store(f.clock.UnixNano())
	return c
}

// client is a client configuration that trusts the authority and shows who, if anybody.
func (f *fixture) client(who *identity) *tls.Config {
	c := &tls.Config{ServerName: "node", RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(f.ca.leaf)
	if who != nil {
		// Not Certificates: the client would keep back one that the server does not ask for.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate := who.certificate()
			return &certificate, nil
		}
	}
	return c
}

// addressed is a connection from somewhere.
type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

// handshake returns what the server found out, and its error.
func handshake(t *testing.T, c *Config, client *tls.Config, from string) (server, dialled tls.ConnectionState, err error) {
	t.Helper()
	near, far := net.Pipe()
	remote, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	cc := tls.Client(far, client)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if cc.Handshake() == nil {
			_, _ = cc.Read(make([]byte, 1)) // an alert, or the end
		}
		_ = far.Close()
	}()
	s := tls.Server(addressed{near, remote}, c.ServerConfig())
	err = s.Handshake()
	_ = near.Close()
	<-done
	return s.ConnectionState(), cc.ConnectionState(), err
}

const here = "127.0.0.1:40000"

func TestClientAuth(t *testing.T) {
	f := newFixture(t)
	trusted := f.ca.issue(t, nil)
	stranger := newAuthority(t, "other").issue(t, nil)
	for _, test := range []struct {
		auth   config.ClientAuth
		client *identity
		ok     bool
		peers  int
	}{
		{config.ClientAuthNeed, trusted, true, 2},
		{config.ClientAuthNeed, nil, false, 0},
		{config.ClientAuthNeed, stranger, false, 0},
		{config.ClientAuthWant, trusted, true, 2},
		{config.ClientAuthWant, nil, true, 0},
		{config.ClientAuthWant, stranger, false, 0},
		{config.ClientAuthNone, trusted, true, 0},
		{config.ClientAuthNone, stranger, true, 0},
		{config.ClientAuthNone, nil, true, 0},
	} {
		f.side.ClientAuth = test.auth
		state, _, err := handshake(t, f.open(t), f.client(test.client), here)
		if (err == nil) != test.ok || err == nil && len(state.PeerCertificates) != test.peers {
			t.Errorf("%s, client %v: %d certificates, %v", test.auth, test.client != nil, len(state.PeerCertificates), err)
		}
	}
}

func TestVersions(t *testing.T) {
	f := newFixture(t)
	who := f.ca.issue(t, nil)
	for _, test := range []struct {
		min, max, client uint16
		ok               bool
	}{
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS11, false},
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS12, true},
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS13, true},
		{tls.VersionTLS13, tls.VersionTLS13, tls.VersionTLS12, false},
		{tls.VersionTLS12, tls.VersionTLS12, tls.VersionTLS13, true},
	} {
		f.side.MinVersion, f.side.MaxVersion = test.min, test.max
		client := f.client(who)
		client.MinVersion, client.MaxVersion = tls.VersionTLS10, test.client
		state, _, err := handshake(t, f.open(t), client, here)
		if (err == nil) != test.ok || err == nil && state.Version != min(test.max, test.client) {
			t.Errorf("%+v: version %x, %v", test, state.Version, err)
		}
	}
}

// replace writes a file so that its time differs from that of the old one.
func (f *fixture) replace(t *testing.T, name string, file []byte) {
	t.Helper()
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	f.clock = f.clock.Add(time.Minute)
	if err := os.Chtimes(name, f.clock, f.clock); err != nil {
		t.Fatal(err)
	}
}

// shown returns the certificate that the server shows.
func (f *fixture) shown(t *testing.T, c *Config, who *identity) *x509.Certificate {
	t.Helper()
	_, dialled, err := handshake(t, c, f.client(who), here)
	if err != nil {
		t.Fatal(err)
	}
	return dialled.PeerCertificates[0]
}

func TestChangedFilesAreNoticedOnceASecond(t *testing.T) {
	f := newFixture(t)
	c, who, next := f.open(t), f.ca.issue(t, nil), f.ca.issue(t, nil)
	start := f.clock
	f.replace(t, f.side.KeyStore.Location, next.pemFile(t))
	f.clock = start.Add(pollInterval - 1)
	if !f.shown(t, c, who).Equal(f.server.leaf) {
		t.Error("the files are read too often")
	}
	f.clock = start.Add(pollInterval)
	if !f.shown(t, c, who).Equal(next.leaf) {
		t.Error("the new certificate is not used")
	}
}

func TestReloadOnDemandOnly(t *testing.T) {
	f := newFixture(t)
	f.side.Reload = false
	c, who, next := f.open(t), f.ca.issue(t, nil), f.ca.issue(t, nil)
	f.replace(t, f.side.KeyStore.Location, next.pemFile(t))
	if !f.shown(t, c, who).Equal(f.server.leaf) {
		t.Error("the files are read although nobody asked")
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if !f.shown(t, c, who).Equal(next.leaf) {
		t.Error("the new certificate is not used")
	}
}

func TestBadFilesKeepTheOldCertificate(t *testing.T) {
	f := newFixture(t)
	c, who, next := f.open(t), f.ca.issue(t, nil), f.ca.issue(t, nil)
	f.replace(t, f.side.KeyStore.Location, []byte("half a fi"))
	for range 3 { // also when it is looked at again
		f.clock = f.clock.Add(time.Minute)
		if !f.shown(t, c, who).Equal(f.server.leaf) {
			t.Error("the old certificate is not used")
		}
	}
	if n := strings.Count(f.log.String(), "cannot be used"); n != 1 {
		t.Errorf("%d log lines about it: %s", n, f.log.String())
	}
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), "no private key in it") {
		t.Errorf("Reload: %v", err)
	}
	if err := os.Remove(f.side.KeyStore.Location); err != nil {
		t.Fatal(err)
	}
	f.clock = f.clock.Add(time.Minute)
	if !f.shown(t, c, who).Equal(f.server.leaf) {
		t.Error("the old certificate is not used when the file is gone")
	}
	f.replace(t, f.side.KeyStore.Location, next.pemFile(t))
	if !f.shown(t, c, who).Equal(next.leaf) {
		t.Error("the good file that follows is not used")
	}
}

func TestWhoIsNoLongerTrustedIsOut(t *testing.T) {
	f := newFixture(t)
	c, who := f.open(t), f.ca.issue(t, nil)
	client := f.client(who)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	if _, _, err := handshake(t, c, client, here); err != nil {
		t.Fatal(err)
	}
	f.replace(t, f.side.TrustStore.Location, pemBlock("CERTIFICATE", newAuthority(t, "new").leaf.Raw))
	if _, _, err := handshake(t, c, client, here); err == nil {
		t.Error("the client still gets in")
	}
}

func TestClientHostIsVerified(t *testing.T) {
	f := newFixture(t)
	byIP := f.ca.issue(t, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1), net.ParseIP("fe80::1")} })
	byName := f.ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"client.example.com"} })
	byCN := f.ca.issue(t, func(c *x509.Certificate) {
		c.DNSNames, c.Subject = nil, pkix.Name{CommonName: "Client.example.com"}
	})
	for _, test := range []struct {
		name    string
		client  *identity
		from    string
		reverse bool
		names   []string
		ok      bool
	}{
		{"address", byIP, "10.0.0.1:1", false, nil, true},
		{"IPv6 with a zone", byIP, "[fe80::1%1]:1", false, nil, true},
		{"wrong address", byIP, "10.0.0.2:1", false, nil, false},
		{"name, no reverse DNS", byName, "10.0.0.1:1", false, []string{"client.example.com."}, false},
		{"name", byName, "10.0.0.1:1", true, []string{"x.example.com.", "client.example.com."}, true},
		{"wrong name", byName, "10.0.0.1:1", true, []string{"x.example.com."}, false},
		{"common name", byCN, "10.0.0.1:1", true, []string{"client.example.com."}, true},
		{"no name", byName, "10.0.0.1:1", true, nil, false},
	} {
		f.side.VerifyClientHost, f.side.ReverseDNS = true, test.reverse
		c := f.open(t)
		c.lookup = func(string) ([]string, error) {
			if test.names == nil {
				return nil, errors.New("no such host")
			}
			return test.names, nil
		}
		if _, _, err := handshake(t, c, f.client(test.client), test.from); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	f.side.ClientAuth = config.ClientAuthWant
	if _, _, err := handshake(t, f.open(t), f.client(nil), here); err != nil {
		t.Errorf("no certificate, and none is needed: %v", err)
	}
}

func TestStartFailsWithoutUsableStores(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(f *fixture)
		want   string
	}{
		{"no key store", func(f *fixture) { f.side.KeyStore = config.Store{} }, `key store "": no location is set`},
		{"missing key store", func(f *fixture) { f.side.KeyStore.Location += "x" }, "no such file"},
		{"no trust store", func(f *fixture) { f.side.TrustStore = config.Store{} }, `trust store "": no location is set`},
		{"nobody to trust", func(f *fixture) { f.side.TrustStore = writeStore(t, config.StoreJKS, f.server.jksFile(t)) }, "no trusted certificate in it"},
	} {
		f := newFixture(t)
		test.change(f)
		if _, err := New(&f.side, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
