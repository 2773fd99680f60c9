package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jepsen/foreign"
	"github.com/zkd-project/zkd/jepsen/product"
	"github.com/zkd-project/zkd/jepsen/workload"
)

// workloads are all that there are, by name: those of the test client, and those of the
// product's own.
func workloads() []workload.Workload {
	all := append(workload.All(), product.All()...)
	slices.SortFunc(all, func(a, b workload.Workload) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// foreignClients are the names of those that this machine can run.
func foreignClients() (names []string) {
	for _, l := range foreign.Clients() {
		if l.Unavailable() == "" {
			names = append(names, l.Name)
		}
	}
	return names
}

// workloadsOf are those that drive a client: "" is that of these tests.
func workloadsOf(client string) []workload.Workload {
	if l, err := foreign.Find(client); err == nil {
		return l.Workloads()
	}
	return workloads()
}

// findWorkload returns the workload of the name, for a client.
func findWorkload(client, name string) (workload.Workload, error) {
	var names []string
	for _, w := range workloadsOf(client) {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	with := ""
	if client != "" {
		with = " with the client " + client
	}
	return workload.Workload{}, fmt.Errorf("there is no workload %q%s; there are %s", name, with, strings.Join(names, ", "))
}
