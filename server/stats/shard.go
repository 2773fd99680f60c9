package stats

import (
	"math/bits"
	"runtime"

	"github.com/zkd-project/zkd/wire"
)

// maxShards bounds the shards of a server; beyond it the memory would cost more than the
// contention it saves.
const maxShards = 16

// A Shard takes what happens once for each frame or request. A connection records into one
// shard all its life, so cores seldom write to the same cache line, and the figures of the
// server are the sums over all shards. Any number of goroutines may use a shard.
type Shard struct {
	received      Counter // frames, and four-letter words
	sent          Counter // frames, and answers to four-letter words
	bytesReceived Counter
	replyBytes    Counter
	watchBytes    Counter
	replySizes    *Sizes // one of the server: "last" has no meaning in a shard
	latency       [len(ops)]Histogram

	_ [64]byte // the next shard begins on another cache line
}

// Received counts frames (or a four-letter word) with their bytes.
func (s *Shard) Received(frames, bytes int) {
	s.received.Add(int64(frames))
	s.bytesReceived.Add(int64(bytes))
}

// Reply counts a reply frame with its bytes.
func (s *Shard) Reply(bytes int) {
	s.sent.Add(1)
	s.replyBytes.Add(int64(bytes))
	s.replySizes.Record(int64(bytes))
}

// Event counts a watch notification with its bytes.
func (s *Shard) Event(bytes int) {
	s.sent.Add(1)
	s.watchBytes.Add(int64(bytes))
}

// Text counts the answer to a four-letter word.
func (s *Shard) Text() {
	s.sent.Add(1)
}

// Request counts an answered request and the nanoseconds from reading it to queueing its
// reply. A negative latency counts nothing.
func (s *Shard) Request(op wire.OpCode, latencyNs int64) {
	s.latency[opIndex(op)].Record(latencyNs)
}

// newShards returns a power of two of shards, at least one for each processor in use.
func newShards(sizes *Sizes) []Shard {
	n := min(1<<bits.Len(uint(runtime.GOMAXPROCS(0)-1)), maxShards)
	shards := make([]Shard, n)
	for i := range shards {
		shards[i].replySizes = sizes
		for op := range shards[i].latency {
			shards[i].latency[op].unit = Millis
		}
	}
	return shards
}

func (s *Shard) reset() {
	for _, c := range []*Counter{&s.received, &s.sent, &s.bytesReceived, &s.replyBytes, &s.watchBytes} {
		c.Reset()
	}
	for i := range s.latency {
		s.latency[i].Reset()
	}
}
