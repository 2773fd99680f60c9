package admin

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/stats"
)

const backupPassword = "a-secret"

// backupSuper is the line of the configuration that makes super the super user.
func backupSuper() string {
	sum := sha1.Sum([]byte("super:" + backupPassword))
	return "DigestAuthenticationProvider.superDigest=super:" + base64.StdEncoding.EncodeToString(sum[:])
}

const backupAuth = "digest super:" + backupPassword

// askBackup sends a request of the commands for backups.
func askBackup(t *testing.T, method, url, auth string, body io.Reader, header ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	if auth != "" {
		r.Header.Set("Authorization", auth)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := httpClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, b
}

// backupError is the error of an answer in JSON.
func backupError(t *testing.T, b []byte) string {
	t.Helper()
	var answer struct {
		Command string
		Error   string
	}
	require.NoError(t, json.Unmarshal(b, &answer), "%s", b)
	require.Contains(t, []string{"snapshot", "restore"}, answer.Command)
	return answer.Error
}

func TestSnapshotIsTakenAndRestored(t *testing.T) {
	srv, url := open(t, backupSuper(), "admin.rateLimiterIntervalInMS=0", "zkd.adminToken=0123456789abcdef0123")
	c := occupy(t, srv.Addrs()[0].String())
	defer c.Close()
	resp, file := askBackup(t, "GET", url+"/commands/snapshot", backupAuth, nil)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", file)
	require.Equal(t, "application/octet-stream", resp.Header.Get("Content-Type"))
	require.Regexp(t, `^0x1000000[0-9a-f]{2}$`, resp.Header.Get("last_zxid"))
	require.Len(t, file, int(resp.ContentLength))

	resp, none := askBackup(t, "GET", url+"/commands/snap?streaming=false", backupAuth, nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Empty(t, none)
	require.NotEmpty(t, resp.Header.Get("snapshot_size"))

	_, err := c.Set("/d", []byte("later"), -1)
	require.NoError(t, err)
	for _, query := range []string{"", "?path=/d", "?path=/d&into=/copy"} {
		resp, answer := askBackup(t, "POST", url+"/commands/restore"+query, backupAuth, bytes.NewReader(file))
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
		require.Contains(t, string(answer), `"last_zxid" : "0x1000000`)
		require.Contains(t, string(answer), `"error" : null`)
	}
	for _, path := range []string{"/d", "/copy"} {
		data, _, err := c.Get(path)
		require.NoError(t, err)
		require.Equal(t, "y", string(data))
	}
	children, _, err := c.Children("/d")
	require.NoError(t, err)
	require.Len(t, children, 2, "ephemeral nodes of a living session stay")
	children, _, err = c.Children("/copy")
	require.NoError(t, err)
	require.Empty(t, children, "and are not copied")

	resp, answer := askBackup(t, "POST", url+"/commands/restore?path=/none", backupAuth, bytes.NewReader(file))
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Contains(t, backupError(t, answer), "no node")
	file[len(file)/2] ^= 1
	resp, answer = askBackup(t, "POST", url+"/commands/rest", backupAuth, bytes.NewReader(file))
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Contains(t, backupError(t, answer), "damaged")
	resp, answer = askBackup(t, "POST", url+"/commands/restore", backupAuth, nil)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Contains(t, backupError(t, answer), "as the body")
	require.Positive(t, srv.Stats().RestoreErrors.Value(stats.SinceStart))
	var took stats.Snapshot
	srv.Stats().RestoreTime.Read(stats.SinceStart, &took)
	require.Equal(t, int64(3), took.Count)
	require.Greater(t, time.Duration(took.Sum), 30*time.Microsecond, "it is recorded in nanoseconds")
}

func TestBackupsAreForTheSuperUser(t *testing.T) {
	_, url := open(t, backupSuper(), "admin.rateLimiterIntervalInMS=0")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("super:"+backupPassword))
	for _, tt := range []struct {
		auth   string
		header []string
		status int
	}{
		{"", nil, 401},
		{"digest super:wrong", nil, 401},
		{"digest super", nil, 401},
		{"Bearer super:" + backupPassword, nil, 401},
		{"digest bob:" + backupPassword, nil, 403},
		{"Basic " + base64.StdEncoding.EncodeToString([]byte("bob:x")), nil, 403},
		{backupAuth, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{backupAuth, nil, 200},
		{"DIGEST super:" + backupPassword, nil, 200},
		{basic, nil, 200},
	} {
		resp, b := askBackup(t, "GET", url+"/commands/snapshot", tt.auth, nil, tt.header...)
		require.Equal(t, tt.status, resp.StatusCode, "%s: %s", tt.auth, b)
		if tt.status == 200 {
			continue
		}
		require.NotContains(t, string(b), backupPassword)
		require.NotEmpty(t, backupError(t, b))
		resp, b = askBackup(t, "POST", url+"/commands/restore", tt.auth, strings.NewReader("x"), tt.header...)
		require.Equal(t, tt.status, resp.StatusCode, "%s: %s", tt.auth, b)
	}
	for method, path := range map[string]string{"POST": "snapshot", "GET": "restore", "PUT": "restore"} {
		resp, _ := askBackup(t, method, url+"/commands/"+path, backupAuth, nil)
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	}
}

func TestBackupsWithoutASuperUser(t *testing.T) {
	_, url := open(t)
	resp, b := askBackup(t, "GET", url+"/commands/snapshot", "digest super:", nil)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.Contains(t, backupError(t, b), "superDigest")
}

func TestBackupsAreSwitchedOff(t *testing.T) {
	_, url := open(t, backupSuper(), "admin.snapshot.enabled=false", "admin.restore.enabled=false")
	for method, name := range map[string]string{"GET": "snapshot", "POST": "restore"} {
		resp, b := askBackup(t, method, url+"/commands/"+name, backupAuth, nil)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Contains(t, backupError(t, b), "admin."+name+".enabled")
	}
}

func TestBackupsAreRare(t *testing.T) {
	srv, url := open(t, backupSuper())
	resp, file := askBackup(t, "GET", url+"/commands/snapshot", backupAuth, nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	resp, b := askBackup(t, "GET", url+"/commands/snapshot", backupAuth, nil)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	require.Contains(t, backupError(t, b), "admin.rateLimiterIntervalInMS")
	require.EqualValues(t, 1, srv.Stats().SnapshotsRateLimited.Value(stats.SinceStart))
	// What came to nothing does not count.
	for _, body := range []string{"no backup", string(file)} {
		resp, b = askBackup(t, "POST", url+"/commands/restore", backupAuth, strings.NewReader(body))
		require.Equal(t, body == string(file), resp.StatusCode == http.StatusOK, "%s", b)
	}
	resp, _ = askBackup(t, "POST", url+"/commands/restore", backupAuth, strings.NewReader(string(file)))
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
}

func TestPermits(t *testing.T) {
	p := &permit{interval: time.Minute}
	now := time.Unix(1000, 0)
	require.Zero(t, p.take(now))
	require.Positive(t, p.take(now), "one at a time")
	p.give(now, false)
	require.Zero(t, p.take(now), "the last one came to nothing")
	p.give(now, true)
	require.Equal(t, 20*time.Second, p.take(now.Add(40*time.Second)))
	require.Zero(t, p.take(now.Add(time.Minute)))
}

func TestPasswordsDoNotComeInTheClear(t *testing.T) {
	u := &superUser{auth: &config.Auth{
		DigestEnabled: true, DigestAlg: "SHA1", SuperDigest: config.NewSecret(strings.TrimPrefix(backupSuper(), "DigestAuthenticationProvider.superDigest=")),
	}}
	for remote, status := range map[string]int{"10.1.2.3:4": 403, "127.0.0.1:4": 0, "[::1]:4": 0, "[::ffff:127.0.0.1]:4": 0, "somewhere": 403} {
		r := httptest.NewRequest(http.MethodGet, "/commands/snapshot", nil)
		r.RemoteAddr = remote
		r.Header.Set("Authorization", backupAuth)
		got, why := u.refuses(r)
		require.Equal(t, status, got, "%s: %s", remote, why)
	}
}

// busyBackups is a server on which somebody else restores.
type busyBackups struct{ Source }

func (busyBackups) SaveBackup(context.Context) (io.ReadCloser, int64, int64, error) {
	return nil, 0, 0, errors.New("the disk says no")
}

func (busyBackups) RestoreBackup(context.Context, netip.Addr, io.Reader, string, string) (state.Restored, error) {
	return state.Restored{}, state.ErrRestoring
}

func TestWhyABackupFailsIsTold(t *testing.T) {
	cfg := load(t, backupSuper())
	srv := startServer(t, cfg)
	url := startAdmin(t, Options{Config: cfg, Source: busyBackups{srv.Face()}, Stats: srv.Stats()})
	resp, b := askBackup(t, "GET", url+"/commands/snapshot", backupAuth, nil)
	require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	require.Contains(t, backupError(t, b), "the disk says no")
	resp, b = askBackup(t, "POST", url+"/commands/restore", backupAuth, strings.NewReader("x"))
	require.Equal(t, http.StatusConflict, resp.StatusCode)
	require.Contains(t, backupError(t, b), "another restore")
}

// lonely is a server that loses the others of its cluster while it is asked for a backup.
type lonely struct {
	Source
	serving atomic.Bool
}

func (l *lonely) Serving() bool { return l.serving.Load() }

func (l *lonely) SaveBackup(ctx context.Context) (io.ReadCloser, int64, int64, error) {
	l.serving.Store(false)
	<-ctx.Done()
	return nil, 0, 0, fmt.Errorf("wait for the log: %w", ctx.Err())
}

func (l *lonely) RestoreBackup(ctx context.Context, _ netip.Addr, _ io.Reader, _, _ string) (state.Restored, error) {
	_, _, _, err := l.SaveBackup(ctx)
	return state.Restored{}, err
}

// What a server without a majority is asked for would wait for as long as it has none.
func TestBackupsOfAServerThatDoesNotServeAnyMoreAreGivenUp(t *testing.T) {
	cfg := load(t, backupSuper(), "admin.rateLimiterIntervalInMS=0")
	srv := startServer(t, cfg)
	source := &lonely{Source: srv.Face()}
	h := newHandler(newCommands(Options{Config: cfg, Source: source, Stats: srv.Stats()}), newGate(&cfg.Admin, true, false))
	h.backups.look = time.Millisecond
	for method, name := range map[string]string{http.MethodGet: "snapshot", http.MethodPost: "restore"} {
		source.serving.Store(true)
		r := httptest.NewRequest(method, "http://localhost/commands/"+name, strings.NewReader("x"))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Authorization", backupAuth)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, "%s", w.Body)
		require.Contains(t, backupError(t, w.Body.Bytes()), "does not serve any more")
	}
}

// Who guesses passwords from many connections must not keep operators from this port.
func TestGuessersDoNotUseUpThePort(t *testing.T) {
	cfg := load(t, backupSuper())
	u := &superUser{auth: &cfg.Auth, stats: stats.New()}
	ask := func(password string) int {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // nobody waits for the answer
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/commands/snapshot", nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.SetBasicAuth("super", password)
		status, _ := u.refuses(r)
		return status
	}
	u.guessing.Lock() // as if one were being answered
	answers := make(chan int)
	for range maxGuessers {
		go func() { answers <- ask("wrong") }()
	}
	require.Eventually(t, func() bool { return u.guessers.Load() == maxGuessers }, patience, time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, ask("wrong"))
	require.Equal(t, http.StatusTooManyRequests, ask(backupPassword), "the answer tells nothing about the password")
	u.guessing.Unlock()
	for range maxGuessers {
		require.Equal(t, http.StatusUnauthorized, <-answers)
	}
	require.Zero(t, ask(backupPassword))
}
