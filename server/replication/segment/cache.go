package segment

import "github.com/hashicorp/raft"

// entryOverhead is what an entry without data is counted for in the cache.
const entryOverhead = 128

// A cache holds the newest entries, contiguous, up to a number of bytes. Guarded by Log.mu.
type cache struct {
	limit int64
	first uint64
	logs  []raft.Log
	bytes int64
}

func cacheSize(l *raft.Log) int64 { return int64(len(l.Data)+len(l.Extensions)) + entryOverhead }

func (c *cache) get(index uint64, out *raft.Log) bool {
	if index < c.first || index >= c.first+uint64(len(c.logs)) {
		return false
	}
	*out = c.logs[index-c.first]
	return true
}

// add appends the newest entry and drops the oldest beyond the limit.
func (c *cache) add(l *raft.Log) {
	if len(c.logs) == 0 {
		c.first = l.Index
	}
	c.logs = append(c.logs, *l)
	c.bytes += cacheSize(l)
	for c.bytes > c.limit && len(c.logs) > 0 {
		c.pop()
	}
}

func (c *cache) pop() {
	c.bytes -= cacheSize(&c.logs[0])
	c.logs[0] = raft.Log{} // the array lives on until append moves it: let the data go now
	c.logs = c.logs[1:]
	c.first++
}

func (c *cache) dropBefore(index uint64) {
	for len(c.logs) > 0 && c.first < index {
		c.pop()
	}
}

func (c *cache) dropFrom(index uint64) {
	for n := len(c.logs); n > 0 && c.first+uint64(n)-1 >= index; n-- {
		c.bytes -= cacheSize(&c.logs[n-1])
		c.logs[n-1] = raft.Log{}
		c.logs = c.logs[:n-1]
	}
}
