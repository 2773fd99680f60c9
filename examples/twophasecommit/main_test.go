package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

const testLimit = 2 * time.Minute

// A life is one run of a site, from its start to its death.
type life struct {
	*site
	cancel func()
	done   chan struct{} // closed when it is dead
}

func (l *life) die() {
	l.cancel()
	<-l.done
}

// A world is some sites, and what they have applied: "a: commit pay".
type world struct {
	t       *testing.T
	ctx     context.Context
	srv     *zkdtest.Server
	mu      sync.Mutex
	applied map[string]int // guarded by mu
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	return &world{t: t, ctx: ctx, srv: zkdtest.Start(t), applied: map[string]int{}}
}

func yes(string) bool { return true }

// live starts a site and waits until it is there.
func (w *world) live(addr, id string, prepare func(string) bool) *life {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	c, err := client.Dial(ctx, addr)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &site{c: c, id: id, prepare: prepare, apply: func(work, decision string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.applied[id+": "+decision+" "+work]++
	}}
	l := &life{site: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		if err := s.run(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrClosed) {
			w.t.Errorf("site %s: %v", id, err)
		}
		goodbye(c)
	}()
	w.t.Cleanup(l.die)
	w.until(id+" is there", func() bool {
		_, ok, _ := c.Exists(w.ctx, base+"/sites/"+id)
		return ok
	})
	return l
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

// submits asks for the work; what it returns waits for the decision and checks it.
func (w *world) submits() (decided func(want string)) {
	w.t.Helper()
	c, ended := w.dial(), make(chan struct{})
	var got string
	var err error
	go func() {
		defer close(ended)
		got, err = submit(w.ctx, c, transaction{Sites: []string{"a", "b", "c"}, Work: w.t.Name()})
	}()
	return func(want string) {
		w.t.Helper()
		<-ended
		if err != nil || got != want {
			w.t.Fatalf("the decision is %q, error %v; want %s", got, err, want)
		}
	}
}

// wait waits for one that closes the channel.
func (w *world) wait(what string, c <-chan struct{}) {
	w.t.Helper()
	select {
	case <-c:
	case <-w.ctx.Done():
		w.t.Fatalf("not within %v: %s", testLimit, what)
	}
}

// held holds a site up.
func (w *world) held(c <-chan struct{}) {
	select {
	case <-c:
	case <-w.ctx.Done():
	}
}

// does waits until these sites have done what was decided, and sees that nobody does anything else.
func (w *world) does(decision string, sites ...string) {
	w.t.Helper()
	for _, id := range sites {
		w.until(id+" does "+decision, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.applied[id+": "+decision+" "+w.t.Name()] > 0
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for what := range w.applied {
		if what[3:] != decision+" "+w.t.Name() {
			w.t.Errorf("done: %s; decided: %s", what, decision)
		}
	}
}

func (w *world) dial() *client.Client {
	w.t.Helper()
	c, err := client.Dial(w.ctx, w.srv.Addr())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { goodbye(c) })
	return c
}

func TestAllDoItOrNobody(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    func(string) bool
		want string
	}{
		{"all can", yes, commit},
		{"one cannot", func(string) bool { return false }, abort},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.live(w.srv.Addr(), "a", yes)
			w.live(w.srv.Addr(), "b", yes)
			w.live(w.srv.Addr(), "c", tc.c)
			w.submits()(tc.want)
			w.does(tc.want, "a", "b", "c")
		})
	}
}

// A site that dies before it has voted ends the transaction, which otherwise would wait for it.
func TestSiteDiesBeforeItsVote(t *testing.T) {
	w := newWorld(t)
	w.live(w.srv.Addr(), "a", yes)
	w.live(w.srv.Addr(), "b", yes)
	asked, dead := make(chan struct{}), make(chan struct{})
	c := w.live(w.srv.Addr(), "c", func(string) bool {
		close(asked)
		w.held(dead)
		return false
	})
	decided := w.submits()
	w.wait("c is asked", asked)
	c.cancel()
	close(dead)
	decided(abort)
	w.does(abort, "a", "b")
	w.live(w.srv.Addr(), "c", func(string) bool { t.Error("c is asked for what is decided"); return true })
	w.does(abort, "c")
}

// A site that dies after its vote is bound by it, and does its part when it is back, be that before or
// after the decision.
func TestSiteDiesAfterItsVote(t *testing.T) {
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprint("back before the decision ", early), func(t *testing.T) {
			w := newWorld(t)
			late := make(chan struct{})
			w.live(w.srv.Addr(), "a", func(string) bool { // the last to vote
				w.held(late)
				return true
			})
			w.live(w.srv.Addr(), "b", yes)
			c := w.live(w.srv.Addr(), "c", yes)
			look := w.dial()
			decided := w.submits()
			w.until("c has voted", func() bool {
				txs, _, _ := look.Children(w.ctx, base+"/tx")
				if len(txs) == 0 {
					return false
				}
				_, ok, _ := look.Exists(w.ctx, base+"/tx/"+txs[0]+"/vote-c")
				return ok
			})
			c.die()
			back := func() {
				w.live(w.srv.Addr(), "c", func(string) bool { t.Error("c is asked again"); return false })
			}
			if early {
				back()
			}
			close(late)
			decided(commit)
			w.does(commit, "a", "b")
			if !early {
				back()
			}
			w.does(commit, "c")
		})
	}
}

// A coordinator that dies when all have voted and nothing is decided leaves it to the next one. It
// comes back later and can change nothing.
func TestCoordinatorDiesBeforeItsDecision(t *testing.T) {
	w := newWorld(t)
	p := w.srv.Proxy()
	cut := make(chan struct{})
	var once sync.Once
	p.On(func(f zkdtest.Frame) zkdtest.Action {
		what := zkdtest.Pass()
		if f.Direction == zkdtest.ToServer && f.Op == wire.OpCreate2 && bytes.Contains(f.Body, []byte("/decision")) {
			once.Do(func() {
				p.Refuse(true)
				what = zkdtest.Cut()
				close(cut)
			})
		}
		return what
	})
	a := w.live(p.Addr(), "a", yes)
	look := w.dial()
	w.until("a coordinates", func() bool {
		names, _, _ := look.Children(w.ctx, base+"/coordinator")
		return len(names) == 1
	})
	w.live(w.srv.Addr(), "b", yes)
	w.live(w.srv.Addr(), "c", yes)
	decided := w.submits()
	w.wait("the coordinator decides and is cut off", cut)
	w.srv.ExpireSession(a.c.SessionID())
	decided(commit)
	w.does(commit, "b", "c")
	p.Refuse(false)
	w.does(commit, "a")
}

func TestExampleRuns(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 2)
	c := w.dial()
	for _, id := range []string{"a", "b"} {
		go func() { done <- run(ctx, w.srv.Addr(), id, "", "") }()
		w.until(id+" is there", func() bool {
			_, ok, _ := c.Exists(w.ctx, base+"/sites/"+id)
			return ok
		})
	}
	if err := run(ctx, w.srv.Addr(), "", "pay 10", "a,b"); err != nil {
		t.Error(err)
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
