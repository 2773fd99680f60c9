package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

// setWorkload creates nodes and looks at the end whether they are there.
func setWorkload() Workload {
	return Workload{
		Name:  "set",
		Doc:   "nodes are created and never deleted: at the end, all that were acknowledged are there",
		Setup: func(ctx context.Context, e *Env) error { return e.Root(ctx, "/set") },
		Run: func(ctx context.Context, e *Env) {
			e.every(ctx, 8, func(ctx context.Context, p *Proc) {
				for n := 0; ctx.Err() == nil; n++ {
					p.Create(ctx, fmt.Sprintf("/set/%d-%d", p.ID, n), fmt.Sprintf("%d.%d", p.ID, n), 0)
					if p.Rand.IntN(100) == 0 {
						_, _ = p.Move(ctx, 1+p.Rand.IntN(e.Servers))
					}
				}
			})
		},
		Final:    func(ctx context.Context, e *Env) error { return e.finalLists(ctx, "/set") },
		Checkers: []check.Checker{check.Set},
	}
}

// finalLists reads the children on every server, after a sync.
func (e *Env) finalLists(ctx context.Context, path string) error {
	for node := 1; node <= e.Servers; node++ {
		if err := e.finalList(ctx, path, node); err != nil {
			return err
		}
	}
	return nil
}

// finalList reads the children on one server, after a sync.
func (e *Env) finalList(ctx context.Context, path string, node int) error {
	return e.settle(ctx, func(ctx context.Context, p *Proc) error {
		if _, err := p.Move(ctx, node); err != nil {
			return err
		}
		return p.finalList(ctx, path)
	})
}

func (p *Proc) finalList(ctx context.Context, path string) error {
	// On one connection: between two, a session could be over, and the next one is not bound to what
	// this one has seen. A folder that no write has reached is an answer, too.
	if o := p.listSynced(ctx, path, "final"); o.Kind != history.OK || o.Code != 0 && o.Code != int32(proto.NoNode) {
		return errors.New("no list of " + path)
	}
	return nil
}

const sequenceParents = 2

// sequenceWorkload draws sequence numbers.
func sequenceWorkload() Workload {
	return Workload{
		Name: "sequence",
		Doc:  "sequential nodes, many of them deleted again: no number twice, and none out of order",
		Setup: func(ctx context.Context, e *Env) error {
			for i := range sequenceParents {
				if err := e.Root(ctx, fmt.Sprintf("/sequence-%d", i)); err != nil {
					return err
				}
			}
			return nil
		},
		Run: func(ctx context.Context, e *Env) {
			e.every(ctx, 6, func(ctx context.Context, p *Proc) { p.drawNumbers(ctx) })
		},
		Final:    func(context.Context, *Env) error { return nil },
		Checkers: []check.Checker{check.Sequence},
	}
}

func (p *Proc) drawNumbers(ctx context.Context) {
	var mine []string
	for n := 0; ctx.Err() == nil; n++ {
		flags := proto.FlagPersistentSequential
		if p.Rand.IntN(4) == 0 {
			flags = proto.FlagEphemeralSequential
		}
		o := p.Create(ctx, fmt.Sprintf("/sequence-%d/n-", p.Rand.IntN(sequenceParents)), fmt.Sprintf("%d.%d", p.ID, n), flags)
		if o.Kind == history.OK && o.Code == 0 && flags == proto.FlagPersistentSequential {
			mine = append(mine, o.Note)
		}
		if len(mine) > 0 && p.Rand.IntN(3) > 0 { // the newest number is the one that might come again
			p.Delete(ctx, mine[len(mine)-1], -1)
			mine = mine[:len(mine)-1]
		}
		if p.Rand.IntN(50) == 0 {
			_, _ = p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		}
		Pause(ctx, time.Duration(p.Rand.IntN(3))*time.Millisecond)
	}
}
