package server

import (
	"context"
	"time"

	"github.com/zkd-project/zkd/server/state"
)

// reap proposes the deletion of empty containers and of TTL nodes whose time is over,
// every znode.container.checkIntervalMs, not faster than znode.container.maxPerMinute. The
// conditions are checked again when a deletion is applied.
func (s *Server) reap(ctx context.Context) {
	interval := time.Duration(s.cfg.ContainerCheckIntervalMs) * time.Millisecond
	pause := time.Minute / time.Duration(s.cfg.ContainerMaxPerMinute)
	most := int(min(max(interval/max(pause, 1), 1), maxReapList)) // until the next look
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if !s.node.Leads() {
			continue
		}
		for _, path := range s.reapable(most) {
			cmd := state.Command{Kind: state.KindReap, Path: path}
			if err := s.propose(&cmd); err != nil {
				break // it is still due at the next look
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	}
}

func (s *Server) reapable(most int) []string {
	s.node.RLock()
	defer s.node.RUnlock()
	return s.node.Machine().Reapable(s.now().UnixMilli(), s.cfg.ContainerMaxNeverUsedMs, most)
}
