package replication

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// A keeper takes snapshots when asked or when enough log has been applied, and removes what
// they make superfluous. Its goroutine runs from start to close.
//
// raft's own trigger counts entries, and an entry is anything from one command to half a
// megabyte of them: it is switched off.
type keeper struct {
	n        *Node
	kick     chan struct{}
	requests chan chan<- error
	noRoom   atomic.Pointer[error] // of the snapshot under way: raft does not wrap what it is told
	stop     chan struct{}
	done     chan struct{}
}

func newKeeper(n *Node) *keeper {
	return &keeper{
		n: n, kick: make(chan struct{}, 1), requests: make(chan chan<- error),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// want asks for a snapshot, without waiting.
func (k *keeper) want() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

func (k *keeper) run() {
	defer close(k.done)
	var purge <-chan time.Time
	if k.n.o.PurgeInterval > 0 {
		t := time.NewTicker(k.n.o.PurgeInterval)
		defer t.Stop()
		purge = t.C
	}
	var again <-chan time.Time
	for {
		select {
		case <-k.stop:
			return
		case <-k.kick:
			again = k.try()
		case <-again:
			again = k.try()
		case reply := <-k.requests:
			reply <- k.snapshot()
		case <-purge:
			k.purge()
		}
	}
}

// noRoomPause is between two attempts to write a snapshot to a full disk. The log that it would
// make superfluous is perhaps what fills the disk: it does not wait for more of it.
const noRoomPause = 10 * time.Second

// try takes a snapshot, and says when to try again.
func (k *keeper) try() (again <-chan time.Time) {
	err := k.snapshot()
	if err == nil || k.n.halted() {
		return nil
	}
	k.n.o.Logger.Warn("no snapshot taken, the next one will cover more", "error", err)
	if errors.Is(err, syscall.ENOSPC) {
		return time.After(noRoomPause)
	}
	return nil
}

// failed is told of an error of the snapshot store. It ends the node, unless the disk has no
// room: what was written so far has no name yet and goes again, the log still has everything.
func (k *keeper) failed(err error) {
	if errors.Is(err, syscall.ENOSPC) {
		k.noRoom.Store(&err)
		return
	}
	k.n.fail(fmt.Errorf("cannot take a snapshot: %w", err))
}

// request takes a snapshot and returns when it is durable.
func (k *keeper) request(ctx context.Context) error {
	reply := make(chan error, 1)
	select {
	case k.requests <- reply:
	case <-k.n.dead:
		return k.n.deadError()
	case <-ctx.Done():
		return contextError(ctx, "the snapshot before")
	}
	select {
	case err := <-reply:
		return err
	case <-k.n.dead:
		return k.n.deadError()
	case <-ctx.Done():
		return contextError(ctx, "the snapshot")
	}
}

func (k *keeper) snapshot() error {
	n := k.n
	if n.halted() {
		return ErrClosed
	}
	n.RLock() // whoever asks has perhaps been told of a command of a batch that is still being applied
	applied := n.applied.Load()
	n.RUnlock()
	if files := n.stores.snaps.all(); len(files) > 0 && files[len(files)-1].index >= applied {
		return nil // nothing has happened since
	}
	start := n.o.Now()
	k.noRoom.Store(nil)
	err := n.raft().Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	if full := k.noRoom.Load(); err != nil && full != nil {
		err = *full
	}
	n.o.Meters.Snapshot(n.o.Now().Sub(start), err)
	if err != nil {
		return fmt.Errorf("cannot take a snapshot: %w", err)
	}
	if files := n.stores.snaps.all(); len(files) > 0 {
		s := files[len(files)-1]
		n.o.Logger.Info("snapshot taken", "zxid", fmt.Sprintf("0x%x", s.zxid), "index", s.index,
			"bytes", s.bytes, "uncompressed", s.size, "took", n.o.Now().Sub(start).Round(time.Millisecond))
	}
	if n.o.PurgeInterval == 0 {
		k.purge()
	}
	return nil
}

// purge removes old snapshots, and the log that only they needed. The log is kept from the
// oldest of the retained snapshots on: should the newest one be damaged, the one before it
// and the log still hold everything.
func (k *keeper) purge() {
	n := k.n
	if n.halted() {
		return
	}
	if err := n.stores.snaps.purge(n.o.SnapRetain); err != nil {
		n.o.Logger.Warn("cannot remove an old snapshot", "error", err)
	}
	files := n.stores.snaps.all()
	if len(files) == 0 {
		return
	}
	first, err1 := n.stores.log.FirstIndex()
	last, err2 := n.stores.log.LastIndex()
	err := errors.Join(err1, err2)
	// raft wants the entry at which the log ends.
	if hi := min(files[0].index-min(n.trailing(), files[0].index), last-1); err == nil && first > 0 && last > first && hi >= first {
		err = n.stores.log.DeleteRange(first, hi)
	}
	if err != nil {
		n.fail(fmt.Errorf("cannot purge the log: %w", err))
	}
}

// trailing entries stay in front of the oldest snapshot. Of those that were under way when a
// connection broke the leader does not know whether they arrived, and sends them again from the
// one before. raft looks that one up in the log alone: were it only in the snapshot, it would
// refuse for ever.
func (n *Node) trailing() uint64 {
	if n.o.Cluster == nil {
		return 0 // there is no leader but itself
	}
	return uint64(n.o.TrailingEntries)
}

func (k *keeper) close() {
	close(k.stop)
	<-k.done
}
