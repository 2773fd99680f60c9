package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	a.key, der = sign(t, tmpl, tmpl, nil)
	var err error
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func sign(t *testing.T, tmpl, parent *x509.Certificate, key *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	if key == nil {
		key = own
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &own.PublicKey, key)
	require.NoError(t, err)
	return own, der
}

// issue returns a certificate and its key in PEM form.
func (a *authority) issue(t *testing.T, name string) (cert, key []byte) {
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	k, der := sign(t, tmpl, a.cert, a.key)
	kb, err := x509.MarshalECPrivateKey(k)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kb})
}

// secureServer is a fake behind TLS that wants certificates of a; it tells whose it got.
func secureServer(t *testing.T, a *authority, who chan<- string) (addr string) {
	cert, key := a.issue(t, "server")
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	require.NoError(t, err)
	f := newFake(t, server(nil))
	t.Cleanup(func() { _ = l.Close() })
	f.running.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.running.Go(func() {
				defer nc.Close()
				tc := nc.(*tls.Conn)
				if tc.HandshakeContext(t.Context()) != nil {
					return
				}
				who <- tc.ConnectionState().PeerCertificates[0].Subject.CommonName
				server(nil)(&fakeConn{f: f, nc: nc})
			})
		}
	})
	return l.Addr().String()
}

// writeFiles puts files in the place of others, all within one tick of the file system's clock.
func writeFiles(t *testing.T, files *TLSFiles, a *authority, name string) {
	cert, key := a.issue(t, name)
	for file, content := range map[string][]byte{files.CAFile: a.pem, files.CertFile: cert, files.KeyFile: key} {
		require.NoError(t, os.WriteFile(file+".new", content, 0o600))
		require.NoError(t, os.Chtimes(file+".new", time.Time{}, time.Unix(1e9, 0)))
		require.NoError(t, os.Rename(file+".new", file))
	}
}

func TestTLSFilesAreReadAgainWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	files := &TLSFiles{CAFile: filepath.Join(dir, "ca"), CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	err := dialFailure(t, "127.0.0.1:1", WithTLSFrom(files.Config), WithDialer(nothing))
	require.ErrorContains(t, err, "no such file")

	who := make(chan string, 10)
	a1, a2 := newAuthority(t), newAuthority(t)
	writeFiles(t, files, a1, "first")
	addr1, addr2 := secureServer(t, a1, who), secureServer(t, a2, who)
	c, err := Dial(testContext(t), addr1, WithTLSFrom(files.Config))
	require.NoError(t, err)
	defer closeClient(t, c)
	require.Equal(t, "first", <-who)
	conf, err := files.Config()
	require.NoError(t, err)
	again, _ := files.Config()
	require.Same(t, conf, again, "unchanged")

	require.NoError(t, os.WriteFile(files.CertFile, []byte("half a certi"), 0o600))
	again, err = files.Config()
	require.NoError(t, err)
	require.Same(t, conf, again, "a file that is just being written does no harm")

	writeFiles(t, files, a2, "second")
	again, err = files.Config()
	require.NoError(t, err)
	require.NotSame(t, conf, again, "other files, of the same time")
	require.NoError(t, c.UpdateServers(addr2))
	require.NoError(t, c.Sync(testContext(t), "/"))
	require.Equal(t, "second", <-who)
}

func nothing(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	_ = far.Close()
	return near, nil
}

func TestServersOfStrangersAreRefused(t *testing.T) {
	who := make(chan string, 10)
	ours, theirs := newAuthority(t), newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	addr := secureServer(t, theirs, who)
	err := dialFailure(t, addr, WithTLS(&tls.Config{RootCAs: pool}))
	require.ErrorContains(t, err, "certificate signed by unknown authority")
	require.Empty(t, who)

	// The right authority, but not the name that was dialled.
	addr = secureServer(t, ours, who)
	err = dialFailure(t, addr, WithTLS(&tls.Config{RootCAs: pool, ServerName: "other"}))
	require.ErrorContains(t, err, "valid for server, not other")
}

// A server that accepts and never shakes hands must not hold the client for longer than one
// attempt may take.
func TestSilentTLSHandshakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, script(func(c *fakeConn) { _, _ = io.Copy(io.Discard, c.nc) }))
		start := time.Now()
		err := dialFailure(t, "127.0.0.1:1", f.options(WithTLS(&tls.Config{}), WithConnectTimeout(3*time.Second))...)
		require.ErrorContains(t, err, "tls:")
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

// dialFailure dials until the first attempt has failed, and returns what Dial then says.
func dialFailure(t *testing.T, addr string, opts ...Option) error {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	_, err := Dial(ctx, addr, append(opts, WithTracer(onFailure(cancel)))...)
	return err
}

// onFailure is a Tracer that calls it when an attempt to connect has failed.
type onFailure func()

func (f onFailure) OpStart(ctx context.Context, _ OpInfo) context.Context { return ctx }
func (f onFailure) OpEnd(context.Context, OpInfo, OpOutcome)              {}
func (f onFailure) Connection(ev ConnEvent) {
	if ev.Kind == ConnFailed {
		f()
	}
}
