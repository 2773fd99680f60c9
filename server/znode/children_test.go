package znode

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestLargeDirectoryStaysSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := New(0, nil)
		d := tree.Create("/d", nil, 0, NoOwner, 1, 1)
		have := map[string]bool{}
		change := func() {
			name := fmt.Sprintf("n%03d", rapid.IntRange(0, 300).Draw(t, "n"))
			if have[name] {
				tree.Delete(tree.Child(d, name), 2)
			} else {
				tree.CreateChild(d, name, nil, 0, NoOwner, 2, 2)
			}
			have[name] = !have[name]
		}
		for range rapid.IntRange(0, 200).Draw(t, "at first") {
			change()
		}
		for range rapid.IntRange(1, 10).Draw(t, "listings") {
			for range rapid.IntRange(0, 40).Draw(t, "changes") {
				change()
			}
			var want []string
			for name, there := range have {
				if there {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			if got := tree.Children(d); !slices.Equal(got, want) {
				t.Fatalf("got %d names, want %d: %q", len(got), len(want), got)
			}
			if err := tree.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Readers that list at the same time may all find that there is no list yet.
func TestListingInParallel(t *testing.T) {
	tree := newTree(t)
	d := tree.Create("/d", nil, 0, NoOwner, 1, 1)
	for round := range 5 {
		for i := range 200 {
			tree.CreateChild(d, fmt.Sprintf("n%d-%d", round, i), nil, 0, NoOwner, 1, 1)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				names := tree.AppendChildren(nil, d)
				if len(names) != 200*(round+1) || !slices.IsSorted(names) {
					t.Errorf("%d names, sorted: %v", len(names), slices.IsSorted(names))
				}
			})
		}
		wg.Wait()
	}
}

func TestChildrenStayAsTheyWere(t *testing.T) {
	tree := newTree(t)
	d := tree.Create("/d", nil, 0, NoOwner, 1, 1)
	for i := range 100 {
		tree.CreateChild(d, fmt.Sprintf("n%03d", i), nil, 0, NoOwner, 1, 1)
	}
	old := tree.Children(d)
	copied := slices.Clone(old)
	for i := range 50 {
		tree.Delete(tree.Child(d, fmt.Sprintf("n%03d", i)), 1)
		tree.Children(d)
	}
	if !slices.Equal(old, copied) {
		t.Error("a listing changed after it was given out")
	}
	if got := tree.Children(d); len(got) != 50 {
		t.Errorf("%d children", len(got))
	}
}

func TestListingAgainDoesNotAllocate(t *testing.T) {
	tree := newTree(t)
	d := tree.Create("/d", nil, 0, NoOwner, 1, 1)
	for i := range 1000 {
		tree.CreateChild(d, fmt.Sprintf("n%03d", i), nil, 0, NoOwner, 1, 1)
	}
	tree.Children(d)
	if n := testing.AllocsPerRun(10, func() { tree.Children(d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWalkVisitsParentsFirstAndStops(t *testing.T) {
	tree := newTree(t)
	for _, p := range []string{"/b", "/a", "/b/y", "/b/x"} {
		tree.Create(p, nil, 0, NoOwner, 1, 1)
	}
	var got []string
	tree.Walk(func(p string, n *Node) bool {
		if tree.Lookup(p) != n {
			t.Errorf("%s came with the wrong node", p)
		}
		got = append(got, p)
		return p != "/b/y"
	})
	if want := []string{"/", "/a", "/b", "/b/x", "/b/y"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
}

func TestImportRefusesWhatBreaksARule(t *testing.T) {
	tree := newTree(t)
	tree.Create("/e", nil, 0, SessionOwner(1), 1, 1)
	tree.Create("/p", nil, 0, NoOwner, 1, 1)
	tree.Create("/p/c", nil, 0, NoOwner, 1, 1)
	tests := []struct {
		path  string
		owner Owner
		ok    bool
	}{
		{"/x", NoOwner, true},
		{"/x", SessionOwner(4), true},
		{"/x", TTLOwner(4), true},
		{"/no/parent", NoOwner, false},
		{"/e/c", NoOwner, false},
		{"/p", SessionOwner(4), false},
		{"/y", TTLOwner(0), false},
		{"/zookeeper", ContainerOwner, false},
		{"/zookeeper", NoOwner, true},
		{"", NoOwner, true},
		{"/bad/", NoOwner, false},
		{"/.", NoOwner, false},
	}
	for _, tt := range tests {
		n, err := tree.Import(tt.path, []byte("d"), 1, Persisted{Czxid: 5, Pzxid: 6, Cversion: 7, Owner: tt.owner})
		if (err == nil) != tt.ok {
			t.Errorf("Import(%q, owner %#x) = %v", tt.path, uint64(tt.owner), err)
		}
		if err == nil && (n.Stat().Pzxid != 6 || n.RawOwner() != tt.owner || tree.NextSequence(n) != 7) {
			t.Errorf("%s: %+v", tt.path, n.Persisted())
		}
	}
}
