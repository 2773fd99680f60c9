package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// describe is what Describe says at a time, without the lines that differ in each run.
func describe(t *testing.T, file []byte, at time.Time) string {
	t.Helper()
	text, err := Describe(file, at)
	require.NoError(t, err)
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "  serial") && !strings.HasPrefix(line, "  sha256") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestDescribe(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	a, err := NewAuthority("orders", now, 10*year)
	require.NoError(t, err)
	file, _, err := a.Issue(Member{ID: 2, Hosts: []string{"zk2.example.com", "10.0.0.2"}}, now, 2*day)
	require.NoError(t, err)
	node := `private key: ECDSA P-256, of the certificate
certificate: server 2
  subject  CN=zkd-member-2,O=orders
  issuer   CN=zkd cluster CA,O=orders
  hosts    zk2.example.com, 10.0.0.2
  valid    2030-01-01 11:00:00 UTC to 2030-01-03 12:00:00 UTC (LEFT)
  for      accepting connections, dialing
  key      ECDSA P-256
`
	for _, test := range []struct {
		at   time.Duration
		left string
	}{
		{0, "2 days left"},
		{-2 * time.Hour, "not yet"},
		{time.Second, "1 day left"},
		{day + time.Second, "less than a day left"},
		{2*day + time.Second, "expired"},
	} {
		require.Equal(t, strings.Replace(node, "LEFT", test.left, 1), describe(t, file, now.Add(test.at)))
	}
	require.Equal(t, `certificate: a CA, which signs others
  subject  CN=zkd cluster CA,O=orders
  issuer   CN=zkd cluster CA,O=orders
  valid    2030-01-01 11:00:00 UTC to 2039-12-30 12:00:00 UTC (3650 days left)
  for      signing certificates
  key      ECDSA P-256
`, describe(t, certificateBlock(a.Certificate), now))
}

func TestDescribeSaysWhoseKeyItIs(t *testing.T) {
	a := newAuthority(t)
	one, _ := issue(t, a, Member{ID: 1})
	_, two := issue(t, a, Member{ID: 2})
	key, _, _ := strings.Cut(string(one), "-----BEGIN CERTIFICATE")
	for _, test := range []struct{ file, want string }{
		{string(one), "private key: ECDSA P-256, of the certificate\n"},
		{key + string(certificateBlock(two)), "private key: ECDSA P-256, NOT of the certificate\n"},
		{key, "private key: ECDSA P-256\n"},
		{"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", "private key: RSA PRIVATE KEY, not looked at\n"},
		{"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "private key: damaged ("},
	} {
		text, err := Describe([]byte(test.file), time.Now())
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(text, test.want), text)
	}
	der, _, _ := strings.Cut(strings.Split(key, "\n")[1], "\n")
	text, err := Describe(one, time.Now())
	require.NoError(t, err)
	require.NotContains(t, text, der, "the key is shown")
}

// strange signs what `zkd cert` never makes.
func strange(t *testing.T, change func(*x509.Certificate)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "x"}, NotBefore: time.Now(), NotAfter: time.Now().Add(day)}
	change(template)
	c, err := sign(template, template, key.Public(), key)
	require.NoError(t, err)
	return certificateBlock(c)
}

func TestDescribeOthersCertificates(t *testing.T) {
	uri, err := url.Parse("zkd-member-4")
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		change func(*x509.Certificate)
		want   []string
	}{
		{"nobody's", func(*x509.Certificate) {}, []string{"certificate: of no server of a cluster\n", "  for      everything\n"}},
		{"named in a URI", func(c *x509.Certificate) { c.URIs = []*url.URL{uri} }, []string{"certificate: server 4\n"}},
		{"of two", func(c *x509.Certificate) { c.DNSNames = []string{"zkd-member-1", "zkd-member-2"} }, []string{"certificate: servers 1, 2\n"}},
		{"for mail", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} }, []string{"nothing that servers do"}},
		{"that paints the terminal", func(c *x509.Certificate) { c.Subject.CommonName = "\x1b[31mred" }, []string{`"CN=\x1b[31mred"`}},
		{"that paints it by its host", func(c *x509.Certificate) { c.DNSNames = []string{"\x1b[31m"} }, []string{`"\x1b[31m"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := describe(t, strange(t, test.change), time.Now())
			for _, want := range test.want {
				require.Contains(t, text, want)
			}
			require.NotContains(t, text, "\x1b")
		})
	}
}

func TestDescribeRefusesOtherFiles(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"", "neither a certificate nor a private key"},
		{"tickTime=2000\n", "neither a certificate nor a private key"},
		{"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1: "},
	} {
		_, err := Describe([]byte(test.file), time.Now())
		require.ErrorContains(t, err, test.want)
	}
}

// FuzzDescribe: no file panics, and nothing that moves a cursor gets out of one.
func FuzzDescribe(f *testing.F) {
	a, err := NewAuthority("c", time.Now(), year)
	if err != nil {
		f.Fatal(err)
	}
	file, _, err := a.Issue(Member{ID: 1, Hosts: []string{"h", "::1"}}, time.Now(), year)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(certificateBlock(a.Certificate))
	f.Add([]byte("-----BEGIN X-----\n-----END X-----\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		text, err := Describe(file, time.Now())
		if err == nil && strings.ContainsAny(text, "\x1b\x00\r") {
			t.Fatalf("%q", text)
		}
	})
}
