package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/wire"
	proto "github.com/zkd-project/zkd/wire"
)

// A Workload is what clients do, and how it is judged.
type Workload struct {
	Name string
	Doc  string
	// Setup prepares the tree, before any fault.
	Setup func(ctx context.Context, e *Env) error
	// Run has the clients at work until ctx ends.
	Run func(ctx context.Context, e *Env)
	// Final reads what is left, after all faults.
	Final func(ctx context.Context, e *Env) error
	// Checkers judge the history, beside those that judge every history.
	Checkers []check.Checker
	// Common judge it instead of those that judge every history; nil: those. They are for clients
	// that tell less of what they were answered.
	Common []check.Checker
	// Nemeses are those without which it shows nothing; runs have them where the machine does.
	Nemeses []string
	// Without are those whose faults its checkers would take for the server's.
	Without []string
	// Settings are lines of zoo.cfg that it needs, instead of those that runs have.
	Settings []string
}

// Env is where a workload runs.
type Env struct {
	Servers int
	Seed    uint64
	Rec     *history.Recorder
	Dial    func(ctx context.Context, node int) (net.Conn, error)
	// TimeoutMs is the session timeout of clients that have no reason for another.
	TimeoutMs int32
	// Tapes keep the frames of the test client; nil: nothing does.
	Tapes *wire.Tapes
	// Dir is the folder of the run, for what a workload needs beside its servers.
	Dir string
	// Scale is how many times as much as usual there may be of what a workload has much of; 0: once.
	Scale int
	// Time is how long the run is meant to be.
	Time time.Duration

	mu    sync.Mutex
	procs int // guarded by mu
}

// Common judge every history.
var Common = []check.Checker{check.Broken, check.Sessions, check.Zxids}

// Judges are all checkers of its histories.
func (w *Workload) Judges() []check.Checker {
	if w.Common != nil {
		return slices.Concat(w.Common, w.Checkers)
	}
	return slices.Concat(Common, w.Checkers)
}

// All are the workloads of the test client.
func All() []Workload {
	return []Workload{
		registerWorkload(), orderWorkload(), appendWorkload(), setWorkload(), sequenceWorkload(),
		ephemeralWorkload(), lockWorkload(), watchWorkload(), counterWorkload(), queueWorkload(),
		restartWorkload(), containerWorkload(), aclWorkload(), bulkWorkload(),
	}
}

// NextProc numbers the clients.
func (e *Env) NextProc() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.procs++
	return e.procs
}

// rand returns a generator for a client, fixed by the seed of the run.
func (e *Env) rand(proc int) *rand.Rand { return rand.New(rand.NewPCG(e.Seed, uint64(proc))) }

// every runs f for so many clients at once and returns when all have returned.
func (e *Env) every(ctx context.Context, n int, f func(ctx context.Context, p *Proc)) {
	var wg sync.WaitGroup
	for range n {
		p := e.NewProc(0)
		wg.Go(func() {
			defer p.Close()
			f(ctx, p)
		})
	}
	wg.Wait()
}

// settle runs f with a client of its own until it succeeds.
func (e *Env) settle(ctx context.Context, f func(ctx context.Context, p *Proc) error) error {
	p := e.NewProc(0)
	defer p.Close()
	for {
		err := f(ctx, p)
		if err == nil || ctx.Err() != nil {
			return err
		}
		Pause(ctx, 20*time.Millisecond)
	}
}

// Churn makes so many writes that leave nothing behind, which the history does not have. It
// returns the zxid of the first.
func (e *Env) Churn(ctx context.Context, writes int) (first int64, err error) {
	err = e.settle(ctx, func(ctx context.Context, p *Proc) error {
		if err := p.Make(ctx, "/churn"); err != nil {
			return err
		}
		c, err := p.Move(ctx, 0)
		if err != nil {
			return err
		}
		var calls []*wire.Call // one after the other they would take long where syncs do
		for range writes {
			r := proto.SetDataRequest{Path: "/churn", Version: -1}
			calls = append(calls, c.Send(proto.OpSetData, r.Append(nil)))
		}
		wire.Wait(c, calls[len(calls)-1], opTimeout)
		for _, call := range calls {
			<-call.Done
			if call.Err != nil || call.Reply.Err != proto.OK {
				return errors.Join(errors.New("a write has no answer"), call.Err)
			}
		}
		first = calls[0].Reply.Zxid
		return nil
	})
	return first, err
}

// Pause waits a moment, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
