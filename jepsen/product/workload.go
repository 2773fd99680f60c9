package product

import (
	"context"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/workload"
	"github.com/zkd-project/zkd/recipes"
)

// All are the workloads of the product's client.
func All() []workload.Workload {
	return []workload.Workload{
		contest("election", "candidates of an election that stall, die and are cut off: one leader at a time, each knowing when it is none any more",
			func(c *client.Client, path string) taker { return recipes.NewElection(c, path).Campaign }),
		contest("mutex", "the recipe of a lock around a resource that checks fencing tokens, and one that does not",
			func(c *client.Client, path string) taker { return recipes.NewMutex(c, path).Lock }),
	}
}

// A taker waits for a lease.
type taker func(ctx context.Context) (recipes.Lease, error)

func contest(name, doc string, recipe func(c *client.Client, path string) taker) workload.Workload {
	at := "/" + name
	return workload.Workload{
		Name: name,
		Doc:  doc,
		Setup: func(ctx context.Context, e *workload.Env) error {
			for _, path := range []string{at, at + "/fenced", at + "/unfenced"} {
				if err := e.Root(ctx, path); err != nil {
					return err
				}
			}
			return nil
		},
		Run:      func(ctx context.Context, e *workload.Env) { run(ctx, e, at, recipe) },
		Final:    func(context.Context, *workload.Env) error { return nil },
		Checkers: []check.Checker{check.Lock, check.Fencing},
	}
}
