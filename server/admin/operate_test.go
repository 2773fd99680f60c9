package admin

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server"
)

// superPassword is that of the super user in these tests.
const superPassword = "sesame"

var super = []string{"Authorization", "digest super:" + superPassword}

// operated is a server with a super user, and its admin port.
func operated(t *testing.T, settings ...string) (srv *server.Server, url string, level *slog.LevelVar) {
	t.Helper()
	sum := sha1.Sum([]byte("super:" + superPassword))
	settings = append(settings, "DigestAuthenticationProvider.superDigest=super:"+base64.StdEncoding.EncodeToString(sum[:]))
	cfg := load(t, settings...)
	srv = startServer(t, cfg)
	level = new(slog.LevelVar)
	url = startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats(), Operator: srv.Face(), LogLevel: level})
	return srv, url + "/commands/", level
}

func TestLogLevelIsTheSuperUsers(t *testing.T) {
	_, url, level := operated(t)
	status, answer := fetch(t, url+"log_level")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "{\n  \"level\" : \"info\",\n  \"command\" : \"log_level\",\n  \"error\" : null\n}", answer)
	const debug = `{"level": "debug"}`
	for name, tt := range map[string]struct {
		header []string
		status int
	}{
		"nobody":    {nil, http.StatusUnauthorized},
		"another":   {[]string{"Authorization", "digest bob:pw"}, http.StatusForbidden},
		"wrong":     {[]string{"Authorization", "digest super:x"}, http.StatusUnauthorized},
		"no scheme": {[]string{"Authorization", "super:" + superPassword}, http.StatusUnauthorized},
		"a token":   {[]string{"Authorization", "Bearer " + superPassword}, http.StatusUnauthorized},
	} {
		status, answer = post(t, url+"log_level", debug, tt.header...)
		require.Equal(t, tt.status, status, name)
		require.Contains(t, answer, "super user", name)
		require.NotContains(t, answer, superPassword)
	}
	require.Equal(t, slog.LevelInfo, level.Level())
	status, _ = post(t, url+"log_level", debug, append([]string{"Sec-Fetch-Site", "cross-site"}, super...)...)
	require.Equal(t, http.StatusForbidden, status)
	status, answer = post(t, url+"log_level", debug, super...)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"level" : "debug"`)
	require.Equal(t, slog.LevelDebug, level.Level())
	for _, body := range []string{"", "{}", `{"level": "loud"}`, `{"level": "info"} x`, `{"levl": "info"}`, strings.Repeat(" ", maxOrder) + `{"level": "info"}`} {
		status, answer = post(t, url+"log_level", body, super...)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, answer, "one of debug, info, warn and error")
		require.True(t, json.Valid([]byte(answer)))
	}
	require.Equal(t, slog.LevelDebug, level.Level())
}

// Who holds the token of the port is trusted with all of it.
func TestTokenIsTheSuperUsersToo(t *testing.T) {
	const token = "0123456789abcdef"
	_, url, level := operated(t, "zkd.adminToken="+token)
	bearer := []string{"Authorization", "Bearer " + token}
	status, _ := post(t, url+"log_level", `{"level": "warn"}`, super...)
	require.Equal(t, http.StatusUnauthorized, status, "the gate wants the token")
	status, _ = post(t, url+"log_level", `{"level": "warn"}`, bearer...)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, slog.LevelWarn, level.Level())
}

// Where nobody is the super user, nobody may change anything.
func TestWithoutASuperUserNothingIsChanged(t *testing.T) {
	cfg := load(t)
	srv := startServer(t, cfg)
	url := startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats(), Operator: srv.Face()}) + "/commands/"
	for _, name := range []string{"log_level", "kill_session"} {
		status, _ := post(t, url+name, "{}", "Authorization", "digest super:")
		require.Equal(t, http.StatusForbidden, status)
	}
	status, answer := fetch(t, url+"log_level")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, answer, "the program that runs this server keeps its log")
}

func TestWithoutAnOperatorThereAreZooKeepersCommandsAlone(t *testing.T) {
	cfg := load(t)
	srv := startServer(t, cfg)
	url := startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()})
	_, answer := fetch(t, url+"/commands/sessions")
	require.Contains(t, answer, "Unknown command: sessions")
}

type listedSession struct {
	Session       string
	TimeoutMs     int  `json:"timeout_ms"`
	Ephemerals    int  `json:"ephemerals"`
	ConnectedHere bool `json:"connected_here"`
	Address       string
}

func listSessions(t *testing.T, url string) map[string]listedSession {
	t.Helper()
	status, answer := fetch(t, url+"sessions")
	require.Equal(t, http.StatusOK, status)
	var a struct{ Sessions []listedSession }
	require.NoError(t, json.Unmarshal([]byte(answer), &a), answer)
	all := map[string]listedSession{}
	for _, s := range a.Sessions {
		all[s.Session] = s
	}
	return all
}

func TestSessionsAreListedAndKilled(t *testing.T) {
	srv, url, _ := operated(t)
	one := occupy(t, srv.Addrs()[0].String())
	defer one.Close()
	two, events, err := zk.Connect([]string{srv.Addrs()[0].String()}, 9*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer two.Close()
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	id := "0x" + hex(one.SessionID())
	all := listSessions(t, url)
	require.Len(t, all, 2)
	require.Equal(t, 2, all[id].Ephemerals)
	require.Equal(t, 9000, all[id].TimeoutMs)
	require.True(t, all[id].ConnectedHere)
	require.Contains(t, all[id].Address, "127.0.0.1:")

	status, answer := post(t, url+"kill_session", `{"session": "`+id+`"}`, super...)
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"session_killed" : "`+id+`"`)
	require.NotContains(t, listSessions(t, url), id)
	_, stat, err := two.Exists("/d/e1")
	require.NoError(t, err)
	require.Zero(t, stat.Czxid, "its ephemeral nodes went with it")

	status, answer = post(t, url+"kill_session", `{"session": "`+id+`"}`, super...)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, answer, "there is no session "+id)
	for _, body := range []string{"", "{}", `{"session": 7}`, `{"session": "7"}`, `{"session": "0xx"}`, `{"session": "0x1ffffffffffffffff"}`} {
		status, _ = post(t, url+"kill_session", body, super...)
		require.Equal(t, http.StatusBadRequest, status, body)
	}
	status, _ = fetch(t, url+"kill_session")
	require.Equal(t, http.StatusMethodNotAllowed, status, "a link must not kill")
}

func TestTopSaysWhoDoesThis(t *testing.T) {
	srv, url, _ := operated(t)
	c := occupy(t, srv.Addrs()[0].String())
	defer c.Close()
	require.NoError(t, c.AddAuth("digest", []byte("bob:hunter2")))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_, _, _ = c.Get("/d/e1")
				_, _ = c.Set("/d", []byte("y"), -1)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	type row struct {
		Name            string
		Requests, Bytes int64
	}
	var a struct {
		IntervalMs  int64 `json:"interval_ms"`
		Requests    int64
		BySession   []row `json:"by_session"`
		ByUser      []row `json:"by_user"`
		ByAddress   []row `json:"by_address"`
		ByPath      []row `json:"by_path"`
		ByOperation []row `json:"by_operation"`
	}
	names := func(rows []row) (out []string) {
		for _, r := range rows {
			out = append(out, r.Name)
		}
		return out
	}
	require.Eventually(t, func() bool { // on a busy machine a moment may pass without a request
		status, answer := fetch(t, url+"top?ms=100&depth=1")
		require.Equal(t, http.StatusOK, status, answer)
		require.NotContains(t, answer, "hunter2")
		a.BySession, a.ByPath, a.ByOperation = nil, nil, nil
		require.NoError(t, json.Unmarshal([]byte(answer), &a))
		operations := names(a.ByOperation)
		return a.Requests > 3 && slices.Contains(operations, "getData") && slices.Contains(operations, "setData")
	}, patience, time.Millisecond)
	require.GreaterOrEqual(t, a.IntervalMs, int64(100))
	require.Equal(t, []string{"0x" + hex(c.SessionID())}, names(a.BySession))
	require.Equal(t, []string{"bob"}, names(a.ByUser))
	require.Equal(t, []string{"127.0.0.1"}, names(a.ByAddress))
	require.Equal(t, []string{"/d"}, names(a.ByPath))

	for _, q := range []string{"ms=0", "ms=10001", "ms=x", "depth=0", "limit=0", "limit=1001", "ms="} {
		status, answer := fetch(t, url+"top?"+q)
		require.Equal(t, http.StatusBadRequest, status, q)
		require.Contains(t, answer, "ask with ms from 1 to 10000")
	}
}
