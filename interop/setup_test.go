package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/internal/needs"
)

// The servers under test, by the name of their subtest.
const (
	zookeeper  = "zookeeper"
	zkd        = "zkd"
	zkdCluster = "zkd-cluster" // three processes of zkd, whose leader is killed now and then
)

// serversVariable is the environment variable that chooses among them.
const serversVariable = "ZKD_INTEROP_SERVERS"

// scratch holds what is built once for all tests: the server binary, Java classes and C
// programs. TestMain removes it.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "zkd-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop: no place to build in:", err)
		os.Exit(1)
	}
	scratch = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// serversUnderTest lists the names from ZKD_INTEROP_SERVERS.
func serversUnderTest(t *testing.T) []string {
	t.Helper()
	all := []string{zookeeper, zkd, zkdCluster}
	v := os.Getenv(serversVariable)
	if v == "" {
		return all
	}
	names := strings.Split(v, ",")
	for _, n := range names {
		if !slices.Contains(all, n) {
			t.Fatalf("%s=%s: %q is no server; write one or more of %s with commas", serversVariable, v, n, strings.Join(all, ", "))
		}
	}
	return names
}

// missing skips the test, or fails it where everything is required to be there.
func missing(t testing.TB, what, install string) {
	t.Helper()
	needs.Unavailable(t, fmt.Sprintf("%s is not here; on Debian: apt-get install %s", what, install))
}

// needFiles skips the test unless all files exist; install names the packages they are in.
func needFiles(t testing.TB, install string, files ...string) {
	t.Helper()
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			missing(t, f, install)
		}
	}
}

// needCommand returns the path of a program, or skips the test.
func needCommand(t testing.TB, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "the command "+name, install)
	}
	return path
}

// zkdBinary builds the server once, or takes the one that ZKD_BIN names.
var zkdBinary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("ZKD_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	bin := filepath.Join(scratch, "zkd")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/zkd")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/zkd: %w\n%s", err, out)
	}
	return bin, nil
})
