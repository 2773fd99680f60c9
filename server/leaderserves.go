package server

import (
	"context"
	"time"

	"github.com/zkd-project/zkd/internal/wait"
)

// leaderServes=no keeps the leader for the log: it lets no client in, and those that are
// connected where a leader is elected have to go. They are sent a few at a time, when their
// requests under way are answered, so that the others are not met by all at once; their
// sessions stay, and they come back elsewhere as after any lost connection. Four-letter words
// are answered as ever.
//
// While no other server is in contact the leader takes clients all the same: there is nobody
// else.
const (
	shunLook = 100 * time.Millisecond
	// shunShare: an eighth of the clients goes with each look, at least shunLeast.
	shunShare = 8
	shunLeast = 16
)

// shunClients runs until ctx ends.
func (s *Server) shunClients(ctx context.Context) {
	for ctx.Err() == nil {
		alone := s.node.Followers().InContact == 0
		shuns := s.node.Leads() && !alone
		if shuns != s.shunning.Swap(shuns) && shuns {
			s.log.Info("this server leads and leaderServes is no: its clients are sent to other servers")
		}
		if shuns {
			s.sendAway()
		}
		wait.Pause(ctx, shunLook)
	}
}

// sendAway ends some of the sessions' connections, each when it has nothing under way.
func (s *Server) sendAway() {
	all := s.boundSessions(nil)
	n := max(len(all)/shunShare, shunLeast)
	for _, g := range all[:min(n, len(all))] {
		g.c.finish()
	}
}
