package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

// ephemeralWorkload has sessions of every fate and an observer on every server.
func ephemeralWorkload() Workload {
	return Workload{
		Name:  "ephemeral",
		Doc:   "sessions that live, stall, move, close and die: their nodes are there exactly as long",
		Setup: func(ctx context.Context, e *Env) error { return e.Root(ctx, "/ephemeral") },
		Run:   runEphemeral,
		Final: func(ctx context.Context, e *Env) error {
			return e.awaitEmpty(ctx, "/ephemeral", "all sessions are over")
		},
		Checkers: []check.Checker{check.Ephemeral},
	}
}

func runEphemeral(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	for node := 1; node <= e.Servers; node++ {
		wg.Go(func() { e.observe(ctx, node, "/ephemeral") })
	}
	for range 9 {
		wg.Go(func() {
			for ctx.Err() == nil {
				e.liveOnce(ctx)
			}
		})
	}
	wg.Wait()
}

// observe lists a folder on one server, all the time.
func (e *Env) observe(ctx context.Context, node int, folder string) {
	p := e.NewProc(0)
	defer p.Close()
	for ctx.Err() == nil {
		if _, err := p.Move(ctx, node); err != nil {
			return
		}
		p.Children(ctx, folder, false)
		Pause(ctx, time.Duration(10+p.Rand.IntN(40))*time.Millisecond)
	}
}

// liveOnce is the life of one session.
func (e *Env) liveOnce(ctx context.Context) {
	p := e.NewProc([]int32{1500, 2000, 3000}[int(e.Rec.Now())%3])
	defer p.Close()
	defer p.Alive()
	for n := range 1 + p.Rand.IntN(3) {
		path := fmt.Sprintf("/ephemeral/%d-%d", p.ID, n)
		made := p.Create(ctx, path, fmt.Sprintf("%d.%d", p.ID, n), proto.FlagEphemeral)
		if made.Kind == history.OK && made.Code == 0 && p.Rand.IntN(2) == 0 {
			p.lookAtOwn(ctx, path, made.Session)
		}
	}
	mine := p.c.Session()
	for range p.Rand.IntN(16) { // some live through a fault or two
		Pause(ctx, time.Duration(p.Rand.IntN(800))*time.Millisecond)
		switch p.Rand.IntN(5) {
		case 0: // silent, mostly for less than the timeout; the session must be there after it
			if p.Rand.IntN(2) == 0 { // with a last word, which counts although nothing follows it
				p.Ping(ctx)
			}
			p.c.Leave()
			Pause(ctx, time.Duration(p.Rand.IntN(int(mine.TimeoutMs)))*time.Millisecond)
		case 1:
			_, _ = p.Move(ctx, 1+p.Rand.IntN(e.Servers))
		}
		if _, err := p.Move(ctx, 0); err != nil {
			return
		}
		if p.c.Session().ID != mine.ID { // over, and a new one begun, without nodes
			return
		}
	}
	if p.Rand.IntN(2) == 0 {
		p.CloseSession(ctx)
		return
	}
	p.Ping(ctx)
}

// lookAtOwn reads an ephemeral node of the session, unless that is over.
func (p *Proc) lookAtOwn(ctx context.Context, path string, session int64) {
	if _, err := p.Move(ctx, 0); err != nil || p.c.Session().ID != session {
		return
	}
	p.note = "ephemeral"
	p.Get(ctx, path, false)
	p.note = ""
}

// awaitEmpty waits until a folder is empty on all servers.
func (e *Env) awaitEmpty(ctx context.Context, folder, why string) error {
	for node := 1; node <= e.Servers; node++ {
		err := e.settle(ctx, func(ctx context.Context, p *Proc) error {
			if _, err := p.Move(ctx, node); err != nil {
				return err
			}
			o := p.Children(ctx, folder, false)
			if o.Kind != history.OK || o.Code != 0 {
				return fmt.Errorf("no list of %s", folder)
			}
			if len(o.Parts) > 0 {
				return fmt.Errorf("on server %d there is still %s: %s", node, o.Parts[0].Key, why)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
