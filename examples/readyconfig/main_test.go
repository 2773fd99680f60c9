package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

const testLimit = 2 * time.Minute

// generation is a configuration in which every value and the number of names tell which one it is.
func generation(g int) settings {
	s := settings{}
	for i := range 4 + g%3 {
		s["n"+strconv.Itoa(i)] = strconv.Itoa(g)
	}
	return s
}

// A world is a server, a way, and a deadline for everything.
type world struct {
	way
	whole bool // the way is one write
	t     *testing.T
	ctx   context.Context
	srv   *zkdtest.Server
}

func forEachWay(t *testing.T, f func(w *world)) {
	for name, how := range map[string]way{"behind ready": withReady, "at once": atOnce} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testLimit)
			t.Cleanup(cancel)
			f(&world{how, name == "at once", t, ctx, zkdtest.Start(t)})
		})
	}
}

func (w *world) dial(addr string) *client.Client {
	w.t.Helper()
	c, err := client.Dial(w.ctx, addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { goodbye(c) })
	return c
}

func (w *world) publishes(c *client.Client, g int) {
	w.t.Helper()
	if err := publish(w.ctx, c, generation(g), w.way); err != nil {
		w.t.Errorf("publish %d: %v", g, err)
	}
}

// A reader follows the configuration.
type reader struct {
	w      *world
	client *client.Client
	newest atomic.Int64 // generation
}

// reads starts a reader, which fails the test when it is handed out a mixture, or something older than
// before.
func (w *world) reads(addr string) *reader {
	w.t.Helper()
	r := &reader{w: w, client: w.dial(addr)}
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.follow(ctx, r.client, r.found); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("follow: %v", err)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *reader) found(s settings) {
	g, err := strconv.Atoi(s["n0"])
	if want := generation(g); err != nil || fmt.Sprint(s) != fmt.Sprint(want) {
		r.w.t.Errorf("a mixture is handed out: %v", s)
	}
	if old := r.newest.Swap(int64(g)); old > int64(g) {
		r.w.t.Errorf("generation %d after %d", g, old)
	}
}

func (r *reader) sees(g int) {
	r.w.t.Helper()
	r.w.until(fmt.Sprintf("a reader sees generation %d", g), func() bool { return r.newest.Load() == int64(g) })
}

func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	for !cond() {
		if w.ctx.Err() != nil {
			w.t.Fatalf("not within %v: %s", testLimit, what)
		}
		time.Sleep(2 * time.Millisecond) // between two looks at the condition
	}
}

// Several readers, one of which loses its connection and then its session, while two writers take turns.
func TestNobodySeesAMixture(t *testing.T) {
	forEachWay(t, func(w *world) {
		p := w.srv.Proxy()
		readers := []*reader{w.reads(w.srv.Addr()), w.reads(w.srv.Addr()), w.reads(p.Addr())}
		a, b := w.dial(w.srv.Addr()), w.dial(w.srv.Addr())
		const last = 30
		for g := 1; g <= last; g += 2 {
			w.publishes(a, g)
			switch g {
			case last/3 + 1:
				p.Cut()
			case last/3*2 + 1:
				w.srv.ExpireSession(readers[2].client.SessionID())
			}
			w.publishes(b, g+1)
		}
		for _, r := range readers {
			r.sees(last)
		}
	})
}

// What is read while it is changed is not handed out: here the change comes right before the reader's
// second request for data.
func TestChangeWhileReading(t *testing.T) {
	forEachWay(t, func(w *world) {
		writer := w.dial(w.srv.Addr())
		w.publishes(writer, 1)
		p := w.srv.Proxy()
		reads, change := 0, sync.OnceFunc(func() { w.publishes(writer, 2) })
		p.On(func(f zkdtest.Frame) zkdtest.Action {
			if f.Direction == zkdtest.ToServer && (f.Op == wire.OpGetData || f.Op == wire.OpMultiRead) {
				if reads++; reads == 2 {
					change()
				}
			}
			return zkdtest.Pass()
		})
		w.reads(p.Addr()).sees(2)
	})
}

// A writer that dies half way leaves nothing half done in force, and the next one puts it right.
func TestWriterDies(t *testing.T) {
	forEachWay(t, func(w *world) {
		first := w.reads(w.srv.Addr())
		b := w.dial(w.srv.Addr())
		w.publishes(b, 1)
		first.sees(1)

		p := w.srv.Proxy()
		writes, limit, dead := 0, 3, make(chan struct{}) // ready is deleted, one node is written
		if w.whole {
			limit = 1
		}
		p.On(func(f zkdtest.Frame) zkdtest.Action {
			if f.Direction != zkdtest.ToServer || f.Op != wire.OpMulti {
				return zkdtest.Pass()
			}
			if writes++; writes < limit {
				return zkdtest.Pass()
			}
			if writes == limit {
				p.Refuse(true)
				close(dead)
			}
			return zkdtest.Cut()
		})
		a := w.dial(p.Addr())
		ctx, die := context.WithCancel(w.ctx)
		failed := make(chan error, 1)
		go func() { failed <- publish(ctx, a, generation(5), w.way) }()
		select {
		case <-dead:
		case <-w.ctx.Done():
			w.t.Fatal("the writer does not come to its write")
		}
		die()
		w.srv.ExpireSession(a.SessionID())
		p.Refuse(false)
		if err := <-failed; err == nil {
			w.t.Fatal("the writer that died has published")
		}
		second := w.reads(w.srv.Addr())
		if w.whole {
			second.sees(1) // the old one is in force
		}
		w.publishes(b, 6)
		first.sees(6)
		second.sees(6)
	})
}

func TestExampleRuns(t *testing.T) {
	forEachWay(t, func(w *world) {
		if err := run(w.ctx, w.srv.Addr(), "host=a,port=1", w.way); err != nil {
			w.t.Fatal(err)
		}
		if err := run(w.ctx, w.srv.Addr(), "host", w.way); err == nil {
			w.t.Error("host has no value")
		}
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		c, got := w.dial(w.srv.Addr()), make(chan settings, 1)
		err := w.follow(ctx, c, func(s settings) {
			got <- s
			cancel()
		})
		if s := <-got; !errors.Is(err, context.Canceled) || fmt.Sprint(s) != "map[host:a port:1]" {
			w.t.Errorf("%v, error %v", s, err)
		}
		if err := run(ctx, w.srv.Addr(), "", w.way); !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
	})
}
