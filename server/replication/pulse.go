package replication

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

var (
	errRaftStands    = errors.New("raft's main loop does not answer")
	errApplierHolds  = errors.New("the applier holds its lock and does not give it back")
	errApplierStands = errors.New("what is committed is not applied")
)

// applyPoll is how often Pulse looks whether a busy applier gets on.
const applyPoll = 10 * time.Millisecond

// Pulse returns nil once raft's main loop and the applier have shown that they move, and an error
// that says which does not when ctx ends before. It needs no quorum and writes nothing: a leader
// that reaches nobody, and a server that has no leader, are alive. One call at a time: what hangs
// may keep a goroutine of each.
func (n *Node) Pulse(ctx context.Context) error {
	if !n.up.Load() || n.halted() || n.closing.Load() {
		return nil
	}
	// The main loop answers this in every state: that it leads, after a round of heartbeats; that
	// it does not, at once; and that it has ceased to, within its lease.
	if !within(ctx, func() {
		e := n.engine.Load()
		f := e.VerifyLeader()
		endWith(f, e.over)
		_ = f.Error()
	}) {
		return errRaftStands
	}
	if !within(ctx, func() { n.RLock(); defer n.RUnlock() }) {
		return errApplierHolds
	}
	return n.seesProgress(ctx)
}

// within says whether f returns before ctx ends.
func within(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// seesProgress waits for the applier to apply something, if there is something to apply.
func (n *Node) seesProgress(ctx context.Context) error {
	select {
	case <-n.begun:
	default:
		return nil // it waits for WaitReady
	}
	tick := time.NewTicker(applyPoll)
	defer tick.Stop()
	for applied := n.applied.Load(); n.applied.Load() == applied && n.owes(applied) && !n.still(); {
		select {
		case <-ctx.Done():
			return errApplierStands
		case <-n.dead:
		case <-tick.C:
		}
	}
	return nil
}

// owes says whether an entry with commands behind this one is committed. Entries without, which
// raft makes for itself, never reach the applier.
func (n *Node) owes(applied uint64) bool {
	for i := applied + 1; i <= n.raft().CommitIndex(); i++ {
		var entry raft.Log
		if n.stores.log.GetLog(i, &entry) != nil {
			return false // a snapshot has it
		}
		if entry.Type == raft.LogCommand {
			return true
		}
	}
	return false
}
