package zkd_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/zkd-project/zkd/"

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...").Output()
	require.NoError(t, err)
	all := map[string]pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[p.ImportPath] = p
	}
}

// The pure core has no clock, randomness, network or file to diverge by.
func TestPureCoreImportsOnlyPureThings(t *testing.T) {
	all := packages(t)
	forbidden := []string{"net", "os", "os/exec", "os/signal", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "log", "log/slog"}
	for _, name := range []string{
		"wire", "server/znode", "server/session", "server/acl", "server/state", "server/watch", "server/snapshot",
		"server/ensemble",
	} {
		p, ok := all[module+name]
		require.True(t, ok, "package %s is missing", name)
		for _, i := range p.Imports {
			require.NotContains(t, forbidden, i, "%s imports %s", name, i)
			if strings.HasPrefix(i, module) {
				continue
			}
			require.True(t, all[i].Standard, "%s imports %s, which is not the standard library", name, i)
		}
	}
}

// Arrows point down only: each package may import those named after it and those of lower
// levels that they import.
func TestArrowsPointDown(t *testing.T) {
	allowed := map[string][]string{
		"wire":              {},
		"server/acl":        {"wire"},
		"server/session":    {"wire"},
		"server/snapshot":   {"wire"},
		"server/watch":      {"wire"},
		"server/znode":      {"wire", "server/acl"},
		"server/ensemble":   {},
		"server/audit":      {"wire", "server/acl"},
		"server/state":      {"wire", "server/acl", "server/session", "server/snapshot", "server/znode", "server/watch", "server/ensemble"},
		"server/stats":      {"wire"},
		"server/sasl":       {},
		"server/fourletter": {"wire", "server/stats", "internal/version"},
		"internal/vfs":      {},
		"internal/logfile":  {},
		"internal/freeport": {},
		"internal/needs":    {},
		"internal/version":  {},
		"internal/wait":     {},
		"config":            {"server/ensemble"},
		"internal/tlsconf":  {"config"},
		"client":            {"wire"},
		"recipes":           {"wire", "client"},
		"internal/cert":     {"config", "internal/tlsconf", "internal/vfs"},
		"internal/cli":      {"wire", "client", "internal/version"},
		"jepsen/history":    {},
		"jepsen/check":      {"jepsen/history"},
		"jepsen/wire":       {"wire"},
		"jepsen/workload":   {"wire", "jepsen/check", "jepsen/history", "jepsen/wire"},
		"jepsen/netem":      {},
		"jepsen/disk":       {},
		"jepsen/cluster":    {"internal/freeport", "jepsen/netem"},
		"jepsen/nemesis":    {"jepsen/cluster", "jepsen/netem", "jepsen/wire"},
		"jepsen/product":    {"wire", "client", "recipes", "jepsen/check", "jepsen/history", "jepsen/workload"},
		"jepsen/mutants":    {},
		"jepsen/report":     {},
	}
	for name, p := range packages(t) {
		list, ok := allowed[strings.TrimPrefix(name, module)]
		if !ok || !strings.HasPrefix(name, module) {
			continue
		}
		for _, i := range p.Imports {
			if short, ours := strings.CutPrefix(i, module); ours {
				require.True(t, slices.Contains(list, short), "%s must not import %s", name, i)
			}
		}
	}
}

// raft is an implementation detail of replication; a program that imports the client must
// not get it.
func TestOnlyReplicationKnowsRaft(t *testing.T) {
	for name, p := range packages(t) {
		if !strings.HasPrefix(name, module) || strings.HasPrefix(name, module+"server/replication") {
			continue
		}
		for _, i := range p.Imports {
			require.False(t, strings.HasPrefix(i, "github.com/hashicorp/raft"), "%s imports %s", name, i)
		}
	}
}

// The tests of consistency judge the server from outside: they share no code with it but the
// encoding of the protocol, and nobody who imports the server gets what they need. What is judged
// beside the server are our client and recipes, in jepsen/product alone.
func TestNobodyImportsJepsen(t *testing.T) {
	for name, p := range packages(t) {
		jepsen := name == module+"jepsen" || strings.HasPrefix(name, module+"jepsen/")
		for _, i := range p.Imports {
			if jepsen {
				product := name == module+"jepsen/product" && (i == module+"client" || i == module+"recipes")
				rig := i == module+"internal/sim/command" || i == module+"internal/freeport"
				require.True(t, !strings.HasPrefix(i, module) || strings.HasPrefix(i, module+"jepsen") || i == module+"wire" || rig || product,
					"%s must not import %s", name, i)
				continue
			}
			// The simulation, which is tests alone, shares its judges.
			judge := strings.HasPrefix(name, module+"internal/sim/") && (i == module+"jepsen/check" || i == module+"jepsen/history")
			require.True(t, judge || !strings.HasPrefix(i, module+"jepsen"), "%s must not import %s", name, i)
		}
	}
}
