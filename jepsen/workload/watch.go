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

const watchKeys = 5

// watchWorkload has writers, clients with one-shot watches that move, and clients with
// persistent recursive watches.
func watchWorkload() Workload {
	return Workload{
		Name:     "watch",
		Doc:      "one-shot watches over moves between servers, and recursive persistent ones: each event once, before the reply that shows it",
		Setup:    func(ctx context.Context, e *Env) error { return e.Root(ctx, "/watch") },
		Run:      runWatch,
		Final:    func(context.Context, *Env) error { return nil },
		Checkers: []check.Checker{check.Watch, check.Persistent},
	}
}

func watchKey(i int) string { return fmt.Sprintf("/watch/%d", i) }

func runWatch(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	for range 2 {
		p := e.NewProc(0)
		p.note = "writer"
		wg.Go(func() {
			defer p.Close()
			p.change(ctx)
		})
	}
	for range 4 {
		w := newWatcher(e)
		wg.Go(func() {
			defer w.Close()
			w.run(ctx)
		})
	}
	for range 2 {
		p := e.NewProc(0)
		p.note = "persistent"
		wg.Go(func() {
			defer p.Close()
			p.watchAll(ctx)
		})
	}
	wg.Wait()
}

// change writes, creates and deletes.
func (p *Proc) change(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		key, value := watchKey(p.Rand.IntN(watchKeys)), fmt.Sprintf("%d.%d", p.ID, n)
		switch p.Rand.IntN(5) {
		case 0:
			p.Delete(ctx, key, -1)
		case 1, 2:
			p.Create(ctx, key, value, 0)
		default:
			p.Set(ctx, key, value, -1)
		}
		Pause(ctx, time.Duration(p.Rand.IntN(20))*time.Millisecond)
	}
}

// A watcher keeps its watches over connections, as client libraries do: at each new one it
// says which it has and what it has seen, before anything else.
type watcher struct {
	*Proc
	mu      sync.Mutex
	watches map[string]bool // guarded by mu: path → whether the node was there
	// fired has the place of the newest event of a path. guarded by mu
	fired map[string]wire.Event
}

func newWatcher(e *Env) *watcher {
	w := &watcher{watches: map[string]bool{}, fired: map[string]wire.Event{}}
	w.Proc = e.NewProc(0, func(o *wire.Options) {
		session := o.OnSession
		o.OnSession = func(what string, c *wire.Conn, s wire.Session, alive time.Time) {
			if what == "expired" {
				w.mu.Lock()
				clear(w.watches)
				w.mu.Unlock()
			}
			session(what, c, s, alive)
		}
		o.OnAttach = w.restore
	})
	w.onEvent = func(ev wire.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watches, ev.Path)
		w.fired[ev.Path] = ev
	}
	return w
}

// restore hands the watches to another server.
func (w *watcher) restore(c *wire.Conn) {
	r := proto.SetWatches2{RelativeZxid: c.LastZxid()}
	w.mu.Lock()
	for path, there := range w.watches {
		if there {
			r.DataWatches = append(r.DataWatches, path)
		} else {
			r.ExistWatches = append(r.ExistWatches, path)
		}
	}
	w.mu.Unlock()
	c.Send(proto.OpSetWatches2, r.Append(nil))
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		key := watchKey(w.Rand.IntN(watchKeys))
		w.mu.Lock()
		_, watched := w.watches[key]
		w.mu.Unlock()
		switch {
		case w.Rand.IntN(25) == 0:
			w.c.Leave()
			_, _ = w.Move(ctx, 1+w.Rand.IntN(w.e.Servers))
		case watched:
			w.Get(ctx, key, false)
		default:
			w.set(ctx, key)
		}
		Pause(ctx, time.Duration(w.Rand.IntN(10))*time.Millisecond)
	}
}

// set watches a node. Its event may have come before the reply is looked at here.
func (w *watcher) set(ctx context.Context, key string) {
	if o := w.Exists(ctx, key, true); o.Kind == history.OK {
		w.keep(o)
	}
}

// keep notes the watch that a read has set, unless it is over already.
func (w *watcher) keep(o history.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.fired[o.Key]; !ok || f.Conn != o.Conn || f.Frame < o.Frame {
		w.watches[o.Key] = o.Code == 0
	}
}

// watchAll has a persistent recursive watch on each connection, and reads between the events.
func (p *Proc) watchAll(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		if err != nil {
			return
		}
		r := proto.AddWatchRequest{Path: "/watch", Mode: proto.AddWatchPersistentRecursive}
		o, d, ok := p.do(ctx, history.Op{F: "add-watch", Key: "/watch", Note: p.note}, proto.OpAddWatch, r.Append(nil))
		p.record(o, &d, ok)
		leave := time.Now().Add(time.Duration(200+p.Rand.IntN(3000)) * time.Millisecond)
		for ok && time.Now().Before(leave) && ctx.Err() == nil {
			if o := p.Get(ctx, watchKey(p.Rand.IntN(watchKeys)), false); o.Kind != history.OK || o.Conn != c.Number {
				break
			}
			Pause(ctx, time.Duration(p.Rand.IntN(10))*time.Millisecond)
		}
		p.c.Leave()
	}
}
