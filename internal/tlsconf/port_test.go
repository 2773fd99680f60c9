package tlsconf_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/cert"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/server/replication/peer"
)

// These tests put certificates of internal/cert, configurations of Load and the peer port
// together, as a cluster does.

const (
	day      = 24 * time.Hour
	kindEcho = peer.FirstKind
)

func newAuthority(t *testing.T) *cert.Authority {
	t.Helper()
	a, err := cert.NewAuthority("test", time.Now(), 10*day)
	require.NoError(t, err)
	return a
}

// folder is what an operator copies to server id.
func folder(t *testing.T, a *cert.Authority, id int) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, a.Save(dir, false))
	require.NoError(t, os.Remove(cert.KeyFile(dir)))
	issue(t, a, dir, id, time.Now())
	return dir
}

// issue puts a certificate of a member, good for two days, into a folder; all of them within one tick of the
// file system's clock.
func issue(t *testing.T, a *cert.Authority, dir string, id int, now time.Time) *x509.Certificate {
	t.Helper()
	file, c, err := a.Issue(cert.Member{ID: id}, now, 2*day)
	require.NoError(t, err)
	require.NoError(t, cert.Write(config.PeerNodeFile(dir, id), file, true))
	require.NoError(t, os.Chtimes(config.PeerNodeFile(dir, id), time.Time{}, time.Unix(1e9, 0)))
	return c
}

// open does what a server does: it loads its configuration, and with that the certificates.
func open(t *testing.T, id int, dir string) *tlsconf.Peer {
	t.Helper()
	c, _, err := config.Load(config.Sources{
		File: "zoo.cfg",
		ReadFile: func(name string) ([]byte, error) {
			switch {
			case name == "zoo.cfg":
				return []byte("dataDir=/d\nclientPort=2181\nzkd.peerTLSDir=" + dir +
					"\nserver.1=zk1:2888:3888\nserver.2=zk2:2888:3888\nserver.3=zk3:2888:3888\n"), nil
			case strings.HasSuffix(name, "myid"):
				return fmt.Append(nil, id), nil
			}
			return nil, os.ErrNotExist
		},
	})
	require.NoError(t, err)
	p, err := tlsconf.NewPeer(&c.Cluster, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NotNil(t, p)
	return p
}

// raw is a certificate from a folder as nothing but crypto/tls sees it: what NewPeer would
// refuse at the start reaches the handshake.
func raw(t *testing.T, file, ca string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(file, file)
	require.NoError(t, err)
	pem, err := os.ReadFile(ca)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}
}

// transport opens a peer port; sees gets the certificates of those who dial it.
func transport(t *testing.T, id int, c *tls.Config, addresses map[raft.ServerID]string, sees func(*x509.Certificate)) *peer.Transport {
	t.Helper()
	tr, err := peer.New(peer.Options{
		ID: serverID(id), Cluster: "c", Listen: "127.0.0.1:0", TLS: c,
		Resolve: func(to raft.ServerID) ([]string, error) { return []string{addresses[to]}, nil },
		VerifyMember: func(of raft.ServerID, certificate *x509.Certificate) error {
			if sees != nil {
				sees(certificate)
			}
			return peer.VerifyMember(of, certificate)
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	tr.Handle(kindEcho, func(s *peer.Stream) {
		for {
			m, err := s.Receive()
			if err != nil || s.Send(m) != nil {
				return
			}
		}
	})
	return tr
}

func serverID(id int) raft.ServerID { return raft.ServerID(fmt.Sprintf("%d-incarnation", id)) }

// talk has server 2 dial server 1 and say something.
func talk(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	one := transport(t, 1, server, nil, nil)
	two := transport(t, 2, client, map[raft.ServerID]string{serverID(1): one.Addr().String()}, nil)
	return echo(t, two)
}

func echo(t *testing.T, two *peer.Transport) error {
	t.Helper()
	s, err := two.Open(t.Context(), serverID(1), kindEcho)
	if err != nil {
		return err
	}
	defer s.Close()
	require.NoError(t, s.Send([]byte("hello")))
	m, err := s.Receive()
	require.NoError(t, err)
	require.Equal(t, "hello", string(m))
	return nil
}

func TestServersOfOneAuthorityTalk(t *testing.T) {
	a := newAuthority(t)
	require.NoError(t, talk(t, open(t, 1, folder(t, a, 1)).Config(), open(t, 2, folder(t, a, 2)).Config()))
}

func TestWhoIsRefused(t *testing.T) {
	a, foreign := newAuthority(t), newAuthority(t)
	good := func(id int) *tls.Config { return open(t, id, folder(t, a, id)).Config() }
	from := func(a *cert.Authority, trusts *cert.Authority, id int, made time.Time) *tls.Config {
		dir := folder(t, trusts, id)
		issue(t, a, dir, id, made)
		return raw(t, config.PeerNodeFile(dir, id), config.PeerCAFile(dir))
	}
	const anyID = 3
	for _, test := range []struct {
		name           string
		server, client *tls.Config
		want           string // in the error of who dials
	}{
		{"the dialing server has another number", good(1), from(a, a, anyID, time.Now()), "zkd-member-2"},
		{"the answering server has another number", from(a, a, anyID, time.Now()), good(2), "zkd-member-1"},
		{"the dialing server's CA is another", good(1), from(foreign, a, 2, time.Now()), "unknown certificate authority"},
		{"the answering server's CA is another", from(foreign, a, 1, time.Now()), good(2), "unknown authority"},
		{"the dialing server trusts another CA", good(1), from(a, foreign, 2, time.Now()), "unknown authority"},
		{"the dialing server's certificate has expired", good(1), from(a, a, 2, time.Now().Add(-3*day)), "expired"},
		{"the answering server's certificate has expired", from(a, a, 1, time.Now().Add(-3*day)), good(2), "expired"},
		{"the dialing server has no TLS", good(1), nil, ""},
		{"the answering server has no TLS", nil, good(2), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, talk(t, test.server, test.client), test.want)
		})
	}
}

func TestOlderTLSIsRefused(t *testing.T) {
	a := newAuthority(t)
	dir := folder(t, a, 2)
	one := transport(t, 1, open(t, 1, folder(t, a, 1)).Config(), nil, nil)
	for version, ok := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		c := raw(t, config.PeerNodeFile(dir, 2), config.PeerCAFile(dir))
		c.InsecureSkipVerify, c.MaxVersion = true, version
		nc, err := net.Dial("tcp", one.Addr().String())
		require.NoError(t, err)
		err = tls.Client(nc, c).HandshakeContext(t.Context())
		nc.Close()
		require.Equal(t, ok, err == nil, "%s: %v", tls.VersionName(version), err)
	}
}

// Connections made after a renewal show the new certificate, in both directions and without a
// restart; those that are open stay open.
func TestRenewedCertificatesAreShown(t *testing.T) {
	a := newAuthority(t)
	dir1, dir2 := folder(t, a, 1), folder(t, a, 2)
	tls1, tls2 := open(t, 1, dir1), open(t, 2, dir2)
	seenBy1, seenBy2 := make(chan *x509.Certificate, 8), make(chan *x509.Certificate, 8)
	one := transport(t, 1, tls1.Config(), nil, func(c *x509.Certificate) { seenBy1 <- c })
	two := transport(t, 2, tls2.Config(), map[raft.ServerID]string{serverID(1): one.Addr().String()}, func(c *x509.Certificate) { seenBy2 <- c })
	old, err := two.Open(t.Context(), serverID(1), kindEcho)
	require.NoError(t, err)
	defer old.Close()
	before1, before2 := <-seenBy2, <-seenBy1

	after1, after2 := issue(t, a, dir1, 1, time.Now().Add(time.Hour)), issue(t, a, dir2, 2, time.Now().Add(time.Hour))
	tls1.PollNow()
	tls2.PollNow()
	require.NoError(t, echo(t, two))
	shown1, shown2 := <-seenBy2, <-seenBy1
	require.True(t, shown1.Equal(after1), "server 1 shows %x, and had %x before", shown1.SerialNumber, before1.SerialNumber)
	require.True(t, shown2.Equal(after2), "server 2 shows %x, and had %x before", shown2.SerialNumber, before2.SerialNumber)
	require.Equal(t, after2.NotAfter, tls2.Expires())

	require.NoError(t, old.Send([]byte("still here")))
	m, err := old.Receive()
	require.NoError(t, err)
	require.Equal(t, "still here", string(m))
}

// The CA is changed in three rounds of restarts, and between any two of them all servers talk.
func TestAuthorityIsChangedWithoutAGap(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	dir1, dir2 := folder(t, old, 1), folder(t, old, 2)
	trustedBy := func(a *cert.Authority) []byte {
		pem, err := os.ReadFile(config.PeerCAFile(folder(t, a, 3)))
		require.NoError(t, err)
		return pem
	}
	trust := func(dir string, authorities ...*cert.Authority) {
		var pem []byte
		for _, a := range authorities {
			pem = append(pem, trustedBy(a)...)
		}
		require.NoError(t, os.WriteFile(config.PeerCAFile(dir), pem, 0o600))
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"the old CA", func() {}},
		{"server 1 trusts both", func() { trust(dir1, old, next) }},
		{"server 2 trusts both", func() { trust(dir2, old, next) }},
		{"server 1 has a new certificate", func() { issue(t, next, dir1, 1, time.Now()) }},
		{"server 2 has a new certificate", func() { issue(t, next, dir2, 2, time.Now()) }},
		{"server 1 trusts the new CA alone", func() { trust(dir1, next) }},
		{"server 2 trusts the new CA alone", func() { trust(dir2, next) }},
	} {
		step.do()
		require.NoError(t, talk(t, open(t, 1, dir1).Config(), open(t, 2, dir2).Config()), step.name)
	}
}
