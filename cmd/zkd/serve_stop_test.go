package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
)

// A member that waits for the others of its cluster is told to stop: nothing is wrong then, and a
// supervisor must not take it for a failure.
func TestStopOfAMemberThatWaitsIsOrderly(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir := t.TempDir()
		lines := "dataDir=" + dir + "\nadmin.enableServer=false\nclientPortAddress=127.0.0.1\nclientPort=0\nzkd.logFile=" + filepath.Join(dir, "zkd.log") + "\n"
		for n := range 3 { // the others are never started
			lines += fmt.Sprintf("server.%d=%s:1\n", n+1, freeport.Addr(t))
		}
		conf := filepath.Join(dir, "zoo.cfg")
		require.NoError(t, os.WriteFile(conf, []byte(lines), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "myid"), []byte("1\n"), 0o600))
		l := &logged{t: t, dir: dir}
		l.process = startProcess(t, "", "serve", "--config", conf)
		l.awaits("zkd.log", "waits until all its servers are there")
		require.NoError(t, l.stop(signal), "the exit code is 0")
		l.awaits("zkd.log", "stopped before it served")
	}
}

// Who keeps the log in a file looks for the reason there.
func TestLogFileHasTheReasonForWhichTheStartFailed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "zkd.log")
	code, out := runCommand(t, "serve", "--data-dir", filepath.Join(dir, "data"), "--client-port", port,
		"--set", "admin.enableServer=false", "--set", "zkd.logFile="+file)
	require.Equal(t, exitUsage, code)
	require.Equal(t, 1, strings.Count(out, "\n"), out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Contains(b, []byte("127.0.0.1:"+port+" is in use")), "%s", b)
}
