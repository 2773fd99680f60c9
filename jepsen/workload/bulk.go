package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/wire"
	proto "github.com/zkd-project/zkd/wire"
)

// What a run of bulkTime has; shorter ones have their share, longer ones no more, unless they are asked to.
const (
	bulkTime     = 40 * time.Second
	bulkNodes    = 100_000
	bulkWatches  = 20_000
	bulkSessions = 1_000

	bulkMulti   = 100 // nodes that one multi creates
	bulkFolder  = 1000
	bulkTimeout = 12_000 // of sessions that have nothing to do but to live, in ms
	bulkStep    = 250    // requests of a client under way
)

// bulkWorkload has much of everything at once.
func bulkWorkload() Workload {
	return Workload{
		Name:    "bulk",
		Doc:     "100,000 nodes, 20,000 watches of one session and 1,000 sessions, with snapshots and a server that is away for long: none lost",
		Nemeses: []string{"lag"},
		Setup: func(ctx context.Context, e *Env) error {
			if err := e.Root(ctx, "/bulk"); err != nil {
				return err
			}
			return e.Root(ctx, "/bulk-watched")
		},
		Run:      runBulk,
		Final:    finalBulk,
		Checkers: []check.Checker{check.Counter, check.Watch},
		Settings: []string{"snapCount=250"}, // of multis
	}
}

// share is how much of n a run of the Env has: Scale times as much needs as many times bulkTime.
func (e *Env) share(n int) int {
	scale := float64(max(1, e.Scale))
	return max(bulkMulti, int(float64(n)*min(scale, e.Time.Seconds()/bulkTime.Seconds())))
}

func bulkFolders(e *Env) int { return (e.share(bulkNodes) + bulkFolder - 1) / bulkFolder }

func runBulk(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	const makers = 4
	for i := range makers {
		p := e.NewProc(0)
		wg.Go(func() {
			defer p.Close()
			for folder := i; folder < bulkFolders(e) && ctx.Err() == nil; folder += makers {
				p.fill(ctx, fmt.Sprintf("/bulk/%d", folder))
			}
			for ctx.Err() == nil { // the log must go on growing
				p.Set(ctx, fmt.Sprintf("/bulk/%d/%d", i, p.Rand.IntN(bulkFolder)), fmt.Sprint(p.Rand.Uint64()), -1)
				Pause(ctx, time.Duration(p.Rand.IntN(4))*time.Millisecond)
			}
		})
	}
	registered, changed := make(chan struct{}), make(chan struct{})
	w := newWatcher(e)
	wg.Go(func() {
		defer w.Close()
		w.watchMany(ctx, e.share(bulkWatches), registered, changed)
	})
	p := e.NewProc(0)
	wg.Go(func() {
		defer p.Close()
		defer close(changed)
		select {
		case <-registered:
			p.createMany(ctx, e.share(bulkWatches))
		case <-ctx.Done():
		}
	})
	e.crowd(ctx, &wg)
	wg.Wait()
}

// fill creates the nodes of a folder.
func (p *Proc) fill(ctx context.Context, folder string) {
	for p.Make(ctx, folder) != nil {
		if ctx.Err() != nil {
			return
		}
		Pause(ctx, 20*time.Millisecond)
	}
	for n := 0; n < bulkFolder && ctx.Err() == nil; n += bulkMulti {
		var parts []history.Part
		for i := range bulkMulti {
			parts = append(parts, history.Part{Key: fmt.Sprintf("%s/%d", folder, n+i), Value: "v"})
		}
		p.MultiCreate(ctx, parts)
	}
}

// crowd opens sessions that only live. Their clients record their fate.
func (e *Env) crowd(ctx context.Context, wg *sync.WaitGroup) {
	openers := 16 * max(1, e.Scale) // some hundred tries at a server that is away must not take a timeout
	total := e.share(bulkSessions)
	for i := range openers {
		wg.Go(func() {
			var crowd []*Proc
			defer func() {
				for _, p := range crowd {
					p.Alive()
					p.Close()
				}
			}()
			for n := i; n < total && ctx.Err() == nil; n += openers {
				p := e.NewProc(bulkTimeout)
				crowd = append(crowd, p)
				_, _ = p.Move(ctx, 0)
			}
			for ctx.Err() == nil { // whoever has lost its connection comes back
				for _, p := range crowd {
					_, _ = p.Move(ctx, 0)
				}
				Pause(ctx, 200*time.Millisecond)
			}
		})
	}
}

func watchedKey(i int) string { return fmt.Sprintf("/bulk-watched/%d", i) }

// watchMany watches nodes that are not there, and looks at them again when they have been made.
func (w *watcher) watchMany(ctx context.Context, n int, registered, changed chan struct{}) {
	w.lookAtAll(ctx, n, 1)
	close(registered)
	select {
	case <-changed:
	case <-ctx.Done():
	}
	// Also when the time is over: what the watches were for.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*opTimeout)
	defer cancel()
	w.lookAtAll(late, n, 0)
}

// lookAtAll asks for all of them, many requests under way at a time. A request whose answer is
// lost is not repeated: its watch may be there or not, so it is not counted as one.
func (w *watcher) lookAtAll(ctx context.Context, n int, watch int64) {
	for from := 0; from < n && ctx.Err() == nil; from += bulkStep {
		c, err := w.Move(ctx, 0)
		if err != nil {
			return
		}
		var under []sent
		for i := from; i < min(n, from+bulkStep); i++ {
			r := proto.PathWatchRequest{Path: watchedKey(i), Watch: watch == 1}
			under = append(under, sent{history.Op{F: "exists", Key: r.Path, Arg: watch}, c.Send(proto.OpExists, r.Append(nil))})
		}
		wire.Wait(c, under[len(under)-1].call, opTimeout)
		for _, s := range under {
			<-s.call.Done
			o := w.result(c, s.call, s.line)
			d := proto.NewDecoder(s.call.Reply.Body)
			if o.Kind == history.OK && o.Code == 0 {
				o.Stat = stat(&d)
			}
			w.record(o, &d, true)
			if watch == 1 && o.Kind == history.OK {
				w.keep(o)
			}
		}
	}
}

// createMany makes the nodes that are watched.
func (p *Proc) createMany(ctx context.Context, n int) {
	for from := 0; from < n && ctx.Err() == nil; from += bulkMulti {
		var parts []history.Part
		for i := from; i < min(n, from+bulkMulti); i++ {
			parts = append(parts, history.Part{Key: watchedKey(i), Value: "v"})
		}
		p.MultiCreate(ctx, parts)
	}
}

func finalBulk(ctx context.Context, e *Env) error {
	next := 0
	return e.settle(ctx, func(ctx context.Context, p *Proc) error {
		for ; next <= bulkFolders(e); next++ {
			folder := "/bulk-watched"
			if next < bulkFolders(e) {
				folder = fmt.Sprintf("/bulk/%d", next)
			}
			if err := p.finalList(ctx, folder); err != nil {
				return err
			}
		}
		return nil
	})
}
