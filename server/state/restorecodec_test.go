package state

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
)

func TestChunksThatBreakARuleAreRefused(t *testing.T) {
	node := func(path string) RestoredNode { return RestoredNode{Path: path, ACL: acl.Open()} }
	owned := func(path string, o znode.Owner) RestoredNode {
		n := node(path)
		n.Owner = o
		return n
	}
	tests := map[string][]RestoredNode{
		"not the root of it":     {node("/q")},
		"above the root":         {node("/")},
		"a gap":                  {node("/p"), node("/p/a/b")},
		"out of order":           {node("/p"), node("/p/b"), node("/p/a")},
		"twice":                  {node("/p"), node("/p/b"), node("/p/b")},
		"twice, in between":      {node("/p"), node("/p/b"), node("/p/b/c"), node("/p/b")},
		"outside":                {node("/p"), node("/pq")},
		"a bad name":             {node("/p"), node("/p/..")},
		"an empty name":          {node("/p"), node("/p/")},
		"an ephemeral node":      {node("/p"), owned("/p/e", znode.SessionOwner(alice))},
		"an owner that is none":  {node("/p"), owned("/p/t", znode.Owner(-1<<56|1<<50))},
		"order of whole names":   {node("/p"), node("/p/a"), node("/p/a/z"), node("/p/a-b"), node("/p/a")},
		"a child of an uncle":    {node("/p"), node("/p/a"), node("/p/b"), node("/p/a/x")},
		"a node without a name":  {node("/p"), node("")},
		"a path without a slash": {node("/p"), node("p")},
	}
	for name, nodes := range tests {
		for _, each := range []bool{false, true} { // in one chunk, or in one for each
			s := &staging{path: "/p"}
			var e RestoreEncoder
			var err error
			for i := range nodes {
				e.Add(&nodes[i])
				if each && err == nil {
					err = s.add(e.Take())
				}
			}
			if !each {
				err = s.add(e.Take())
			}
			if err == nil {
				t.Errorf("%s was taken", name)
			}
		}
	}
	whole := &staging{path: "/"}
	for _, n := range []RestoredNode{node("/"), node("/a"), node("/a-b"), node("/a/c"), owned("/zookeeper", znode.ContainerOwner), node("/zookeeper/config")} {
		var e RestoreEncoder
		e.Add(&n)
		if err := whole.add(e.Take()); (err == nil) != slices.Contains([]string{"/", "/a", "/a-b"}, n.Path) {
			t.Errorf("%s: %v", n.Path, err)
		}
	}
}

func TestWalkOrder(t *testing.T) {
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/a/c", "/a b", "/a-b", "/a-b/x", "/a.b", "/ab", "/b"}
	for i, a := range paths {
		for k, b := range paths {
			if walkLess(a, b) != (i < k) {
				t.Errorf("%q before %q: %v", a, b, walkLess(a, b))
			}
		}
	}
}

func FuzzChunk(f *testing.F) {
	var e RestoreEncoder
	for _, n := range []RestoredNode{
		{Path: "/p", Data: []byte("x"), ACL: acl.Open(), Created: math.MaxInt64, CtimeMs: 5, MtimeMs: 3},
		{Path: "/p/a", ACL: bobsOwn, Version: -7, Aversion: 9, Owner: znode.ContainerOwner},
		{Path: "/p/ab", Data: []byte{}, ACL: worldRead, Owner: znode.TTLOwner(50)},
		{Path: "/p/ab/c", ACL: bobsOwn},
	} {
		e.Add(&n)
	}
	f.Add("/p", e.Take())
	f.Fuzz(func(t *testing.T, root string, chunk []byte) {
		if !restorable(root) {
			return
		}
		s := &staging{path: root}
		if s.add(chunk) != nil {
			return
		}
		var again RestoreEncoder
		it := s.all()
		for n := it.next(); n != nil; n = it.next() {
			again.Add(n)
		}
		b := &staging{path: root}
		if err := b.add(again.Take()); err != nil || b.nodes != s.nodes || b.last != s.last {
			t.Fatalf("a second round gives another chunk: %v", err)
		}
		// What was taken can be committed.
		g := bareRig(t, New()).atLevel(LevelRestore)
		parent, _, _ := znode.SplitPath(root)
		for i := 1; parent != "/" && i <= len(parent); i++ {
			if i == len(parent) || parent[i] == '/' {
				if g.m.tree.Lookup(parent[:i]) == nil {
					g.m.tree.Create(parent[:i], nil, acl.OpenRef, znode.NoOwner, 1, 1)
				}
			}
		}
		g.m.restores = &restores{now: s}
		r := g.apply(&Command{Kind: KindRestore, Restore: RestoreCommit, Req: s.nodes, Body: binary.BigEndian.AppendUint64(nil, s.sum)})
		if err := g.m.Check(); err != nil || s.nodes > 0 && r.Outcome != Applied {
			t.Fatalf("%+v %v", r, err)
		}
	})
}

func FuzzRestoresSection(f *testing.F) {
	g := bareRig(f, New()).atLevel(LevelRestore)
	g.open(alice)
	g.create("/p", 0)
	g.restore(g.m, "/p", "/q", 10)
	for _, c := range pieces(g.m, 9, "/", "/", 30)[:3] {
		g.apply(&c)
		var b bytes.Buffer
		if err := g.m.restores.write(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rs, err := readRestores(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := rs.write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := readRestores(&b)
		if err != nil || again.digest() != rs.digest() || again.check() != nil {
			t.Fatalf("a second round gives another section: %v", err)
		}
	})
}
