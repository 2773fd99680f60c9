package server

import "context"

// Loaded says whether the data are in memory and the other servers can reach this one. It serves
// from the time that Start returns.
func (s *Server) Loaded() bool { return s.nodeUp.Load() }

// Mode is the role of the server in ZooKeeper's words, "" while it serves nobody.
func (s *Server) Mode() string {
	if !s.serving() && !s.readOnly() {
		return ""
	}
	return s.mode()
}

// Pulse returns nil once the loops that everything depends on have shown that they move, and an
// error that says which does not if ctx ends before. Missing servers, a slow client and an idle
// cluster are no reason. One call at a time.
func (s *Server) Pulse(ctx context.Context) error {
	if n := s.currentNode(); n != nil {
		return n.Pulse(ctx)
	}
	return nil
}
