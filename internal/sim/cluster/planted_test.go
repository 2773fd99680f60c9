package cluster

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var (
	mutantsFlag = flag.String("mutants", "", "plant the bugs whose names contain this, and see whether they are found; all: all")
	huntFlag    = flag.Int("hunt", 40, "seeds for which a planted bug is looked for")
)

// A mutant is a bug that is planted by replacing a piece of a source file.
type mutant struct {
	name     string
	file     string // below the root of the module
	old, new string
	// harmless says why the bug breaks no promise by itself; "": it must be found.
	harmless string
}

// TestPlantedBugsAreFound builds the server with one bug at a time and runs seeds until one
// fails. It takes minutes, so it has to be asked for: -mutants=all.
func TestPlantedBugsAreFound(t *testing.T) {
	if *mutantsFlag == "" {
		t.Skip("it takes minutes: go test ./internal/sim/cluster -run TestPlantedBugsAreFound -mutants=all -timeout 60m -v")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if *mutantsFlag != "all" && !strings.Contains(m.name, *mutantsFlag) {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			out, found := m.hunt(t, root)
			t.Log(out)
			switch {
			case m.harmless != "" && found:
				t.Errorf("it is found, although it should be harmless: %s", m.harmless)
			case m.harmless == "" && !found:
				t.Errorf("%d seeds have not found it", *huntFlag)
			}
		})
	}
}

// hunt returns what the failing run printed first.
func (m *mutant) hunt(t *testing.T, root string) (string, bool) {
	t.Helper()
	binary := m.build(t, root)
	for try := range *huntFlag {
		seed := strconv.Itoa(try + 1)
		cmd := exec.Command(binary, "-test.run=TestClustersKeepTheirPromises", "-test.timeout=300s", "-seed="+seed)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "seed " + seed + ": " + firstFailure(string(out)), true
		}
	}
	return "not found", false
}

// A bug that fits nowhere any more would be planted nowhere.
func TestPlantedBugsFitTheSource(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		m.planted(t, root)
	}
}

// planted returns the file that the bug is in, and what it has with it.
func (m *mutant) planted(t *testing.T, root string) (path, source string) {
	t.Helper()
	path = filepath.Join(root, filepath.FromSlash(m.file))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		t.Errorf("%s: %s has %d places like this, not one:\n%s", m.name, m.file, n, m.old)
	}
	return path, strings.Replace(string(b), m.old, m.new, 1)
}

// build makes a test binary with the bug, without touching the source.
func (m *mutant) build(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	path, source := m.planted(t, root)
	changed := filepath.Join(dir, "changed.go")
	overlay := filepath.Join(dir, "overlay.json")
	list, _ := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	for name, content := range map[string][]byte{changed: []byte(source), overlay: list} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "planted.test")
	cmd := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, "./internal/sim/cluster")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// firstFailure is the first line that says what was wrong.
func firstFailure(out string) string {
	for _, line := range strings.Split(out, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "cluster_test.go:") && !strings.Contains(line, " seed ") || strings.HasPrefix(line, "panic:") {
			return line
		}
	}
	return out[:min(len(out), 500)]
}
