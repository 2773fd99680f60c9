package admin

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/listen"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/fourletter"
)

// open starts a server and its admin port.
func open(t *testing.T, lines ...string) (*server.Server, string) {
	t.Helper()
	cfg := load(t, lines...)
	srv := startServer(t, cfg)
	return srv, startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()})
}

func TestCommandsAreFoundByEveryName(t *testing.T) {
	seen := map[string]bool{}
	for i := range table {
		if i > 0 {
			require.Less(t, table[i-1].name, table[i].name, "the index is sorted")
		}
		for _, name := range append([]string{table[i].name}, table[i].aliases...) {
			require.False(t, seen[name], "%s twice", name)
			seen[name] = true
			require.Equal(t, table[i].name, find(name).name)
		}
	}
	require.Nil(t, find("RUOK"))
}

func TestCommandsThatChangeSomething(t *testing.T) {
	srv, url := open(t)
	c := occupy(t, srv.Addrs()[0].String())
	defer c.Close()
	number := func(command, field string) float64 {
		_, answer := fetch(t, url+"/commands/"+command)
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(answer), &m))
		n, ok := m[field].(float64)
		require.True(t, ok, "%s has no %s: %s", command, field, answer)
		return n
	}
	require.Greater(t, number("monitor", "packets_received"), 100.0)
	fetch(t, url+"/commands/stat_reset")
	require.Less(t, number("monitor", "packets_received"), 100.0)

	require.Equal(t, 306.0, number("gtmk", "tracemask"))
	require.Equal(t, 5.0, number("stmk?traceMask=5", "tracemask"))
	require.Equal(t, 5.0, number("get_trace_mask", "tracemask"))
	_, answer := fetch(t, url+"/commands/stmk?traceMask=many")
	require.Contains(t, answer, `"error" : "setTraceMask requires long traceMask argument, got many"`)

	_, answer = fetch(t, url+"/commands/cons")
	require.NotContains(t, answer, `"last_operation" : "NA"`)
	require.Eventually(t, func() bool { // a ping may come between
		fetch(t, url+"/commands/crst")
		_, answer = fetch(t, url+"/commands/cons")
		return strings.Contains(answer, `"last_operation" : "NA"`)
	}, patience, time.Millisecond)
}

func TestSecretsAreNotShown(t *testing.T) {
	const token, digest = "a-token-that-nobody-should-see", "super:aBcDeFg="
	_, url := open(t, "zkd.adminToken="+token, "DigestAuthenticationProvider.superDigest="+digest)
	for i := range table {
		status, answer := fetch(t, url+"/commands/"+table[i].name, "Authorization", "Bearer "+token)
		require.Equal(t, http.StatusOK, status)
		require.NotContains(t, answer, token)
		require.NotContains(t, answer, digest)
	}
}

func TestMethodsPathsAndHeaders(t *testing.T) {
	_, url := open(t, "admin.commandURL=/zk/admin/")
	for _, tt := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/", 200, `href="/zk/admin"`},
		{"GET", "/zk/admin", 200, `href="/zk/admin/ruok"`},
		{"GET", "/zk/admin/ruok", 200, `"command" : "ruok"`},
		{"HEAD", "/zk/admin/ruok", 200, ""},
		{"GET", "/zk/admin/a/b", 200, "Unknown command: a/b"},
		{"GET", "/zk/admin/%3Cb%3E", 200, "Unknown command: <b>"},
		{"GET", "/commands/ruok", 404, ""},
		{"POST", "/zk/admin/ruok", 405, ""},
		{"TRACE", "/zk/admin/ruok", 405, ""},
		{"DELETE", "/livez", 405, ""},
		{"GE", "/livez", 405, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"GET", "/livez", 200, "ok\n"},
		{"GET", "/readyz", 200, "ok\n"},
		{"GET", "/readyz?verbose", 200, `"name" : "serving"`},
	} {
		r, err := http.NewRequest(tt.method, url+tt.path, nil)
		require.NoError(t, err)
		resp, err := httpClient.Do(r)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, tt.status, resp.StatusCode, "%s %s", tt.method, tt.path)
		require.Contains(t, string(b), tt.contains, "%s %s", tt.method, tt.path)
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	}
}

func TestPProfOnlyWhereAskedFor(t *testing.T) {
	_, url := open(t, "zkd.pprof=true")
	for path, want := range map[string]int{
		"": 200, "heap?debug=1": 200, "goroutine?debug=1": 200, "symbol": 200, "cmdline": 404, "nosuch": 404,
	} {
		status, _ := fetch(t, url+pprofURL+path)
		require.Equal(t, want, status, "%s", path)
	}
	status, _ := fetch(t, url+pprofURL+"heap", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, status)
}

// A server that does not serve is alive, not ready, and says so in every command that needs
// one.
func TestServerThatDoesNotServe(t *testing.T) {
	cfg := load(t)
	srv, err := server.New(server.Options{Config: cfg, Memory: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	url := startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()})
	for i := range table {
		_, answer := fetch(t, url+"/commands/"+table[i].name)
		require.Equal(t, table[i].serving, strings.Contains(answer, notServing), "%s: %s", table[i].name, answer)
	}
	expect := func(path string, want int, text string) {
		status, answer := fetch(t, url+path)
		require.Equal(t, want, status, "%s", path)
		require.Contains(t, answer, text)
	}
	expect("/livez", 200, "ok")
	expect("/readyz", 503, "not serving")
	expect("/readyz?verbose", 503, `"ok" : false`)
	_, err = srv.Start(t.Context())
	require.NoError(t, err)
	expect("/readyz", 200, "ok")
	require.NoError(t, srv.Close())
	expect("/readyz", 503, "not serving")
	expect("/commands/stats", 200, notServing)
}

func TestTakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cfg := load(t)
	cfg.Admin.Port = l.Addr().(*net.TCPAddr).Port
	_, err = Start(Options{Config: cfg})
	var busy *listen.BusyError
	require.ErrorAs(t, err, &busy)
	require.Contains(t, err.Error(), "admin.serverPort")
}

// Connections with TLS stand in a list of their own.
func TestSecureConnectionsAreListedApart(t *testing.T) {
	var b bytes.Buffer
	o := newObject(&b)
	c := &commands{source: listed{}}
	c.connections(o, true)
	require.NoError(t, o.finish())
	plain, secure, ok := strings.Cut(b.String(), "secure_connections")
	require.True(t, ok)
	require.Contains(t, plain, "127.0.0.1:1")
	require.Contains(t, secure, "[::1]:2")
}

// listed is a Source of two connections and nothing else.
type listed struct{ Source }

func (listed) Connections() iter.Seq[fourletter.Connection] {
	return func(yield func(fourletter.Connection) bool) {
		_ = yield(fourletter.Connection{Remote: netip.MustParseAddrPort("127.0.0.1:1")}) &&
			yield(fourletter.Connection{Remote: netip.MustParseAddrPort("[::1]:2"), Secure: true})
	}
}
