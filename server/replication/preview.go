package replication

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/state"
)

// previewEntries are applied between two looks whether the caller still wants it.
const previewEntries = 64

// Preview returns a machine with all that the data directory holds: the newest snapshot and the
// whole log. It is for a server that has no leader, and so cannot know how much of the log is
// committed: what is not may be undone when there is one. The node's own machine does not
// change.
func (n *Node) Preview(ctx context.Context) (*state.Machine, error) {
	if n.InQuarantine() {
		return nil, ErrQuarantined
	}
	m, index := state.New(), uint64(0)
	if files := n.stores.snaps.all(); len(files) > 0 {
		newest := files[len(files)-1]
		_, in, err := n.stores.snaps.Open(newest.name)
		if err != nil {
			return nil, fmt.Errorf("cannot read the newest snapshot: %w", err)
		}
		defer in.Close()
		r, err := unwrapSnapshot(in)
		if err != nil {
			return nil, err
		}
		if m, err = r.machine(); err != nil {
			return nil, fmt.Errorf("cannot read the newest snapshot: %w", err)
		}
		index = newest.index
	}
	last, err := n.stores.log.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("cannot read the log: %w", err)
	}
	var d state.BatchDecoder
	c := checker{m: m}
	for i := index + 1; i <= last; i++ {
		if i%previewEntries == 0 && ctx.Err() != nil {
			return nil, contextError(ctx, "the log to be read")
		}
		var entry raft.Log
		if err := n.stores.log.GetLog(i, &entry); err != nil {
			return nil, fmt.Errorf("cannot read log entry %d: %w", i, err)
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		if err := c.apply(&d, &entry); err != nil {
			return nil, err
		}
	}
	return m, nil
}
