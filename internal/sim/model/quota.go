package model

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	limitsName = "/zookeeper_limits"
	statsName  = "/zookeeper_stats"
)

// limits is the value of a quota node; a missing one is -1.
type limits struct {
	count, bytes         int64
	countHard, bytesHard int64
}

// parseLimits reads "count=2,bytes=-1=;byteHardLimit=10;countHardLimit=3". What makes no
// sense is no limit.
func parseLimits(text string) limits {
	l := limits{-1, -1, -1, -1}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(value, "="), 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "count":
			l.count = n
		case "bytes":
			l.bytes = n
		case "countHardLimit":
			l.countHard = n
		case "byteHardLimit":
			l.bytesHard = n
		}
	}
	return l
}

// quotaOf returns the longest path at or above path that has a limits node. The root has
// no quota.
func (t tree) quotaOf(path string) (string, bool) {
	for p := path; p != "/"; p = parentOf(p) {
		if _, ok := t[reservedQuota+p+limitsName]; ok {
			return p, true
		}
	}
	return "", false
}

// quotaAllows judges a change of the number of nodes and of data bytes by the hard limits.
// Inside a multi that is the state left by the operations before it, as for every other
// check (in ZooKeeper the state before the multi, so that one multi can pass any limit).
func (t *txn) quotaAllows(path string, nodes, bytes int64) bool {
	if !t.set.EnforceQuota {
		return true
	}
	p, ok := t.nodes.quotaOf(path)
	if !ok {
		return true
	}
	stats, ok := t.nodes[reservedQuota+p+statsName]
	if !ok {
		return true
	}
	limit := parseLimits(string(t.nodes[reservedQuota+p+limitsName].data))
	now := parseLimits(string(stats.data))
	if nodes > 0 && limit.countHard > -1 && now.count+nodes > limit.countHard {
		return false
	}
	if bytes != 0 && limit.bytesHard > -1 && now.bytes+bytes > limit.bytesHard {
		return false
	}
	return true
}

// quotaChanged brings the stats node of the longest quota up to date, without a version,
// a time or an event.
func (t *txn) quotaChanged(path string, nodes, bytes int64) {
	p, ok := t.nodes.quotaOf(path)
	if !ok || nodes == 0 && bytes == 0 {
		return
	}
	stats, ok := t.nodes[reservedQuota+p+statsName]
	if !ok {
		return
	}
	now := parseLimits(string(stats.data))
	if now.count < 0 || now.bytes < 0 {
		t.count(p) // somebody has overwritten the stats with something else
		return
	}
	now.count += nodes
	now.bytes += bytes
	t.setStats(p, now)
}

// quotaCreated counts what there is when a stats node has just been created.
func (t *txn) quotaCreated(path string) {
	p, ok := strings.CutPrefix(path, reservedQuota)
	if !ok {
		return
	}
	if p, ok = strings.CutSuffix(p, statsName); !ok || p == "" {
		return
	}
	t.count(p)
}

// count gives the stats node of p the true values.
func (t *txn) count(p string) {
	var count, bytes int64
	for other, n := range t.nodes {
		if isUnder(other, p) {
			count++
			bytes += int64(len(n.data))
		}
	}
	t.setStats(p, limits{count, bytes, -1, -1})
}

// setStats writes the value. A hard limit has no place in it, but is kept if somebody has
// put it there.
func (t *txn) setStats(p string, l limits) {
	value := fmt.Sprintf("count=%d,bytes=%d", l.count, l.bytes)
	if l.bytesHard > -1 || l.countHard > -1 {
		value += "="
	}
	if l.bytesHard > -1 {
		value += fmt.Sprintf(";byteHardLimit=%d", l.bytesHard)
	}
	if l.countHard > -1 {
		value += fmt.Sprintf(";countHardLimit=%d", l.countHard)
	}
	path := reservedQuota + p + statsName
	n := t.nodes[path]
	n.data = []byte(value)
	t.nodes[path] = n
}
