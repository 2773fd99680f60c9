package admin

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/httpport/tlstest"
)

const (
	token = "0123456789abcdef"
	ruok  = "/commands/ruok"
)

// ask asks the handler directly: a port that is open to the network is not opened in a test.
func ask(h http.Handler, path string, header ...string) int {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "zk1.example.com:8080"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestWhoIsAnswered(t *testing.T) {
	srv := startServer(t, load(t))
	bearer := "Bearer " + token
	for _, tt := range []struct {
		name   string
		lines  []string
		local  bool
		header []string
		want   int
	}{
		{"loopback by address", nil, true, []string{"Host", "127.0.0.1:8080"}, 200},
		{"loopback by IPv6 address", nil, true, []string{"Host", "[::1]:8080"}, 200},
		{"loopback by localhost", nil, true, []string{"Host", "LocalHost"}, 200},
		{"loopback by the configured name", []string{"admin.serverAddress=zk1.example.com"}, true, nil, 200},
		{"loopback by the name of a web page", nil, true, []string{"Host", "attacker.example"}, 403},
		{"loopback by a name that looks like one", nil, true, []string{"Host", "localhost.attacker.example"}, 403},
		{"network without a token", nil, false, nil, 401},
		{"network, any token where none is set", nil, false, []string{"Authorization", "Bearer "}, 401},
		{"network with the token", []string{"zkd.adminToken=" + token}, false, []string{"Authorization", bearer}, 200},
		{"network with the scheme in small letters", []string{"zkd.adminToken=" + token}, false, []string{"Authorization", "bearer " + token}, 200},
		{"network with another token", []string{"zkd.adminToken=" + token}, false, []string{"Authorization", bearer + "x"}, 401},
		{"network with a part of the token", []string{"zkd.adminToken=" + token}, false, []string{"Authorization", "Bearer 01234567"}, 401},
		{"network with the token as a password", []string{"zkd.adminToken=" + token}, false, []string{"Authorization", "Basic " + token}, 401},
		{"loopback without the token that is set", []string{"zkd.adminToken=" + token}, true, []string{"Host", "localhost"}, 401},
		{"loopback with it", []string{"zkd.adminToken=" + token}, true, []string{"Authorization", bearer}, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := load(t, append(tt.lines, "zkd.pprof=true")...)
			h := newHandler(newCommands(Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()}), newGate(&cfg.Admin, tt.local, false))
			for _, path := range []string{ruok, "/commands", "/", "/debug/pprof/", "/debug/pprof/heap"} {
				require.Equal(t, tt.want, ask(h, path, tt.header...), "%s", path)
			}
			for _, path := range []string{"/livez", "/readyz", "/livez?verbose"} {
				require.Equal(t, http.StatusOK, ask(h, path, tt.header...), "%s is for everybody", path)
			}
		})
	}
}

// A page that a browser shows may not reset what is here.
func TestPagesOfOthersChangeNothing(t *testing.T) {
	srv := startServer(t, load(t))
	cfg := load(t)
	h := newHandler(newCommands(Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()}), newGate(&cfg.Admin, true, false))
	for site, want := range map[string]int{"": 200, "none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403} {
		require.Equal(t, want, ask(h, "/commands/stmk?traceMask=1", "Host", "localhost", "Sec-Fetch-Site", site), "%q", site)
		require.Equal(t, 200, ask(h, "/commands/gtmk", "Host", "localhost", "Sec-Fetch-Site", site), "%q", site)
	}
}

// Who needs a certificate needs none for the pages of supervisors; the token does as well.
func TestClientCertificates(t *testing.T) {
	p := tlstest.New(t)
	cfg := load(t, "admin.portUnification=true", "admin.needClientAuth=true", "zkd.adminToken="+token,
		"ssl.quorum.keyStore.location="+p.KeyStore, "ssl.quorum.trustStore.location="+p.TrustStore)
	srv := startServer(t, cfg)
	url := startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()})
	https := "https" + url[len("http"):]
	client := func(certificates ...tls.Certificate) *http.Client {
		return &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: p.Roots, Certificates: certificates},
		}}
	}
	for _, tt := range []struct {
		name          string
		client        *http.Client
		url           string
		authorization string
		want          int
	}{
		{"with a certificate", client(p.Client), https + ruok, "", 200},
		{"without one", client(), https + ruok, "", 401},
		{"without one, with the token", client(), https + ruok, "Bearer " + token, 200},
		{"plain", client(), url + ruok, "", 401},
		{"plain with the token", client(), url + ruok, "Bearer " + token, 200},
		{"ready, without one", client(), https + "/readyz", "", 200},
		{"alive, plain", client(), url + "/livez", "", 200},
	} {
		r, err := http.NewRequest(http.MethodGet, tt.url, nil)
		require.NoError(t, err)
		if tt.authorization != "" {
			r.Header.Set("Authorization", tt.authorization)
		}
		resp, err := tt.client.Do(r)
		require.NoError(t, err, "%s", tt.name)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		require.Equal(t, tt.want, resp.StatusCode, "%s", tt.name)
		if tt.want == http.StatusUnauthorized {
			require.Equal(t, `Bearer realm="zkd"`, resp.Header.Get("WWW-Authenticate"))
		}
	}
}

// Plain HTTP to a port with admin.forceHttps is counted, as in ZooKeeper.
func TestForcedHTTPSTurnsPlainAway(t *testing.T) {
	p := tlstest.New(t)
	cfg := load(t, "admin.forceHttps=true", "ssl.quorum.keyStore.location="+p.KeyStore)
	srv := startServer(t, cfg)
	a, err := Start(Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()})
	require.NoError(t, err)
	status, answer := fetch(t, "http://"+a.Addr().String()+ruok)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, "HTTPS only")
	require.NoError(t, a.ReloadTLS())
	require.NoError(t, os.WriteFile(p.KeyStore, []byte("nothing"), 0o600))
	require.Error(t, a.ReloadTLS())
	a.Close()
	require.EqualValues(t, 1, srv.Stats().InsecureAdmin.Value(0))
}

func TestBadKeysAreNamed(t *testing.T) {
	cfg := load(t, "admin.forceHttps=true", "ssl.quorum.keyStore.location=/nowhere/key.pem")
	_, err := Start(Options{Config: cfg})
	require.ErrorContains(t, err, "/nowhere/key.pem")
}
