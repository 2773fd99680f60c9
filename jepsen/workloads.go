package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jepsen/kazoo"
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

// workloadsOf are those that drive a client: "" is that of these tests.
func workloadsOf(client string) []workload.Workload {
	if client == kazooClient {
		return kazoo.All()
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
