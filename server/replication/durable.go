package replication

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Durability in parallel. raft's leader stores an entry before it sends it to the followers:
// two syncs, one after the other. So while this server leads, StoreLogs returns when the entry
// is written, and a goroutine syncs it while it is on its way to the others. Three things keep
// the promise that nothing counts before a majority of disks has it, this one among them:
//
//   - the FSM applies an entry, and with that answers clients, when it is durable here (wait);
//   - no follower is told of a commit beyond what is durable here (limit): else it could show a
//     client what the loss of this disk's cache takes back;
//   - a server that leads no more acknowledges entries of its successor that it holds already
//     without storing them again, so it syncs before any answer to another leaves (settle).
//
// Only commands return early: other entries count without passing the FSM. The argument is in
// docs/decisions/0006-durability-in-parallel.md.

// A parallelLog can write and sync apart.
type parallelLog interface {
	Append(entries []*raft.Log) error
	Sync() (uint64, error)
	Durable() uint64
}

// A durability syncs what this server has written as leader.
type durability struct {
	n    *Node
	log  parallelLog // nil: the store syncs by itself
	kick chan struct{}
	done chan struct{} // closed by run

	written atomic.Uint64 // the last index that was written and not synced by its writer

	mu      sync.Mutex
	batches []written // guarded by mu: not synced yet, oldest first
	risen   sync.Cond // more is durable
	over    bool      // guarded by mu: run has ended
}

// written is a batch of entries up to an index.
type written struct {
	index   uint64
	entries int
}

func newDurability(n *Node) *durability {
	d := &durability{n: n, kick: make(chan struct{}, 1), done: make(chan struct{})}
	d.risen.L = &d.mu
	d.log, _ = n.stores.log.(parallelLog)
	return d
}

// early says whether entries may be synced later.
func (d *durability) early(entries []*raft.Log) bool {
	if d.log == nil || !d.n.up.Load() || d.n.raft().State() != raft.Leader {
		return false
	}
	for _, e := range entries {
		if e.Type != raft.LogCommand {
			return false
		}
	}
	return true
}

// append writes entries, which run will sync.
func (d *durability) append(entries []*raft.Log) error {
	end := d.n.writes.begin()
	err := d.log.Append(entries)
	end()
	if err != nil {
		return err
	}
	last := entries[len(entries)-1].Index
	d.mu.Lock()
	d.batches = append(d.batches, written{last, len(entries)})
	d.mu.Unlock()
	d.written.Store(last)
	select {
	case d.kick <- struct{}{}:
	default:
	}
	return nil
}

// cut is told that the log ends before an index now: what was written there is gone.
func (d *durability) cut(lo uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.batches) > 0 && d.batches[len(d.batches)-1].index >= lo {
		d.batches = d.batches[:len(d.batches)-1]
	}
	if d.written.Load() >= lo {
		d.written.Store(lo - 1)
	}
}

// run syncs until the node is closed or has failed.
func (d *durability) run() {
	defer close(d.done)
	defer d.end()
	for {
		select {
		case <-d.kick:
		case <-d.n.dead:
			return
		}
		if d.sync() != nil {
			return
		}
	}
}

func (d *durability) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.risen.Broadcast()
}

// sync makes durable what is written.
func (d *durability) sync() error {
	start := d.n.o.Now()
	end := d.n.syncs.begin()
	index, err := d.log.Sync()
	end()
	if err != nil {
		if d.n.storesLive.Load() {
			d.n.fail(err)
		}
		return err
	}
	d.mu.Lock()
	entries, i := 0, 0
	for ; i < len(d.batches) && d.batches[i].index <= index; i++ {
		entries += d.batches[i].entries
	}
	d.batches = append(d.batches[:0], d.batches[i:]...)
	d.risen.Broadcast()
	d.mu.Unlock()
	if entries > 0 {
		d.n.batcher.noteStored(entries)
		d.n.noteSync(entries, d.n.o.Now().Sub(start))
	}
	return nil
}

// wait returns when an entry is durable here; false if it never will be.
func (d *durability) wait(index uint64) bool {
	if d.log == nil || d.log.Durable() >= index {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.log.Durable() < index {
		if d.over {
			return false
		}
		d.risen.Wait()
	}
	return true
}

// limit is the highest index that followers may be told to be committed.
func (d *durability) limit() uint64 {
	if d.log == nil {
		return math.MaxUint64
	}
	return d.log.Durable()
}

// settle returns when all that this server wrote as leader is durable. If that cannot be, the node has
// ended, and with it the goroutine that would have answered: the answer would be untrue.
func (d *durability) settle() {
	if d.log != nil && d.log.Durable() < d.written.Load() && d.sync() != nil {
		runtime.Goexit()
	}
}
