package interop

import (
	"fmt"
	"testing"
)

// TestJavaAPI drives the ZooKeeper class of the Java client: every method, asynchronous
// calls and their order, watches, sessions; through a proxy where a connection is cut.
func TestJavaAPI(t *testing.T) {
	forEachServer(t, settings{}, func(t *testing.T, s *server) {
		runProgram(t, nil, javaProgram(t, "ApiChecks", javaAddresses(t, s)...))
	})
}

// javaAddresses are the system properties that Check.java and Proxy.java read.
func javaAddresses(t *testing.T, s *server) []string {
	t.Helper()
	members := 0
	if s.cluster != nil {
		members = clusterSize
	}
	return []string{"-Dinterop.server=" + s.addr, "-Dinterop.control=" + startProxies(t, s, s.addr), fmt.Sprintf("-Dinterop.members=%d", members)}
}

// quickReaping makes the server look for empty containers and aged TTL nodes often.
var quickReaping = map[string]string{"znode.container.checkIntervalMs": "300"}

// TestCurator drives Curator: the framework, the caches, and the recipes.
func TestCurator(t *testing.T) {
	forEachServer(t, settings{jvm: quickReaping}, func(t *testing.T, s *server) {
		runProgram(t, nil, javaProgram(t, "CuratorChecks", javaAddresses(t, s)...))
	})
}
