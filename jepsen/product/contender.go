package product

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/workload"
	"github.com/zkd-project/zkd/recipes"
	proto "github.com/zkd-project/zkd/wire"
)

const (
	contenders = 4
	// timeout of sessions: so short that a contender can outlive several in a run.
	timeout = 1500 * time.Millisecond
	// look is how often a holder asks whether it still is one.
	look = 2 * time.Millisecond
	// patience bounds every call, so that the end of a run ends it.
	patience = 10 * time.Second
)

// A contender takes the lease again and again.
type contender struct {
	e      *workload.Env
	number int
	at     string
	recipe func(c *client.Client, path string) taker
	rand   *rand.Rand
	holds  int
	shared *shared
}

// shared is what the contenders of a run share.
type shared struct {
	once  sync.Once
	begun chan struct{} // closed when the first contender holds for the first time
	// newest is the greatest token that was written without a guard.
	newest atomic.Int64
}

func run(ctx context.Context, e *workload.Env, at string, recipe func(c *client.Client, path string) taker) {
	var wg sync.WaitGroup
	all := &shared{begun: make(chan struct{})}
	for i := range contenders {
		c := &contender{
			e: e, number: i + 1, at: at, recipe: recipe, rand: rand.New(rand.NewPCG(e.Seed, uint64(i)+1)),
			shared: all,
		}
		wg.Go(func() {
			if c.number > 1 { // so that there is a stale holder in every run, and early
				select {
				case <-all.begun:
				case <-time.After(timeout):
				case <-ctx.Done():
				}
			}
			for ctx.Err() == nil {
				c.live(ctx)
			}
		})
	}
	wg.Wait()
}

// live is what one client does until it dies, or the run is over.
func (c *contender) live(ctx context.Context) {
	g := &gate{}
	var servers []string
	for i := 1; i <= c.e.Servers; i++ {
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", i)) // the port is the number of the server
	}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		node, err := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:])
		if err != nil {
			return nil, err
		}
		return g.dial(ctx, func(ctx context.Context) (net.Conn, error) { return c.e.Dial(ctx, node) })
	}
	dialing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cl, err := client.Dial(dialing, strings.Join(servers, ","), client.WithTimeout(timeout), client.WithDialer(dial))
	if err != nil {
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = cl.Close(closing) // behind a closed gate its session is left to expire
	}()
	take := c.recipe(cl, c.at+"/queue")
	for ctx.Err() == nil {
		taking, cancel := context.WithTimeout(ctx, patience)
		l, err := take(taking)
		cancel()
		if err != nil {
			continue // with a live client the next attempt waits; with the end of the run there is none
		}
		if !c.hold(ctx, cl, g, l) {
			return
		}
	}
}

// A belief is what a holder knows of its own hold.
type belief struct {
	c     *contender
	l     recipes.Lease
	begin int64
	last  int64 // when it was last sure
}

// sure asks whether it is held, and notes that.
func (b *belief) sure() bool {
	now := b.c.e.Rec.Now() // before it is asked: later it may be over
	if !b.l.Valid() {
		return false
	}
	b.last = now
	return true
}

// believe goes on for d, or until it is over or ctx ends; it says whether it is held still.
func (b *belief) believe(ctx context.Context, d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		if !b.sure() {
			return false
		}
		workload.Pause(ctx, look)
	}
	return b.sure()
}

func (b *belief) record(what string, end int64) {
	b.c.e.Rec.Add(history.Op{
		Begin: b.begin, End: max(end, b.begin+1), Kind: history.Info, F: what, Proc: b.c.number, Key: b.c.at, Arg: b.l.Token(),
	})
}

// hold has the lease through one of its fates; false says that the client is dead. One contender
// stalls the first time that it holds, so that it happens in every run.
func (c *contender) hold(ctx context.Context, cl *client.Client, g *gate, l recipes.Lease) bool {
	b := &belief{c: c, l: l, begin: c.e.Rec.Now()}
	if !b.sure() {
		return true // lost before it was told
	}
	c.holds++
	fate := c.rand.IntN(14)
	if c.holds == 1 && c.number == 1 {
		fate = 0
		c.shared.once.Do(func() { close(c.shared.begun) })
	}
	alive := true
	switch fate {
	case 0:
		c.stall(ctx, cl, g, b)
	case 1: // dies, as far as the servers can tell
		g.close()
		alive = false
	default:
		for range 1 + c.rand.IntN(3) {
			c.write(ctx, cl, b, true)
			c.write(ctx, cl, b, false)
			if !b.believe(ctx, time.Duration(c.rand.IntN(30))*time.Millisecond) {
				break
			}
		}
	}
	b.record("held", b.last)
	b.record("held-blindly", c.e.Rec.Now())
	if alive {
		releasing, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = l.Release(releasing) // what is not deleted now goes with the session
	}
	return alive
}

// stall cuts the holder off for longer than its session lives. It must stop believing by itself
// before that; a resource that checks no tokens takes what it writes when it is back.
func (c *contender) stall(ctx context.Context, cl *client.Client, g *gate, b *belief) {
	g.close()
	now := c.e.Rec.Now()
	c.e.Rec.Add(history.Op{Begin: now, End: now, Kind: history.Info, F: "cut-off", Proc: c.number, Key: c.at, Arg: int64(timeout)})
	length := timeout*2 + time.Duration(c.rand.Int64N(int64(timeout)))
	began := time.Now()
	// However long others need to take over on a machine that is busy, the first time.
	waits := c.number == 1 && c.holds == 1
	for (time.Since(began) < length || waits && c.shared.newest.Load() <= b.l.Token()) && ctx.Err() == nil {
		b.sure()
		workload.Pause(ctx, look)
	}
	g.open()
	late := context.WithoutCancel(ctx) // also when the run is over meanwhile
	c.write(late, cl, b, true)
	c.write(late, cl, b, false)
}

// write puts the token into a resource: into the fenced one only if the server still knows the
// lease, into the other one in any case, as one who never heard of fencing does it.
func (c *contender) write(ctx context.Context, cl *client.Client, b *belief, fenced bool) {
	o := history.Op{F: "fenced-set", Key: c.at + "/unfenced", Value: strconv.FormatInt(b.l.Token(), 10), Arg: b.l.Token(), Proc: c.number}
	m := cl.Multi()
	if fenced {
		o.Key = c.at + "/fenced"
		m.Add(b.l.Guard()...)
	}
	m.Set(o.Key, []byte(o.Value), client.AnyVersion)
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o.Begin = c.e.Rec.Now()
	results, err := m.Commit(limit)
	var refused *client.MultiError
	switch {
	case err == nil:
		stat := &results[len(results)-1].Stat
		o.Kind, o.Stat = history.OK, &history.Stat{Czxid: stat.Czxid, Mzxid: stat.Mzxid, Version: stat.Version}
	case errors.As(err, &refused):
		o.Kind, o.Code = history.OK, int32(proto.NoNode) // its own node is gone
	case errors.Is(err, client.ErrUncertain):
		o.Kind = history.Unknown
	default:
		o.Kind = history.Fail
	}
	if o.Kind == history.OK && !fenced {
		for n := c.shared.newest.Load(); n < b.l.Token() && !c.shared.newest.CompareAndSwap(n, b.l.Token()); n = c.shared.newest.Load() {
		}
	}
	c.e.Rec.Add(o)
}
