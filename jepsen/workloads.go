package main

import (
	"fmt"
	"slices"
	"strings"

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

// findWorkload returns the workload of the name.
func findWorkload(name string) (workload.Workload, error) {
	var names []string
	for _, w := range workloads() {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return workload.Workload{}, fmt.Errorf("there is no workload %q; there are %s", name, strings.Join(names, ", "))
}
