package server

import (
	"context"
	"maps"
	"strings"
	"time"
)

// quotaLogInterval is how often one exceeded quota is logged: its users keep on writing.
const quotaLogInterval = time.Minute

// logQuotas writes a log line for quotas that are exceeded and not enforced. The apply loop
// only hands over their paths: it must not wait for the log's sink.
func (s *Server) logQuotas(ctx context.Context) {
	logged := quotasLogged{}
	for {
		select {
		case <-ctx.Done():
			return
		case path := <-s.overQuota:
			if text, due := logged.due(path, s.now()); due {
				s.log.Warn("quota exceeded", "path", text)
			}
		}
	}
}

// quotasLogged are the quotas that were logged, and when. Clients make quotas where they like, as
// many and as long as they like, so it is bounded: beyond maxQuotasLogged in one interval no
// further one is logged.
type quotasLogged map[string]time.Time

// due says whether the quota of a path is to be logged now, and as what.
func (l quotasLogged) due(path string, now time.Time) (text string, due bool) {
	text = strings.Clone(path[:min(len(path), maxLoggedPath)]) // not the request that it is a part of
	if at, known := l[text]; known && now.Sub(at) < quotaLogInterval {
		return text, false
	}
	if len(l) >= maxQuotasLogged {
		maps.DeleteFunc(l, func(_ string, at time.Time) bool { return now.Sub(at) >= quotaLogInterval })
	}
	if len(l) >= maxQuotasLogged {
		return text, false
	}
	l[text] = now
	return text, true
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
