package tlsconf

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"

	"github.com/zkd-project/zkd/config"
)

// A peerFixture is the folder of server 2, made by hand: `zkd cert` has tests of its own.
type peerFixture struct {
	t       *testing.T
	ca      *identity
	cluster config.Cluster
	log     bytes.Buffer
	clock   time.Time
}

func newPeerFixture(t *testing.T) *peerFixture {
	t.Helper()
	f := &peerFixture{
		t: t, ca: newAuthority(t, "ca"), clock: time.Now(),
		cluster: config.Cluster{ServerID: 2, PeerTLSDir: t.TempDir(), TLS: config.TLS{Reload: true}},
	}
	f.trust(f.ca)
	f.show(f.member(2, nil))
	return f
}

// member signs a certificate, named as a server unless change says otherwise.
func (f *peerFixture) member(id int, change func(*x509.Certificate)) *identity {
	f.t.Helper()
	return f.ca.issue(f.t, func(c *x509.Certificate) {
		c.DNSNames = []string{MemberName(id)}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		if change != nil {
			change(c)
		}
	})
}

func (f *peerFixture) put(name string, text []byte) {
	f.t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.clock = f.clock.Add(pollInterval)
	// As in life, the new file is of another time than the old one.
	if err := os.Chtimes(name, f.clock, f.clock); err != nil {
		f.t.Fatal(err)
	}
}

func (f *peerFixture) node() string { return config.PeerNodeFile(f.cluster.PeerTLSDir, 2) }

func (f *peerFixture) show(who *identity) { f.put(f.node(), who.pemFile(f.t)) }

func (f *peerFixture) trust(whom ...*identity) {
	var file []byte
	for _, w := range whom {
		file = append(file, pemBlock("CERTIFICATE", w.leaf.Raw)...)
	}
	f.put(config.PeerCAFile(f.cluster.PeerTLSDir), file)
}

func (f *peerFixture) open() (*Peer, error) {
	p, err := NewPeer(&f.cluster, slog.New(slog.NewTextHandler(&f.log, nil)))
	if err == nil {
		p.now = func() time.Time { return f.clock }
		p.lastPoll.Store(f.clock.UnixNano())
	}
	return p, err
}

func (f *peerFixture) mustOpen() *Peer {
	f.t.Helper()
	p, err := f.open()
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// shown is what the server shows to those who dial it, and to those it dials.
func shown(t *testing.T, p *Peer) *x509.Certificate {
	t.Helper()
	accepting, err := p.Config().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	dialing, err := p.Config().GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if accepting != dialing {
		t.Error("the two directions show different certificates")
	}
	return accepting.Leaf
}

func TestPeerTakesUpARenewedCertificate(t *testing.T) {
	f := newPeerFixture(t)
	p := f.mustOpen()
	old := p.current.Load().Leaf
	next := f.member(2, func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Hour) })
	f.show(next)
	f.clock = f.clock.Add(-1)
	if !shown(t, p).Equal(old) {
		t.Error("the files are read too often")
	}
	f.clock = f.clock.Add(1)
	if !shown(t, p).Equal(next.leaf) || !p.Expires().Equal(next.leaf.NotAfter) {
		t.Error("the new certificate is not used")
	}
}

func TestPeerReloadsOnDemandOnly(t *testing.T) {
	f := newPeerFixture(t)
	f.cluster.TLS.Reload = false
	p := f.mustOpen()
	old, next := p.current.Load().Leaf, f.member(2, nil)
	f.show(next)
	if !shown(t, p).Equal(old) {
		t.Error("the files are read although nobody asked")
	}
	if err := p.Reload(); err != nil || !shown(t, p).Equal(next.leaf) {
		t.Errorf("the new certificate is not used: %v", err)
	}
}

// What would keep this server out of the cluster is refused when it starts, and never takes
// the place of what works.
func TestPeerRefusesWhatNoOtherServerWouldTake(t *testing.T) {
	stranger := newAuthority(t, "stranger")
	uri, err := url.Parse("zkd-member-2")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		file func(f *peerFixture) []byte // nil: the file is removed
		want string                      // "": it is fine
	}{
		{"another of the same", func(f *peerFixture) []byte { return f.member(2, nil).pemFile(t) }, ""},
		{"named by a URI", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) { c.DNSNames, c.URIs = nil, []*url.URL{uri} }).pemFile(t)
		}, ""},
		{"named among hosts", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) { c.DNSNames = []string{"zk2", "zkd-member-2"} }).pemFile(t)
		}, ""},
		{"good for everything", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) { c.ExtKeyUsage = nil }).pemFile(t)
		}, ""},
		{"no file", nil, "make one with zkd cert node --dir DIR --id 2, and copy it with ca.pem into "},
		{"half a file", func(f *peerFixture) []byte { return f.member(2, nil).pemFile(t)[:300] }, "certificate"},
		{"another server's", func(f *peerFixture) []byte { return f.member(3, nil).pemFile(t) }, "it is the certificate of server 3, and this is server 2; make one with zkd cert node --dir DIR --id 2"},
		{"a longer number", func(f *peerFixture) []byte { return f.member(22, nil).pemFile(t) }, "it is the certificate of server 22"},
		{"no server's", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) { c.DNSNames = []string{"zk2"} }).pemFile(t)
		}, "the certificate of CN=node has no alternative name zkd-member-2"},
		{"expired", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }).pemFile(t)
		}, "has expired on "},
		{"of tomorrow", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(24*time.Hour), time.Now().Add(48*time.Hour)
			}).pemFile(t)
		}, "is the clock of this machine right?"},
		{"a stranger's", func(*peerFixture) []byte {
			return stranger.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"zkd-member-2"} }).pemFile(t)
		}, "do not vouch for its own"},
		{"for servers only", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }).pemFile(t)
		}, "must be good for servers and for clients"},
		{"for clients only", func(f *peerFixture) []byte {
			return f.member(2, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }).pemFile(t)
		}, "must be good for servers and for clients"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newPeerFixture(t)
			p := f.mustOpen()
			old := shown(t, p)
			if test.file == nil {
				if err := os.Remove(f.node()); err != nil {
					t.Fatal(err)
				}
			} else {
				f.put(f.node(), test.file(f))
			}
			f.clock = f.clock.Add(pollInterval)
			for range 3 {
				if kept := shown(t, p).Equal(old); kept != (test.want != "") {
					t.Fatalf("the old certificate is in use: %v; %s", kept, f.log.String())
				}
				f.clock = f.clock.Add(pollInterval)
			}
			reload := p.Reload()
			_, start := f.open()
			for _, err := range []error{reload, start} {
				if test.want == "" {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v, want %q", err, test.want)
				}
			}
			if n := strings.Count(f.log.String(), "cannot be used"); n > 1 {
				t.Errorf("%d log lines about it", n)
			}
		})
	}
}

func TestPeerNeedsSomebodyToTrust(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(f *peerFixture)
		want   string
	}{
		{"no file", func(f *peerFixture) { _ = os.Remove(config.PeerCAFile(f.cluster.PeerTLSDir)) }, "ca.pem"},
		{"an empty file", func(f *peerFixture) { f.trust() }, "no certificate in it"},
		{"no folder", func(f *peerFixture) { f.cluster.PeerTLSDir += "x" }, "make one with zkd cert node --dir DIR --id 2"},
	} {
		f := newPeerFixture(t)
		test.change(f)
		if _, err := f.open(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// During a change of the CA, ca.pem has the old and the new one.
func TestPeerTrustsAllOfCAFile(t *testing.T) {
	f := newPeerFixture(t)
	old := f.ca
	f.ca = newAuthority(t, "next")
	f.trust(old, f.ca)
	p := f.mustOpen()
	next := f.member(2, nil)
	f.show(next)
	if !shown(t, p).Equal(next.leaf) {
		t.Errorf("the certificate of the new CA is not used: %s", f.log.String())
	}
	if strings.Contains(f.log.String(), "restart") {
		t.Errorf("nothing has changed in ca.pem: %s", f.log.String())
	}
}

// The CA is changed while the server runs, in the order of docs/security-peer.md.
func TestPeerFollowsAChangeOfTheCA(t *testing.T) {
	f := newPeerFixture(t)
	p := f.mustOpen()
	old, next := f.ca, newAuthority(t, "next")
	trusts := func(when string, want ...*identity) {
		t.Helper()
		got := p.Roots()
		pool := x509.NewCertPool()
		for _, w := range want {
			pool.AddCert(w.leaf)
		}
		if !got.Equal(pool) {
			t.Fatalf("%s: the wrong authorities are trusted: %s", when, f.log.String())
		}
	}
	before := p.Roots()
	trusts("at the start", old)
	f.trust(old, next)
	trusts("both", old, next)
	if p.Roots() == before {
		t.Error("the pool must be another one, by which the change is seen")
	}
	f.trust(next)
	trusts("too early: its own certificate is of the old one", old, next)
	if !strings.Contains(f.log.String(), "the changed trust store of the peer port cannot be used") {
		t.Errorf("got %s", f.log.String())
	}
	f.trust(old, next)
	f.ca = next
	own := f.member(2, nil)
	f.show(own)
	if !shown(t, p).Equal(own.leaf) {
		t.Fatalf("the certificate of the new CA is not used: %s", f.log.String())
	}
	f.trust(next)
	trusts("the new one alone", next)
	f.put(config.PeerCAFile(f.cluster.PeerTLSDir), []byte("nothing"))
	trusts("a broken file", next)
	if err := p.Reload(); err != nil {
		t.Errorf("the certificate is still good: %v", err)
	}
}

func TestPeerWarns(t *testing.T) {
	f := newPeerFixture(t)
	f.mustOpen()
	if !strings.Contains(f.log.String(), "level=WARN") { // the fixture's are good for an hour
		t.Errorf("nothing is said of a certificate that ends soon: %s", f.log.String())
	}
	if strings.Contains(f.log.String(), "CA is on this server") {
		t.Errorf("there is no such key: %s", f.log.String())
	}
	f.put(filepath.Join(f.cluster.PeerTLSDir, CAKeyFile), nil)
	f.mustOpen()
	if !strings.Contains(f.log.String(), "CA is on this server") {
		t.Errorf("nothing is said of the CA's key: %s", f.log.String())
	}
}

// ZooKeeper's stores have keys of any number of servers.
func TestPeerFindsItsOwnAmongManyKeys(t *testing.T) {
	f := newPeerFixture(t)
	stores := config.TLS{Reload: true}
	own := f.member(2, nil)
	stores.KeyStore = writeStore(t, config.StoreJKS, manyKeys(t, f.member(1, nil), own, f.member(3, nil)))
	stores.TrustStore = writeStore(t, config.StorePEM, pemBlock("CERTIFICATE", f.ca.leaf.Raw))
	f.cluster = config.Cluster{ServerID: 2, SSLQuorum: true, TLS: stores}
	if !shown(t, f.mustOpen()).Equal(own.leaf) {
		t.Error("another key is used")
	}
	f.cluster.ServerID = 4
	if _, err := f.open(); err == nil || !strings.Contains(err.Error(), "it is the certificate of server 1, and this is server 4") {
		t.Errorf("got %v", err)
	}
}

func TestPeerWithoutTLSIsNothing(t *testing.T) {
	p, err := NewPeer(&config.Cluster{ServerID: 1}, nil)
	if p != nil || err != nil || p.Config() != nil || p.Roots() != nil || p.Reload() != nil || !p.Expires().IsZero() {
		t.Errorf("got %v, %v", p, err)
	}
}

func manyKeys(t *testing.T, owners ...*identity) []byte {
	t.Helper()
	return storeJKS(t, func(s keystore.KeyStore) error {
		for i, o := range owners {
			entry := keystore.PrivateKeyEntry{
				CreationTime: time.Unix(0, 0), PrivateKey: pkcs8(t, o.key),
				CertificateChain: []keystore.Certificate{{Type: "X509", Content: o.leaf.Raw}},
			}
			if err := s.SetPrivateKeyEntry(strconv.Itoa(i), entry, []byte(password)); err != nil {
				return err
			}
		}
		return nil
	})
}
