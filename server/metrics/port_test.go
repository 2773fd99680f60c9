package metrics

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/httpport/tlstest"
	"github.com/zkd-project/zkd/internal/listen"
	"github.com/zkd-project/zkd/internal/local"
)

func client(keys *tlstest.Keys, certificates ...tls.Certificate) *http.Client {
	t := &http.Transport{DisableKeepAlives: true}
	if keys != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: keys.Roots, Certificates: certificates}
	}
	return &http.Client{Transport: t}
}

func get(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b), nil
}

func TestPortIsOpenedAndClosed(t *testing.T) {
	l, err := net.Listen("tcp", freeport.Addr(t))
	require.NoError(t, err)
	o := options(leaderStats())
	o.Config.HTTPPort = l.Addr().(*net.TCPAddr).Port
	_, err = Start(o)
	var busy *listen.BusyError
	require.ErrorAs(t, err, &busy)
	require.ErrorContains(t, err, "metricsProvider.httpPort")
	require.NoError(t, l.Close())

	s, err := Start(o)
	require.NoError(t, err)
	url := fmt.Sprintf("http://%s/metrics", s.Addrs()[0])
	text, err := get(t, client(nil), url)
	require.NoError(t, err)
	parse(t, text)
	require.NoError(t, s.ReloadTLS(), "there is nothing to reload")
	s.Close()
	_, err = get(t, client(nil), url)
	require.Error(t, err)
}

// With HTTPS there are certificates of clients, needed as in ZooKeeper unless it is said
// otherwise; here the configuration has been settled already.
func TestHTTPSAsksForACertificate(t *testing.T) {
	keys := tlstest.New(t)
	o := options(leaderStats())
	o.Config.HTTPPort, o.Config.HTTPSPort = freeport.Row(t, 1), freeport.Row(t, 1)
	o.Config.TLS = config.TLS{
		KeyStore:   config.Store{Location: keys.KeyStore, Type: config.StorePEM},
		TrustStore: config.Store{Location: keys.TrustStore, Type: config.StorePEM},
		ClientAuth: config.ClientAuthNeed, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
	}
	s, err := Start(o)
	require.NoError(t, err)
	defer s.Close()
	require.Len(t, s.Addrs(), 2)
	url := fmt.Sprintf("https://%s/metrics", s.Addrs()[1])
	text, err := get(t, client(keys, keys.Client), url)
	require.NoError(t, err)
	parse(t, text)
	_, err = get(t, client(keys), url)
	require.Error(t, err, "without a certificate")
	text, err = get(t, client(nil), "http"+strings.TrimPrefix(url, "https"))
	require.NoError(t, err)
	require.Contains(t, text, "HTTPS only")
	require.NoError(t, s.ReloadTLS())
	require.NoError(t, os.Remove(keys.KeyStore))
	require.Error(t, s.ReloadTLS())
	_, err = get(t, client(keys, keys.Client), url)
	require.NoError(t, err, "the old keys stay in use")
}

func TestNoPortIsLeftOpenWithoutKeys(t *testing.T) {
	o := options(leaderStats())
	o.Config.HTTPPort, o.Config.HTTPSPort = freeport.Row(t, 1), freeport.Row(t, 1)
	o.Config.TLS.KeyStore = config.Store{Location: "/nowhere/key.pem", Type: config.StorePEM}
	_, err := Start(o)
	require.ErrorContains(t, err, "/nowhere/key.pem")
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.Config.HTTPPort))
	require.NoError(t, err, "the other port is closed again")
	require.NoError(t, l.Close())
}

// The leader of a real cluster counts who follows it, a follower does not.
func TestLeaderCountsItsFollowers(t *testing.T) {
	c, err := local.Start(t.Context(), local.Options{Nodes: 3})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	leader := c.Leader()
	of := func(number int) map[string]string {
		o := options(c.Server(number).Stats())
		o.Source = c.Server(number).Face()
		return scrape(t, Handler(o)).series
	}
	require.Eventually(t, func() bool {
		s := of(leader)
		return s["synced_followers{}"] == "2" && s["learners{}"] == "2" && s["quorum_size{}"] == "3" && s[`zkd_server_state{state="leader"}`] == "1"
	}, 20*time.Second, 20*time.Millisecond)
	follower := of(leader%3 + 1)
	require.Equal(t, "3", follower["quorum_size{}"])
	require.Equal(t, "1", follower[`zkd_server_state{state="follower"}`])
	require.NotContains(t, follower, "synced_followers{}")
}

// A server in a test opens no port for operators: it has no code for them.
func TestEmbeddedServerHasNoFaces(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/zkd-project/zkd/zkdtest").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, "github.com/zkd-project/zkd/server")
	for _, face := range []string{"server/admin", "server/metrics", "internal/httpport"} {
		require.NotContains(t, deps, "github.com/zkd-project/zkd/"+face)
	}
	require.NotContains(t, deps, "net/http/pprof", "it would register itself in the program's own mux")
}
