package peer

import (
	"sync/atomic"
	"time"
)

// Stats counts what came to the peer port, since New.
type Stats struct {
	Accepted  uint64 // connections
	Refused   uint64 // with a hello that did not fit
	Malformed uint64 // without a hello: bytes of something else, or a failed TLS handshake
	Slow      uint64 // not done with the handshake in time
	Evicted   uint64 // driven out of a full lobby by others
	Open      int    // connections in both directions, now
	InLobby   int    // connections in their handshake, now
}

type counters struct {
	accepted, refused, malformed, slow, evicted atomic.Uint64
}

// Stats returns the counters.
func (t *Transport) Stats() Stats {
	t.mu.Lock()
	open := len(t.conns)
	t.mu.Unlock()
	t.lobby.mu.Lock()
	waiting := len(t.lobby.guests)
	t.lobby.mu.Unlock()
	c := &t.counters
	return Stats{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(), Malformed: c.malformed.Load(),
		Slow: c.slow.Load(), Evicted: c.evicted.Load(), Open: open, InLobby: waiting,
	}
}

// A limiter lets strangers fill the log with one line per noticeInterval at most.
type limiter struct {
	last    atomic.Int64 // Unix ns
	dropped atomic.Uint64
}

func (l *limiter) allow() bool {
	now, last := time.Now().UnixNano(), l.last.Load()
	if now-last >= int64(noticeInterval) && l.last.CompareAndSwap(last, now) {
		return true
	}
	l.dropped.Add(1)
	return false
}

// suppressed returns how many lines were not written since it was last called.
func (l *limiter) suppressed() uint64 { return l.dropped.Swap(0) }
