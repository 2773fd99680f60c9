package recipes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/zkdtest"
)

// A cell says what happens when one library holds a lock and another asks for it at the same path.
type cell int

const (
	waits   cell = iota // the second gets it when the first lets go
	both                // the second gets it at once: their names do not respect each other
	foreign             // the second says that there is something which it does not respect; ours with a ForeignContenderError
)

// The libraries by the names that they write and respect. Two wait for each other if each of them
// respects what the other writes, and one way is enough for one way.
type library struct {
	name     string
	writes   string   // the mark before the number
	respects []string // those that it waits for
	refuses  bool     // and what it does not respect is an error
	start    func(t *testing.T, r *rig, addr string) contestant
}

// A contestant takes and gives back the lock at a path, one at a time.
type contestant interface {
	take(t *testing.T, path string, limit time.Duration) (held bool, err error)
	give(t *testing.T)
}

var libraries = []library{
	{"Curator", "lock-", []string{"lock-"}, false, func(t *testing.T, r *rig, addr string) contestant {
		return childContestant{javaHolder(t, addr, "mutex", "/unused")}
	}},
	{"kazoo", "__lock__", []string{"__lock__"}, false, func(t *testing.T, r *rig, addr string) contestant {
		return childContestant{pythonHolder(t, addr, "lock", "/unused")}
	}},
	{"kazoo with an extra pattern", "__lock__", []string{"__lock__", "lock-"}, false, func(t *testing.T, r *rig, addr string) contestant {
		return childContestant{pythonHolder(t, addr, "extra", "/unused")}
	}},
	{"kazoo's subclass", "lock-", []string{"lock-"}, false, func(t *testing.T, r *rig, addr string) contestant {
		return childContestant{pythonHolder(t, addr, "curator", "/unused")}
	}},
	{"ZooKeeper's WriteLock", "x-", []string{"lock-", "x-"}, false, func(t *testing.T, r *rig, addr string) contestant {
		return childContestant{javaHolder(t, addr, "writelock", "/unused")}
	}},
	{"go-zookeeper", "lock-", []string{"__lock__", "lock-"}, true, func(t *testing.T, r *rig, addr string) contestant {
		c, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return &gozkContestant{gozk{c: c}}
	}},
	{"ours", "lock-", []string{"lock-"}, true, func(t *testing.T, r *rig, addr string) contestant {
		return &ourContestant{c: dialFor(t, r, addr)}
	}},
	{"ours in kazoo's form", "__lock__", []string{"__lock__"}, true, func(t *testing.T, r *rig, addr string) contestant {
		return &ourContestant{c: dialFor(t, r, addr), opts: []Option{WithFormat(Kazoo)}}
	}},
}

// cellOf says what must happen.
func cellOf(holds, asks library) cell {
	for _, mark := range asks.respects {
		if mark == holds.writes {
			return waits
		}
	}
	if asks.refuses {
		return foreign
	}
	return both
}

func dialFor(t *testing.T, r *rig, addr string) *client.Client {
	c := r.dialTo(addr)
	t.Cleanup(func() { r.close(c) })
	return c
}

// A player is one program, behind its own proxy.
type player struct {
	library
	contestant
	proxy *zkdtest.Proxy
	busy  sync.Mutex
}

type childContestant struct{ *program }

func (c childContestant) take(t *testing.T, path string, limit time.Duration) (bool, error) {
	return c.acquireAt(t, limit, path), nil
}
func (c childContestant) give(t *testing.T) { c.release(t) }

type gozkContestant struct{ gozk }

func (g *gozkContestant) take(t *testing.T, path string, limit time.Duration) (bool, error) {
	g.path = path
	return g.attempt(t, limit)
}
func (g *gozkContestant) give(t *testing.T) { g.release(t) }

type ourContestant struct {
	c     *client.Client
	opts  []Option
	lease Lease
}

func (o *ourContestant) take(t *testing.T, path string, limit time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	l, err := NewMutex(o.c, path, o.opts...).Lock(ctx)
	switch {
	case err == nil:
		o.lease = l
		return true, nil
	case errors.Is(err, context.DeadlineExceeded):
		return false, nil
	}
	return false, err
}
func (o *ourContestant) give(t *testing.T) { release(t, o.lease) }

// T10: every library holds, every library asks, and the holder's connection is cut meanwhile.
func TestEveryPairOfLibrariesAtOnePath(t *testing.T) {
	needFile(t, curatorFile, "libcurator-recipes-java") // a goroutine cannot skip the test
	needFile(t, kazooFile, "python3-kazoo")
	r := newRigOf(t, 1)
	players := make([]*player, 2*len(libraries)) // two of each: a library meets itself, too
	var starting sync.WaitGroup
	for i := range players {
		p := &player{library: libraries[i/2], proxy: r.srv.(single).Proxy()}
		players[i] = p
		starting.Go(func() { p.contestant = p.start(t, r, p.proxy.Addr()) })
	}
	starting.Wait()
	if t.Failed() {
		return
	}
	var pairs sync.WaitGroup
	for i := range libraries {
		for j := range libraries {
			a, b := players[2*i], players[2*j+1]
			pairs.Go(func() {
				a.busy.Lock() // those that hold are locked before those that ask: nobody waits in a circle
				defer a.busy.Unlock()
				b.busy.Lock()
				defer b.busy.Unlock()
				cut := *long || (i+j)%3 == 0 // some clients take a second to come back
				meet(t, "/"+string(rune('a'+i))+string(rune('a'+j)), cut, a, b)
			})
		}
	}
	pairs.Wait()
}

// meet plays one cell.
func meet(t *testing.T, path string, cut bool, a, b *player) {
	held, err := a.take(t, path, testLimit)
	if err != nil || !held {
		t.Errorf("%s does not get the free lock at %s: %v", a.name, path, err)
		return
	}
	if cut {
		a.proxy.Cut()
	}
	want := cellOf(a.library, b.library)
	limit := asksFor
	if want != waits {
		limit = testLimit
	}
	got, err := b.take(t, path, limit)
	_, ours := b.contestant.(*ourContestant)
	var found *ForeignContenderError
	switch {
	case want == foreign && err != nil && (errors.As(err, &found) || !ours):
	case want == foreign || err != nil:
		t.Errorf("%s holds, %s asks: held %v, error %v", a.name, b.name, got, err)
	case got != (want == both):
		t.Errorf("%s holds, %s asks and gets it: %v", a.name, b.name, got)
	}
	a.give(t)
	if got {
		b.give(t)
	}
	if want != waits {
		return
	}
	if got, err = b.take(t, path, testLimit); err != nil || !got {
		t.Errorf("%s has let go, and %s does not get it: %v", a.name, b.name, err)
		return
	}
	b.give(t)
}
