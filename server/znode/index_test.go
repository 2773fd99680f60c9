package znode

import (
	"strconv"
	"testing"
)

// Enough nodes that entries of a segment push each other aside, come and go, and make it
// grow and shrink. Check looks every node up.
func TestIndexSurvivesChurn(t *testing.T) {
	tree := newTree(t)
	dirs := []*Node{tree.Root(), tree.Create("/a", nil, 0, NoOwner, 1, 1), tree.Create("/b", nil, 0, NoOwner, 1, 1)}
	here := map[int]bool{}
	slots := func() (n int) {
		for i := range tree.index.segs {
			n += len(tree.index.segs[i].slots)
		}
		return n
	}
	x := uint32(1)
	churn := func(steps, want int) {
		for range steps {
			x = x*1664525 + 1013904223
			k := int(x>>8) % 40_000
			d, name := dirs[k%3], strconv.Itoa(k)
			n := tree.Child(d, name)
			if (n != nil) != here[k] {
				t.Fatalf("node %d found: %v, made: %v", k, n != nil, here[k])
			}
			switch {
			case n != nil && int(x>>4)%4 > want:
				tree.Delete(n, 1)
				delete(here, k)
			case n == nil && int(x>>4)%4 <= want:
				tree.CreateChild(d, name, nil, 0, NoOwner, 1, 1)
				here[k] = true
			}
		}
		mustCheck(t, tree)
	}
	churn(60_000, 2)
	full := slots()
	churn(60_000, 1)
	churn(400_000, -1)
	if len(here) > 10 || slots()*4 > full {
		t.Errorf("%d nodes are left in %d slots, there were %d", len(here), slots(), full)
	}
}

func TestNamesAreFoundUnderTheirParentOnly(t *testing.T) {
	tree := newTree(t)
	for _, p := range []string{"/a", "/b", "/a/x", "/b/y", "/a/x/a"} {
		tree.Create(p, []byte(p), 0, NoOwner, 1, 1)
	}
	for _, p := range []string{"/x", "/y", "/a/y", "/b/x", "/a/a", "/a/x/x"} {
		if tree.Lookup(p) != nil {
			t.Errorf("%s was found", p)
		}
	}
}
