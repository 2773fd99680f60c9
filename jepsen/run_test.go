package main

import (
	"bytes"
	"flag"
	"fmt"
	"math"
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
	o.Nodes, o.Seed, o.Driver, o.Store = 3, 1, "loopback", t.TempDir()
	v, err := Run(t.Context(), o)
	require.NoError(t, err)
	return v
}

// forgeries change a recorded history of each workload so that a checker must object. They
// return false where they find nothing to change.
var forgeries = map[string]map[string]func(ops []history.Op) bool{
	"register": {
		"a read after a sync shows the value before": func(ops []history.Op) bool {
			old := map[string]history.Op{}
			return first(ops, func(o *history.Op) bool {
				if o.F != "sync-get" || o.Code != 0 {
					return false
				}
				before, ok := old[o.Key]
				old[o.Key] = *o
				if !ok || before.Value == o.Value || before.Stat.Version >= o.Stat.Version || before.End > o.Begin {
					return false
				}
				o.Value, o.Stat = before.Value, before.Stat
				return true
			})
		},
		"two writes with one zxid": func(ops []history.Op) bool {
			var before int64
			return first(ops, func(o *history.Op) bool {
				if o.F != "set" || o.Zxid == 0 {
					return false
				}
				if before == 0 {
					before = o.Zxid
					return false
				}
				o.Zxid = before
				return true
			})
		},
	},
	"session-order": {
		"a write was done twice": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if o.F != "set" || o.Stat == nil || o.Stat.Version < 5 {
					return false
				}
				o.Stat.Version++
				return true
			})
		},
	},
	"append": {
		"a multi-read shows half a multi": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if o.F != "multi" || o.Code != 0 || len(o.Parts) < 2 || o.Parts[1].Value == "" {
					return false
				}
				read := *o
				read.F, read.Begin, read.End = "multi-read", o.End+1, o.End+2
				read.Parts = []history.Part{{Key: o.Parts[0].Key, Value: o.Parts[0].Value, Version: o.Parts[0].Version + 1}, o.Parts[1]}
				read.Parts[1].Value = ""
				*o = read // the multi itself is taken away: its values come from nowhere
				return true
			})
		},
	},
	"set": {
		"an acknowledged node is missing": func(ops []history.Op) bool {
			return last(ops, func(o *history.Op) bool {
				if o.F != "children" || len(o.Parts) == 0 {
					return false
				}
				o.Parts = o.Parts[1:]
				return true
			})
		},
	},
	"sequence": {
		"a number is given twice": func(ops []history.Op) bool {
			name := map[string]string{}
			return first(ops, func(o *history.Op) bool {
				if o.F != "create" || o.Note == "" {
					return false
				}
				other, ok := name[o.Key]
				name[o.Key] = o.Note
				o.Note = other
				return ok
			})
		},
	},
	"ephemeral": {
		"a node is gone while its session lives": func(ops []history.Op) bool {
			made := map[string]int64{}
			return first(ops, func(o *history.Op) bool {
				if o.F == "create" && o.Code == 0 {
					made[strings.TrimPrefix(o.Key, "/ephemeral/")] = o.End
				}
				if o.F != "children" {
					return false
				}
				at := slices.IndexFunc(o.Parts, func(p history.Part) bool { return made[p.Key] > 0 && o.End-made[p.Key] < int64(500*time.Millisecond) })
				if at < 0 {
					return false
				}
				o.Parts = slices.Delete(o.Parts, at, at+1)
				return true
			})
		},
	},
	"lock": {
		"a holder believes in it for too long": heldTooLong,
	},
	"counter": {
		"an increment was done twice": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if o.F != "set" || o.Stat == nil || o.Stat.Version < 2 {
					return false
				}
				o.Stat.Version++
				return true
			})
		},
	},
	"queue": {"a receipt is missing": missingInTheLastList},
	"bulk":  {"a node of a multi is missing": missingInTheLastList},
	"restart-all": {
		"an acknowledged node is missing in between": func(ops []history.Op) bool {
			made := map[string]bool{}
			return first(ops, func(o *history.Op) bool {
				if o.F == "create" && o.Code == 0 {
					made[o.Key] = true
				}
				if o.F != "children" {
					return false
				}
				at := slices.IndexFunc(o.Parts, func(p history.Part) bool { return made[o.Key+"/"+p.Key] })
				if at < 0 {
					return false
				}
				o.Parts = slices.Delete(o.Parts, at, at+1)
				return true
			})
		},
	},
	"ttl-container": {
		"a node is gone before anybody has used it": func(ops []history.Op) bool {
			until := map[string]int64{} // by the name of the node
			for i := range ops {
				o := &ops[i]
				name, below := strings.CutPrefix(o.Key, "/kept/")
				parent, _, child := strings.Cut(name, "/")
				switch {
				case !below:
				case o.F == "create-container" && o.Code == 0:
					until[name] = math.MaxInt64
				case o.F == "create-ttl" && o.Code == 0:
					until[name] = o.Begin + o.Arg/2
				case child:
					until[parent] = min(until[parent], o.Begin)
				}
			}
			return first(ops, func(o *history.Op) bool {
				if o.F != "children" || o.Key != "/kept" {
					return false
				}
				at := slices.IndexFunc(o.Parts, func(p history.Part) bool { return o.End < until[p.Key] })
				if at < 0 {
					return false
				}
				o.Parts = slices.Delete(o.Parts, at, at+1)
				return true
			})
		},
		"a node that a session does not own has an owner": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if !strings.HasPrefix(o.F, "create-") || o.Stat == nil {
					return false
				}
				o.Stat.Owner = 7
				return true
			})
		},
	},
	"acl": {
		"what was permitted is refused, and the other way round": func(ops []history.Op) bool {
			n := 0
			for i := range ops {
				if o := &ops[i]; o.F == "probe" && o.Kind == history.OK {
					o.Code, n = -102-o.Code, n+1
				}
			}
			return n > 0
		},
	},
	"election": {"a leader leads for too long": heldTooLong},
	"mutex":    {"a holder believes in it for too long": heldTooLong},
	"watch": {
		"no event ever comes": func(ops []history.Op) bool {
			n := 0
			for i := range ops {
				if ops[i].Kind == history.Event {
					ops[i].Kind, n = history.Fail, n+1
				}
			}
			return n > 0
		},
	},
}

// heldTooLong has a holder believe in its lease for another minute.
func heldTooLong(ops []history.Op) bool {
	return first(ops, func(o *history.Op) bool {
		if o.F != "held" {
			return false
		}
		o.End += int64(time.Minute)
		return true
	})
}

func missingInTheLastList(ops []history.Op) bool {
	return last(ops, func(o *history.Op) bool {
		if o.F != "children" || len(o.Parts) == 0 {
			return false
		}
		o.Parts = o.Parts[1:]
		return true
	})
}

// first applies f to answered operations until it changes one.
func first(ops []history.Op, f func(o *history.Op) bool) bool {
	for i := range ops {
		if o := &ops[i]; (o.Kind == history.OK || o.F == "held") && f(o) {
			return true
		}
	}
	return false
}

// last is first from the end.
func last(ops []history.Op, f func(o *history.Op) bool) bool {
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].Kind == history.OK && f(&ops[i]) {
			return true
		}
	}
	return false
}

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
			// On a machine that is busy with other things a run may show too little: the next one is
			// longer. What is found counts at once.
			for attempt := 0; !holds(t, w, o); attempt++ {
				require.Less(t, attempt, 2, "three runs have shown nothing")
				o.Time *= 4
			}
		})
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
		if !forge(ops) {
			t.Logf("%s: nothing to forge", name)
			return false
		}
		history.Sort(ops)
		require.False(t, accepted(w, ops), name)
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
	return !slices.ContainsFunc(slices.Concat(workload.Common, w.Checkers), func(c check.Checker) bool {
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
		v := playShort(t, Options{Workload: m.Workload, Mutant: m.Name, Time: 4 * time.Second})
		require.False(t, v.OK(), "nobody has noticed that %s", m.Doc)
		t.Log(caught(v))
	}
}

// A mutant that no longer fits the source must not pass for one that is caught.
func TestMutantsFitTheSource(t *testing.T) {
	module, err := root()
	require.NoError(t, err)
	for _, m := range mutants.All() {
		_, err := findWorkload(m.Workload)
		require.NoError(t, err, m.Name)
		_, err = mutants.Overlay(module, t.TempDir(), m.Changes())
		require.NoError(t, err, m.Name)
	}
	_, err = mutants.Overlay(module, t.TempDir(), mutants.Clock())
	require.NoError(t, err)
	_, err = mutants.Overlay(module, t.TempDir(), []mutants.Change{{File: "jepsen/main.go", Old: "no such text", New: ""}})
	require.ErrorContains(t, err, "0 times")
}
