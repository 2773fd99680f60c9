package server

import (
	"errors"

	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
)

// propose hands a command to the log, in the order of the calls. It waits while the log's
// queue is full; an error means that the outcome is unknown or that the server is closing.
func (s *Server) propose(cmd *state.Command) error {
	for {
		err := s.node.Propose(cmd)
		if !errors.Is(err, replication.ErrQueueFull) {
			return err
		}
		if err := s.node.WaitQueue(s.lifetime); err != nil {
			return err
		}
	}
}

// pendingFull says whether a connection has enough under way, by itself or because all
// together have: then it is not read until something is answered. One request may always
// be under way. Called with the connection's mu held.
func (s *Server) pendingFull(p *pendingQueue) bool {
	return p.len() > 0 &&
		(p.len() >= s.cfg.MaxConnRequests || int64(p.bytes) > s.cfg.MaxConnBufferBytes ||
			s.pendingBytes.Load() > s.cfg.MaxTotalBufferBytes ||
			s.pendingRequests.Load() >= int64(s.cfg.GlobalOutstandingLimit))
}
