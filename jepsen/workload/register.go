package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
)

const (
	registerClients = 6
	registerKeys    = 3 // in use at a time
	// opsPerKey bounds what the search for an order has to deal with.
	opsPerKey = 150
)

// registerWorkload has a few clients at a few nodes: so many at one node at once that orders
// matter, and so few operations on each that all orders can be tried.
func registerWorkload() Workload {
	return Workload{
		Name:     "register",
		Doc:      "set, compare-and-set, delete and create, and reads after a sync, linearizable on every node",
		Setup:    func(ctx context.Context, e *Env) error { return e.Root(ctx, "/register") },
		Run:      runRegister,
		Final:    func(context.Context, *Env) error { return nil },
		Checkers: []check.Checker{check.Register},
	}
}

// Root makes a node for a workload.
func (e *Env) Root(ctx context.Context, path string) error {
	return e.settle(ctx, func(ctx context.Context, p *Proc) error { return p.Make(ctx, path) })
}

func runRegister(ctx context.Context, e *Env) {
	var used [registerKeys]atomic.Int64
	e.every(ctx, registerClients, func(ctx context.Context, p *Proc) {
		version := int32(-1)
		for n := 0; ctx.Err() == nil; n++ {
			slot := p.Rand.IntN(registerKeys)
			key := fmt.Sprintf("/register/%d-%d", slot, used[slot].Add(1)/opsPerKey)
			o := p.registerOp(ctx, key, fmt.Sprintf("%d.%d", p.ID, n), version)
			if o.Stat != nil {
				version = o.Stat.Version
			}
			if o.Kind == history.Unknown { // may happen at any later time: a few are as much as can be tried out
				used[slot].Add(opsPerKey / 8)
			}
			Pause(ctx, time.Duration(p.Rand.IntN(8))*time.Millisecond)
		}
	})
}

func (p *Proc) registerOp(ctx context.Context, key, value string, version int32) history.Op {
	switch k := p.Rand.IntN(100); {
	case k < 20:
		return p.Set(ctx, key, value, -1)
	case k < 40:
		return p.Set(ctx, key, value, version)
	case k < 55:
		return p.Create(ctx, key, value, 0)
	case k < 60:
		return p.Delete(ctx, key, -1)
	case k < 62:
		// Another server: a client that moves must not see the past.
		_, _ = p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		return p.SyncGet(ctx, key)
	case k < 85:
		return p.SyncGet(ctx, key)
	}
	return p.Get(ctx, key, false)
}
