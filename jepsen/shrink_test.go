package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/nemesis"
)

// What is found with one kind of fault on three servers within some seconds is shrunk to that.
func TestShrinkLeavesWhatIsNeeded(t *testing.T) {
	o := Options{Workload: "set", Nemeses: []string{"kill", "cut", "pause"}, Nodes: 5, Time: 40 * time.Second}
	tried := 0
	small, err := shrink(o, func(o Options) (bool, error) {
		tried++
		return slices.Contains(o.Nemeses, "pause") && o.Time >= 9*time.Second, nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"pause"}, small.Nemeses)
	require.Equal(t, 3, small.Nodes)
	require.Equal(t, 10*time.Second, small.Time)
	require.Less(t, tried, 20)
	require.Equal(t, []string{"kill", "cut", "pause"}, o.Nemeses, "the original is left alone")
}

func TestShrinkEndsWithAnError(t *testing.T) {
	_, err := shrink(Options{Nemeses: []string{"kill"}, Time: time.Second}, func(Options) (bool, error) { return false, context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
}

func TestScenariosAreRuns(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Scenarios() {
		require.False(t, names[s.Name], s.Name)
		names[s.Name] = true
		require.NotEmpty(t, s.Bug)
		o := s.with(&Options{Store: t.TempDir()})
		if why := o.unavailable(); why != "" {
			t.Logf("%s: %s", s.Name, why)
			o.Client, o.Driver = "", ""
		}
		require.NoError(t, o.check(), s.Name)
		_, err := findWorkload(o.Client, o.Workload)
		require.NoError(t, err)
		_, err = nemesis.Find(o.Nemeses)
		require.NoError(t, err)
	}
}
