package zkd_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program in the README is what a newcomer copies.
func TestProgramInTheReadmeCompiles(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```go\npackage main\n")
	require.True(t, found, "README.md has no program")
	program, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	source := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n"+program), 0o600))
	here, err := os.Getwd()
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(here, "examples", "readme", "main.go"): source},
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(file, overlay, 0o600))
	out, err := exec.Command("go", "build", "-overlay", file, "-o", os.DevNull, "./examples/readme").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
