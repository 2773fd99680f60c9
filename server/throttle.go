package server

import (
	"sync"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/stats"
)

// A throttle is a bucket of tokens: each new or returning session takes one. It keeps the
// clients of a restarted server from coming back all at once.
type throttle struct {
	size    int
	fill    int   // tokens per period
	period  int64 // ns
	deficit *stats.Histogram

	mu     sync.Mutex
	tokens int   // guarded by mu
	filled int64 // guarded by mu: the time up to which tokens were filled in
}

// newThrottle returns a full bucket; one of size 0 lets everybody in.
func newThrottle(c config.ConnectionThrottle, r *stats.Registry) *throttle {
	t := &throttle{
		size: c.Tokens, fill: c.FillCount, period: int64(c.FillTimeMs) * 1e6, tokens: c.Tokens,
		deficit: stats.NewHistogram(stats.Count),
	}
	r.Summary("connection_token_deficit", "tokens missing when a session is let in", stats.KindSummary, t.deficit)
	return t
}

// take takes a token, if there is one.
func (t *throttle) take(nowNs int64) bool {
	if t.size == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if periods := (nowNs - t.filled) / t.period; periods > 0 {
		t.filled += periods * t.period
		if periods >= int64(t.size) || int64(t.tokens)+periods*int64(t.fill) > int64(t.size) {
			t.tokens = t.size
		} else {
			t.tokens += int(periods) * t.fill
		}
	}
	if t.tokens == 0 {
		return false
	}
	t.tokens--
	t.deficit.Record(int64(t.size - t.tokens))
	return true
}
