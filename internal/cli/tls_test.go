package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/zkdtest"
)

// writeCertificate makes a certificate for 127.0.0.1 that is its own authority, in a file by
// itself and in one with its key.
func writeCertificate(t *testing.T) (cert, both string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	c := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	dir := t.TempDir()
	cert, both = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "both.pem")
	require.NoError(t, os.WriteFile(cert, c, 0o600))
	require.NoError(t, os.WriteFile(both, append(c, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), 0o600))
	return cert, both
}

func TestTLS(t *testing.T) {
	cert, both := writeCertificate(t)
	srv := zkdtest.Start(t, zkdtest.Set("client.portUnification", "true"),
		zkdtest.Set("ssl.keyStore.location", both), zkdtest.Set("ssl.trustStore.location", cert), zkdtest.Set("ssl.clientAuth", "need"))
	c, err := client.Dial(t.Context(), srv.Addr())
	require.NoError(t, err)
	defer func() { _ = c.Close(context.Background()) }()
	conf := filepath.Join(t.TempDir(), "client.properties")
	require.NoError(t, os.WriteFile(conf, []byte("# of a Java client\nzookeeper.client.secure = true\nzookeeper.ssl.keyStore.location="+both+
		"\nzookeeper.ssl.trustStore.location="+cert+"\n"), 0o600))
	for _, args := range [][]string{
		{"-tls-ca", cert, "-tls-cert", both, "-tls-key", both},
		{"-client-configuration", conf},
	} {
		o := runWith("", append(append([]string{"-server", srv.Addr()}, args...), "whoami")...)
		require.Equal(t, exitOK, o.code, "%v: %s", args, o.err)
		require.Contains(t, o.out, "x509: CN=test")
	}
	o := runWith("", "-server", srv.Addr(), "-tls-ca", conf, "whoami")
	require.Equal(t, exitLocal, o.code, "that is no certificate")
	require.NoError(t, os.WriteFile(conf, []byte("zookeeper.client.secure=true\nzookeeper.ssl.keyStore.location=x.jks\n"), 0o600))
	o = runWith("", "-client-configuration", conf, "whoami")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.err, "only PEM files can be read")
}

// startSecure runs a server with a port that speaks nothing but TLS, and asks for certificates.
func startSecure(t *testing.T, cert, both string) (addr string) {
	t.Helper()
	addr = freeport.Addr(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	zkdtest.Start(t, zkdtest.Set("secureClientPort", port), zkdtest.Set("secureClientPortAddress", "127.0.0.1"),
		zkdtest.Set("ssl.keyStore.location", both), zkdtest.Set("ssl.trustStore.location", cert), zkdtest.Set("ssl.clientAuth", "need"))
	return addr
}

// A port that speaks nothing but TLS drops who does not: the user is told why, and soon.
func TestPortThatWantsTLSIsNamed(t *testing.T) {
	cert, both := writeCertificate(t)
	secure := startSecure(t, cert, both)
	o := runWith("", "-server", secure, "whoami")
	require.Equal(t, exitNoConnection, o.code)
	require.Contains(t, o.err, "speaks TLS")
	require.Contains(t, o.err, "-tls-ca")
}
