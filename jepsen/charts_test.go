package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/nemesis"
)

func TestChartsAreDrawn(t *testing.T) {
	dir := t.TempDir()
	second := int64(time.Second)
	ops := []history.Op{
		{Begin: 0, End: 5e6, Kind: history.OK, F: "set"},
		{Begin: 3 * second, End: 3*second + 7e6, Kind: history.OK, F: "get"},
		{Begin: 3 * second, End: 4 * second, Kind: history.Unknown, F: "set"},
	}
	faults := []nemesis.Fault{{Kind: "kill", What: "<all>", Begin: second, End: 2 * second}}
	require.NoError(t, writeCharts(dir, ops, faults))
	for _, name := range []string{"latency.svg", "rate.svg"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		d := xml.NewDecoder(bytes.NewReader(b))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
		}
		require.Contains(t, string(b), "kill &lt;all&gt;")
		require.NotContains(t, string(b), "NaN")
	}
	require.True(t, math.IsNaN(quantile(nil, 0.5)))
}

// The gap of a fault is the longest time without an answered write that has a part in it.
func TestGapsBelongToTheirFaults(t *testing.T) {
	var ops []history.Op
	for _, end := range []int64{10, 20, 90, 100, 300} {
		ops = append(ops, history.Op{End: end, Kind: history.OK, F: "set"})
	}
	got := gaps(ops, []nemesis.Fault{
		{Kind: "kill", Begin: 15, End: 40}, {Kind: "kill", Begin: 95, End: 96}, {Kind: "cut", Begin: 5, End: 250}, {Kind: "pause", Begin: 400, End: 500},
	})
	require.Equal(t, map[string][]time.Duration{"kill": {70, 10}, "cut": {200}, "pause": {0}}, got)
}
