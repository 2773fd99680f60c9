package backup

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
)

// A Summary says what is in a backup.
type Summary struct {
	Zxid       int64
	TimeMs     int64 // the leader's clock at the last change
	Level      uint32
	Znodes     int // as srvr counts them, the root twice
	Ephemerals int
	Containers int
	TTLs       int
	Sessions   int
	Lists      int // access control lists in use, the open one not counted
	DataBytes  int64
	Digest     uint64
	ZKDigest   uint64
	Ensemble   string    // the members of the cluster that it comes from; "" if it has none
	Largest    []Subtree // those with the most data first
}

// A Subtree is a node and all that is below it.
type Subtree struct {
	Path  string `json:"path"`
	Nodes int    `json:"znodes"`
	Bytes int64  `json:"bytes"`
}

// subtreeDepth is how far below the root a subtree is told of: deeper ones are parts of those.
const subtreeDepth = 2

// Summarize looks at a machine and tells of at most so many subtrees.
func Summarize(m *state.Machine, subtrees int) Summary {
	t := m.Tree()
	s := Summary{
		Zxid: m.Zxid(), TimeMs: m.TimeMs(), Level: m.Level(), Znodes: t.NodeCount(), Ephemerals: t.EphemeralCount(),
		Sessions: m.SessionCount(), Lists: m.ACLs().Len(), Digest: m.Digest(), ZKDigest: t.ZKDigest(),
		DataBytes: t.BytesBelow(t.Root()) + int64(len(t.Root().Data())),
	}
	if c, _, ok := m.Ensemble(); ok {
		s.Ensemble = c.String()
	}
	t.Walk(func(path string, n *znode.Node) bool {
		switch n.Kind() {
		case znode.Container:
			s.Containers++
		case znode.TTL:
			s.TTLs++
		}
		if path != "/" && strings.Count(path, "/") <= subtreeDepth && n.NumChildren() > 0 {
			s.Largest = append(s.Largest, Subtree{path, 1 + t.Descendants(n), t.BytesBelow(n) + int64(len(n.Data()))})
		}
		return true
	})
	slices.SortStableFunc(s.Largest, func(a, b Subtree) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Path, b.Path))
	})
	s.Largest = s.Largest[:min(len(s.Largest), subtrees)]
	return s
}
