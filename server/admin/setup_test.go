package admin

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server"
)

// patience is how long a test waits for what must come. Only a failure takes that long.
const patience = 2 * time.Minute

// load makes a configuration of KEY=VALUE lines.
func load(t *testing.T, lines ...string) *config.Config {
	t.Helper()
	text := "dataDir=/none\nclientPort=0\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.serverPort=0\n"
	for _, l := range lines {
		text += l + "\n"
	}
	cfg, _, err := config.Load(config.Sources{
		File: "zoo.cfg", InMemory: true,
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
	})
	require.NoError(t, err)
	return cfg
}

// startServer runs a server in memory.
func startServer(t *testing.T, cfg *config.Config) *server.Server {
	t.Helper()
	s, err := server.New(server.Options{Config: cfg, Memory: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.Start(t.Context())
	require.NoError(t, err)
	return s
}

// startAdmin opens the port and returns its URL.
func startAdmin(t *testing.T, o Options) string {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return "http://" + a.Addr().String()
}

// fetch asks for a URL, with header lines in pairs.
func fetch(t *testing.T, url string, header ...string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := httpClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// httpClient keeps no connection that a closing port would wait for.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// digestEvery transactions there is a digest to show.
const digestEvery = 128

// occupy brings a server into the state that the recorded answers are from: a session with
// ephemeral nodes and watches, and enough transactions for a digest.
func occupy(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 9*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	if _, err := c.Create("/d", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		require.ErrorIs(t, err, zk.ErrNodeExists)
	}
	for _, path := range []string{"/d/e1", "/d/e2"} {
		_, err = c.Create(path, []byte("x"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	for range digestEvery {
		_, err = c.Set("/d", []byte("y"), -1)
		require.NoError(t, err)
	}
	_, _, _, err = c.GetW("/d")
	require.NoError(t, err)
	_, _, _, err = c.ChildrenW("/d")
	require.NoError(t, err)
	_, _, _, err = c.ExistsW("/zz")
	require.NoError(t, err)
	return c
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
