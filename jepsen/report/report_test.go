package report

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReportAddsUpAndSaysWhatWasFound(t *testing.T) {
	s := New(7, map[string]string{"loss": "no root"})
	e := Entry{
		Name: "set", Took: time.Hour, Nodes: 3, Driver: "loopback", Commit: "abc", Counts: map[string]int{"ok": 5},
		Faults: map[string]int{"kill": 2}, Gaps: map[string][]time.Duration{"kill": {time.Second, 3 * time.Second}}, Events: map[string]int{"installs": 3},
		Digests: 4, LongGap: time.Second, Checkers: []Checker{{Name: "set", Checked: 5}},
	}
	s.Add(e)
	require.False(t, s.Bad())
	e.Again, e.LongGap, e.Checkers[0].Violations = "go run ./jepsen run set", 2*time.Second, 1
	s.Add(e)
	require.True(t, s.Bad())
	text := s.String()
	for _, want := range []string{
		"2 runs, 6.00 process hours, commit abc, seed 7", "ok 10", "kill 4", "Digests compared: 8", "an answered write: 2s",
		"| set | 10 | 1 | 0 |", "Not run: loss: no root",
		"installs 6", "| kill | 4 | 1s | 3s | 3s |", "`go run ./jepsen run set`",
	} {
		require.Contains(t, text, want)
	}
}

func TestARunWithoutAVerdictIsBad(t *testing.T) {
	s := New(7, nil)
	s.Failed("go run ./jepsen run set", errors.New("no server"))
	require.True(t, s.Bad())
	require.Contains(t, s.String(), "**No verdict:** go run ./jepsen run set: no server")
}
