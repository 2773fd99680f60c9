package server

import (
	"context"
	"time"

	"github.com/zkd-project/zkd/server/state"
)

// reapBatch is how many container and TTL nodes one look at the tree returns at most.
const reapBatch = 1000

// reap proposes the deletion of empty containers and of TTL nodes whose time is over,
// every znode.container.checkIntervalMs, not faster than znode.container.maxPerMinute. The
// conditions are checked again when a deletion is applied.
func (s *Server) reap(ctx context.Context) {
	pause := time.Minute / time.Duration(max(1, s.cfg.ContainerMaxPerMinute))
	t := time.NewTicker(time.Duration(s.cfg.ContainerCheckIntervalMs) * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, path := range s.reapable() {
			cmd := state.Command{Kind: state.KindReap, Path: path}
			if err := s.propose(&cmd); err != nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	}
}

func (s *Server) reapable() []string {
	s.node.RLock()
	defer s.node.RUnlock()
	return s.node.Machine().Reapable(s.now().UnixMilli(), s.cfg.ContainerMaxNeverUsedMs, reapBatch)
}
