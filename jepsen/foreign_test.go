package main

import (
	"testing"

	"github.com/zkd-project/zkd/internal/needs"
	"github.com/zkd-project/zkd/jepsen/foreign"
)

// Clients that others have written hold to the same promises, through their own retries and
// reconnects. Other faults take them seconds each time; `go run ./jepsen run register --client java` has them.
func TestForeignClientsHoldToo(t *testing.T) {
	t.Parallel()
	for _, l := range foreign.Clients() {
		t.Run(l.Name, func(t *testing.T) {
			if why := l.Unavailable(); why != "" {
				needs.Unavailable(t, why)
			}
			if testing.Short() && l.Name == "java" {
				t.Skip("each of its clients is a virtual machine that has to start")
			}
			binary := built(t)
			for _, w := range l.Workloads() {
				t.Run(w.Name, func(t *testing.T) {
					t.Parallel()
					o := Options{Workload: w.Name, Client: l.Name, Nemeses: []string{"cut"}, Time: *runTime, Binary: binary}
					longer(t, &o, func() bool { return holds(t, w, o) })
				})
			}
		})
	}
}
