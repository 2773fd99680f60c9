package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/mutants"
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
	return m.Run()
}

// built returns the server, built when it is first needed.
func built(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(server); err != nil {
		require.NoError(t, build(t.Context(), server, "", false))
	}
	return server
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
		"a holder believes in it for too long": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if o.F != "held" {
					return false
				}
				o.End += int64(time.Minute)
				return true
			})
		},
	},
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

// Every workload holds on real processes while they are killed and their connections cut; and
// what it recorded, once it is forged, does not pass.
func TestWorkloadsHoldAndForgedHistoriesDoNot(t *testing.T) {
	for _, w := range workload.All() {
		t.Run(w.Name, func(t *testing.T) {
			o := Options{Workload: w.Name, Nemeses: []string{"kill", "cut", "partition"}, Time: 5 * time.Second, Binary: built(t)}
			if !testing.Short() {
				o.Time = 20 * time.Second
			}
			v := playShort(t, o)
			var said strings.Builder
			v.Print(&said)
			require.True(t, v.OK(), said.String())
			t.Log(said.String())
			require.NotEmpty(t, forgeries[w.Name])
			for name, forge := range forgeries[w.Name] {
				ops, err := history.Read(filepath.Join(v.Dir, "history.jsonl"))
				require.NoError(t, err)
				require.True(t, accepted(w, ops), "the history as it was read back")
				require.True(t, forge(ops), "%s: nothing to forge", name)
				history.Sort(ops)
				require.False(t, accepted(w, ops), name)
			}
		})
	}
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
		_, err := workload.Find(m.Workload)
		require.NoError(t, err, m.Name)
		_, err = mutants.Overlay(module, t.TempDir(), m.Changes())
		require.NoError(t, err, m.Name)
	}
	_, err = mutants.Overlay(module, t.TempDir(), mutants.Clock())
	require.NoError(t, err)
	_, err = mutants.Overlay(module, t.TempDir(), []mutants.Change{{File: "jepsen/main.go", Old: "no such text", New: ""}})
	require.ErrorContains(t, err, "0 times")
}
