package config

import (
	"strings"
	"testing"
)

const asksForPrometheus = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

func TestOperatorsPortsThatCouldNotWork(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lines   []string
		problem string // "": none
		warning string
	}{
		{"as it comes", nil, "", ""},
		{"loopback", []string{"admin.serverAddress=127.0.0.2"}, "", ""},
		{"a name of loopback", []string{"admin.serverAddress=localhost"}, "", ""},
		{"everywhere", []string{"admin.serverAddress=0.0.0.0"}, "", "set zkd.adminToken"},
		{"everywhere with a token", []string{"admin.serverAddress=0.0.0.0", "zkd.adminToken=0123456789abcdef"}, "", ""},
		{"everywhere with HTTPS", []string{"admin.serverAddress=::", "admin.forceHttps=true", "ssl.quorum.keyStore.location=k.pem"}, "", "set zkd.adminToken"},
		{"everywhere with certificates", []string{"admin.serverAddress=::", "admin.forceHttps=true", "ssl.quorum.keyStore.location=k.pem", "ssl.quorum.trustStore.location=t.pem"}, "", ""},
		{"everywhere but off", []string{"admin.serverAddress=0.0.0.0", "admin.enableServer=false"}, "", ""},
		{"a short token", []string{"zkd.adminToken=secret"}, "allowed: 16 or more", ""},
		{"no token file", []string{"zkd.adminTokenFile=nowhere"}, "nowhere cannot be read", ""},
		{"HTTPS without a key", []string{"admin.forceHttps=true"}, "set ssl.quorum.keyStore.location", ""},
		{"either without a key", []string{"admin.portUnification=true"}, "set ssl.quorum.keyStore.location", ""},
		{"certificates over HTTP", []string{"admin.needClientAuth=true"}, "set admin.forceHttps=true", ""},
		{"certificates of nobody", []string{"admin.needClientAuth=true", "admin.forceHttps=true", "ssl.quorum.keyStore.location=k.pem"}, "set ssl.quorum.trustStore.location", ""},
		{"metrics without a port", []string{asksForPrometheus, "metricsProvider.httpPort=0"}, "", "no port shows the metrics"},
		{"metrics over HTTPS without a key", []string{asksForPrometheus, "metricsProvider.httpsPort=7001"}, "set metricsProvider.ssl.keyStore.location", ""},
		{"two on one port", []string{asksForPrometheus, "metricsProvider.httpsPort=7000"}, "port 7000 is metricsProvider.httpPort already", ""},
		{"nobody asks for metrics", []string{"metricsProvider.httpsPort=7001"}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := zooCfg(tt.lines...)
			_, warnings, err := Load(src)
			text, warned := "", ""
			if err != nil {
				text = err.Error()
			}
			for _, w := range warnings {
				warned += w.String() + "\n"
			}
			for _, c := range []struct{ got, want string }{{text, tt.problem}, {warned, tt.warning}} {
				if !strings.Contains(c.got, c.want) || c.want == "" && c.got != "" {
					t.Errorf("got %q, want %q", c.got, c.want)
				}
			}
		})
	}
}

func TestTokenComesFromTheFileFirst(t *testing.T) {
	src := zooCfg("zkd.adminToken=of the line, which does not count", "zkd.adminTokenFile=token")
	inner := src.ReadFile
	src.ReadFile = func(name string) ([]byte, error) {
		if name == "token" {
			return []byte("of-the-file-0123456789\n"), nil
		}
		return inner(name)
	}
	cfg, _ := mustLoad(t, src)
	if got := cfg.Admin.Token.Reveal(); got != "of-the-file-0123456789" {
		t.Errorf("got %q", got)
	}
	if strings.Contains(cfg.InitialConfig, "which does not count") {
		t.Errorf("the token is shown: %s", cfg.InitialConfig)
	}
}
