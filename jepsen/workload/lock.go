package workload

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

const (
	lockTimeoutMs = 1500
	lockClients   = 5
)

// lockWorkload has clients that queue for a lock by the recipe of ZooKeeper's documentation.
func lockWorkload() Workload {
	return Workload{
		Name:     "lock",
		Doc:      "a lock of ephemeral sequential nodes, with clients that stall while they hold it: never two holders",
		Setup:    func(ctx context.Context, e *Env) error { return e.Root(ctx, "/lock") },
		Run:      runLock,
		Final:    func(context.Context, *Env) error { return nil },
		Checkers: []check.Checker{check.Lock, check.Sequence},
	}
}

func runLock(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	for range lockClients {
		p := e.NewProc(lockTimeoutMs)
		wg.Go(func() {
			defer p.Close()
			for ctx.Err() == nil {
				p.lockOnce(ctx)
			}
		})
	}
	wg.Wait()
}

// lockOnce queues, holds and lets go. Whatever goes wrong before the lock is held, the session
// is given up: the place in the queue goes with it.
func (p *Proc) lockOnce(ctx context.Context) {
	made := p.Create(ctx, "/lock/n-", strconv.Itoa(p.ID), proto.FlagEphemeralSequential)
	if made.Kind != history.OK || made.Code != 0 {
		p.giveUp(ctx)
		return
	}
	number, err := strconv.ParseInt(strings.TrimPrefix(made.Note, "/lock/n-"), 10, 64)
	if err != nil {
		return // which the checker of sequences reports
	}
	for {
		if _, err := p.Move(ctx, 0); err != nil || p.c.Session().ID != made.Session {
			return
		}
		list := p.Children(ctx, "/lock", false)
		if list.Kind == history.OK && list.Code == 0 && list.Session == made.Session {
			names := make([]string, len(list.Parts))
			for i, c := range list.Parts {
				names[i] = c.Key
			}
			if !slices.Contains(names, strings.TrimPrefix(made.Note, "/lock/")) {
				return // the session was over
			}
			if slices.Min(names) == strings.TrimPrefix(made.Note, "/lock/") {
				p.hold(ctx, made, list, number)
				return
			}
		}
		Pause(ctx, time.Duration(5+p.Rand.IntN(20))*time.Millisecond)
	}
}

// hold keeps the lock for a moment; one in twenty stalls for longer than its session can live.
// One client does so the first time, so that it happens in every run.
func (p *Proc) hold(ctx context.Context, made, list history.Op, number int64) {
	p.holds++
	switch k := p.Rand.IntN(20); {
	case k == 0 || (p.ID%lockClients == 0 && p.holds == 1):
		p.Ping(ctx)
		if p.c.Session().ID != made.Session { // over already: the last word was of the next one
			return
		}
		p.c.Leave()
		Pause(ctx, time.Duration(lockTimeoutMs*(2+p.Rand.IntN(2)))*time.Millisecond)
	case k < 3: // in touch with a server, which may be cut off from the others meanwhile
		Pause(ctx, time.Duration(p.Rand.IntN(3*lockTimeoutMs))*time.Millisecond)
	default:
		Pause(ctx, time.Duration(p.Rand.IntN(80))*time.Millisecond)
	}
	// Up to here the client has nothing but its clock to know whether it still holds the lock.
	now, alive := p.e.Rec.Now(), p.e.Rec.At(p.c.Alive())
	held := history.Op{
		Begin: list.End, End: min(now, alive+lockTimeoutMs*int64(time.Millisecond)), Kind: history.Info, F: "held",
		Proc: p.ID, Session: made.Session, Key: "/lock", Arg: number,
	}
	p.e.Rec.Add(held)
	held.F, held.End = "held-blindly", now
	p.e.Rec.Add(held)
	if _, err := p.Move(ctx, 0); err != nil || p.c.Session().ID != made.Session {
		return
	}
	if o := p.Delete(ctx, made.Note, -1); o.Kind != history.OK {
		p.giveUp(ctx)
	}
}

// giveUp ends the session, so that nothing of it stays in the queue for longer than that.
func (p *Proc) giveUp(ctx context.Context) {
	if ctx.Err() == nil {
		p.CloseSession(ctx)
		p.c.Forget()
	}
}
