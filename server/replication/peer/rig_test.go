package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends tests that wait for what does not come.
const patience = 2 * time.Minute

// standstill is more than a machine stands still at a time: over TCP, where time is real, members wait so
// long for each other.
const standstill = 4 * time.Second

// A signal wakes those who wait for a condition.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

// await waits until cond holds. Whatever changes it must fire the signal.
func (s *signal) await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		next := s.next()
		if cond() {
			return
		}
		select {
		case <-next:
		case <-timeout.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// A machine is what raft applies to: it keeps the entries' data by index, padded in snapshots
// with so many bytes.
type machine struct {
	m   *member
	pad int

	mu       sync.Mutex
	applied  map[uint64]string
	last     uint64
	restored int
}

func (f *machine) Apply(l *raft.Log) any {
	f.mu.Lock()
	f.applied[l.Index] = string(l.Data)
	f.last = l.Index
	f.mu.Unlock()
	if r := f.m.raft.Load(); r != nil && f.m.advance && r.State() == raft.Leader {
		f.m.t.Advance(l.Term, l.Index)
	}
	f.m.rig.changed.fire()
	return nil
}

func (f *machine) lastApplied() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *machine) at(index uint64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied[index]
}

type image struct{ last, pad uint64 }

func (f *machine) Snapshot() (raft.FSMSnapshot, error) {
	return image{last: f.lastApplied(), pad: uint64(f.pad)}, nil
}

func (i image) Persist(sink raft.SnapshotSink) error {
	b := binary.BigEndian.AppendUint64(nil, i.last)
	if _, err := sink.Write(append(b, make([]byte, i.pad)...)); err != nil {
		return err
	}
	return sink.Close()
}

func (image) Release() {}

func (f *machine) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.last = binary.BigEndian.Uint64(b)
	f.restored++
	f.mu.Unlock()
	f.m.rig.changed.fire()
	return nil
}

// A member is one node of a rig.
type member struct {
	rig     *rig
	id      raft.ServerID
	advance bool
	t       *Transport
	raft    atomic.Pointer[raft.Raft]
	fsm     *machine
	logs    *raft.InmemStore
	stable  *raft.InmemStore
	snaps   raft.SnapshotStore
	downs   chan Down
	watcher *raft.Observer
	seen    chan raft.Observation
	done    chan struct{}

	watching sync.WaitGroup
}

func (m *member) r() *raft.Raft { return m.raft.Load() }

// A rig is a cluster of real raft nodes over this transport.
type rig struct {
	tb      testing.TB
	net     *memnet.Network // nil over TCP
	members []*member
	changed *signal
	set     setup
	cluster string

	mu        sync.Mutex               // guards addresses
	addresses map[raft.ServerID]string // where members are: over TCP elsewhere after each start
}

// setup says what differs from test to test.
type setup struct {
	nodes         int
	commitTimeout time.Duration
	options       func(m *member, o *Options)
	config        func(c *raft.Config)
	pad           int
	noAdvance     bool
	noStart       bool // raft is left to the test
	cluster       string
}

var rigs atomic.Int64

// onBothNetworks runs a test in the process, under virtual time, and over loopback TCP.
func onBothNetworks(t *testing.T, s setup, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { inMemory(t, s, f) })
	t.Run("tcp", func(t *testing.T) {
		t.Parallel()
		f(t, newRig(t, s, nil))
	})
}

func inMemory(t *testing.T, s setup, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t, s, memnet.New())) })
}

func serverID(n int) raft.ServerID { return raft.ServerID(fmt.Sprintf("%d-inc%d", n, n)) }

func newRig(t testing.TB, s setup, network *memnet.Network) *rig {
	t.Helper()
	if s.nodes == 0 {
		s.nodes = 3
	}
	if s.commitTimeout == 0 {
		s.commitTimeout = 50 * time.Millisecond
	}
	if s.cluster == "" { // clusters of other tests may come by an address of this one
		s.cluster = fmt.Sprint("rig-", rigs.Add(1))
	}
	r := &rig{
		tb: t, net: network, changed: newSignal(), set: s, cluster: s.cluster,
		addresses: map[raft.ServerID]string{},
	}
	t.Cleanup(r.close)
	for i := 1; i <= s.nodes; i++ {
		m := &member{rig: r, id: serverID(i), advance: !s.noAdvance, downs: make(chan Down, 100)}
		m.logs, m.stable, m.snaps = raft.NewInmemStore(), raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		r.members = append(r.members, m)
	}
	for _, m := range r.members {
		m.open()
	}
	if s.noStart {
		return r
	}
	for _, m := range r.members {
		require.NoError(t, raft.BootstrapCluster(m.config(), m.logs, m.stable, m.snaps, m.t, r.configuration()))
	}
	for _, m := range r.members {
		m.start()
	}
	if s.nodes > 1 { // who waits for timeouts over TCP waits in real time
		require.NoError(t, r.members[0].t.TimeoutNow(r.members[0].id, "", &raft.TimeoutNowRequest{}, nil))
	}
	return r
}

func (r *rig) configuration() raft.Configuration {
	var c raft.Configuration
	for _, m := range r.members {
		c.Servers = append(c.Servers, raft.Server{ID: m.id, Address: raft.ServerAddress(m.id)})
	}
	return c
}

func (r *rig) voters() []raft.ServerID {
	var ids []raft.ServerID
	for _, m := range r.members {
		ids = append(ids, m.id)
	}
	return ids
}

func (r *rig) resolve(id raft.ServerID) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.addresses[id]; ok {
		return []string{a}, nil
	}
	return nil, fmt.Errorf("no member %s", id)
}

func (m *member) address() string {
	a, err := m.rig.resolve(m.id)
	require.NoError(m.rig.tb, err)
	return a[0]
}

// open makes the transport of a member.
func (m *member) open() {
	o := Options{
		ID: m.id, Cluster: m.rig.cluster, Listen: "127.0.0.1:0", Resolve: m.rig.resolve, Voters: m.rig.voters,
		PeerDown: func(d Down) { m.downs <- d },
		Spool:    SpoolMemory,
		Timeout:  2 * time.Second,
	}
	if m.rig.net != nil {
		o.Network, o.Listen = m.rig.net.Host(m.host()), m.host()+":1"
	} else {
		o.Timeout = standstill
	}
	if m.rig.set.options != nil {
		m.rig.set.options(m, &o)
	}
	t, err := New(o)
	require.NoError(m.rig.tb, err)
	m.t = t
	m.rig.mu.Lock()
	m.rig.addresses[m.id] = t.Addr().String()
	m.rig.mu.Unlock()
}

func (m *member) config() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = m.id
	timeout := 300 * time.Millisecond
	if m.rig.net == nil {
		timeout = standstill // a loaded machine must not hold elections
	}
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = timeout, timeout, timeout
	c.CommitTimeout = m.rig.set.commitTimeout
	c.LogOutput, c.LogLevel = io.Discard, "OFF"
	c.SnapshotInterval = time.Hour
	c.TrailingLogs = 0
	if m.rig.set.config != nil {
		m.rig.set.config(c)
	}
	return c
}

// start runs raft on the member's transport.
func (m *member) start() {
	m.fsm = &machine{m: m, pad: m.rig.set.pad, applied: map[uint64]string{}}
	r, err := raft.NewRaft(m.config(), m.fsm, m.logs, m.stable, m.snaps, m.t)
	require.NoError(m.rig.tb, err)
	m.raft.Store(r)
	m.seen, m.done = make(chan raft.Observation, 100), make(chan struct{})
	m.watcher = raft.NewObserver(m.seen, true, nil)
	r.RegisterObserver(m.watcher)
	seen, done, changed := m.seen, m.done, m.rig.changed
	m.watching.Go(func() {
		for {
			select {
			case <-seen:
				changed.fire()
			case <-done:
				return
			}
		}
	})
}

// stop ends a member as the end of its process does.
func (m *member) stop() {
	if m.rig.net != nil {
		m.rig.net.Crash(m.host())
	}
	m.t.Close()
	if r := m.raft.Swap(nil); r != nil {
		f := r.Shutdown()
		_ = f.Error()
		r.DeregisterObserver(m.watcher)
		close(m.done)
		m.watching.Wait()
	}
}

func (r *rig) close() {
	for _, m := range r.members {
		if m.t != nil {
			m.stop()
		}
	}
}

// leader waits until one of the members, all by default, leads and the others know it.
func (r *rig) leader(among ...*member) *member {
	r.tb.Helper()
	if len(among) == 0 {
		among = r.members
	}
	var found *member
	r.changed.await(r.tb, "a leader that all know", func() bool {
		found = nil
		for _, m := range among {
			if m.r() != nil && m.r().State() == raft.Leader {
				found = m
			}
		}
		for _, m := range among {
			if found == nil || m.r() == nil {
				return false
			}
			if _, id := m.r().LeaderWithID(); id != found.id {
				return false
			}
		}
		return true
	})
	return found
}

func (r *rig) followers(leader *member) []*member {
	var all []*member
	for _, m := range r.members {
		if m != leader {
			all = append(all, m)
		}
	}
	return all
}

// apply writes through the leader, and returns the index.
func (m *member) apply(data string) uint64 {
	m.rig.tb.Helper()
	f := m.r().Apply([]byte(data), patience)
	require.NoError(m.rig.tb, f.Error())
	return f.Index()
}

// await waits until members have applied an index.
func (r *rig) await(index uint64, members ...*member) {
	r.tb.Helper()
	r.changed.await(r.tb, fmt.Sprintf("index %d to be applied", index), func() bool {
		for _, m := range members {
			if m.fsm.lastApplied() < index {
				return false
			}
		}
		return true
	})
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
