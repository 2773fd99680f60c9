package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
)

// The exit codes of the shell are its own, and its options reach it as they are.
func TestCliThroughTheBinary(t *testing.T) {
	addr := freeport.Addr(t)
	start(t, filepath.Join(t.TempDir(), "data"), addr)
	for _, c := range []struct {
		code int
		out  string
		args []string
	}{
		{0, "Created /a\n", []string{"create", "/a", "one"}},
		{0, "one\n", []string{"get", "/a"}},
		{1, "Node does not exist: /no\n", []string{"get", "/no"}},
		{2, "get [-s] [-w] [-b] [-x] path\n", []string{"get"}},
	} {
		code, out := runCommand(t, append([]string{"cli", "-server", addr}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, out)
		require.Equal(t, c.out, out)
	}
	code, out := runCommand(t, "cli", "-server", "127.0.0.1:1", "ls", "/")
	require.Equal(t, 3, code, out)
	require.Eventually(t, func() bool { // a server that does not answer in a moment is not waited for
		_, out = runCommand(t, "__complete", "cli", "-server", addr, "get", "/")
		return strings.Contains(out, "/a\n/zookeeper\n")
	}, patience, time.Millisecond, "the completion")
}

func TestStateDirFollowsXDG(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	require.Equal(t, "/state/zkd", stateDir())
	t.Setenv("XDG_STATE_HOME", "relative")
	t.Setenv("HOME", "/home/me")
	require.Equal(t, "/home/me/.local/state/zkd", stateDir())
	require.NoError(t, os.Unsetenv("HOME"))
	require.Empty(t, stateDir())
}
