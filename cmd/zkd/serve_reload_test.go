package main

import (
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
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

// A logged process has its configuration and its log in files.
type logged struct {
	*process
	t    *testing.T
	dir  string
	conf string
	base []string
}

// startLogged runs `zkd serve` with these lines of zoo.cfg and returns when it is ready.
func startLogged(t *testing.T, lines ...string) *logged {
	t.Helper()
	dir := t.TempDir()
	addr := freeport.Addr(t)
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	l := &logged{t: t, dir: dir, conf: filepath.Join(dir, "zoo.cfg"), base: []string{
		"dataDir=" + filepath.Join(dir, "data"), "clientPort=" + port, "clientPortAddress=" + host,
		"tickTime=2000", "admin.enableServer=false", "zkd.log.file=" + filepath.Join(dir, "zkd.log"),
	}}
	l.configure(lines...)
	s := newSupervisor(t)
	t.Setenv("NOTIFY_SOCKET", s.name)
	l.process = startProcess(t, addr, "serve", "--config", l.conf)
	s.await("READY=1", 1)
	return l
}

// startProcess runs zkd, whose log goes elsewhere.
func startProcess(t *testing.T, addr string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(zkdBinary, args...), addr: addr}
	p.cmd.Stderr = os.Stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

func (l *logged) configure(lines ...string) {
	l.t.Helper()
	text := strings.Join(append(append([]string{}, l.base...), lines...), "\n") + "\n"
	require.NoError(l.t, os.WriteFile(l.conf, []byte(text), 0o600))
}

// awaits waits for a text in a file.
func (l *logged) awaits(file, text string) {
	l.t.Helper()
	var b []byte
	require.Eventually(l.t, func() bool {
		b, _ = os.ReadFile(filepath.Join(l.dir, file))
		return strings.Contains(string(b), text)
	}, patience, 5*time.Millisecond, "%s in %s", text, file)
}

func (l *logged) signal(s syscall.Signal) {
	l.t.Helper()
	require.NoError(l.t, l.cmd.Process.Signal(s))
}

// Whoever changes zoo.cfg and sends SIGHUP is told what is in force and what waits for a restart.
func TestReloadSaysWhatChangesAndWhatDoesNot(t *testing.T) {
	audit := func(dir string) string { return filepath.Join(dir, "audit.log") }
	l := startLogged(t, "4lw.commands.whitelist=ruok")
	c := connect(t, l.addr)
	l.configure("4lw.commands.whitelist=mntr", "zkd.log.level=debug", "tickTime=3000", "audit.enable=true", "zkd.audit.file="+audit(l.dir))
	l.signal(syscall.SIGHUP)
	l.awaits("zkd.log", `msg="configuration reloaded" changed=4 need_restart=1`)
	for _, line := range []string{
		`level=INFO msg="a setting has changed" key=4lw.commands.whitelist from=ruok to=mntr`,
		`level=INFO msg="a setting has changed" key=zkd.logLevel from="" to=debug`,
		`level=INFO msg="a setting has changed" key=audit.enable from="" to=true`,
		`level=WARN msg="a setting is in force after a restart only" key=tickTime from=2000 to=3000`,
		"certificates reloaded",
	} {
		l.awaits("zkd.log", line)
	}
	_, err := c.Create("/told", []byte("x"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	l.awaits("audit.log", "operation=create\tznode=/told\tznode_type=persistent\tresult=success\n")
	nc, err := net.Dial("tcp", l.addr)
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Write([]byte{0xff, 0, 0, 0}) // no frame: worth a line at this level alone
	require.NoError(t, err)
	l.awaits("zkd.log", "level=DEBUG")

	l.configure("tickTime=soon")
	l.signal(syscall.SIGHUP)
	l.awaits("zkd.log", "configuration not reloaded; the old one stays")
	l.awaits("zkd.log", l.conf+":7: tickTime")

	// logrotate: move away, SIGUSR1, go on in new files.
	for _, f := range []string{"zkd.log", "audit.log"} {
		require.NoError(t, os.Rename(filepath.Join(l.dir, f), filepath.Join(l.dir, f+".1")))
	}
	l.signal(syscall.SIGUSR1)
	l.awaits("zkd.log", "log files opened anew")
	c = connect(t, l.addr)
	_, err = c.Create("/anew", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	l.awaits("audit.log", "znode=/anew\t")
	require.NoError(t, l.stop(syscall.SIGTERM))
	l.awaits("audit.log", "operation=serverStop\tresult=invoked\n")
	b, err := os.ReadFile(filepath.Join(l.dir, "audit.log.1"))
	require.NoError(t, err)
	require.NotContains(t, string(b), "/anew")
}

// The level of the log is the super user's, over the admin port; SIGHUP brings that of the
// configuration back.
func TestLogLevelOverTheAdminPort(t *testing.T) {
	addr := freeport.Addr(t)
	_, port, _ := net.SplitHostPort(addr)
	const password = "secret"
	l := startLogged(t, "admin.enableServer=true", "admin.serverPort="+port, "DigestAuthenticationProvider.superDigest="+digestOf("super", password))
	url := "http://" + addr + "/commands/log_level"
	ask := func(method, body, auth string) (int, string) {
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		require.NoError(t, err)
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		return do(t, r)
	}
	_, answer := ask(http.MethodGet, "", "")
	require.Contains(t, answer, `"level" : "info"`)
	status, _ := ask(http.MethodPost, `{"level": "debug"}`, "")
	require.Equal(t, http.StatusUnauthorized, status)
	status, answer = ask(http.MethodPost, `{"level": "debug"}`, "digest super:"+password)
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"level" : "debug"`)
	l.awaits("zkd.log", `msg="the level of the log was changed on demand" from=INFO to=DEBUG`)
	l.signal(syscall.SIGHUP)
	l.awaits("zkd.log", `msg="configuration reloaded"`)
	require.Eventually(t, func() bool {
		_, answer := ask(http.MethodGet, "", "")
		return strings.Contains(answer, `"level" : "info"`)
	}, patience, 5*time.Millisecond)
	b, err := os.ReadFile(filepath.Join(l.dir, "zkd.log"))
	require.NoError(t, err)
	require.NotContains(t, string(b), password)
}

func TestLogFileThatCannotBeOpenedStopsTheStart(t *testing.T) {
	code, out := runCommand(t, "serve", "--data-dir", t.TempDir(), "--set", "zkd.logFile="+filepath.Join(t.TempDir(), "no", "x"))
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "zkd.logFile: cannot open a log file")
	require.Equal(t, 1, strings.Count(out, "\n"), out)
}

// digestOf is a password as superDigest has it.
func digestOf(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

func do(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}
