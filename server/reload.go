package server

import (
	"errors"

	"github.com/zkd-project/zkd/config"
)

// Reload takes over those keys of a new configuration that a running server can change
// (config.Key.Changeable) and that are its own; the level of the log is the program's. What
// cannot be taken over stays as it was, and the error says why.
func (s *Server) Reload(c *config.Config) error {
	s.mu.Lock()
	s.maxPerAddress, s.maxConnections = c.MaxClientCnxns, connectionLimit(c.MaxCnxns)
	s.mu.Unlock()
	s.words.Store(s.newWords(c))
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.phase.Load() != phaseServing {
		return errors.New("the server does not serve: its audit log stays as it is")
	}
	if on := s.auditor.Load() != nil; on == c.Audit && (!on || s.auditFile == c.AuditFile) {
		return nil
	}
	return s.setAudit(c.Audit, c.AuditFile)
}
