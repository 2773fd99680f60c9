package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/mutants"
	"github.com/zkd-project/zkd/jepsen/nemesis"
	"github.com/zkd-project/zkd/jepsen/workload"
)

// server is built once for all tests of the package.
var server string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "jepsen-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	server = filepath.Join(dir, "zkd")
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		// Runs wait more than they work, also on a machine with one processor.
		if err := flag.Set("test.parallel", "3"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// building is held by the test that builds.
var building sync.Mutex

// built returns the server, built when it is first needed.
func built(t *testing.T) string { return builtAs(t, server) }

// builtWithPoints returns one with failpoints.
func builtWithPoints(t *testing.T) string { return builtAs(t, server+"-faults", "-tags", "faults") }

func builtAs(t *testing.T, path string, flags ...string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(path); err != nil {
		require.NoError(t, build(t.Context(), path, "", flags))
	}
	return path
}

// playShort runs a workload for a few seconds on the loopback device.
func playShort(t *testing.T, o Options) *Verdict {
	t.Helper()
	o.Nodes, o.Seed, o.Driver, o.Store = 3, 1, "loopback", storeOf(t)
	o.Patience = 2 * time.Minute // the machine may be busy with other tests
	v, err := Run(t.Context(), o)
	require.NoError(t, err)
	return v
}

// keep is for the results of runs that a test objects to.
var keep = flag.String("keep", "", "a folder in which the results of failing tests stay")

// storeOf is a folder for the results of the runs of a test.
func storeOf(t *testing.T) string {
	t.Helper()
	if *keep == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(*keep, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, os.RemoveAll(dir))
		}
	})
	return dir
}

// longestRun is the longest one that a test has by itself.
const longestRun = 40 * time.Second

// runTime is how long a run of a test is; `go test ./jepsen -time 20s` has longer ones.
var runTime = flag.Duration("time", 5*time.Second, "how long the run of a workload is")

// Every workload holds on real processes while they are killed and their connections cut; and
// what it recorded, once it is forged, does not pass.
func TestWorkloadsHoldAndForgedHistoriesDoNot(t *testing.T) {
	t.Parallel()
	binary := built(t)
	for _, w := range workloads() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			o := Options{Workload: w.Name, Nemeses: []string{"kill", "cut", "partition"}, Time: *runTime, Binary: binary}
			if slices.Contains([]string{"election", "mutex"}, w.Name) {
				// A run of seconds must show holders that follow each other.
				o.Nemeses, o.Time = nil, max(o.Time, 12*time.Second)
			}
			longer(t, &o, func() bool { return holds(t, w, o) })
		})
	}
}

// longer plays six runs at most, until one has shown what it should: on a machine that is busy with
// other things, it may be too little. Each is longer than the one before, up to a length that several tests
// can have within the time of all. What is found counts at once.
func longer(t *testing.T, o *Options, shows func() bool) {
	t.Helper()
	for attempt := 0; !shows(); attempt++ {
		require.Less(t, attempt, 5, "six runs have not shown what they should, the longest of %v", o.Time)
		o.Time = max(o.Time, min(3*o.Time, longestRun))
	}
}

// holds plays a workload and forges what it has recorded; false says that there was too little.
func holds(t *testing.T, w workload.Workload, o Options) bool {
	t.Helper()
	v := playShort(t, o)
	var said strings.Builder
	v.Print(&said)
	if slices.Equal(v.Troubles, []string{nothingShown}) {
		return false
	}
	require.True(t, v.OK(), said.String())
	t.Log(said.String())
	if o.Nemeses == nil && figure(v, "stale writes that the unfenced twin took") == 0 { // the negative control
		return false
	}
	require.NotEmpty(t, forgeries[w.Name])
	for name, forge := range forgeries[w.Name] {
		ops, err := history.Read(filepath.Join(v.Dir, "history.jsonl"))
		require.NoError(t, err)
		require.True(t, accepted(w, ops), "the history as it was read back")
		// What is forged shows only where something has looked at it: in a history with a handful of
		// operations nothing may have.
		changed := forge(ops)
		history.Sort(ops)
		if !changed || accepted(w, ops) {
			t.Logf("%s: nobody has seen it", name)
			return false
		}
	}
	return true
}

// figure is one of those that checkers have reported.
func figure(v *Verdict, name string) float64 {
	for _, r := range v.Results {
		for _, f := range r.Figures {
			if f.Name == name {
				return f.Value
			}
		}
	}
	return 0
}

// The faults that need more than signals and a proxy, as far as this machine has them.
func TestServersBearFaultsOfDisksAndResources(t *testing.T) {
	t.Parallel()
	plain := built(t)
	cases := map[string]Options{
		"damage":     {Workload: "set", Nemeses: []string{"damage"}, Binary: plain},
		"old copy":   {Workload: "set", Nemeses: []string{"old-copy"}, Binary: plain},
		"leadership": {Workload: "queue", Nemeses: []string{"storm", "handover", "steal"}, Binary: plain},
		"resources":  {Workload: "register", Nemeses: []string{"cpu", "fds", "log-block"}, Binary: plain},
	}
	if !testing.Short() { // which would have to build another server
		cases["failpoints"] = Options{Workload: "counter", Nemeses: []string{"eio", "failpoint", "slow-fsync", "freeze"}, Binary: builtWithPoints(t)}
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Nemeses = slices.DeleteFunc(o.Nemeses, func(n string) bool {
				found, err := nemesis.Find([]string{n})
				require.NoError(t, err)
				why := found[0].Machine()
				if why != "" {
					t.Logf("%s: %s", n, why)
				}
				return why != ""
			})
			o.Time = *runTime
			v := playShort(t, o)
			var said strings.Builder
			v.Print(&said)
			v.Troubles = slices.DeleteFunc(v.Troubles, func(s string) bool { return s == nothingShown })
			require.True(t, v.OK(), said.String())
			t.Log(said.String())
		})
	}
}

// What a server can do to itself must be in no binary that is not built for that.
func TestReleasesHaveNoFailpoints(t *testing.T) {
	module, err := root()
	require.NoError(t, err)
	var source []byte
	for _, name := range []string{"on.go", "points.go"} {
		b, err := os.ReadFile(filepath.Join(module, "internal", "failpoint", name))
		require.NoError(t, err)
		source = append(source, b...)
	}
	release, err := os.ReadFile(built(t))
	require.NoError(t, err)
	for _, word := range []string{"ZKD_FAILPOINTS", "apply.before", "session.expire", "install.after", "there is no action "} {
		require.True(t, bytes.Contains(source, []byte(word)), "the test looks for %q, which is nowhere", word)
		require.False(t, bytes.Contains(release, []byte(word)), "%q is in a binary that was built without the tag", word)
	}
}

// The shortest of the scenarios; `go run ./jepsen regress` plays all.
func TestBrokenDiskEndsAServerThatWaitsForALeader(t *testing.T) {
	if testing.Short() {
		t.Skip("needs another build of the server")
	}
	scenario := slices.IndexFunc(Scenarios(), func(s Scenario) bool { return s.Name == "exit-code-of-a-broken-disk" })
	s := Scenarios()[scenario]
	found, err := s.play(t.Context(), s.with(&Options{Store: t.TempDir(), Driver: "loopback", Binary: builtWithPoints(t)}))
	require.NoError(t, err)
	require.Empty(t, found)
}

func accepted(w workload.Workload, ops []history.Op) bool {
	return !slices.ContainsFunc(w.Judges(), func(c check.Checker) bool {
		r := c(ops)
		return !r.OK()
	})
}

// The harness finds a bug in the server: else its silence means nothing. All mutants are tried
// by `go run ./jepsen mutants`.
func TestPlantedBugIsCaught(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"partial-multi"} {
		m, err := mutants.Find(name)
		require.NoError(t, err)
		o := Options{Workload: m.Workload, Mutant: m.Name, Time: 4 * time.Second}
		longer(t, &o, func() bool {
			v := playShort(t, o)
			t.Logf("%s: %s", m.Doc, caught(v))
			return slices.ContainsFunc(v.Results, func(r check.Result) bool { return !r.OK() })
		})
	}
}

// A mutant that no longer fits the source must not pass for one that is caught.
func TestMutantsFitTheSource(t *testing.T) {
	module, err := root()
	require.NoError(t, err)
	for _, m := range mutants.All() {
		_, err := findWorkload("", m.Workload)
		require.NoError(t, err, m.Name)
		_, err = mutants.Overlay(module, t.TempDir(), m.Changes())
		require.NoError(t, err, m.Name)
	}
	_, err = mutants.Overlay(module, t.TempDir(), mutants.Clock())
	require.NoError(t, err)
	_, err = mutants.Overlay(module, t.TempDir(), []mutants.Change{{File: "jepsen/main.go", Old: "no such text", New: ""}})
	require.ErrorContains(t, err, "0 times")
}
