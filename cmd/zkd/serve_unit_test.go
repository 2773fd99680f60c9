package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The unit asks for what the program does: its flags, its signals, its exit codes.
func TestUnitFitsTheProgram(t *testing.T) {
	const file = "../../deploy/systemd/zkd.service"
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	unit := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key[0] != '#' {
			unit[key] = value
		}
	}
	require.Equal(t, "notify", unit["Type"])
	require.Equal(t, "/bin/kill -HUP $MAINPID", unit["ExecReload"])
	require.Equal(t, strconv.Itoa(exitUsage)+" "+strconv.Itoa(exitBroken), unit["RestartPreventExitStatus"])
	require.Equal(t, "strict", unit["ProtectSystem"])
	require.NotContains(t, []string{"", "root", "0"}, unit["User"])
	command := strings.Fields(unit["ExecStart"])
	require.Equal(t, []string{"serve", "--config"}, command[1:3])
	_, help := runCommand(t, "serve", "--help")
	require.Contains(t, help, "--config")

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // what systemd itself says of it is a bonus where it is installed
	}
	dir := t.TempDir()
	self := strings.NewReplacer(command[0], zkdBinary, "User=zkd", "User=root", "Group=zkd", "Group=root").Replace(string(b))
	copied := filepath.Join(dir, "zkd.service")
	require.NoError(t, os.WriteFile(copied, []byte(self), 0o600))
	out, _ := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput()
	require.NotContains(t, string(out), "zkd.service:", "what systemd says of other units is not ours")
}
