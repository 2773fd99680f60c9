package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// compileC compiles c/checks.c once and returns the program.
var compileC = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(scratch, "c-checks")
	cmd := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-DTHREADED", "-o", bin, "c/checks.c", "-lzookeeper_mt", "-lpthread")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc c/checks.c: %w\n%s", err, out)
	}
	return bin, nil
})

// TestCClient drives the C client (multi-threaded): synchronous and asynchronous calls,
// multi, watches, reconnects with setWatches, authentication.
func TestCClient(t *testing.T) {
	forEachServer(t, settings{}, func(t *testing.T, s *server) {
		needCommand(t, "cc", "gcc libc6-dev")
		needFiles(t, "libzookeeper-mt-dev", "/usr/include/zookeeper/zookeeper.h")
		bin, err := compileC()
		if err != nil {
			t.Fatal(err)
		}
		runProgram(t, nil, exec.Command(bin, s.addr, startProxies(t, s, s.addr)))
	})
}
