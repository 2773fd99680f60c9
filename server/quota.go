package server

import (
	"context"
	"time"
)

// quotaLogInterval is how often one exceeded quota is logged: its users keep on writing.
const quotaLogInterval = time.Minute

// logQuotas writes a log line for quotas that are exceeded and not enforced. The apply loop
// only hands over their paths: it must not wait for the log's sink.
func (s *Server) logQuotas(ctx context.Context) {
	last := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case path := <-s.overQuota:
			now := s.now()
			if now.Sub(last[path]) < quotaLogInterval {
				continue
			}
			last[path] = now
			s.log.Warn("quota exceeded", "path", path)
		}
	}
}

// noteQuota is called by the apply loop. When the list is full the path is dropped: it comes
// again with the next write.
func (s *Server) noteQuota(path string) {
	if path == "" {
		return
	}
	select {
	case s.overQuota <- path:
	default:
	}
}
