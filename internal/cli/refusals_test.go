package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zkdtest"
)

func TestPortThatThereCannotBeIsWrongUse(t *testing.T) {
	for hosts, wrong := range map[string]string{
		"localhost:2181": "", "localhost": "", "::1": "", "[::1]:2181": "", "a:2181, b:65535": "", "localhost:": "",
		"localhost:99999": "localhost:99999", "localhost:0": "localhost:0", "a:2181,b:x": "b:x", "[::1]:-1": "[::1]:-1",
	} {
		if err := checkServers(hosts); wrong == "" {
			require.NoError(t, err, hosts)
		} else {
			require.ErrorContains(t, err, wrong+": the port is a number", hosts)
		}
	}
	o := runWith("", "-server", "localhost:99999/app", "ls", "/")
	require.Equal(t, exitUsage, o.code, o.err)
	require.Contains(t, o.err, "the port is a number from 1 to 65535")
}

func TestCertificateAndKeyNeedEachOther(t *testing.T) {
	cert, both := writeCertificate(t)
	o := runWith("", "-tls-cert", cert, "ls", "/")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.err, "-tls-cert needs -tls-key")
	o = runWith("", "-tls-key", both, "ls", "/")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.err, "-tls-key needs -tls-cert")
}

// answersWith runs a command until its error has these words: where the machine stands still for
// a second now and then, an attempt may run out of time before it has found out.
func answersWith(t *testing.T, words string, args ...string) {
	t.Helper()
	var o outcome
	for range 6 {
		if o = runWith("", args...); strings.Contains(o.err, words) {
			require.Equal(t, exitNoConnection, o.code)
			return
		}
	}
	t.Fatalf("%q is not said, but: %s", words, o.err)
}

func TestPortThatSpeaksNoTLSIsNamed(t *testing.T) {
	cert, _ := writeCertificate(t)
	srv := zkdtest.Start(t)
	answersWith(t, "speaks no TLS there", "-server", srv.Addr(), "-tls-ca", cert, "ls", "/")
}

// A certificate that is not trusted will not be so in the next attempt either.
func TestServersThatAreNotTrustedAreGivenUp(t *testing.T) {
	cert, both := writeCertificate(t)
	other, _ := writeCertificate(t)
	secure := startSecure(t, cert, both)
	for _, ca := range []string{
		other, // does not vouch for the server
		cert,  // does, but we show no certificate
	} {
		answersWith(t, "no TLS connection comes about", "-server", secure, "-tls-ca", ca, "ls", "/")
	}
}

func TestOnlyDistrustEndsTLSForGood(t *testing.T) {
	require.False(t, distrusts(io.EOF))
	require.False(t, distrusts(&net.OpError{Op: "dial", Err: errors.New("no route")}))
	require.True(t, distrusts(fmt.Errorf("connect response: %w", &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")})))
}

func TestAdminPortThatWantsATokenSaysHowToGiveIt(t *testing.T) {
	no := &refusal{http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN with the token of zkd.adminToken"}
	require.ErrorContains(t, adminError("session list", no), "-admin-token-file")
	require.ErrorContains(t, adminError("session list", &refusal{http.StatusUnauthorized, "wrong password"}), "wrong password")
}
