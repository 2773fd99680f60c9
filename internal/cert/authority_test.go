package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/replication/peer"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority("orders", time.Now(), 10*year)
	require.NoError(t, err)
	return a
}

func issue(t *testing.T, a *Authority, m Member) ([]byte, *x509.Certificate) {
	t.Helper()
	file, c, err := a.Issue(m, time.Now(), 2*year)
	require.NoError(t, err)
	return file, c
}

func verify(a *Authority, c *x509.Certificate, at time.Time, use x509.ExtKeyUsage) error {
	roots := x509.NewCertPool()
	roots.AddCert(a.Certificate)
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

func TestMemberIsKnownByItsNumberAlone(t *testing.T) {
	a := newAuthority(t)
	for _, id := range []int{1, 2, 22, 254, MaxMember} {
		_, c := issue(t, a, Member{ID: id, Hosts: []string{"zk.example.com"}})
		for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			require.NoError(t, verify(a, c, time.Now(), use), "%d, use %d", id, use)
		}
		for _, asked := range []raft.ServerID{"1-a", "2-b", "22-c", "254-d", "255-e", "25-f"} {
			number, _, _ := strings.Cut(string(asked), "-")
			err := peer.VerifyMember(asked, c)
			if want := c.Subject.CommonName == "zkd-member-"+number; want != (err == nil) {
				t.Errorf("certificate of %d, asked as %s: %v", id, asked, err)
			}
		}
	}
}

func TestKeysAreP256AndTheirOwn(t *testing.T) {
	a := newAuthority(t)
	file1, one := issue(t, a, Member{ID: 1})
	_, again := issue(t, a, Member{ID: 1})
	pair, err := tls.X509KeyPair(file1, file1)
	require.NoError(t, err, "what a server reads must be key and certificate")
	require.True(t, pair.Leaf.Equal(one))
	for _, c := range []*x509.Certificate{a.Certificate, one, again} {
		key, ok := c.PublicKey.(*ecdsa.PublicKey)
		require.True(t, ok)
		require.Equal(t, elliptic.P256(), key.Curve)
	}
	require.False(t, one.PublicKey.(*ecdsa.PublicKey).Equal(again.PublicKey), "a renewal draws a new key")
	require.NotEqual(t, one.SerialNumber, again.SerialNumber)
}

func TestValidity(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	a, err := NewAuthority("c", now, 10*year)
	require.NoError(t, err)
	require.Equal(t, now.Add(10*year), a.Certificate.NotAfter)
	for _, test := range []struct {
		name           string
		made           time.Time
		lifetime, want time.Duration // want from now
	}{
		{"two years", now, 2 * year, 2 * year},
		{"never longer than the CA", now, 11 * year, 10 * year},
		{"near the CA's end", now.Add(9 * year), 2 * year, 10 * year},
	} {
		_, c, err := a.Issue(Member{ID: 1}, test.made, test.lifetime)
		require.NoError(t, err, test.name)
		require.Equal(t, now.Add(test.want), c.NotAfter, test.name)
		// A member whose clock is half an hour behind believes it, too.
		require.NoError(t, verify(a, c, test.made.Add(-30*time.Minute), x509.ExtKeyUsageServerAuth), test.name)
		require.Error(t, verify(a, c, c.NotAfter.Add(time.Second), x509.ExtKeyUsageServerAuth), test.name)
	}
	_, _, err = a.Issue(Member{ID: 1}, now.Add(10*year), year)
	require.ErrorContains(t, err, "the CA has expired on 2039-12-30")
}

func TestAuthoritySignsMembersOnly(t *testing.T) {
	a := newAuthority(t)
	_, c := issue(t, a, Member{ID: 1})
	require.True(t, a.Certificate.IsCA)
	require.True(t, a.Certificate.MaxPathLenZero)
	require.False(t, c.IsCA)
	require.Zero(t, c.KeyUsage&x509.KeyUsageCertSign)
	require.Equal(t, "orders", a.Cluster())
	require.Equal(t, []string{"orders"}, c.Subject.Organization)
}

func TestBadMembersAreRefused(t *testing.T) {
	a := newAuthority(t)
	for _, test := range []struct {
		name string
		m    Member
		want string // "" is fine
	}{
		{"no number", Member{}, "0 is no number of a server; allowed: 1 to 255"},
		{"a negative number", Member{ID: -1}, "-1 is no number"},
		{"a number too high", Member{ID: 256}, "256 is no number"},
		{"hosts", Member{ID: 1, Hosts: []string{"zk1", "zk-1.example_x.com", "10.0.0.1", "2001:db8::1"}}, ""},
		{"the name of another member", Member{ID: 1, Hosts: []string{"zkd-member-2"}}, "names a server"},
		{"the same in capitals", Member{ID: 1, Hosts: []string{"ZKD-Member-2"}}, "names a server"},
		{"its own name", Member{ID: 1, Hosts: []string{"zkd-member-1"}}, "names a server"},
		{"an empty host", Member{ID: 1, Hosts: []string{""}}, "is no host"},
		{"a port", Member{ID: 1, Hosts: []string{"zk1:2888"}}, "is no host"},
		{"brackets", Member{ID: 1, Hosts: []string{"[::1]"}}, "is no host"},
		{"every host", Member{ID: 1, Hosts: []string{"*.example.com"}}, "is no host"},
		{"a blank", Member{ID: 1, Hosts: []string{"zk 1"}}, "is no host"},
		{"two dots", Member{ID: 1, Hosts: []string{"zk..com"}}, "is no host"},
		{"a long label", Member{ID: 1, Hosts: []string{strings.Repeat("a", 64) + ".com"}}, "is no host"},
		{"a long name", Member{ID: 1, Hosts: []string{strings.Repeat("a.", 127) + "a"}}, "is no host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, c, err := a.Issue(test.m, time.Now(), year)
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			for _, host := range test.m.Hosts {
				require.NoError(t, c.VerifyHostname(host))
			}
			require.Equal(t, []string{"zkd-member-1", "zk1", "zk-1.example_x.com"}, c.DNSNames)
			require.True(t, slices.ContainsFunc(c.IPAddresses, net.ParseIP("2001:db8::1").Equal))
		})
	}
}

func TestNamesOfClusters(t *testing.T) {
	for name, ok := range map[string]bool{
		"zkd": true, "Orders, Berlin": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "two\nlines": false, "\x1b[31m": false,
	} {
		a, err := NewAuthority(name, time.Now(), year)
		require.Equal(t, ok, err == nil, "%q: %v", name, err)
		if ok {
			require.Equal(t, name, a.Cluster())
		}
	}
}

func TestAuthorityComesBackFromItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "ca")
	a := newAuthority(t)
	require.NoError(t, a.Save(dir, false))
	if runtime.GOOS != "windows" {
		for name, want := range map[string]os.FileMode{dir: 0o700, KeyFile(dir): 0o600, config.PeerCAFile(dir): 0o644} {
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.Equal(t, want, info.Mode().Perm(), name)
		}
	}
	back, err := Load(dir)
	require.NoError(t, err)
	require.True(t, back.Certificate.Equal(a.Certificate))
	_, c := issue(t, back, Member{ID: 7})
	require.NoError(t, verify(a, c, time.Now(), x509.ExtKeyUsageClientAuth))
}

func TestAuthorityIsNotReplacedByAccident(t *testing.T) {
	for _, file := range []string{"ca.pem", "ca-key.pem"} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, file)
			require.NoError(t, os.WriteFile(name, []byte("precious"), 0o600))
			var exists *ExistsError
			require.ErrorAs(t, newAuthority(t).Save(dir, false), &exists)
			require.Equal(t, name, exists.Name)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "half an authority is left behind")
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, "precious", string(text))

			require.NoError(t, newAuthority(t).Save(dir, true))
			_, err = Load(dir)
			require.NoError(t, err)
		})
	}
}

func TestBrokenAuthoritiesAreNamed(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	memberFile, member := issue(t, a, Member{ID: 1})
	key, err := keyBlock(a.key)
	require.NoError(t, err)
	otherKey, err := keyBlock(other.key)
	require.NoError(t, err)
	good := string(certificateBlock(a.Certificate))
	const none = "-"
	for _, test := range []struct{ name, cert, key, want string }{
		{"all is well", good, string(key), ""},
		{"nothing", none, none, "make one with zkd cert init --dir"},
		{"no key", good, none, "make one with zkd cert init --dir"},
		{"no certificate", none, string(key), "make one with zkd cert init --dir"},
		{"no PEM", "x", string(key), "does not begin with a certificate"},
		{"a key for a certificate", string(key), string(key), "does not begin with a certificate"},
		{"a member for an authority", string(certificateBlock(member)), string(memberFile), "which is no CA"},
		{"another's key", good, string(otherKey), "is not that of the certificate"},
		{"a certificate for a key", good, good, "does not begin with a PRIVATE KEY"},
		{"a damaged key", good, "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n", "ca-key.pem: "},
		{"a damaged certificate", "-----BEGIN CERTIFICATE-----\nMIGH\n-----END CERTIFICATE-----\n", string(key), "ca.pem: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"ca.pem": test.cert, "ca-key.pem": test.key} {
				if text != none {
					require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
				}
			}
			_, err := Load(dir)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}
