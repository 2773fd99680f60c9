package replication

import (
	"context"
	"errors"
	"fmt"
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
	for {
		select {
		case <-k.stop:
			return
		case <-k.kick:
			if err := k.snapshot(); err != nil && !k.n.halted() {
				k.n.o.Logger.Warn("no snapshot taken, the next one will cover more", "error", err)
			}
		case reply := <-k.requests:
			reply <- k.snapshot()
		case <-purge:
			k.purge()
		}
	}
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
	err := n.raft().Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
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
	if hi := min(files[0].index, last-1); err == nil && first > 0 && last > first && hi >= first {
		err = n.stores.log.DeleteRange(first, hi)
	}
	if err != nil {
		n.fail(fmt.Errorf("cannot purge the log: %w", err))
	}
}

func (k *keeper) close() {
	close(k.stop)
	<-k.done
}
