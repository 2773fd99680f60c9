package replication

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
)

const (
	// soloTimeout is raft's heartbeat, election and lease timeout of a lone server. None of
	// them matters: it elects itself when told to, and nobody can depose it. They are long so
	// that its timers do not wake an idle machine.
	soloTimeout = 10 * time.Second
	// never is as long as raft's arithmetic with timeouts allows for.
	never = 10000 * time.Hour
)

// A Node is this server's part in the replicated log.
type Node struct {
	o          Options
	stores     *stores
	solo       *soloTransport         // of a server without peers
	peers      *peer.Transport        // of one that has some; nil without
	engine     atomic.Pointer[engine] // raft; see the method
	fsm        *fsm
	replay     *replay // until startRaft
	queue      *queue
	batcher    *batcher
	keeper     *keeper
	durability *durability
	up         atomic.Bool // raft runs
	loops      sync.WaitGroup
	halt       chan struct{} // closed by Close: ends the loops
	spawnMu    sync.Mutex    // held while halt is closed, and while spawn looks at it

	silent    atomic.Int64 // ns for which no leader was heard of, see failover.go
	fruitless atomic.Int32 // how often this server has stood for election since a leader was heard for long

	leaderMu  sync.Mutex
	leaderNow leadership // guarded by leaderMu

	contacts contacts // see LeadAge

	progressMu sync.Mutex
	progress   chan struct{} // guarded by progressMu: closed when something was applied; nil if nobody waits
	awaited    atomic.Bool   // progress is set

	// Of a server with peers: restart.go, digest.go and repair.go.
	engineMu   sync.Mutex    // held while raft is replaced by another one
	restarting atomic.Bool   // nothing is applied until raft runs again
	restarts   chan struct{} // raft is to be restarted, after a snapshot was installed
	keepRaft   atomic.Bool   // it is not: for the test that shows what happens then
	notes      notebook      // digests of the machine
	syncs      syncMeter     // what the log's disk takes
	writes     syncMeter     // likewise, for writes that are synced later
	hushed     atomic.Bool   // see standsStill
	sickAt     atomic.Uint64 // the entry at which the machine was found to be wrong; 0: it is not
	sick       chan struct{} // it is to be repaired
	repairs    []time.Time   // owned by mend
	judgeMu    sync.Mutex
	judgeNow   *judge // guarded by judgeMu

	// mu is taken by the FSM goroutine once per batch, and by readers once per read.
	mu      sync.RWMutex
	machine *state.Machine // guarded by mu

	applied    atomic.Uint64 // index of the last entry that the machine has seen
	closing    atomic.Bool   // Close has been called
	storesLive atomic.Bool   // errors of the stores end the node
	// startFailure is the first error of a store before that.
	startFailure atomic.Pointer[error]
	begun        chan struct{} // closed by the first WaitReady or Close: applying may begin
	beginOnce    sync.Once
	readyOnce    sync.Once
	readyErr     error
	dead         chan struct{} // closed when the node has failed or is closed
	deadOnce     sync.Once
	failure      atomic.Pointer[error] // why it has failed
	closeOnce    sync.Once
	closeErr     error
}

// Open opens the data directory, or makes it, and loads the newest snapshot. The log is
// applied in WaitReady. Damage is a *DamageError; what is damaged is left as it is.
func Open(o Options) (*Node, Info, error) {
	if err := o.setDefaults(); err != nil {
		return nil, Info{}, err
	}
	start := o.Now()
	st, err := openStores(&o)
	if err != nil {
		return nil, Info{}, err
	}
	n := &Node{o: o, stores: st, begun: make(chan struct{}), dead: make(chan struct{}), halt: make(chan struct{})}
	n.replay = &replay{began: start}
	n.leaderNow.changed = make(chan struct{})
	n.restarts, n.sick = make(chan struct{}, 1), make(chan struct{}, 1)
	n.queue = newQueue(n)
	n.durability = newDurability(n)
	n.batcher, n.keeper = newBatcher(n), newKeeper(n)
	info := Info{New: st.isNew}
	if err := n.recover(&info); err != nil {
		if n.peers != nil {
			n.peers.Close()
		}
		st.close()
		return nil, Info{}, err
	}
	info.Took = n.o.Now().Sub(start)
	return n, info, nil
}

// recover loads the newest snapshot, compares it with the log and starts raft.
func (n *Node) recover(info *Info) error {
	start := n.o.Now()
	if err := n.loadSnapshot(info); err != nil {
		return err
	}
	if info.SnapshotIndex > 0 {
		n.replay.Snapshot = n.o.Now().Sub(start)
	}
	if !n.stores.isNew {
		if err := n.checkContinuity(info.SnapshotIndex); err != nil {
			return err
		}
		if err := n.recallQuarantine(info.SnapshotIndex); err != nil {
			return err
		}
	}
	last, err := n.stores.log.LastIndex()
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	if last > info.SnapshotIndex {
		info.Replay = last - info.SnapshotIndex
	}
	n.loaded(info.Replay, last)
	if n.o.Cluster == nil {
		return n.startRaft(n.lone())
	}
	if err := n.openPeers(); err != nil || n.stores.isNew {
		return err // found starts raft
	}
	return n.startRaft(raft.Configuration{})
}

// loadSnapshot restores the machine from the newest snapshot. If that cannot be done the
// start ends: an older one would do only with the log behind it, and that is for the
// operator to see.
func (n *Node) loadSnapshot(info *Info) error {
	files := n.stores.snaps.all()
	if len(files) == 0 {
		n.machine = state.New()
		return nil
	}
	newest := files[len(files)-1]
	_, in, err := n.stores.snaps.Open(newest.name)
	if err == nil {
		var r *snapReader
		if r, err = unwrapSnapshot(in); err == nil {
			n.machine, err = r.machine()
		}
		in.Close()
	}
	if err != nil {
		return n.explain(fmt.Errorf("cannot load the newest snapshot, %s: %w", newest.name, err), files)
	}
	n.applied.Store(newest.index)
	info.SnapshotIndex = newest.index
	return nil
}

// explain adds to a damaged newest snapshot what can be done if the log still reaches back
// to the one before.
func (n *Node) explain(err error, files []snapFile) error {
	var d *damage.Error
	if !errors.As(err, &d) || len(files) < 2 {
		return err
	}
	first, lerr := n.stores.log.FirstIndex()
	if lerr == nil && first > 0 && first <= files[len(files)-2].index+1 {
		d.Repair = "move the file out of the directory and start again: the snapshot before it and the log hold the same data"
	}
	return err
}

// checkContinuity compares the bounds of the log with the snapshot.
func (n *Node) checkContinuity(snapshot uint64) error {
	first, err1 := n.stores.log.FirstIndex()
	last, err2 := n.stores.log.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	if snapshot == 0 && first == 0 && n.o.Cluster != nil {
		return nil // it has joined a cluster, and no leader has reached it yet
	}
	if err := continuity(n.o.LogDir, snapshot, first, last); err != nil {
		return err
	}
	if first > 0 && last < snapshot {
		// A snapshot of another server was installed, and then came a crash.
		n.o.Logger.Info("removing the log, which ends before the snapshot", "last", last, "snapshot", snapshot)
		return n.stores.log.DeleteRange(first, last)
	}
	if n.o.Cluster == nil {
		return nil // nobody could have sent it a snapshot of another log
	}
	return n.cutDivergence()
}

// continuity is the error of a log that does not continue the snapshot. first and last are 0
// if the log is empty.
func continuity(dir string, snapshot, first, last uint64) error {
	missing := ""
	switch {
	case first == 0 && snapshot == 0:
		missing = "the log is empty and there is no snapshot"
	case first > snapshot+1 && snapshot == 0:
		missing = fmt.Sprintf("the log begins with entry %d and there is no snapshot", first)
	case first > snapshot+1:
		missing = fmt.Sprintf("the entries from %d, behind the newest snapshot, to %d are missing", snapshot+1, first-1)
	default:
		return nil
	}
	return &damage.Error{File: dir, Offset: -1, What: missing, Repair: damage.Rejoin}
}

// startRaft starts raft on the stores, and the loops that need it. A new directory gets its
// first entry before, the configuration first, unless that is to come from a leader.
func (n *Node) startRaft(first raft.Configuration) (err error) {
	defer func() { err = n.startError(err) }()
	conf := n.raftConfig()
	var transport raft.Transport = n.peers
	if n.peers == nil {
		n.solo = newSoloTransport(n.stores.id.serverID())
		transport = n.solo
	}
	n.fsm = &fsm{n: n, replay: n.replay}
	if n.stores.isNew {
		if err := n.beginDatabase(conf, first, transport); err != nil {
			return fmt.Errorf("cannot begin a new database: %w", err)
		}
	}
	e, err := n.newEngine(conf, transport)
	if err != nil {
		return err
	}
	n.engine.Store(e)
	n.up.Store(true)
	n.storesLive.Store(true)
	go n.batcher.run()
	go n.keeper.run()
	go n.durability.run()
	if n.peers != nil {
		n.loops.Go(func() { n.watchLeader(n.halt) })
		n.loops.Go(func() { n.follow(n.halt) })
		n.loops.Go(func() { n.tend(n.halt) })
		n.loops.Go(func() { n.listen(n.halt) })
		n.loops.Go(func() { n.mend(n.halt) })
		n.loops.Go(func() { n.compareDigests(n.halt) })
		n.loops.Go(func() { n.watchDisk(n.halt) })
	}
	return nil
}

// spawn starts a goroutine that Close awaits; after Close it does nothing. f must end with halt.
func (n *Node) spawn(f func()) {
	n.spawnMu.Lock()
	defer n.spawnMu.Unlock()
	select {
	case <-n.halt:
	default:
		n.loops.Go(f)
	}
}

// beginDatabase makes a new directory complete.
func (n *Node) beginDatabase(conf *raft.Config, first raft.Configuration, t raft.Transport) error {
	st := n.stores
	stable := &guardedStable{stableStore: st.stable, n: n}
	if len(first.Servers) > 0 {
		if err := raft.BootstrapCluster(conf, &foundingLog{st.log, n}, stable, st.snaps, t, first); err != nil {
			return err
		}
	} else if err := stable.SetUint64(keyCurrentTerm, 0); err != nil { // its absence is damage
		return err
	}
	return st.commit()
}

// raftConfig is the configuration of raft.
func (n *Node) raftConfig() *raft.Config {
	c := n.commonConfig()
	if n.o.Cluster != nil {
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = electionTimeout, electionTimeout, leaseTimeout
		c.CommitTimeout = commitTimeout
		c.PreVoteDisabled = false
	}
	return c
}

// commonConfig is that of a lone server.
func (n *Node) commonConfig() *raft.Config {
	return &raft.Config{
		ProtocolVersion: raft.ProtocolVersionMax, LocalID: n.stores.id.serverID(),
		HeartbeatTimeout: soloTimeout, ElectionTimeout: soloTimeout, LeaderLeaseTimeout: soloTimeout,
		CommitTimeout: 50 * time.Millisecond, MaxAppendEntries: maxAppendEntries,
		// The keeper decides about snapshots, and guardedLog about what is deleted in front.
		SnapshotInterval: never, SnapshotThreshold: math.MaxUint64, TrailingLogs: 1,
		NoSnapshotRestoreOnStart: true, // loadSnapshot has done it
		PreVoteDisabled:          true, // there is nobody to ask
		Logger:                   newRaftLogger(n.o.Logger),
		NoLegacyTelemetry:        true,
	}
}

// lone is the cluster of this server alone.
func (n *Node) lone() raft.Configuration {
	id := n.stores.id.serverID()
	return raft.Configuration{Servers: []raft.Server{{ID: id, Address: raft.ServerAddress(id)}}}
}

// WaitReady forms the cluster if there is none yet, starts applying the log, and returns when
// there is a leader, this server or another, and all of the log from before its time is
// applied here: Propose takes commands from then on, until the leader is lost.
func (n *Node) WaitReady(ctx context.Context) error {
	n.begin()
	n.readyOnce.Do(func() {
		switch {
		case n.solo != nil:
			n.solo.elect(n.stores.id.serverID())
		case !n.up.Load():
			n.readyErr = n.found(ctx)
		}
		if n.readyErr == nil && n.peers != nil {
			n.electAlone()
		}
	})
	if n.readyErr != nil {
		return n.readyErr
	}
	if err := n.waitHealthy(ctx); err != nil {
		return err
	}
	_, err := n.queue.wait(ctx, "a leader", func(r route) bool { return r != routeNone })
	return err
}

func (n *Node) begin() { n.beginOnce.Do(func() { close(n.begun) }) }

// Propose queues a command for the log. Commands take effect in the order of the calls;
// the Observer hears of the result. c and its slices can be used again when it returns.
// After an error nothing was queued. Where leadership changes hands a command may be lost
// without a word: see Observer.Routed.
func (n *Node) Propose(c *state.Command) error { return n.queue.propose(c) }

// ProposeIn queues a command, as state.AppendCommand encodes it, in a generation that Routed
// has named; ErrStale if that is over.
func (n *Node) ProposeIn(gen uint64, encoded []byte) error {
	return n.queue.push(gen, 1, true, func(b []byte) []byte { return append(b, encoded...) })
}

// Repeat is ProposeIn for commands that were accepted before, in an earlier generation: it
// takes them also if the queue is full.
func (n *Node) Repeat(gen uint64, encoded []byte) error {
	return n.queue.push(gen, 1, false, func(b []byte) []byte { return append(b, encoded...) })
}

// WaitQueue returns nil when the queue of Propose has room.
func (n *Node) WaitQueue(ctx context.Context) error { return n.queue.waitRoom(ctx) }

// RLock keeps the machine as it is until RUnlock. Keep it short: the applier waits.
func (n *Node) RLock() { n.mu.RLock() }

// RUnlock lets the applier go on.
func (n *Node) RUnlock() { n.mu.RUnlock() }

// Machine is the state. It may be used under RLock, and in the Observer's methods that are
// called under the lock; it changes with Restored.
func (n *Node) Machine() *state.Machine { return n.machine }

// Role is what this server is at the moment.
func (n *Node) Role() Role {
	if !n.up.Load() {
		return Electing
	}
	switch n.raft().State() {
	case raft.Leader:
		return Leader
	case raft.Follower:
		if _, leader := n.raft().LeaderWithID(); leader != "" {
			if !n.Votes() {
				return Observing
			}
			return Follower
		}
	}
	return Electing
}

// Votes says whether this server has a vote, as raft's latest configuration here says; before
// it has one, as the configuration of this server does.
func (n *Node) Votes() bool {
	if n.o.Cluster == nil {
		return true
	}
	if n.up.Load() {
		for _, s := range n.raft().GetConfiguration().Configuration().Servers {
			if s.ID == n.stores.id.serverID() {
				return s.Suffrage == raft.Voter
			}
		}
	}
	return !n.isObserver(n.o.MyID)
}

// Mode is the role in ZooKeeper's words; a server without peers is "standalone".
func (n *Node) Mode() string {
	if n.peers == nil {
		return "standalone"
	}
	return n.Role().String()
}

// ServerID is the name of this server in the cluster: its number and the incarnation of its
// data directory.
func (n *Node) ServerID() string { return string(n.stores.id.serverID()) }

// ClusterID is the random name of the cluster.
func (n *Node) ClusterID() string { return n.stores.id.cluster }

// AppliedIndex is the index of the last log entry that the machine has seen.
func (n *Node) AppliedIndex() uint64 { return n.applied.Load() }

// LogBytes is the space that the log takes.
func (n *Node) LogBytes() int64 { return n.stores.log.Bytes() }

// DirSizes are the bytes of the snapshots and of the log.
func (n *Node) DirSizes() (data, log int64) { return n.stores.snaps.bytes(), n.LogBytes() }

// SnapshotNow takes a snapshot unless the newest one is up to date, and returns when it is
// durable. It goes on if ctx ends before.
func (n *Node) SnapshotNow(ctx context.Context) error { return n.keeper.request(ctx) }

// LastSnapshot describes the newest snapshot; ok is false if there is none.
func (n *Node) LastSnapshot() (zxid int64, at time.Time, ok bool) {
	files := n.stores.snaps.all()
	if len(files) == 0 {
		return 0, time.Time{}, false
	}
	newest := files[len(files)-1]
	return newest.zxid, newest.created, true
}

// Dead is closed when the node has failed or is closed.
func (n *Node) Dead() <-chan struct{} { return n.dead }

// fail ends the node because of err: once, and from then on nothing is applied.
func (n *Node) fail(err error) {
	if !n.failure.CompareAndSwap(nil, &err) {
		return
	}
	n.deadOnce.Do(func() { close(n.dead) })
	n.o.Fatal(err)
}

// halted says whether nothing may be applied any more.
func (n *Node) halted() bool {
	select {
	case <-n.dead:
		return true
	default:
		return false
	}
}

// deadError is why the node is dead.
func (n *Node) deadError() error {
	if err := n.failure.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *err)
	}
	return ErrClosed
}

// Close applies what was proposed and ends the node. It returns the first error of the
// stores; the data is complete without a Close.
//
// Order: the batcher first, so that its entries are committed while raft still runs, for
// Options.ClosePatience at most: a majority that answers and never stores would hold it for
// ever. Then
// raft is told to end, before the keeper: its snapshot may wait for raft's main loop, which
// is gone after an error. When all goroutines have ended nobody uses the stores any more.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		n.closing.Store(true)
		if !n.Leads() {
			// The log is still being replayed, or another server leads. It can be left at any entry.
			n.deadOnce.Do(func() { close(n.dead) })
		}
		n.begin()
		n.spawnMu.Lock()
		close(n.halt)
		n.spawnMu.Unlock()
		n.readyOnce.Do(func() { n.readyErr = ErrClosed }) // waits for a found under way
		var err error
		if n.up.Load() {
			n.batcher.close(n.o.ClosePatience)
			n.deadOnce.Do(func() { close(n.dead) })
			err = n.closeRaft()
		} else {
			n.queue.close()
			n.deadOnce.Do(func() { close(n.dead) })
			if n.peers != nil {
				n.peers.Close()
			}
		}
		n.storesLive.Store(false)
		n.closeErr = errors.Join(err, n.stores.close())
	})
	return n.closeErr
}

// closeRaft ends raft, the loops and the transport. The transport comes before the wait for
// raft, which waits for its calls.
func (n *Node) closeRaft() error {
	n.engineMu.Lock() // after a restart under way, and then there is none any more
	down := n.engine.Load().down()
	n.engineMu.Unlock()
	if n.peers != nil {
		n.peers.Close()
	}
	n.loops.Wait()
	n.keeper.close()
	<-n.durability.done
	return down.Error()
}
