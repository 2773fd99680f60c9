package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGarbageIsBoundedAtBothEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		live uint64
		want int
	}{
		{"nothing yet", 0, 1000},
		{"a small tree gets a fixed allowance", 48 << 20, 100},
		{"a large one a share of itself", 1 << 30, 33},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, percentFor(c.live)) })
	}
}
