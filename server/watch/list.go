package watch

import (
	"slices"
	"strings"
)

// Listings for the four-letter words and the admin pages. They show the data table alone,
// as those of Apache ZooKeeper do.

// ConnPaths are the paths that a connection watches, sorted.
type ConnPaths struct {
	ID    ID
	Paths []string
}

// PathConns are the connections that watch a path, in order.
type PathConns struct {
	Path string
	IDs  []ID
}

// Counts returns the sizes of the Table. It is cheap.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// costBytes is how long a path may be to count once for a limit on watches.
const costBytes = 256

// Cost is for how many watches that of a path counts: a client can watch paths as long as a frame,
// whether or not there is a node, and the Table keeps them.
func Cost(path string) int { return 1 + len(path)/costBytes }

// CostOf returns the cost of all watches of the connection, for a limit on them.
func (t *Table) CostOf(id ID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(id) >= len(t.conns) {
		return 0
	}
	return int(t.conns[id].cost)
}

// ByConnection lists the data table by connection (wchc), in the order of ids.
func (t *Table) ByConnection() []ConnPaths {
	list := t.connPaths()
	for i := range list { // sorted without the lock: it may take long
		slices.Sort(list[i].Paths)
	}
	return list
}

// connPaths is ByConnection before sorting the paths.
func (t *Table) connPaths() []ConnPaths {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]ConnPaths, 0, t.counts.DataConnections)
	for id := range t.conns {
		c := &t.conns[id]
		if c.inData == 0 {
			continue
		}
		paths := make([]string, 0, c.inData)
		for l := c.first; l != none; l = t.links[l].next {
			e := &t.paths[t.links[l].path]
			if e.set.get(ID(id)).kind&inData != 0 {
				paths = append(paths, e.path)
			}
		}
		list = append(list, ConnPaths{ID: ID(id), Paths: paths})
	}
	return list
}

// ByPath lists the data table by path (wchp), sorted.
func (t *Table) ByPath() []PathConns {
	list := t.pathConns()
	slices.SortFunc(list, func(a, b PathConns) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// pathConns is ByPath before sorting.
func (t *Table) pathConns() []PathConns {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]PathConns, 0, t.counts.DataPaths)
	for i := range t.paths {
		e := &t.paths[i]
		if e.set.empty() || e.inData == 0 {
			continue
		}
		ids := make([]ID, 0, e.inData)
		for j := range e.set.numChunks() {
			for _, w := range e.set.chunk(j) {
				if w.kind&inData != 0 {
					ids = append(ids, w.id)
				}
			}
		}
		list = append(list, PathConns{Path: e.path, IDs: ids})
	}
	return list
}
