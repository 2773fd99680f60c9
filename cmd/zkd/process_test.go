package main

import (
	"bytes"
	"context"
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

// These tests run the real binary, as an operator does.

var zkdBinary string

// patience is how long a test waits for what must come. Only a failure takes that long.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if shift := os.Getenv(clockShift); shift != "" {
		serveWithClock(shift)
	}
	dir, err := os.MkdirTemp("", "zkd-cmd-")
	if err != nil {
		panic(err)
	}
	zkdBinary = filepath.Join(dir, "zkd")
	if out, err := exec.Command("go", "build", "-o", zkdBinary, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// runCommand runs zkd to its end and returns its exit code and all that it printed.
func runCommand(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, zkdBinary, args...).CombinedOutput()
	if err == nil {
		return 0, string(out)
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	return exit.ExitCode(), string(out)
}

// A process is a running server.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  bytes.Buffer
	addr string
}

// start runs `zkd serve` on the address and returns when it is ready.
func start(t *testing.T, dir, addr string, args ...string) *process {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	args = append([]string{"serve", "--data-dir", dir, "--client-address", host, "--client-port", port, "--set", "admin.enableServer=false"}, args...)
	p := &process{t: t, cmd: exec.Command(zkdBinary, args...), addr: addr}
	p.run()
	return p
}

// run starts the process and returns when it is ready.
func (p *process) run() {
	t := p.t
	t.Helper()
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	buf := make([]byte, 4096)
	for !strings.Contains(p.log.String(), "msg=ready") {
		n, err := stderr.Read(buf)
		p.log.Write(buf[:n])
		require.NoError(t, err, "zkd ended: %s", p.log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
}

func (p *process) stop(sig syscall.Signal) error {
	require.NoError(p.t, p.cmd.Process.Signal(sig))
	return p.cmd.Wait()
}

// sessionTimeout is that of sessions that have to live: the client gives up a connection that is
// silent for two thirds of it, and so long no machine stands still, and no disk.
const sessionTimeout = 30 * time.Second

func connect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return c
}

func TestStopIsOrderlyAndKeepsData(t *testing.T) {
	dir, addr := filepath.Join(t.TempDir(), "data"), freeport.Addr(t)
	p := start(t, dir, addr)
	require.Contains(t, p.log.String(), "found=new")
	_, err := connect(t, addr).Create("/kept", []byte("x"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, p.stop(syscall.SIGTERM), "SIGTERM must end with exit code 0")

	p = start(t, dir, addr)
	require.Contains(t, p.log.String(), "found=existing")
	data, _, err := connect(t, addr).Get("/kept")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
}

func TestStartsAtOnceAfterKill(t *testing.T) {
	dir, addr := filepath.Join(t.TempDir(), "data"), freeport.Addr(t)
	p := start(t, dir, addr)
	_, err := connect(t, addr).Create("/kept", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.Error(t, p.stop(syscall.SIGKILL))
	start(t, dir, addr)
	found, _, err := connect(t, addr).Exists("/kept")
	require.NoError(t, err)
	require.True(t, found)
}

func TestBusyPortNamesTheWayOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	code, out := runCommand(t, "serve", "--data-dir", t.TempDir(), "--client-port", port, "--set", "admin.enableServer=false")
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "127.0.0.1:"+port+" is in use")
	require.Contains(t, out, "clientPort")
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	start(t, dir, freeport.Addr(t))
	_, port, err := net.SplitHostPort(freeport.Addr(t))
	require.NoError(t, err)
	code, out := runCommand(t, "serve", "--data-dir", dir, "--client-port", port, "--set", "admin.enableServer=false")
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "in use by another process")
}

func TestBadConfigurationNamesFileLineAndKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	require.NoError(t, os.WriteFile(file, []byte("clientPort=2181\ndataDir=/tmp/none\ntickTime=soon\nzkd.logStroe=bolt\n"), 0o600))
	code, out := runCommand(t, "serve", "--config", file)
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, file+":3: tickTime")
	require.Contains(t, out, file+":4: zkd.logStroe")
}

func TestCheckToldFromDamage(t *testing.T) {
	dir, addr := filepath.Join(t.TempDir(), "data"), freeport.Addr(t)
	p := start(t, dir, addr)
	c := connect(t, addr)
	for range 3 {
		_, err := c.Create("/n-", []byte("some data to be damaged later"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	require.NoError(t, p.stop(syscall.SIGTERM))
	code, out := runCommand(t, "check", dir)
	require.Equal(t, exitOK, code, out)

	// Damage in the middle of the log: what comes after it proves that it was complete.
	logs, err := filepath.Glob(filepath.Join(dir, "log", "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	b, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	at := bytes.Index(b, []byte("some data"))
	require.Positive(t, at)
	b[at] ^= 1
	require.NoError(t, os.WriteFile(logs[0], b, 0o600))
	code, out = runCommand(t, "check", dir)
	require.Equal(t, exitBroken, code, out)
	require.Contains(t, out, logs[0])
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	code, out = runCommand(t, "serve", "--data-dir", dir, "--client-port", port, "--set", "admin.enableServer=false")
	require.Equal(t, exitBroken, code, out)
	require.Contains(t, out, logs[0])
}

func TestWrongUseIsOneLine(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string // what would be right
	}{
		{[]string{"serv"}, "did you mean serve"},
		{[]string{"nonsense"}, "zkd --help lists"},
		{[]string{"member", "lost"}, "zkd member --help lists"},
		{[]string{"version", "x"}, "zkd version --help"},
		{[]string{"check"}, "zkd check /var/lib/zkd"},
		{[]string{"check", ""}, "zkd check /var/lib/zkd"},
		{[]string{"serve", "--set", "tickTime"}, "KEY=VALUE"},
		{[]string{"serve", "--nope"}, "zkd serve --help lists the flags"},
		{[]string{"member", "list", "--timeout", "x"}, "zkd member list --help lists the flags"},
	} {
		code, out := runCommand(t, tt.args...)
		require.Equal(t, exitUsage, code, "%v: %s", tt.args, out)
		require.Equal(t, 1, strings.Count(out, "\n"), "%v: %s", tt.args, out)
		require.Contains(t, out, tt.says)
	}
}
