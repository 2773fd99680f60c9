package replication

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/boltstore"
)

// guardedLog and guardedStable stand between raft and the stores: the first error ends the
// node. raft itself goes on after a failed append, with a wrong idea of its last index, and
// panics in other places.
type guardedLog struct {
	logStore
	n *Node
}

// guardedStable keeps votes in one piece besides. raft stores a vote in two steps, the term and then
// the candidate. After a crash between them the term would stand beside the candidate of an earlier
// vote, and raft repeats a vote without looking at the candidate's log: one that lacks what was
// acknowledged could be elected. So the term waits for the candidate, and is stored after it. Between
// these two the earlier vote has another candidate. That harms nobody: its term is over, since raft
// stores that of this server before it votes. TestAVoteThatWasCutOffIsGivenToNobodyElse holds it.
type guardedStable struct {
	stableStore
	n *Node

	voteTerm uint64 // of a vote whose candidate is still to come; 0: none. Owned by raft's main loop
}

// What raft calls the parts of a vote.
const (
	keyLastVoteTerm = "LastVoteTerm"
	keyLastVoteCand = "LastVoteCand"
)

// storeFailed ends the node because of a store's error, and the goroutine that met it: raft
// must not see it. While the node is being opened the error goes back to Open, and after
// it was closed a straggler may still look at the log.
func (n *Node) storeFailed(err error) error {
	if !n.storesLive.Load() {
		n.startFailure.CompareAndSwap(nil, &err)
		return err
	}
	n.fail(err)
	runtime.Goexit()
	return err
}

// startError returns what a store has said in place of what raft has made of it while it started,
// which is text and leads back to no error of the disk; err itself where no store has failed.
func (n *Node) startError(err error) error {
	if cause := n.startFailure.Load(); err != nil && cause != nil {
		return fmt.Errorf("raft cannot start: %w", *cause)
	}
	return err
}

// foundingLog is the log while a cluster is founded: what raft does with a guardedLog needs a
// node that runs.
type foundingLog struct {
	logStore
	n *Node
}

// StoreLog stores the first entry.
func (l *foundingLog) StoreLog(entry *raft.Log) error {
	if err := l.logStore.StoreLog(entry); err != nil {
		return l.n.storeFailed(fmt.Errorf("cannot write the first entry of the log: %w", err))
	}
	return nil
}

// StoreLogs stores entries: durably, unless they may become so later (durable.go).
func (g *guardedLog) StoreLogs(entries []*raft.Log) error {
	if g.n.durability.early(entries) {
		if err := g.n.durability.append(entries); err != nil {
			return g.n.storeFailed(err)
		}
		return nil
	}
	start := g.n.o.Now()
	end := g.n.syncs.begin()
	err := g.logStore.StoreLogs(entries)
	end()
	if err != nil {
		return g.n.storeFailed(err)
	}
	g.n.batcher.noteStored(commands(entries))
	g.n.noteSync(len(entries), g.n.o.Now().Sub(start))
	return nil
}

func commands(entries []*raft.Log) int {
	n := 0
	for _, e := range entries {
		if e.Type == raft.LogCommand {
			n++
		}
	}
	return n
}

// noteSync tells of entries that were made durable.
func (n *Node) noteSync(entries int, took time.Duration) {
	n.o.Meters.Stored(entries, took)
	if took >= n.o.SlowSync {
		n.o.Logger.Warn("writing to the log is slow, writes wait for it", "took", took)
	}
}

// StoreLog stores one entry durably.
func (g *guardedLog) StoreLog(entry *raft.Log) error { return g.StoreLogs([]*raft.Log{entry}) }

// GetLog reads an entry.
func (g *guardedLog) GetLog(index uint64, out *raft.Log) error {
	err := g.logStore.GetLog(index, out)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		return g.n.storeFailed(err)
	}
	return err
}

// DeleteRange deletes entries. What raft wants to delete in front because of a snapshot
// stays: keeper.purge does it, when no retained snapshot needs it any more.
func (g *guardedLog) DeleteRange(lo, hi uint64) error {
	first, err := g.FirstIndex()
	if err != nil {
		return g.n.storeFailed(err)
	}
	last, err := g.LastIndex()
	if err != nil {
		return g.n.storeFailed(err)
	}
	if lo <= first && hi < last {
		return nil
	}
	if err := g.logStore.DeleteRange(lo, hi); err != nil {
		return g.n.storeFailed(err)
	}
	if hi >= last {
		g.n.durability.cut(lo)
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore.
func (g *guardedLog) IsMonotonic() bool {
	m, ok := g.logStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

func (g *guardedStable) check(err error) error {
	if err == nil || errors.Is(err, errKeyNotFound) || boltstore.IsNotFound(err) || err.Error() == errKeyNotFound.Error() {
		return err
	}
	return g.n.storeFailed(fmt.Errorf("cannot store or read term and vote: %w", err))
}

// Set stores a value durably, and that of a candidate with the term of the vote.
func (g *guardedStable) Set(key, value []byte) error {
	err := g.stableStore.Set(key, value)
	if err == nil && g.voteTerm != 0 && string(key) == keyLastVoteCand {
		err = g.stableStore.SetUint64([]byte(keyLastVoteTerm), g.voteTerm)
		g.voteTerm = 0
	}
	return g.check(err)
}

// SetUint64 stores a number durably, but for the term of a vote, which waits for the candidate.
func (g *guardedStable) SetUint64(key []byte, n uint64) error {
	if string(key) == keyLastVoteTerm {
		g.voteTerm = n
		return nil
	}
	return g.check(g.stableStore.SetUint64(key, n))
}

// Get reads a value.
func (g *guardedStable) Get(key []byte) ([]byte, error) {
	v, err := g.stableStore.Get(key)
	return v, g.check(err)
}

// GetUint64 reads a number.
func (g *guardedStable) GetUint64(key []byte) (uint64, error) {
	n, err := g.stableStore.GetUint64(key)
	return n, g.check(err)
}

// guardedSnapshots ends the node when a snapshot cannot be created, but for lack of room.
type guardedSnapshots struct {
	snapshotStore
	n *Node
}

// Create begins a snapshot.
func (g *guardedSnapshots) Create(v raft.SnapshotVersion, index, term uint64, config raft.Configuration,
	configIndex uint64, t raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := g.snapshotStore.Create(v, index, term, config, configIndex, t)
	if err != nil && g.n.storesLive.Load() {
		g.n.keeper.failed(err)
	}
	return sink, err
}
