package check

import (
	"slices"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Append checks that multis and multi-reads are atomic and can be put into one order. Every
// multi replaces the lists of some nodes, at the versions that it has read, by lists with its
// own name at the end; so the versions say who wrote what after whom, without trusting any
// zxid. The order that they ask for, for multis the order of those that did not overlap, and for
// all the order within their session, must have no cycle.
func Append(ops []history.Op) Result {
	r := Result{Checker: "append"}
	g := newGraph()
	writers := g.writers(&r, ops)
	for i := range ops {
		o := &ops[i]
		if o.F != opRead || o.Kind != history.OK || o.Code != codeOK {
			continue
		}
		r.Checked++
		node := g.node(o)
		zxids := map[*history.Op]int64{}
		for _, p := range o.Parts {
			at := cell{p.Key, p.Version}
			if w := writers[at]; w != nil {
				if z, ok := zxids[w.op]; ok && z != p.Mzxid {
					r.add([]history.Op{*w.op, *o}, "what one multi has written shows the zxids 0x%x and 0x%x", z, p.Mzxid)
				}
				zxids[w.op] = p.Mzxid
			}
			if w := writers[at]; w != nil {
				g.edge(g.node(w.op), node)
				if w.value != p.Value {
					r.add([]history.Op{*w.op, *o}, "version %d of %s is %q, and not what was written", p.Version, p.Key, p.Value)
				}
			} else if p.Version > 0 {
				r.add([]history.Op{*o}, "version %d of %s, and nobody can have written it", p.Version, p.Key)
			}
			if next := writers[cell{p.Key, p.Version + 1}]; next != nil {
				g.edge(node, g.node(next.op))
			}
		}
	}
	g.realTime()
	g.sessions()
	if cycle := g.cycle(); cycle != nil {
		r.add(cycle, "multis and multi-reads that cannot be put into one order")
	}
	return r
}

// cell is a version of a node.
type cell struct {
	key     string
	version int32
}

type written struct {
	op    *history.Op
	value string
}

// A graph has an edge from each transaction to those that must come after it.
type graph struct {
	ops   []*history.Op // nil: a moment in time
	after [][]int
	index map[*history.Op]int
}

func newGraph() *graph { return &graph{index: map[*history.Op]int{}} }

func (g *graph) node(o *history.Op) int {
	if i, ok := g.index[o]; ok {
		return i
	}
	g.index[o] = len(g.ops)
	g.ops = append(g.ops, o)
	g.after = append(g.after, nil)
	return len(g.ops) - 1
}

func (g *graph) edge(from, to int) {
	if from != to {
		g.after[from] = append(g.after[from], to)
	}
}

// writers finds who wrote each version: multis that were answered, and those without an answer
// whose value somebody has seen.
func (g *graph) writers(r *Result, ops []history.Op) map[cell]*written {
	seen := map[cell]string{}
	for i := range ops {
		if o := &ops[i]; o.F == opRead && o.Kind == history.OK && o.Code == codeOK {
			for _, p := range o.Parts {
				seen[cell{p.Key, p.Version}] = p.Value
			}
		}
	}
	writers := map[cell]*written{}
	for i := range ops {
		o := &ops[i]
		if o.F != opMulti || (o.Kind != history.OK && o.Kind != history.Unknown) || o.Code != codeOK {
			continue
		}
		if o.Kind == history.Unknown && !slices.ContainsFunc(o.Parts, func(p history.Part) bool {
			return p.Value != "" && seen[cell{p.Key, p.Version + 1}] == p.Value
		}) {
			continue
		}
		r.Checked++
		g.node(o)
		for _, p := range o.Parts {
			if p.Value == "" { // only checked
				continue
			}
			at := cell{p.Key, p.Version + 1}
			if other := writers[at]; other != nil {
				r.add([]history.Op{*other.op, *o}, "two multis have made version %d of %s", at.version, at.key)
			}
			writers[at] = &written{o, p.Value}
		}
	}
	for at, w := range writers {
		if before := writers[cell{at.key, at.version - 1}]; before != nil {
			g.edge(g.node(before.op), g.node(w.op))
		}
	}
	return writers
}

// realTime adds the order of multis that did not overlap, through nodes that stand for the
// moments at which one was answered.
func (g *graph) realTime() {
	var writes []int
	for i, o := range g.ops {
		if o.F == opMulti && o.Kind == history.OK {
			writes = append(writes, i)
		}
	}
	byEnd := slices.Clone(writes)
	slices.SortFunc(byEnd, func(a, b int) int { return int(g.ops[a].End - g.ops[b].End) })
	slices.SortFunc(writes, func(a, b int) int { return int(g.ops[a].Begin - g.ops[b].Begin) })
	moment, next := -1, 0
	for _, w := range writes {
		for next < len(byEnd) && g.ops[byEnd[next]].End < g.ops[w].Begin {
			g.ops = append(g.ops, nil)
			g.after = append(g.after, nil)
			at := len(g.ops) - 1
			if moment >= 0 {
				g.edge(moment, at)
			}
			g.edge(byEnd[next], at)
			moment = at
			next++
		}
		if moment >= 0 {
			g.edge(moment, w)
		}
	}
}

// sessions adds the order in which each session was answered: its reads see its own multis, and
// never go back, whichever server answers.
func (g *graph) sessions() {
	bySession := map[int64][]int{}
	for i, o := range g.ops {
		if o != nil && o.Kind == history.OK && o.Session != 0 {
			bySession[o.Session] = append(bySession[o.Session], i)
		}
	}
	for _, list := range bySession {
		slices.SortFunc(list, func(a, b int) int { return int(g.ops[a].Begin - g.ops[b].Begin) })
		for i := 1; i < len(list); i++ {
			if g.ops[list[i-1]].End < g.ops[list[i]].Begin {
				g.edge(list[i-1], list[i])
			}
		}
	}
}

// cycle returns the operations of one, nil if there is none. It walks in depth without
// recursion, for histories are long.
func (g *graph) cycle() []history.Op {
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(g.ops))
	type step struct{ node, next int }
	for root := range g.ops {
		if state[root] != unseen {
			continue
		}
		path := []step{{root, 0}}
		state[root] = open
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next == len(g.after[top.node]) {
				state[top.node] = done
				path = path[:len(path)-1]
				continue
			}
			to := g.after[top.node][top.next]
			top.next++
			switch state[to] {
			case unseen:
				state[to] = open
				path = append(path, step{to, 0})
			case open:
				from := slices.IndexFunc(path, func(s step) bool { return s.node == to })
				var found []history.Op
				for _, s := range path[from:] {
					if g.ops[s.node] != nil {
						found = append(found, *g.ops[s.node])
					}
				}
				return found
			}
		}
	}
	return nil
}
