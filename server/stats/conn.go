package stats

import (
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/wire"
)

// ConnStats are the numbers of one connection that stat and cons show. Init comes first;
// then any number of goroutines may use it.
type ConnStats struct {
	received    atomic.Int64
	sent        atomic.Int64
	outstanding atomic.Int64

	mu            sync.Mutex // guards what follows; held for a few stores only
	establishedMs int64      // wall clock; immutable after Init
	lastOp        wire.OpCode
	lastCxid      int64 // -1 before the first
	lastZxid      int64 // -1 before the first
	lastReplyNs   int64
	lastNs        int64
	minNs, maxNs  int64 // meaningful when replies > 0
	sumNs         int64
	replies       int64
}

// Init sets the wall clock time at which the connection was accepted, in milliseconds since
// 1970, and clears everything else.
func (c *ConnStats) Init(establishedMs int64) {
	c.establishedMs = establishedMs
	c.Reset()
}

// Received counts frames (or a four-letter word) from the client.
func (c *ConnStats) Received(frames int) {
	c.received.Add(int64(frames))
}

// Sent counts a frame to the client that is no answer to a request: Responded counts those.
func (c *ConnStats) Sent() {
	c.sent.Add(1)
}

// Begin counts a request that waits for its answer and says how many do now; End takes one
// off. ZooKeeper leaves out requests with a special xid, pings for one.
func (c *ConnStats) Begin() int64 {
	return c.outstanding.Add(1)
}

// End is the counterpart of Begin.
func (c *ConnStats) End() int64 {
	return c.outstanding.Add(-1)
}

// Outstanding is the number of requests that wait for an answer.
func (c *ConnStats) Outstanding() int64 {
	return c.outstanding.Load()
}

// Responded notes the answer to a request: the client's xid (a special, negative one leaves
// the last in place), the zxid of the reply, the time of the answer on any clock that only
// goes forward, and the latency. It counts the frame, too.
func (c *ConnStats) Responded(op wire.OpCode, cxid int32, zxid, nowNs, latencyNs int64) {
	latencyNs = max(latencyNs, 0)
	c.mu.Lock()
	if cxid >= 0 {
		c.lastCxid = int64(cxid)
	}
	c.lastOp, c.lastZxid, c.lastReplyNs, c.lastNs = op, zxid, nowNs, latencyNs
	if c.replies == 0 || latencyNs < c.minNs {
		c.minNs = latencyNs
	}
	c.maxNs = max(c.maxNs, latencyNs)
	c.sumNs += latencyNs
	c.replies++
	c.mu.Unlock()
}

// Reset is what crst does: everything begins anew but the requests that wait and the time
// of the connection's start.
func (c *ConnStats) Reset() {
	c.received.Store(0)
	c.sent.Store(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastOp, c.lastCxid, c.lastZxid = otherOp, -1, -1
	c.lastReplyNs, c.lastNs, c.minNs, c.maxNs, c.sumNs, c.replies = 0, 0, 0, 0, 0, 0
}

// ConnSnapshot are the numbers of a connection at one moment, in the units of cons.
type ConnSnapshot struct {
	Queued        int64  // requests without an answer
	Received      int64  // frames
	Sent          int64  // frames
	LastOp        string // as LastOp, NA before the first
	EstablishedMs int64  // since 1970
	LastCxid      int64  // -1 before the first
	LastZxid      int64  // of the last reply, -1 before the first
	LastReplyMs   int64  // on the clock of Responded, 0 before the first
	LastLatencyMs int64
	MinLatencyMs  int64
	AvgLatencyMs  int64 // whole milliseconds, rounded down
	MaxLatencyMs  int64
}

// Snapshot returns the numbers as they are now.
func (c *ConnStats) Snapshot() ConnSnapshot {
	s := ConnSnapshot{Queued: c.outstanding.Load(), Received: c.received.Load(), Sent: c.sent.Load()}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Sent += c.replies
	s.LastOp, s.EstablishedMs = LastOp(c.lastOp), c.establishedMs
	s.LastCxid, s.LastZxid = c.lastCxid, c.lastZxid
	s.LastReplyMs, s.LastLatencyMs = c.lastReplyNs/nanosPerMs, c.lastNs/nanosPerMs
	if c.replies > 0 {
		s.MinLatencyMs, s.MaxLatencyMs = c.minNs/nanosPerMs, c.maxNs/nanosPerMs
		s.AvgLatencyMs = c.sumNs / c.replies / nanosPerMs
	}
	return s
}
