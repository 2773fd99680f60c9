package interop

import (
	"os/exec"
	"testing"
)

// systemPython is the interpreter that Debian's python3-kazoo is installed for; another
// python3 may come first in the PATH.
const systemPython = "/usr/bin/python3"

// TestKazoo drives kazoo: the client and its recipes.
func TestKazoo(t *testing.T) {
	forEachServer(t, settings{}, func(t *testing.T, s *server) {
		needFiles(t, "python3-kazoo", systemPython, "/usr/lib/python3/dist-packages/kazoo/client.py")
		known := map[string]string{}
		if s.kind == zookeeper {
			known["pipelined-sets-before-add-auth"] = "ZooKeeper answers auth before the requests that came earlier, and kazoo takes that reply for the oldest of them"
		}
		cmd := exec.Command(systemPython, "-B", "python/kazoo_checks.py", s.addr, startProxies(t, s, s.addr))
		runProgram(t, known, cmd)
	})
}
