package main

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
)

const prometheus = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

func page(t *testing.T, url string) (int, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}

// takenPort is a port that somebody else listens on.
func takenPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func TestOperatorsPortsAreServed(t *testing.T) {
	adminAddr, metricsAddr := freeport.Addr(t), freeport.Addr(t)
	_, adminPort, _ := net.SplitHostPort(adminAddr)
	_, metricsPort, _ := net.SplitHostPort(metricsAddr)
	addr := freeport.Addr(t)
	p := start(t, filepath.Join(t.TempDir(), "data"), addr, "--set", "admin.enableServer=true", "--set", "admin.serverPort="+adminPort,
		"--set", prometheus, "--set", "metricsProvider.httpHost=127.0.0.1", "--set", "metricsProvider.httpPort="+metricsPort)
	connect(t, addr)
	status, answer := page(t, "http://"+adminAddr+"/commands/server_stats")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"server_state" : "standalone"`)
	_, answer = page(t, "http://"+adminAddr+"/readyz")
	require.Equal(t, "ok\n", answer)
	_, answer = page(t, "http://"+metricsAddr+"/metrics")
	require.Contains(t, answer, "\nglobal_sessions 1\n")
	require.Contains(t, answer, "\nzkd_serving 1\n")
	require.Contains(t, answer, "\ngo_goroutines ")
	require.NoError(t, p.stop(syscall.SIGTERM))
}

// As in ZooKeeper: the admin server is a convenience.
func TestTakenAdminPortIsAWarning(t *testing.T) {
	addr := freeport.Addr(t)
	p := start(t, filepath.Join(t.TempDir(), "data"), addr, "--set", "admin.enableServer=true", "--set", "admin.serverPort="+takenPort(t))
	require.Contains(t, p.log.String(), "level=WARN")
	require.Contains(t, p.log.String(), "is in use by another program")
	require.Contains(t, p.log.String(), "admin.serverPort")
	connect(t, addr)
	require.NoError(t, p.stop(syscall.SIGTERM))
}

// As in ZooKeeper: metrics that nobody could scrape were asked for.
func TestTakenMetricsPortStopsTheStart(t *testing.T) {
	code, out := runCommand(t, "serve", "--data-dir", t.TempDir(), "--client-port", "0", "--set", "admin.enableServer=false",
		"--set", prometheus, "--set", "metricsProvider.httpHost=127.0.0.1", "--set", "metricsProvider.httpPort="+takenPort(t))
	require.Equal(t, exitUsage, code, out)
	require.Contains(t, out, "metricsProvider.httpPort")
}

func TestNoPortWhereNoneIsAskedFor(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"), freeport.Addr(t), "--set", "admin.enableServer=false")
	require.NotContains(t, p.log.String(), "admin server")
	require.NotContains(t, p.log.String(), "metrics")
	require.Equal(t, 1, strings.Count(p.log.String(), "clients="))
}
