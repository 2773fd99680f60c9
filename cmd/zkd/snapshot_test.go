package main

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
)

// A savedServer is a server whose admin port takes backups.
type savedServer struct {
	*process
	url string
}

const backupSecret = "a-secret"

func startWithBackups(t *testing.T, dir string) *savedServer {
	t.Helper()
	t.Setenv(superPasswordVariable, backupSecret)
	adminAddr := freeport.Addr(t)
	_, port, err := net.SplitHostPort(adminAddr)
	require.NoError(t, err)
	sum := sha1.Sum([]byte("super:" + backupSecret))
	p := start(t, dir, freeport.Addr(t), "--set", "admin.enableServer=true", "--set", "admin.serverPort="+port,
		"--set", "admin.rateLimiterIntervalInMS=0",
		"--set", "DigestAuthenticationProvider.superDigest=super:"+base64.StdEncoding.EncodeToString(sum[:]))
	return &savedServer{p, "http://" + adminAddr}
}

func TestSnapshotsThereAndBack(t *testing.T) {
	dir := t.TempDir()
	srv := startWithBackups(t, filepath.Join(dir, "data"))
	c := connect(t, srv.addr)
	create := func(path, data string) {
		_, err := c.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	for _, path := range []string{"/app", "/app/a", "/app/b", "/other"} {
		create(path, "saved")
	}
	zkd := func(code int, args ...string) string {
		t.Helper()
		got, out := runCommand(t, append([]string{"snapshot"}, args...)...)
		require.Equal(t, code, got, "%v: %s", args, out)
		return out
	}
	file, sub := filepath.Join(dir, "whole.zkd"), filepath.Join(dir, "app.zkd")
	require.Contains(t, zkd(exitOK, "save", file, "--server", srv.url), "saved "+file)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Contains(t, zkd(exitUsage, "save", file, "--server", srv.url), "--force")
	require.Contains(t, zkd(exitOK, "save", sub, "--server", srv.url, "--path", "/app"), "saved "+sub)
	require.Contains(t, zkd(exitOK, "verify", file), "all is well: the whole tree")
	require.Contains(t, zkd(exitOK, "verify", sub), "/app and what is below it")

	var said struct {
		Znodes   int
		Scope    string
		Zxid     string
		Subtrees []struct{ Path string }
	}
	require.NoError(t, json.Unmarshal([]byte(zkd(exitOK, "inspect", file, "-o", "json")), &said))
	require.Equal(t, 9, said.Znodes, "as srvr counts")
	require.Equal(t, "/", said.Scope)
	require.Regexp(t, "^0x1", said.Zxid)
	require.Equal(t, "/app", said.Subtrees[0].Path)
	require.Contains(t, zkd(exitOK, "inspect", file), "/app        3")

	_, err = c.Set("/app/a", []byte("later"), -1)
	require.NoError(t, err)
	require.NoError(t, c.Delete("/app/b", -1))
	create("/app/c", "later")
	create("/kept", "later")
	out := zkd(exitUsage, "diff", file, srv.url)
	for _, line := range []string{"~ /app/a  (data)\n", "- /app/b\n", "+ /app/c\n", "+ /kept\n", "differ: 2 added, 1 removed, 1 changed"} {
		require.Contains(t, out, line)
	}
	require.NotContains(t, out, "/other")
	require.Contains(t, zkd(exitUsage, "diff", sub, srv.url, "-o", "json"), `"path": "/app/c"`)

	require.Contains(t, zkd(exitUsage, "restore", file, "--server", srv.url), "nothing was changed") // the input is closed
	require.Contains(t, zkd(exitOK, "restore", sub, "--server", srv.url, "--yes"), "1 znodes created, 1 changed, 1 deleted")
	require.NotContains(t, zkd(exitOK, "diff", sub, srv.url), "~")
	zkd(exitOK, "restore", file, "--server", srv.url, "--path", "/app", "--into", "/copy", "--yes")
	data, _, err := c.Get("/copy/a")
	require.NoError(t, err)
	require.Equal(t, "saved", string(data))

	// The snapshots of a server are backups as well, and what is written to a pipe is one.
	own, err := filepath.Glob(filepath.Join(dir, "data", "snapshots", "*.snap"))
	require.NoError(t, err)
	require.NotEmpty(t, own)
	zkd(exitOK, "verify", own[0])
	piped := filepath.Join(dir, "piped.zkd")
	b, err := exec.Command(zkdBinary, "snapshot", "save", "-", "--server", srv.url).Output()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(piped, b, 0o600))
	zkd(exitOK, "diff", piped, srv.url)

	left, err := filepath.Glob(filepath.Join(dir, ".zkd-snapshot-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNewClusterFromSnapshot(t *testing.T) {
	dir := t.TempDir()
	srv := startWithBackups(t, filepath.Join(dir, "data"))
	c := connect(t, srv.addr)
	_, err := c.Create("/p", []byte("x"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = c.Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	file, again := filepath.Join(dir, "saved.zkd"), filepath.Join(dir, "again")
	code, out := runCommand(t, "snapshot", "save", file, "--server", srv.url)
	require.Equal(t, exitOK, code, out)
	code, out = runCommand(t, "snapshot", "restore", file, "--data-dir", filepath.Join(dir, "data"))
	require.Equal(t, exitUsage, code, out)
	code, out = runCommand(t, "snapshot", "restore", file, "--data-dir", again)
	require.Equal(t, exitOK, code, out)
	require.NoError(t, srv.stop(syscall.SIGTERM))

	p := start(t, again, freeport.Addr(t))
	c = connect(t, p.addr)
	data, stat, err := c.Get("/p")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	found, _, err := c.Exists("/e")
	require.NoError(t, err)
	require.False(t, found, "an ephemeral node without its session")
	now, err := c.Set("/p", nil, stat.Version)
	require.NoError(t, err)
	require.Greater(t, now.Mzxid>>32, stat.Mzxid>>32+1000, "zxids of the lost cluster are not used again")
	require.NoError(t, p.stop(syscall.SIGTERM))
	code, out = runCommand(t, "snapshot", "restore", file, "--data-dir", again)
	require.Equal(t, exitUsage, code, out)
	require.Contains(t, out, "holds a database already")
}

func TestDamagedSnapshotIsNamed(t *testing.T) {
	dir := t.TempDir()
	srv := startWithBackups(t, filepath.Join(dir, "data"))
	_, err := connect(t, srv.addr).Create("/p", []byte("x"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	file := filepath.Join(dir, "saved.zkd")
	code, out := runCommand(t, "snapshot", "save", file, "--server", srv.url)
	require.Equal(t, exitOK, code, out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(file, b, 0o600))
	for _, args := range [][]string{
		{"verify", file},
		{"inspect", file},
		{"diff", file, srv.url},
		{"restore", file, "--server", srv.url, "--yes"},
		{"restore", file, "--data-dir", filepath.Join(dir, "new")},
	} {
		code, out := runCommand(t, append([]string{"snapshot"}, args...)...)
		require.Equal(t, exitBroken, code, "%v: %s", args, out)
		require.Regexp(t, `damaged data in `+file+`, offset \d+: `, out)
		require.Equal(t, 1, strings.Count(out, "\n"), "one line: %s", out)
	}
	require.NoDirExists(t, filepath.Join(dir, "new"))
}

func TestWrongUseOfSnapshotIsExplained(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(superPasswordVariable, "")
	file := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two"), []byte("a\nb\n"), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, "link")))
	closed := "http://" + freeport.Addr(t)
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"save", 1, "name the file to make"},
		{"save DIR", 1, "is a directory"},
		{"save DIR/new", 1, superPasswordVariable},
		{"save DIR/new --path x", 1, "no path of a node"},
		{"save DIR/new --server localhost:8080", 1, "no URL of an admin server"},
		{"save DIR/new --server http://super:x@localhost", 1, "--user"},
		{"save DIR/new --password-file DIR/two", 1, "the password and nothing else"},
		{"save DIR/new --password-file DIR/none", 1, "no such file"},
		{"save DIR/new --password-file DIR/f --server http://zk1:8080", 1, "in the clear"},
		{"save DIR/new --password-file DIR/f --server " + closed, 1, "admin.serverPort"},
		{"save DIR/none/new --password-file DIR/f --server " + closed, 1, "no folder"},
		{"save DIR/f/new --password-file DIR/f --server " + closed, 1, "no folder"},
		{"save DIR/link", 1, "exists"},
		{"inspect", 1, "name the backup"},
		{"inspect DIR/f -o xml", 1, "table or json"},
		{"inspect DIR/none", 1, "no such file"},
		{"inspect DIR", 1, "no ordinary file"},
		{"verify DIR/f", 3, "no whole snapshot"},
		{"diff DIR/f", 1, "name two backups"},
		{"diff DIR/none DIR/f", 3, "nothing was compared"},
		{"restore DIR/f", 1, "say where to"},
		{"restore DIR/f --server http://localhost --data-dir DIR/x", 1, "say where to"},
		{"restore DIR/f --data-dir DIR/x --path /a", 1, "running cluster"},
		{"restore DIR/f --server http://localhost --id 3", 1, "--data-dir"},
		{"restore DIR/f --data-dir DIR/x --id 300", 1, "--id 300: allowed: 1 to 255"},
		{"restore DIR/f --data-dir DIR/x --id -2", 1, "--id -2: allowed: 1 to 255"},
	} {
		args := strings.Fields(strings.ReplaceAll(tt.args, "DIR", dir))
		code, out := runCommand(t, append([]string{"snapshot"}, args...)...)
		require.Equal(t, tt.code, code, "%s: %s", tt.args, out)
		require.Contains(t, out, tt.says, tt.args)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.True(t, strings.HasPrefix(lines[len(lines)-1], "zkd: "), out)
	}
	require.NoFileExists(t, filepath.Join(dir, "outside"))
	for _, name := range []string{"", "save", "inspect", "verify", "restore", "diff"} {
		args := strings.Fields("snapshot " + name + " --help")
		code, out := runCommand(t, args...)
		require.Equal(t, exitOK, code)
		require.Contains(t, out, "Examples:\n  zkd snapshot ")
	}
}

func TestLinkIsReplacedAndNotFollowed(t *testing.T) {
	dir := t.TempDir()
	srv := startWithBackups(t, filepath.Join(dir, "data"))
	outside, link := filepath.Join(dir, "outside"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(outside, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(outside, link))
	code, out := runCommand(t, "snapshot", "save", link, "--server", srv.url, "--force")
	require.Equal(t, exitOK, code, out)
	b, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "mine", string(b))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
}

func TestProgressBar(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	p := &progress{out: &out, terminal: true, now: func() time.Time { return now }}
	in := &countingReader{Reader: strings.NewReader(strings.Repeat("x", 2000)), size: 2000, what: "saving f", next: "and then", p: p}
	piece := make([]byte, 1000)
	for range 2 {
		now = now.Add(time.Second)
		_, err := in.Read(piece)
		require.NoError(t, err)
	}
	require.Contains(t, out.String(), "saving f [###############...............]  50 %  1000 B")
	require.Contains(t, out.String(), "[##############################] 100 %  2.0 KiB")
	require.Contains(t, out.String(), "and then …")
	in.detach()
	before := out.Len()
	_, err := in.Read(piece)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, before, out.Len())
	for n, text := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 20: "1.0 MiB", 3 << 39: "1.5 TiB", 1<<63 - 1: "8.0 EiB"} {
		require.Equal(t, text, humanBytes(n))
	}
}
