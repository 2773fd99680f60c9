package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

// nodesPerFolder keeps lists short enough to be read all the time.
const nodesPerFolder = 200

// restartWorkload creates nodes and looks for them all the time, while everything is killed, or
// loses power, again and again.
func restartWorkload() Workload {
	return Workload{
		Name:     "restart-all",
		Doc:      "nodes are created and looked for while all servers go down together, again and again: what was acknowledged is there after each start",
		Nemeses:  []string{"blackout"},
		Setup:    func(ctx context.Context, e *Env) error { return e.Root(ctx, "/restart") },
		Run:      runRestart,
		Final:    finalRestart,
		Checkers: []check.Checker{check.Restart},
	}
}

func runRestart(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	var made atomic.Int64
	for range 6 {
		p := e.NewProc(0)
		wg.Go(func() {
			defer p.Close()
			for ctx.Err() == nil {
				n := made.Add(1)
				folder := fmt.Sprintf("/restart/%d", n/nodesPerFolder)
				o := p.Create(ctx, fmt.Sprintf("%s/%d", folder, n), fmt.Sprint(n), 0)
				if o.Kind == history.OK && o.Code == int32(proto.NoNode) {
					p.Create(ctx, folder, "", 0)
				}
			}
		})
	}
	for node := 1; node <= e.Servers; node++ {
		p := e.NewProc(0)
		wg.Go(func() {
			defer p.Close()
			for ctx.Err() == nil {
				if _, err := p.Move(ctx, node); err != nil {
					return
				}
				newest := int(made.Load()) / nodesPerFolder
				p.SyncChildren(ctx, fmt.Sprintf("/restart/%d", max(0, newest-p.Rand.IntN(4))))
				Pause(ctx, time.Duration(20+p.Rand.IntN(60))*time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// finalRestart lists every folder: while the run went on, only the newest ones were looked at.
func finalRestart(ctx context.Context, e *Env) error {
	next := 0
	return e.settle(ctx, func(ctx context.Context, p *Proc) error {
		for {
			folders := p.SyncChildren(ctx, "/restart")
			if folders.Kind != history.OK || folders.Code != 0 {
				return errors.New("no list of /restart")
			}
			if next >= len(folders.Parts) {
				return nil
			}
			for ; next < len(folders.Parts); next++ {
				if o := p.SyncChildren(ctx, "/restart/"+folders.Parts[next].Key); o.Kind != history.OK {
					return errors.New("no list of " + o.Key)
				}
			}
		}
	})
}
