package znode

import (
	"strconv"
	"strings"
)

// The quota of a path P is two ordinary nodes, <QuotaPath><P>/zookeeper_limits and
// .../zookeeper_stats. The limits node registers P, whoever makes it; the longest
// registered prefix of a path is the quota that a change of that path counts for, and only
// that one. The nodes below QuotaPath are themselves the trie that is searched: there is
// nothing besides to restore or to undo. As in ZooKeeper, a quota of the root has no effect.
const (
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// Usage is the value of a limits or stats node; -1 is "no limit".
type Usage struct {
	Count, Bytes         int64 // limits: soft ones
	CountHard, BytesHard int64 // limits only
}

// ParseUsage reads a value such as "count=2,bytes=-1=;byteHardLimit=10;countHardLimit=3".
// The form is odd on purpose, for old parsers. What is missing, empty or malformed is -1:
// garbage in a limits node must not block the nodes below.
func ParseUsage(s string) Usage {
	u := Usage{-1, -1, -1, -1}
	for len(s) > 0 {
		i := strings.IndexAny(s, ",;")
		field := s
		if i < 0 {
			s = ""
		} else {
			field, s = s[:i], s[i+1:]
		}
		key, value, _ := strings.Cut(field, "=")
		value, _, _ = strings.Cut(value, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "count":
			u.Count = n
		case "bytes":
			u.Bytes = n
		case "countHardLimit":
			u.CountHard = n
		case "byteHardLimit":
			u.BytesHard = n
		}
	}
	return u
}

// maxUsageBytes is the longest value that is read; real ones have less than 150 bytes. Anybody may
// write a long one, and it is read for every write of others below it.
const maxUsageBytes = 1024

// usageOf is the value of a limits or stats node; one that is too long is garbage like any other.
func usageOf(n *Node) Usage {
	if n.dataLen() > maxUsageBytes {
		return ParseUsage("")
	}
	return ParseUsage(string(n.Data()))
}

// String is the value as ZooKeeper writes it.
func (u Usage) String() string { return string(u.append(nil)) }

func (u Usage) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, "count="...), u.Count, 10)
	b = strconv.AppendInt(append(b, ",bytes="...), u.Bytes, 10)
	if u.BytesHard < 0 && u.CountHard < 0 {
		return b
	}
	b = append(b, '=')
	if u.BytesHard >= 0 {
		b = strconv.AppendInt(append(b, ";byteHardLimit="...), u.BytesHard, 10)
	}
	if u.CountHard >= 0 {
		b = strconv.AppendInt(append(b, ";countHardLimit="...), u.CountHard, 10)
	}
	return b
}

// A Quota is what a path is registered with, and what is in use.
type Quota struct {
	Path   string // the registered prefix
	Limits Usage
	Stats  Usage
}

// An Excess says which limits a change would pass.
type Excess struct {
	Count, Bytes bool // passed, softly or not
	Hard         bool // one of them is a hard limit: refuse if quotas are enforced
}

// Excess says which limits adding nodes and bytes would pass. A hard limit replaces the
// soft one of its kind. The number of nodes is checked only if it changes, the bytes
// likewise, also when they shrink (ZooKeeperServer.checkQuota).
func (q Quota) Excess(addNodes, addBytes int64) Excess {
	var e Excess
	if over, hard := passes(q.Stats.Count, addNodes, q.Limits.Count, q.Limits.CountHard); over {
		e.Count, e.Hard = true, hard
	}
	if over, hard := passes(q.Stats.Bytes, addBytes, q.Limits.Bytes, q.Limits.BytesHard); over {
		e.Bytes, e.Hard = true, e.Hard || hard
	}
	return e
}

func passes(used, add, soft, hard int64) (over, isHard bool) {
	if add == 0 {
		return false, false
	}
	if hard > -1 {
		return used+add > hard, true
	}
	return soft > -1 && used+add > soft, false
}

// QuotaOf is the quota that a change at path, which need not exist, counts for. ok is false
// if there is none, or if it has no stats node.
func (t *Tree) QuotaOf(path string) (q Quota, ok bool) {
	if !t.hasQuotas() {
		return Quota{}, false
	}
	limits, stats, n := t.quotaNodes(path)
	if limits == nil || stats == nil {
		return Quota{}, false
	}
	return Quota{path[:n], usageOf(limits), usageOf(stats)}, true
}

// CheckQuota is false if the change would pass a hard limit.
func (t *Tree) CheckQuota(path string, addNodes int, addBytes int64) bool {
	q, ok := t.QuotaOf(path)
	return !ok || !q.Excess(int64(addNodes), addBytes).Hard
}

func (t *Tree) hasQuotas() bool { return t.node(quotaIndex).NumChildren() > 0 }

// Quotas calls f for each quota that has a stats node, in the order of their paths. It looks at so many
// nodes at most: anybody may have made many there.
func (t *Tree) Quotas(most int, f func(Quota)) {
	t.quotasBelow(t.node(quotaIndex), "", &most, f)
}

func (t *Tree) quotasBelow(n *Node, path string, most *int, f func(Quota)) {
	if *most -= int(n.NumChildren()); *most < 0 {
		return
	}
	limits, stats := t.child(n.index, limitsName), t.child(n.index, statsName)
	if path != "" && limits != nil && stats != nil {
		f(Quota{path, usageOf(limits), usageOf(stats)})
	}
	for _, name := range t.Children(n) {
		t.quotasBelow(t.child(n.index, name), path+"/"+name, most, f)
	}
}

// quotaNodes finds the longest registered prefix of path, path[:n], and its nodes; limits
// is nil if there is none, and stats if that node is missing.
func (t *Tree) quotaNodes(path string) (limits, stats *Node, n int) {
	var at *Node
	for cur, i := quotaIndex, 0; i < len(path); {
		end := strings.IndexByte(path[i+1:], '/')
		if end < 0 {
			end = len(path)
		} else {
			end += i + 1
		}
		c := t.child(cur, path[i+1:end])
		if c == nil {
			break
		}
		if l := t.child(c.index, limitsName); l != nil {
			at, limits, n = c, l, end
		}
		cur, i = c.index, end
	}
	if limits == nil {
		return nil, nil, 0
	}
	return limits, t.child(at.index, statsName), n
}

// quotaCreated keeps quotas after n was created under parent.
func (t *Tree) quotaCreated(parent, n *Node) {
	path := t.Path(n)
	if string(n.name()) == statsName {
		if p, ok := quotaTarget(path); ok {
			t.setStats(n, t.trueUsage(p))
		}
	}
	t.quotaChanged(path, 1, n.dataLen())
}

// quotaTarget is the path whose quota the stats node at path belongs to.
func quotaTarget(path string) (string, bool) {
	p, ok := strings.CutPrefix(path, QuotaPath)
	p = strings.TrimSuffix(p, "/"+statsName)
	return p, ok && p != "" && p[0] == '/'
}

// quotaChanged adds to the stats of the quota that path counts for. Stats that cannot be
// read (anybody with permission may have overwritten them) are replaced by the truth.
func (t *Tree) quotaChanged(path string, addNodes, addBytes int64) {
	_, stats, n := t.quotaNodes(path)
	if stats == nil {
		return
	}
	u := usageOf(stats)
	if u.Count < 0 || u.Bytes < 0 {
		u = t.trueUsage(path[:n])
	} else {
		u.Count += addNodes
		u.Bytes += addBytes
	}
	t.setStats(stats, u)
}

// trueUsage counts path and all below it.
func (t *Tree) trueUsage(path string) Usage {
	u := Usage{0, 0, -1, -1}
	n := t.Lookup(path)
	if n == nil {
		return u
	}
	u.Count, u.Bytes = 1, n.dataLen()
	if n.dir != nil {
		u.Count += n.dir.nodes
		u.Bytes += n.dir.bytes
	}
	return u
}

// setStats writes the data in place: version, mzxid and mtime stay, as in ZooKeeper.
func (t *Tree) setStats(n *Node, u Usage) {
	var b [96]byte
	t.change(n)
	t.replaceData(n, u.append(b[:0]))
	t.changed(n)
}

// RefreshQuotas gives all stats nodes their true values, as ZooKeeper does when it starts:
// for a tree that was imported.
func (t *Tree) RefreshQuotas() {
	t.Walk(func(path string, n *Node) bool {
		if string(n.name()) == statsName {
			if p, ok := quotaTarget(path); ok {
				t.setStats(n, t.trueUsage(p))
			}
		}
		return true
	})
}
