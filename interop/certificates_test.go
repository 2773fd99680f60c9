package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// keys are the files of one way to keep keys: a server's, a client's that it trusts, and
// one of a stranger.
type keys struct {
	dir                         string
	serverStore, serverTrust    string
	clientStore, clientTrust    string
	strangerStore               string
	password                    string
	clientCert                  tls.Certificate // pemKeys only
	roots                       *x509.CertPool  // pemKeys only
	clientDN                    string          // as the server names the client
	clientPEM, clientKey, caPEM string          // pemKeys only: files for kazoo
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

// issue returns a certificate for this name and the loopback address, and its key, as PEM.
func (a *authority) issue(name pkix.Name, serial int64) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certPEM, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), err
}

// pemKeys makes an authority, and certificates in PEM files, once for all tests.
var pemKeys = sync.OnceValues(func() (*keys, error) {
	dir := filepath.Join(scratch, "pem")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ca, err := newAuthority("interop CA")
	if err != nil {
		return nil, err
	}
	other, err := newAuthority("stranger CA")
	if err != nil {
		return nil, err
	}
	k := &keys{dir: dir, roots: x509.NewCertPool(), clientDN: "CN=client,OU=interop,O=zkd"}
	k.roots.AddCert(ca.cert)
	var failed error
	write := func(name string, parts ...[]byte) string {
		path := filepath.Join(dir, name)
		var all []byte
		for _, p := range parts {
			all = append(all, p...)
		}
		if err := os.WriteFile(path, all, 0o600); err != nil {
			failed = err
		}
		return path
	}
	issue := func(a *authority, name pkix.Name, serial int64) (cert, key []byte) {
		cert, key, err := a.issue(name, serial)
		if err != nil {
			failed = err
		}
		return cert, key
	}
	caCert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	cert, key := issue(ca, pkix.Name{CommonName: "server"}, 2)
	k.serverStore = write("server.pem", key, cert)
	k.serverTrust = write("trust.pem", caCert)
	k.clientTrust, k.caPEM = k.serverTrust, k.serverTrust
	cert, key = issue(ca, pkix.Name{CommonName: "client", OrganizationalUnit: []string{"interop"}, Organization: []string{"zkd"}}, 3)
	k.clientStore = write("client.pem", key, cert)
	k.clientPEM, k.clientKey = write("client-cert.pem", cert), write("client-key.pem", key)
	if failed == nil {
		k.clientCert, failed = tls.X509KeyPair(cert, key)
	}
	cert, key = issue(other, pkix.Name{CommonName: "client"}, 4)
	k.strangerStore = write("stranger.pem", key, cert)
	return k, failed
})

// keytoolKeys makes self-signed keys with Java's keytool, the server's in a JKS file and
// the client's in PKCS12 files, once for all tests.
var keytoolKeys = sync.OnceValues(func() (*keys, error) {
	dir := filepath.Join(scratch, "keytool")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	k := &keys{
		dir: dir, password: "interop-secret", clientDN: "CN=client,OU=interop,O=zkd",
		serverStore: in("server.jks"), serverTrust: in("server-trust.p12"), clientStore: in("client.p12"), clientTrust: in("client-trust.p12"), strangerStore: in("stranger.p12"),
	}
	var failed error
	keytool := func(args ...string) {
		if failed != nil {
			return
		}
		cmd := exec.Command("keytool", append(args, "-storepass", k.password, "-noprompt")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			failed = fmt.Errorf("keytool %v: %w\n%s", args, err, out)
		}
	}
	pair := func(store, kind, dn string) {
		keytool("-genkeypair", "-alias", "key", "-keyalg", "RSA", "-keysize", "2048", "-dname", dn, "-ext", "san=ip:127.0.0.1,dns:localhost", "-validity", "2", "-storetype", kind, "-keystore", store, "-keypass", k.password)
	}
	trust := func(from, into string) {
		cert := from + ".cer"
		keytool("-exportcert", "-alias", "key", "-keystore", from, "-file", cert)
		keytool("-importcert", "-alias", "peer", "-file", cert, "-storetype", "PKCS12", "-keystore", into)
	}
	pair(k.serverStore, "JKS", "CN=server")
	pair(k.clientStore, "PKCS12", "CN=client, OU=interop, O=zkd")
	pair(k.strangerStore, "PKCS12", "CN=stranger")
	trust(k.clientStore, k.serverTrust)
	trust(k.serverStore, k.clientTrust)
	return k, failed
})

// secureSettings makes a server open a TLS port with these keys.
func secureSettings(k *keys, more map[string]string) settings {
	config := map[string]string{
		"serverCnxnFactory":       "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location":   k.serverStore,
		"ssl.trustStore.location": k.serverTrust,
	}
	if k.password != "" {
		config["ssl.keyStore.password"], config["ssl.trustStore.password"] = k.password, k.password
	}
	for key, v := range more {
		config[key] = v
	}
	return settings{config: config, secure: true, byRequest: true}
}

// tlsArgs are the system properties that TlsChecks.java reads.
func tlsArgs(t *testing.T, s *server, k *keys) []string {
	t.Helper()
	args := javaAddresses(t, s)
	return append(args, "-Dinterop.secure="+s.secureAddr, "-Dinterop.secureControl="+startProxies(t, s, s.secureAddr), "-Dinterop.keyStore="+k.clientStore, "-Dinterop.trustStore="+k.clientTrust,
		"-Dinterop.strangerStore="+k.strangerStore, "-Dinterop.storePassword="+k.password, "-Dinterop.dn="+k.clientDN)
}
