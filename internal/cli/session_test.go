package cli

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/local"
	"github.com/zkd-project/zkd/server/admin"
)

const superPassword = "open:sesame"

// An operated cluster has its admin ports open.
type operated struct {
	t       *testing.T
	cluster *local.Cluster
	admins  []string
	auth    string // file with the super user's password
}

func operate(t *testing.T, nodes int) *operated {
	t.Helper()
	sum := sha1.Sum([]byte("super:" + superPassword))
	digest := "super:" + base64.StdEncoding.EncodeToString(sum[:])
	super := config.Override{Key: "DigestAuthenticationProvider.superDigest", Value: digest, Origin: "test"}
	c, err := local.Start(t.Context(), local.Options{Nodes: nodes, Settings: []config.Override{
		super,
		{Key: "4lw.commands.whitelist", Value: "*", Origin: "test"},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	o := &operated{t: t, cluster: c, auth: filepath.Join(t.TempDir(), "auth")}
	require.NoError(t, os.WriteFile(o.auth, []byte("digest super:"+superPassword+"\n"), 0o600))
	cfg, _, err := config.Load(config.Sources{InMemory: true, Overrides: []config.Override{super, {Key: "admin.serverPort", Value: "0"}}})
	require.NoError(t, err)
	for i := range nodes {
		s := c.Server(i + 1)
		a, err := admin.Start(admin.Options{
			Config: cfg, Source: s.Face(), Stats: s.Stats(), Operator: s.Face(), Log: slog.New(slog.DiscardHandler), LogLevel: new(slog.LevelVar),
		})
		require.NoError(t, err)
		t.Cleanup(a.Close)
		o.admins = append(o.admins, a.Addr().String())
	}
	return o
}

func (o *operated) run(args ...string) outcome {
	o.t.Helper()
	return runWith("", append([]string{"-admin", strings.Join(o.admins, ",")}, args...)...)
}

// dial opens a session at a server.
func (o *operated) dial(number int) *client.Client {
	o.t.Helper()
	c, err := client.Dial(o.t.Context(), o.cluster.Addr(number), client.WithTimeout(20*time.Second))
	require.NoError(o.t, err)
	o.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// Sessions of all servers are one list, and any server can end one.
func TestSessionsOfAClusterAreListedAndKilled(t *testing.T) {
	o := operate(t, 3)
	var ids []string
	for i := range 2 {
		c := o.dial(i + 1)
		_, _, err := c.Create(t.Context(), "/e", nil, client.ModeEphemeralSequential, nil)
		require.NoError(t, err)
		ids = append(ids, hex(c.SessionID()))
	}
	var out outcome
	eventually(t, "both sessions everywhere", func() bool {
		out = o.run("session", "list", "-o", "raw")
		return strings.Count(out.out, "\n") == 2
	})
	require.ElementsMatch(t, ids, strings.Fields(out.out))
	require.Empty(t, out.err)
	out = o.run("session", "list")
	require.Equal(t, exitOK, out.code, out.err)
	require.Regexp(t, `^SESSION +ADDRESS +SINCE +TIMEOUT +EPHEMERALS`, out.out)
	for _, id := range ids {
		require.Regexp(t, regexp.QuoteMeta(id)+` +127\.0\.0\.1:\d+ +20\d\d-\S+ +20s +1 +(CREA|PING)`, out.out)
	}
	require.Contains(t, o.run("session", "list", "-o", "json").out, `"session":"`+ids[0]+`","timeoutMs":20000,"ephemerals":1,"address":"127.0.0.1:`)

	out = o.run("session", "kill", ids[0])
	require.Equal(t, exitUsage, out.code)
	require.Contains(t, out.err, "-auth-file")
	wrong := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(wrong, []byte("digest super:wrong\n"), 0o600))
	out = o.run("-auth-file", wrong, "session", "kill", ids[0])
	require.Equal(t, exitRefused, out.code)
	require.Contains(t, out.err, "for the super user")
	require.NotContains(t, out.err, "wrong\n")

	eventually(t, "it is over", func() bool { // not at once where the leader has just lost its place
		out = o.run("-auth-file", o.auth, "session", "kill", ids[0])
		return out.code == exitOK || strings.Contains(out.err, "there is no session")
	})
	if out.code == exitOK {
		require.Equal(t, outcome{exitOK, "session " + ids[0] + " is over\n", ""}, out)
	}
	out = o.run("-auth-file", o.auth, "session", "kill", ids[0])
	require.Equal(t, outcome{exitRefused, "", "session kill " + ids[0] + ": there is no session " + ids[0] + "\n"}, out)
	eventually(t, "it is gone everywhere", func() bool { // its client may have another by now
		left := strings.Fields(o.run("session", "list", "-o", "raw").out)
		return !slices.Contains(left, ids[0]) && slices.Contains(left, ids[1])
	})
	require.NotContains(t, out.out+out.err, superPassword)
}

// A port that nobody listens at is passed over, and said.
func TestSessionListWithoutSomePorts(t *testing.T) {
	o := operate(t, 1)
	c := o.dial(1)
	o.admins = append(o.admins, nobody)
	out := o.run("session", "list", "-o", "raw")
	require.Equal(t, outcome{exitOK, hex(c.SessionID()) + "\n", "1 of 2 admin ports did not answer: the addresses of sessions on their servers are missing\n"}, out)

	want := outcome{exitOK, hex(c.SessionID()) + "\n", "no admin port answers: these are the connections that the four-letter word cons shows\n"}
	comes(t, want, func() outcome {
		return runWith("", "-server", o.cluster.Addr(1), "-admin", nobody, "session", "list", "-o", "raw")
	}, "by the word cons")
	out = runWith("", "-server", nobody, "-admin", nobody, "session", "list")
	require.Equal(t, exitNoConnection, out.code)
	require.Contains(t, out.err, "-admin names the admin ports")
	require.Equal(t, 1, strings.Count(out.err, "\n"), out.err)

	o.admins = []string{nobody, o.admins[0]} // last: the client comes back with another session
	out = o.run("-auth-file", o.auth, "session", "kill", hex(c.SessionID()))
	require.Equal(t, exitOK, out.code, out.err)
}

func TestTopOfACluster(t *testing.T) {
	o := operate(t, 2)
	one, two := o.dial(1), o.dial(2)
	_, _, err := one.Create(t.Context(), "/app", nil, client.ModePersistent, nil)
	require.NoError(t, err)
	_, _, err = one.Create(t.Context(), "/app/x", nil, client.ModePersistent, nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = one.Set(ctx, "/app/x", []byte("y"), -1)
			_, _, _ = two.Get(ctx, "/app/x", client.Fresh())
		}
	}()
	defer func() { stop(); <-done }()
	var out outcome
	eventually(t, "some requests", func() bool { // on a busy machine a second may pass without one
		out = o.run("top", "-n", "1")
		require.Equal(t, exitOK, out.code, out.err)
		return strings.Contains(out.out, " /app/x\n")
	})
	require.Regexp(t, `^\d+ requests/s, \d+(\.\d)? (B|KiB|MiB)/s\n`, out.out)
	for _, head := range []string{"OPERATION", "PATH", "ADDRESS", "SESSION"} {
		require.Regexp(t, `REQUESTS/S +SHARE +BYTES/S +`+head, out.out)
	}
	require.Regexp(t, `\d+\.\d +\d+\.\d% +\S+ \S+ +/app/x\n`, out.out)
	require.NotContains(t, out.out, "\x1b", "no terminal")
	eventually(t, "some requests in both seconds", func() bool {
		out = o.run("top", "-n", "2", "-b", "path", "-p", "1", "-o", "raw")
		require.Equal(t, exitOK, out.code, out.err)
		return strings.Count(out.out, "\n") == 2
	})
	require.Regexp(t, `^path \d+ \d+ /app\npath \d+ \d+ /app\n$`, out.out)
	eventually(t, "the session", func() bool {
		return strings.Contains(o.run("top", "-b", "session", "-o", "json").out, `{"by":"session","name":"`+hex(one.SessionID())+`"`)
	})
}

func TestLogLevelOfACluster(t *testing.T) {
	o := operate(t, 2)
	out := o.run("log-level")
	require.Equal(t, outcome{exitOK, o.admins[0] + "\tinfo\n" + o.admins[1] + "\tinfo\n", ""}, out)
	out = o.run("log-level", "debug")
	require.Equal(t, exitUsage, out.code)
	require.Contains(t, out.err, "-auth-file")
	out = o.run("-auth-file", o.auth, "log-level", "-o", "raw", "debug")
	require.Equal(t, outcome{exitOK, "debug\ndebug\n", ""}, out)
	o.admins = append(o.admins, nobody)
	out = o.run("log-level")
	require.Equal(t, exitNoConnection, out.code)
	require.Equal(t, o.admins[0]+"\tdebug\n"+o.admins[1]+"\tdebug\n", out.out)
}

func TestWrongUseOfSessionAndTop(t *testing.T) {
	for want, args := range map[string][]string{
		"session list | kill id...":                {"session", "show"},
		"session list | kill":                      {"session", "list", "x"},
		"usage: session":                           {"session", "-x"},
		"session kill 7: it is an id":              {"session", "kill", "7"},
		"-n 0: it is a number from 1 to 1000000":   {"top", "-n", "0"},
		"-d 11: it is a number from 1 to 10":       {"top", "-d", "11"},
		"loud is no level; it is debug":            {"log-level", "loud"},
		"-b color: it is session":                  {"top", "-b", "color"},
		"-admin ftp://x: write http://host:8080":   {"-admin", "ftp://x", "top"},
		"-admin http://u:p@x: write http://host:8": {"-admin", "http://u:p@x", "session", "list"},
	} {
		o := runWith("", args...)
		require.Equal(t, exitUsage, o.code, "%v: %s", args, o.err)
		require.Contains(t, o.err, want)
		require.Equal(t, 1, strings.Count(o.err, "\n"), o.err)
	}
}

func TestAdminPortsAreThoseOfTheServers(t *testing.T) {
	for _, c := range []struct{ servers, admin, want string }{
		{"a:2181,b,a:2182,[::1]:2181/app", "", "http://a:8080/commands http://b:8080/commands http://[::1]:8080/commands"},
		{"a", "c:9,https://d/adm/", "http://c:9/commands https://d:8080/adm"},
	} {
		s := settings{servers: c.servers, admin: c.admin}
		got, err := s.adminURLs()
		require.NoError(t, err)
		require.Equal(t, c.want, strings.Join(got, " "))
	}
}

// A password that goes over the network is known to all on the way, whatever the server says to it.
func TestCredentialsDoNotGoInTheClear(t *testing.T) {
	auth, token := filepath.Join(t.TempDir(), "auth"), filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(auth, []byte("digest super:"+superPassword+"\n"), 0o600))
	require.NoError(t, os.WriteFile(token, []byte(superPassword+"\n"), 0o600))
	for _, c := range []struct {
		args string
		says string // "": it goes
	}{
		{"-server db1:2181 -auth-file AUTH session kill 0x1", "the password would go to db1 in the clear: use -admin https://db1:8080"},
		{"-server db1:2181 -auth-file AUTH log-level debug", "the password would go to db1"},
		{"-admin http://db1:9,https://db2:9 -auth-file AUTH session kill 0x1", "the password would go to db1"},
		{"-server localhost:1,10.1.2.3:1 -admin-token-file TOKEN session list", "the token would go to 10.1.2.3"},
		{"-server db1:2181 -admin-token-file TOKEN top -n 1", "the token would go to db1"},
		{"-server db1:2181 -auth-file AUTH session list", ""}, // it is not sent
		{"-server localhost:2181 -auth-file AUTH session kill 0x1", ""},
		{"-admin [::1]:9,127.0.0.2:9,https://db1 -auth-file AUTH session kill 0x1", ""},
		{"-admin http://db1:9 -admin-token-file TOKEN session list", ""},
	} {
		args := strings.Fields(strings.NewReplacer("AUTH", auth, "TOKEN", token).Replace(c.args))
		s, err := parseSettings(args)
		require.NoError(t, err)
		urls, err := s.adminURLs()
		require.NoError(t, err)
		order := s.command[0] == "log-level" || s.command[len(s.command)-2] == "kill"
		if err = s.checkPrivate(urls, order); c.says == "" {
			require.NoError(t, err, c.args)
			continue
		}
		require.ErrorContains(t, err, c.says)
		o := runWith("", args...)
		require.Equal(t, exitUsage, o.code, o.err)
		require.Contains(t, o.err, c.says)
		require.NotContains(t, o.err, superPassword)
	}
}

// The certificate of the super user is enough for the commands that are for him.
func TestCertificateProvesTheSuperUser(t *testing.T) {
	cert, both := writeCertificate(t)
	for _, command := range [][]string{{"session", "kill", "0x1"}, {"log-level", "debug"}} {
		args := append([]string{"-admin", "https://" + nobody, "-tls-ca", cert, "-tls-cert", both, "-tls-key", both}, command...)
		o := runWith("", args...)
		require.Equal(t, exitNoConnection, o.code, "it is asked: %s", o.err)
		require.Contains(t, o.err, "connection refused")
	}
}

func TestPortsThatDoNotAnswerAreNamedOnOneLine(t *testing.T) {
	for _, command := range [][]string{{"session", "list"}, {"top", "-n", "1"}, {"log-level"}} {
		o := runWith("", append([]string{"-server", nobody, "-admin", nobody + ",http://localhost:1"}, command...)...)
		require.Equal(t, exitNoConnection, o.code)
		require.Equal(t, 1, strings.Count(o.err, "\n"), o.err)
		require.Contains(t, o.err, "localhost:1")
	}
}

// What the other side says is shown on one line, and nobody else is told our password.
func TestAdminPortThatIsNone(t *testing.T) {
	var seen []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.URL.Path) }))
	defer elsewhere.Close()
	for answer, want := range map[string]string{"\x1b[2Jno\nsuch page": "[2Jno", "": "404 Not Found"} {
		odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(answer))
		}))
		out := runWith("", "-admin", odd.URL, "top", "-n", "1")
		odd.Close()
		require.Equal(t, exitRefused, out.code)
		require.Contains(t, out.err, want)
		require.Equal(t, 1, strings.Count(out.err, "\n"))
		require.NotContains(t, out.err, "\x1b")
	}
	redirect := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer redirect.Close()
	auth := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("digest super:pw\n"), 0o600))
	require.Equal(t, exitRefused, runWith("", "-admin", redirect.URL, "-auth-file", auth, "session", "kill", "0x1").code)
	require.Empty(t, seen)
}
