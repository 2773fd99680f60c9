package interop

import (
	"crypto/tls"
	"io"
	"os/exec"
	"testing"
	"time"
)

// TestTLS drives the Java client, kazoo and a bare TLS connection with keys in PEM files.
func TestTLS(t *testing.T) {
	leaveOutOfShort(t)
	k, err := pemKeys()
	if err != nil {
		t.Fatal(err)
	}
	forEachServer(t, secureSettings(k, nil), func(t *testing.T, s *server) {
		t.Run("java", func(t *testing.T) { runProgram(t, nil, javaProgram(t, "TlsChecks", tlsArgs(t, s, k)...)) })
		t.Run("kazoo", func(t *testing.T) {
			needFiles(t, "python3-kazoo", systemPython, "/usr/lib/python3/dist-packages/kazoo/client.py")
			runProgram(t, nil, exec.Command(systemPython, "-B", "python/tls_checks.py", s.secureAddr, startProxies(t, s, s.secureAddr), k.caPEM, k.clientPEM, k.clientKey))
		})
		t.Run("words-inside-tls", func(t *testing.T) { wordsInsideTLS(t, s, k) })
		t.Run("old-versions", func(t *testing.T) { oldTLS(t, s, k) })
	})
}

// TestTLSKeytool does the Java part with the files of Java's keytool, JKS and PKCS12, and
// with both protocols on the plain port.
func TestTLSKeytool(t *testing.T) {
	leaveOutOfShort(t)
	needCommand(t, "keytool", "default-jre-headless")
	k, err := keytoolKeys()
	if err != nil {
		t.Fatal(err)
	}
	forEachServer(t, secureSettings(k, map[string]string{"client.portUnification": "true"}), func(t *testing.T, s *server) {
		runProgram(t, nil, javaProgram(t, "TlsChecks", append(tlsArgs(t, s, k), "-Dinterop.unified=yes")...))
	})
}

// wordsInsideTLS asks a four-letter word on the TLS port.
func wordsInsideTLS(t *testing.T, s *server, k *keys) {
	c, err := tls.Dial("tcp", s.secureAddr, &tls.Config{RootCAs: k.roots, Certificates: []tls.Certificate{k.clientCert}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "srvr"); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(c)
	if !s.namesMode(string(out)) {
		t.Errorf("srvr over TLS: %q, %v", out, err)
	}
}

// oldTLS offers only versions that must not be spoken any more.
func oldTLS(t *testing.T, s *server, k *keys) {
	c, err := tls.Dial("tcp", s.secureAddr, &tls.Config{
		RootCAs: k.roots, Certificates: []tls.Certificate{k.clientCert}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	})
	if err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is accepted")
	}
}
