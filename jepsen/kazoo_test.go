package main

import (
	"testing"

	"github.com/zkd-project/zkd/internal/needs"
	"github.com/zkd-project/zkd/jepsen/kazoo"
)

// A client that others have written holds to the same promises, through its own retries and
// reconnects. Other faults take it seconds each time; `go run ./jepsen run register --client kazoo` has them.
func TestKazooHoldsToo(t *testing.T) {
	t.Parallel()
	if why := kazoo.Unavailable(); why != "" {
		needs.Unavailable(t, why)
	}
	binary := built(t)
	for _, w := range kazoo.All() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			o := Options{Workload: w.Name, Client: kazooClient, Nemeses: []string{"cut"}, Time: *runTime, Binary: binary}
			longer(t, &o, func() bool { return holds(t, w, o) })
		})
	}
}
