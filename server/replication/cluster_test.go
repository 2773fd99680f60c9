package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/peer/memnet"
	"github.com/zkd-project/zkd/server/state"
)

// A trio is a cluster whose members are in memory, over a network inside the process.
//
// A machine that stands still for a second ends the leadership of whoever leads. Tests in which one member
// must lead for long run in virtual time, which does not go on meanwhile.
type trio struct {
	t       testing.TB
	net     *memnet.Network
	members []*voice
	plan    []Member
}

// A voice is a member with one client that proposes, and proposes again what is not applied
// when a new generation begins, as a server does.
type voice struct {
	cluster *trio
	number  int
	session int64
	stores  *MemoryStores
	node    *Node

	mu      sync.Mutex
	applied map[uint64]int    // by request number of its own session: how often
	encoded map[uint64][]byte // proposed and not applied
	next    uint64
	gen     uint64
	order   []uint64
	gaps    int
	opened  bool
	changed chan struct{}

	restored, quarantined int

	fs    vfs.FS // nil: in memory
	fatal bool   // the node may fail: its machine loses power

	tune    func(*Options) // nil, or changes the options of open
	payload []byte         // of the nodes that write makes
}

func newTrio(t testing.TB, size int) *trio {
	c := &trio{t: t, net: memnet.New()}
	for i := 1; i <= size; i++ {
		c.plan = append(c.plan, Member{Number: i, Address: fmt.Sprintf("host%d:2888", i)})
		c.members = append(c.members, &voice{
			cluster: c, number: i, session: int64(i)<<56 | 7, stores: NewMemoryStores(),
			applied: map[uint64]int{}, encoded: map[uint64][]byte{}, changed: make(chan struct{}),
		})
	}
	t.Cleanup(func() {
		for _, v := range c.members {
			v.stop()
		}
	})
	return c
}

func (c *trio) start(numbers ...int) {
	c.t.Helper()
	errs := make(chan error, len(numbers))
	for _, n := range numbers {
		v := c.members[n-1]
		v.open()
		go func() { errs <- v.node.WaitReady(testContext(c.t)) }()
	}
	for range numbers {
		require.NoError(c.t, <-errs)
	}
}

func (v *voice) open() {
	c := v.cluster
	v.applied, v.order = map[uint64]int{}, nil // the log is applied from its start
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("ZKD_TEST_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", v.number)
	}
	o := Options{
		Dir: "/data", FS: v.fs, Memory: v.fs == nil, Stores: v.stores, MyID: v.number, Observer: v, Logger: logger,
		Settings: func() state.Settings { return state.Settings{} }, TrailingEntries: 8,
		Ensemble: c.ensemble(),
		Cluster:  &Cluster{Members: c.plan, Listen: fmt.Sprintf("host%d:2888", v.number), Network: c.net.Host(fmt.Sprintf("host%d", v.number))},
		Fatal: func(err error) {
			if !v.fatal {
				c.t.Errorf("member %d: %v", v.number, err)
			}
		},
	}
	if v.tune != nil {
		v.tune(&o)
	}
	node, _, err := Open(o)
	require.NoError(c.t, err)
	v.node = node
}

// ensemble is the configuration with which the cluster begins.
func (c *trio) ensemble() string {
	var text strings.Builder
	for _, m := range c.plan {
		role := "participant"
		if m.Observer {
			role = "observer"
		}
		fmt.Fprintf(&text, "server.%d=%s:3888:%s\n", m.Number, m.Address, role)
	}
	return text.String()
}

func (v *voice) stop() {
	if v.node != nil {
		require.NoError(v.cluster.t, v.node.Close())
		v.node = nil
	}
}

func (v *voice) Applied(c *state.Command, r *state.Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quarantined > v.restored {
		v.cluster.t.Errorf("member %d applies what follows on wrong data", v.number)
	}
	if c.Session != v.session {
		return
	}
	if c.Kind == state.KindCreateSession {
		v.opened = true
		v.signal()
	}
	if c.Kind != state.KindWrite {
		return
	}
	switch r.Outcome {
	case state.Applied, state.Failed:
		v.applied[c.Req]++
		v.order = append(v.order, c.Req)
		delete(v.encoded, c.Req)
	case state.Gap:
		v.gaps++
	}
	v.signal()
}

// signal is called with mu held.
func (v *voice) signal() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *voice) BatchDone()     {}
func (v *voice) BatchReleased() {}

func (v *voice) Restored() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.restored++
	v.signal()
}

func (v *voice) Quarantined() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.quarantined++
	v.signal()
}

func (v *voice) Routed(gen uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gen = gen
	for req := uint64(1); req <= v.next; req++ {
		if b := v.encoded[req]; b != nil {
			_ = v.node.Repeat(gen, b) // a later generation has them again
		}
	}
}

// write proposes the next write of this member's session.
func (v *voice) write() {
	v.mu.Lock()
	v.next++
	req := v.next
	c := createNode(req, fmt.Sprintf("/m%d-%06d", v.number, req), v.payload)
	c.Session = v.session
	b := state.AppendCommand(nil, c)
	v.encoded[req] = b
	gen := v.gen
	v.mu.Unlock()
	err := v.node.ProposeIn(gen, b)
	for errors.Is(err, ErrQueueFull) {
		require.NoError(v.cluster.t, v.node.WaitQueue(testContext(v.cluster.t)))
		err = v.node.ProposeIn(gen, b)
	}
	if err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrNotLeader) {
		v.cluster.t.Errorf("propose: %v", err)
	}
}

// settled waits until all writes are applied at this member.
func (v *voice) settled() {
	v.cluster.t.Helper()
	v.await("all writes", func() bool { return len(v.encoded) == 0 })
}

// await waits until cond, which is asked with mu held.
func (v *voice) await(what string, cond func() bool) {
	v.cluster.t.Helper()
	if !v.comes(cond, patience) {
		v.cluster.t.Fatalf("member %d waited in vain for %s", v.number, what)
	}
}

// comes says whether cond, which is asked with mu held, comes to hold within the limit.
func (v *voice) comes(cond func() bool, limit time.Duration) bool {
	timeout := time.After(limit)
	for {
		v.mu.Lock()
		ok, changed := cond(), v.changed
		v.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}

// sessions opens a session for each member. The first leader may be followed by another one at
// once, and then nobody repeats what it was given but this.
func (c *trio) sessions() {
	for _, v := range c.members {
		s := &state.Command{Kind: state.KindCreateSession, Session: v.session, TimeoutMs: 30000}
		opened := func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.opened
		}
		awaitCondition(c.t, "a session", func() bool {
			if err := v.node.Propose(s); err != nil && !errors.Is(err, ErrNotLeader) {
				c.t.Fatalf("propose: %v", err)
			}
			for asked := time.Now(); !opened() && time.Since(asked) < time.Second; {
				time.Sleep(time.Millisecond)
			}
			return opened()
		})
	}
}

func (c *trio) leader() *voice {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		for _, v := range c.members {
			if v.node != nil && v.node.Leads() {
				return v
			}
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatal("nobody leads")
	return nil
}

// same checks that all members have the same machine at the same index.
func (c *trio) same() {
	c.t.Helper()
	index := c.leader().node.AppliedIndex()
	digests := make([]uint64, len(c.members))
	// An entry of the cluster's own may come at any moment: they are compared where they meet.
	awaitCondition(c.t, "one index everywhere", func() bool {
		at := make([]uint64, len(c.members))
		for i, v := range c.members {
			v.node.RLock()
			at[i], digests[i] = v.node.AppliedIndex(), v.node.Machine().Digest()
			v.node.RUnlock()
		}
		return at[0] >= index && slices.Min(at) == slices.Max(at)
	})
	for i, v := range c.members {
		require.Equal(c.t, digests[0], digests[i], "member %d", v.number)
	}
}

func TestEmptyServersFormAClusterAndAllTakeWrites(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	for range 300 {
		for _, v := range c.members {
			v.write()
		}
	}
	for _, v := range c.members {
		v.settled()
		require.Len(t, v.order, 300)
		require.IsIncreasing(t, v.order)
	}
	c.same()
	require.Equal(t, c.members[0].node.ClusterID(), c.members[2].node.ClusterID())
}

func TestWritesSurviveTheLeaderExactlyOnce(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	for round := range 4 {
		dead := c.leader()
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for _, v := range c.members {
			if v == dead {
				continue
			}
			v.write()
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						v.write()
						time.Sleep(50 * time.Microsecond)
					}
				}
			})
		}
		before := time.Now()
		dead.settled()
		c.net.Crash(fmt.Sprintf("host%d", dead.number))
		dead.stop()
		for c.leader() == dead {
			time.Sleep(time.Millisecond)
		}
		t.Logf("round %d: a new leader after %v", round, time.Since(before))
		close(stop)
		writers.Wait()
		for _, v := range c.members {
			if v != dead {
				v.settled()
			}
		}
		c.start(dead.number)
	}
	for _, v := range c.members {
		v.settled()
		require.IsIncreasing(t, v.order, "member %d: order", v.number)
		require.Len(t, v.applied, int(v.next), "member %d: nothing may be lost", v.number)
		for req, times := range v.applied {
			require.Equal(t, 1, times, "member %d: request %d", v.number, req)
		}
		require.Zero(t, v.gaps)
	}
	c.same()
}

func TestLeadershipIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		for range 5 {
			old := c.leader()
			for range 100 {
				for _, v := range c.members {
					v.write()
				}
			}
			require.NoError(t, old.node.StepDown(testContext(t)))
			for range 100 {
				for _, v := range c.members {
					v.write()
				}
			}
			for _, v := range c.members {
				v.settled()
			}
			require.NotSame(t, old, c.leader())
		}
		c.same()
	})
}

func TestThereIsALeaderHoweverOftenItIsHandedOver(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	c.sessions()
	for range 200 { // what begins in one leadership often ends in the next
		_ = c.leader().node.StepDown(testContext(t))
	}
	for _, v := range c.members {
		v.write()
		v.settled()
	}
	c.same()
}

func TestWhoLeadsTakesNoRouteToALeaderBefore(t *testing.T) {
	q := newQueue(&Node{o: Options{Observer: noObserver{}}})
	before := q.setRoute(routeLeader)
	require.NotZero(t, before)
	gen := q.setRoute(routeLog)
	require.Zero(t, q.setRoute(routeLeader), "a stream that was opened late")
	q.unroute(before)
	r, now := q.current()
	require.Equal(t, routeLog, r)
	require.Equal(t, gen, now)
	q.unroute(gen)
	require.NotZero(t, q.setRoute(routeLeader))
}

func TestWipedServerTakesItsOldPlaceAsALearnerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		for range 50 {
			for _, v := range c.members {
				v.write()
			}
		}
		for _, v := range c.members {
			v.settled()
		}
		wiped := c.members[0]
		if c.leader() == wiped {
			wiped = c.members[1]
		}
		old := wiped.node.stores.id.serverID()
		wiped.stop()
		wiped.stores = NewMemoryStores()
		c.start(wiped.number)
		id := wiped.node.stores.id.serverID()
		require.NotEqual(t, old, id)
		timeout := time.After(patience)
		for {
			voters := c.leader().node.voters()
			if len(voters) == 3 && slices.Contains(voters, id) {
				break
			}
			require.NotContains(t, voters, id, "it must not vote beside its old incarnation")
			select {
			case <-timeout:
				t.Fatalf("voters are %v", voters)
			case <-time.After(time.Millisecond):
			}
		}
		require.NotContains(t, c.leader().node.voters(), old)
		require.Len(t, wiped.order, 50, "it has the log from the leader")
		c.same()
	})
}
