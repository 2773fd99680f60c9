package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// Options say what to run. Seed alone decides what is left open.
type Options struct {
	Seed    uint64
	Virtual time.Duration // how long there are faults; 0: one minute
	Servers int           // 0: the seed decides
	Calm    bool          // no faults
	Logger  *slog.Logger  // of the servers; nil: nothing is logged

	// What a failing run is to do without, so that what matters can be seen: rounds of faults by
	// their number, the disturbances at birth as round 0, and parts of the work by their name.
	Skip    []int
	Without []string
}

// Stats count what a run was made of.
type Stats struct {
	Servers int
	Virtual time.Duration
	Real    time.Duration // filled in by who has a real clock
	Calls   int
	OK      int // replies without an error
	Failed  int // replies with an error
	Unknown int
	Events  int
	Pings   int
	Links   int
	Expired int // sessions that a client was told to be over
	Held    int // ephemeral nodes that clients counted on
	Rounds  int // of faults

	mu     sync.Mutex
	faults map[string]int // guarded by mu
}

func (s *Stats) count(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil {
		s.faults = map[string]int{}
	}
	s.faults[fault]++
}

// Faults returns how many faults there were of each kind.
func (s *Stats) Faults() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.faults)
}

// String shows the numbers in one line.
func (s *Stats) String() string {
	var faults []string
	total := 0
	all := s.Faults()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		faults = append(faults, fmt.Sprintf("%s %d", kind, all[kind]))
		total += all[kind]
	}
	return fmt.Sprintf("%d servers, %.0f s; %d calls: %d ok, %d failed, %d unknown; %d events, %d pings, %d connections, %d expired, %d held; %d faults: %s",
		s.Servers, s.Virtual.Seconds(), s.Calls, s.OK, s.Failed, s.Unknown, s.Events, s.Pings, s.Links, s.Expired, s.Held,
		total, strings.Join(faults, ", "))
}

// A Report is what came of a run.
type Report struct {
	Stats    *Stats
	History  []Entry
	Failures []error // broken promises, and what is wrong with the servers
}

// settleLimit is how long after the last fault every client must be served again.
const settleLimit = 30 * time.Second

// lingering is for how long a goroutine may outlive its server. Those that stay longer end the
// test: testing/synctest panics.
const lingering = 3 * time.Second

// A role is one client's part in a workload.
type role struct {
	c      *Client
	script func(ctx context.Context, c *Client)
	finish func(ctx context.Context, c *Client) error // the last look, after the faults
}

// Run builds a world, lets it go on for a while, ends it and checks all. It must be called in a
// bubble of testing/synctest, of which no other goroutine is left when it returns.
func Run(o Options) *Report {
	if o.Virtual == 0 {
		o.Virtual = time.Minute
	}
	w := newWorld(o)
	if err := w.live(); err != nil {
		w.fail("%w", err)
	}
	w.end()
	entries := w.History.list()
	w.tally(entries)
	w.failures = append(w.failures, Check(entries)...)
	return &Report{Stats: &w.stats, History: entries, Failures: w.failures}
}

// live is a run up to the comparison of the servers.
func (w *World) live() error {
	n := newNemesis(w)
	if !w.o.Calm && n.r.OneIn(3) && !slices.Contains(w.o.Skip, 0) {
		for _, s := range w.nodes {
			if err := s.start(); err != nil {
				return err
			}
		}
		n.birth()
	}
	if err := w.startAll(); err != nil {
		return fmt.Errorf("at birth: %w", err)
	}
	clientsCtx, stopClients := context.WithCancel(context.Background())
	var clientsDone sync.WaitGroup
	defer clientsDone.Wait()
	defer stopClients()
	if err := w.prepare(clientsCtx, &clientsDone); err != nil {
		return err
	}
	roles := w.roles(clientsCtx, &clientsDone)
	faults, noMore := context.WithTimeout(context.Background(), w.o.Virtual)
	defer noMore()
	var scripts sync.WaitGroup
	for _, r := range roles {
		scripts.Go(func() { r.script(faults, r.c) })
	}
	if w.o.Calm {
		<-faults.Done()
	} else {
		n.run(faults)
	}
	if err := w.comeBack(roles, &scripts); err != nil {
		return err
	}
	return w.compare(stopClients, &clientsDone)
}

// comeBack waits until every script has ended and every client has had its last look.
func (w *World) comeBack(roles []*role, scripts *sync.WaitGroup) error {
	w.settling.Store(true)
	if err := w.startAll(); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	// A client may stay away for one and a half times its timeout yet.
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit+30*w.tick)
	defer cancel()
	var looks sync.WaitGroup
	for _, r := range roles {
		looks.Go(func() {
			for {
				err := r.finish(ctx, r.c)
				if err == nil {
					return
				}
				if ctx.Err() != nil {
					w.fail("client %d is not served after the faults: %w", r.c.Number, err)
					return
				}
			}
		})
	}
	looks.Wait()
	scripts.Wait()
	return nil
}

// prepare makes the nodes that the workloads expect.
func (w *World) prepare(ctx context.Context, done *sync.WaitGroup) error {
	c := w.addClient(ctx, done)
	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, path := range []string{registerRoot, orderRoot, sequenceRoot, ephemeralRoot, watchRoot, appendRoot, setRoot} {
		for {
			l := c.Link(limit)
			if l == nil {
				return errors.New("the cluster does not serve its first client")
			}
			if r, ok := l.Do(Op{Code: wire.OpCreate2, Path: path}); ok {
				if r.Err != wire.OK && r.Err != wire.NodeExists {
					return fmt.Errorf("create %s: %w", path, r.Err)
				}
				break
			}
		}
	}
	return nil
}

// parts are what clients do, and how many of them.
var parts = []struct {
	name   string
	count  int
	script func(context.Context, *Client)
	finish func(context.Context, *Client) error
}{
	{"register", 4, registerScript, registerFinish},
	{"order", 3, orderScript, orderFinish},
	{"ephemeral", 4, ephemeralScript, ephemeralFinish},
	{"watch", 3, watchScript, watchFinish},
	{"writer", 2, watchWriter, anyFinish},
	{"stream", 1, streamScript, anyFinish},
	{"append", 3, appendScript, anyFinish},
	{"members", 1, membersScript, membersFinish},
}

// roles starts the clients and gives each its part. Those without work are there all the same: so
// the others draw what they would draw else.
func (w *World) roles(ctx context.Context, done *sync.WaitGroup) []*role {
	var roles []*role
	for _, p := range parts {
		for range p.count {
			r := &role{w.addClient(ctx, done), p.script, p.finish}
			if slices.Contains(w.o.Without, p.name) {
				r.script, r.finish = func(context.Context, *Client) {}, anyFinish
			}
			roles = append(roles, r)
		}
	}
	return roles
}

// anyFinish is content when something can be read.
func anyFinish(ctx context.Context, c *Client) error {
	_, err := lastRead(ctx, c, "/")
	return err
}

// end stops all servers.
func (w *World) end() {
	w.mu.Lock()
	w.ending = true
	w.mu.Unlock()
	w.net.Heal()
	var done sync.WaitGroup
	for _, n := range w.nodes {
		done.Go(func() {
			n.stop(killed, 0)
			n.awaitEnd()
		})
	}
	done.Wait()
	time.Sleep(lingering)
}

func (w *World) tally(entries []Entry) {
	s := &w.stats
	s.Servers, s.Virtual = len(w.nodes), w.History.now()
	for i := range entries {
		switch e := &entries[i]; e.Kind {
		case Sent:
			s.Calls++
		case Replied:
			if e.Result.Err == wire.OK {
				s.OK++
			} else {
				s.Failed++
			}
		case Lost:
			s.Unknown++
		case Notified:
			s.Events++
		case Alive:
			s.Pings++
		case Opened:
			s.Links++
		case Expired:
			s.Expired++
		case Held:
			s.Held++
		}
	}
}
