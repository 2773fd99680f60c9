package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// An authority signs certificates of members.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// sign returns a certificate with a name, as DNS name unless change says otherwise.
func (a *authority) sign(t testing.TB, name string, change func(c *x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) config(certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.pool(), Certificates: certificates}
}

func TestAClusterRunsOverMutualTLS(t *testing.T) {
	ca := newAuthority(t)
	s := setup{pad: 1 << 20, options: func(m *member, o *Options) { o.TLS = ca.config(ca.sign(t, memberName(m.id), nil)) }}
	r := newRig(t, s, nil)
	leader := r.leader()
	r.await(leader.apply("x"), r.members...)
	lagging := r.followers(leader)[0]
	lagging.stop()
	leader.apply("y")
	require.NoError(t, leader.r().Snapshot().Error())
	last := leader.apply("z")
	lagging.logs, lagging.stable, lagging.snaps = raft.NewInmemStore(), raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	lagging.open()
	lagging.start()
	r.await(last, lagging)
	require.Equal(t, 1, lagging.fsm.restored)
}

// Member 2 dials member 1. What is wrong with a certificate on either side stops it.
func TestCertificatesAreCompared(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	good := func(n int) *tls.Config { return ca.config(ca.sign(t, memberName(serverID(n)), nil)) }
	uri, err := url.Parse("zkd-member-2")
	require.NoError(t, err)
	mixed := func(c *tls.Config, trust *authority) *tls.Config {
		c.RootCAs, c.ClientCAs = trust.pool(), trust.pool()
		return c
	}
	for _, test := range []struct {
		name           string
		server, client *tls.Config
		ok             bool
	}{
		{"both are who they say", good(1), good(2), true},
		{"the member id as URI", good(1), ca.config(ca.sign(t, "x", func(c *x509.Certificate) { c.DNSNames, c.URIs = nil, []*url.URL{uri} })), true},
		{"the client is another member", good(1), good(3), false},
		{"the server is another member", good(3), good(2), false},
		{"a longer number", good(1), ca.config(ca.sign(t, "zkd-member-22", nil)), false},
		{"the common name alone", good(1), ca.config(ca.sign(t, "zkd-member-2", func(c *x509.Certificate) { c.DNSNames = nil })), false},
		{"the client's CA is another", good(1), mixed(other.config(other.sign(t, "zkd-member-2", nil)), ca), false},
		{"the server's CA is another", mixed(other.config(other.sign(t, "zkd-member-1", nil)), ca), good(2), false},
		{"the client's certificate is expired", good(1), ca.config(ca.sign(t, "zkd-member-2", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), false},
		{"the server's certificate is expired", ca.config(ca.sign(t, "zkd-member-1", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), good(2), false},
		{"the client's certificate is for servers only", good(1), ca.config(ca.sign(t, "zkd-member-2", func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})), false},
		{"the server's certificate is for clients only", ca.config(ca.sign(t, "zkd-member-1", func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})), good(2), false},
		{"the client's certificate is revoked", revoking(good(1)), good(2), false},
		{"the server's certificate is revoked", good(1), revoking(good(2)), false},
		{"the client has no TLS", good(1), nil, false},
		{"the server has no TLS", nil, good(2), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, setup{noStart: true, nodes: 2, options: func(m *member, o *Options) {
				o.TLS = test.server
				if m.id == serverID(2) {
					o.TLS = test.client
				}
			}}, nil)
			a, b := r.members[0], r.members[1]
			a.t.Handle(kindEcho, echo)
			s, err := b.t.Open(within(t, patience), a.id, kindEcho)
			if !test.ok {
				require.Error(t, err)
				t.Log(err)
				noRPC(t, a.t)
				return
			}
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, s.Send([]byte("x")))
			_, err = s.Receive()
			require.NoError(t, err)
		})
	}
}

func revoking(c *tls.Config) *tls.Config {
	c.VerifyConnection = func(tls.ConnectionState) error { return errors.New("revoked") }
	return c
}

func TestOldTLSIsRefused(t *testing.T) {
	ca := newAuthority(t)
	r := newRig(t, setup{noStart: true, nodes: 1, options: func(_ *member, o *Options) {
		o.TLS = ca.config(ca.sign(t, "zkd-member-1", nil))
		o.TLS.MinVersion = tls.VersionTLS10
	}}, nil)
	dial := func(c *tls.Config) error {
		c.InsecureSkipVerify = true
		raw, err := net.Dial("tcp", r.members[0].address())
		require.NoError(t, err)
		defer raw.Close()
		nc := tls.Client(raw, c)
		if err := nc.Handshake(); err != nil {
			return err
		}
		_, err = nc.Read(make([]byte, 1)) // with TLS 1.3 the server's complaint comes now
		return err
	}
	require.Error(t, dial(&tls.Config{MaxVersion: tls.VersionTLS11, Certificates: []tls.Certificate{ca.sign(t, "zkd-member-2", nil)}}))
	err := dial(&tls.Config{}) // no certificate
	require.ErrorContains(t, err, "certificate")
}

func TestATLSConfigurationMustProveBothSides(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.sign(t, "zkd-member-1", nil)
	for name, c := range map[string]*tls.Config{
		"without RootCAs":         {Certificates: []tls.Certificate{cert}},
		"without certificates":    {RootCAs: ca.pool()},
		"with GetConfigForClient": {RootCAs: ca.pool(), Certificates: []tls.Certificate{cert}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }},
	} {
		_, err := New(Options{
			ID: "1-a", Cluster: "c", Listen: "127.0.0.1:0", TLS: c,
			Resolve: func(raft.ServerID) ([]string, error) { return nil, nil },
		})
		require.ErrorContains(t, err, "Options.TLS", name)
	}
}
