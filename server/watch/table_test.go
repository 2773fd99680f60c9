package watch

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

// Shorthands for the tables below.
const (
	created  = wire.EventNodeCreated
	deleted  = wire.EventNodeDeleted
	changed  = wire.EventNodeDataChanged
	children = wire.EventNodeChildrenChanged
)

// set up: which connection watches what.
type add struct {
	path string
	kind Kind
	id   ID
}

// show prints deliveries as "1:NodeDeleted:/a", with a ^ after those about a parent.
func show(ds []Delivery) []string {
	out := []string{}
	for _, d := range ds {
		s := fmt.Sprintf("%d:%v:%s", d.ID, d.Type, d.Path)
		if d.OnParent {
			s += "^"
		}
		out = append(out, s)
	}
	return out
}

// TestFire takes its expectations from ZooKeeper 3.9: WatchManager.triggerWatch and
// DataTree.createNode, deleteNode and setData.
func TestFire(t *testing.T) {
	tests := []struct {
		name  string
		adds  []add
		event Event
		want  []string
		again []string // what the same event fires once more
	}{
		{
			name:  "nobody watches",
			adds:  []add{{"/other", Data, 1}},
			event: Event{changed, "/a"},
		},
		{
			name:  "a data watch fires once on a change",
			adds:  []add{{"/a", Data, 1}},
			event: Event{changed, "/a"},
			want:  []string{"1:NodeDataChanged:/a"},
		},
		{
			name:  "an exists watch fires on creation",
			adds:  []add{{"/a", Data, 1}},
			event: Event{created, "/a"},
			want:  []string{"1:NodeCreated:/a"},
		},
		{
			name:  "a child watch does not fire on a change of data, and stays",
			adds:  []add{{"/a", Child, 1}},
			event: Event{changed, "/a"},
		},
		{
			name:  "a child watch fires once on the creation of a child",
			adds:  []add{{"/a", Child, 1}, {"/", Child, 2}},
			event: Event{created, "/a/b"},
			want:  []string{"1:NodeChildrenChanged:/a^"},
		},
		{
			name:  "a child watch of the root fires on a top-level node",
			adds:  []add{{"/", Child, 2}},
			event: Event{created, "/a"},
			want:  []string{"2:NodeChildrenChanged:/^"},
		},
		{
			name:  "a child watch fires on the deletion of its node",
			adds:  []add{{"/a", Child, 1}},
			event: Event{deleted, "/a"},
			want:  []string{"1:NodeDeleted:/a"},
		},
		{
			name: "data and child watches of a deleted node make one event, and one about the parent",
			adds: []add{
				{"/d/x", Data, 1},
				{"/d/x", Child, 1},
				{"/d", Child, 1},
			},
			event: Event{deleted, "/d/x"},
			want:  []string{"1:NodeDeleted:/d/x", "1:NodeChildrenChanged:/d^"},
		},
		{
			name: "the data step comes before the child step, each in the order of ids",
			adds: []add{
				{"/a", Child, 1},
				{"/a", Data, 4},
				{"/a", Data, 2},
				{"/a", Child, 3},
				{"/", Child, 0},
			},
			event: Event{deleted, "/a"},
			want: []string{
				"2:NodeDeleted:/a", "4:NodeDeleted:/a", "1:NodeDeleted:/a", "3:NodeDeleted:/a",
				"0:NodeChildrenChanged:/^",
			},
		},
		{
			name:  "a persistent watch fires on its node and its children, and stays",
			adds:  []add{{"/a", Persistent, 1}},
			event: Event{created, "/a/b"},
			want:  []string{"1:NodeChildrenChanged:/a^"},
			again: []string{"1:NodeChildrenChanged:/a^"},
		},
		{
			name:  "a persistent watch reports a deletion once",
			adds:  []add{{"/a", Persistent, 1}},
			event: Event{deleted, "/a"},
			want:  []string{"1:NodeDeleted:/a"},
			again: []string{"1:NodeDeleted:/a"},
		},
		{
			name:  "firing takes the one-shot watch and leaves the persistent one",
			adds:  []add{{"/a", Data, 1}, {"/a", Persistent, 1}, {"/a", Data, 2}},
			event: Event{changed, "/a"},
			want:  []string{"1:NodeDataChanged:/a", "2:NodeDataChanged:/a"},
			again: []string{"1:NodeDataChanged:/a"},
		},
		{
			name:  "a recursive watch fires on descendants with their path, never NodeChildrenChanged",
			adds:  []add{{"/a", Recursive, 1}},
			event: Event{created, "/a/b/c"},
			want:  []string{"1:NodeCreated:/a/b/c"},
			again: []string{"1:NodeCreated:/a/b/c"},
		},
		{
			name:  "a recursive watch of the root fires on everything, the root included",
			adds:  []add{{"/", Recursive, 1}},
			event: Event{changed, "/"},
			want:  []string{"1:NodeDataChanged:/"},
			again: []string{"1:NodeDataChanged:/"},
		},
		{
			name:  "a recursive watch does not take a longer name for a descendant",
			adds:  []add{{"/a", Recursive, 1}},
			event: Event{created, "/ab"},
		},
		{
			name: "recursive watches at several levels and a data watch make one event",
			adds: []add{
				{"/a/b", Data, 2},
				{"/a/b", Recursive, 2},
				{"/a", Recursive, 2},
				{"/", Recursive, 2},
				{"/", Recursive, 1},
				{"/a", Recursive, 3},
			},
			event: Event{changed, "/a/b"},
			want:  []string{"1:NodeDataChanged:/a/b", "2:NodeDataChanged:/a/b", "3:NodeDataChanged:/a/b"},
			again: []string{"1:NodeDataChanged:/a/b", "2:NodeDataChanged:/a/b", "3:NodeDataChanged:/a/b"},
		},
		{
			name: "a deletion told by a recursive watch above is not told again by the child watch",
			adds: []add{
				{"/a", Recursive, 1},
				{"/a/b", Child, 1},
				{"/a/b", Child, 2},
			},
			event: Event{deleted, "/a/b"},
			want:  []string{"1:NodeDeleted:/a/b", "2:NodeDeleted:/a/b"},
			again: []string{"1:NodeDeleted:/a/b"},
		},
		{
			name:  "a path that is no path has no parent",
			adds:  []add{{"/", Child, 1}, {"odd", Data, 1}},
			event: Event{created, "odd"},
			want:  []string{"1:NodeCreated:odd"},
		},
		{
			name:  "deleting the root has no parent step",
			adds:  []add{{"/", Persistent, 1}},
			event: Event{deleted, "/"},
			want:  []string{"1:NodeDeleted:/"},
			again: []string{"1:NodeDeleted:/"},
		},
		{
			name:  "an event that is no change of a node fires nothing",
			adds:  []add{{"/", Persistent, 1}},
			event: Event{children, "/"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable(t)
			for _, a := range tt.adds {
				if !table.Add(a.path, a.kind, a.id) {
					t.Fatalf("Add(%+v) says that it is not new", a)
				}
			}
			for i, want := range [][]string{tt.want, tt.again} {
				if got := show(table.Fire(tt.event, nil)); !slices.Equal(got, want) {
					t.Errorf("time %d: got %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

func TestFireAppendsAfterWhatIsThere(t *testing.T) {
	table := newTable(t)
	table.Add("/", Recursive, 1)
	table.Add("/a", Data, 2)
	before := []Delivery{{ID: 9}, {ID: 1}}
	got := show(table.Fire(Event{changed, "/a"}, before))
	want := []string{"9:unknown 0:", "1:unknown 0:", "1:NodeDataChanged:/a", "2:NodeDataChanged:/a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAddIsASet(t *testing.T) {
	table := newTable(t)
	for _, step := range []struct {
		add
		isNew bool
	}{
		{add{"/a", Data, 1}, true},
		{add{"/a", Data, 1}, false},
		{add{"/a", Child, 1}, true},
		{add{"/a", Data | Child, 1}, false},
		{add{"/a", Persistent | Data, 1}, true},
		{add{"/a", Recursive, 1}, true},
		{add{"/a", 0, 1}, false},
		{add{"/b", 0, 1}, false},
	} {
		if got := table.Add(step.path, step.kind, step.id); got != step.isNew {
			t.Errorf("Add(%+v) = %v, want %v", step.add, got, step.isNew)
		}
	}
	if got := table.CostOf(1); got != 1 {
		t.Errorf("CostOf = %d, want 1", got)
	}
}

// TestRemoveTakesItsTypeOnly: since 3.9.0 Children and Data leave persistent watches alone.
func TestRemoveTakesItsTypeOnly(t *testing.T) {
	tests := []struct {
		typ  wire.WatcherType
		left []wire.WatcherType
	}{
		{wire.WatcherChildren, []wire.WatcherType{wire.WatcherData, wire.WatcherPersistent, wire.WatcherPersistentRecursive}},
		{wire.WatcherData, []wire.WatcherType{wire.WatcherChildren, wire.WatcherPersistent, wire.WatcherPersistentRecursive}},
		{wire.WatcherAny, nil},
		{wire.WatcherPersistent, []wire.WatcherType{wire.WatcherChildren, wire.WatcherData, wire.WatcherPersistentRecursive}},
		{wire.WatcherPersistentRecursive, []wire.WatcherType{wire.WatcherChildren, wire.WatcherData, wire.WatcherPersistent}},
	}
	types := []wire.WatcherType{
		wire.WatcherChildren, wire.WatcherData, wire.WatcherPersistent, wire.WatcherPersistentRecursive,
	}
	for _, tt := range tests {
		t.Run(tt.typ.String(), func(t *testing.T) {
			table := newTable(t)
			table.Add("/a", all, 1)
			table.Add("/a", all, 2)
			if table.Remove("/a", tt.typ, 3) || table.Remove("/", tt.typ, 1) {
				t.Error("removed a watch that is not there")
			}
			if !table.Has("/a", tt.typ, 1) || !table.Remove("/a", tt.typ, 1) {
				t.Error("did not find the watch")
			}
			if table.Has("/a", tt.typ, 1) || table.Remove("/a", tt.typ, 1) {
				t.Error("found a watch that is removed")
			}
			var left []wire.WatcherType
			for _, typ := range types {
				if table.Has("/a", typ, 1) {
					left = append(left, typ)
				}
			}
			if !slices.Equal(left, tt.left) {
				t.Errorf("left are %v, want %v", left, tt.left)
			}
			if !table.Has("/a", tt.typ, 2) {
				t.Error("removed another connection's watch")
			}
		})
	}
}

func TestUnknownWatcherTypeFindsNothing(t *testing.T) {
	table := newTable(t)
	table.Add("/a", all, 1)
	for _, typ := range []wire.WatcherType{0, 6, -1} {
		if table.Has("/a", typ, 1) || table.Remove("/a", typ, 1) {
			t.Errorf("type %d found a watch", typ)
		}
	}
}

func TestCountsAndListings(t *testing.T) {
	table := newTable(t)
	table.Add("/b", Data, 7)
	table.Add("/a", Data, 7)
	table.Add("/a", Persistent, 7)
	table.Add("/a", Recursive, 2)
	table.Add("/c", Child, 3)

	// Both tables: /b 1, /a of 7 in both 2, /a of 2 in data 1, /c in child 1.
	want := Counts{Watches: 5, Data: 3, DataPaths: 2, DataConnections: 2}
	if got := table.Counts(); got != want {
		t.Errorf("Counts = %+v, want %+v", got, want)
	}
	wantConns := []ConnPaths{{2, []string{"/a"}}, {7, []string{"/a", "/b"}}}
	if got := table.ByConnection(); !reflect.DeepEqual(got, wantConns) {
		t.Errorf("ByConnection = %v, want %v", got, wantConns)
	}
	wantPaths := []PathConns{{"/a", []ID{2, 7}}, {"/b", []ID{7}}}
	if got := table.ByPath(); !reflect.DeepEqual(got, wantPaths) {
		t.Errorf("ByPath = %v, want %v", got, wantPaths)
	}
	if got := [3]int{table.CostOf(7), table.CostOf(3), table.CostOf(99)}; got != [3]int{2, 1, 0} {
		t.Errorf("CostOf = %v, want [2 1 0]", got)
	}

	table.RemoveAll(7)
	table.RemoveAll(99)
	want = Counts{Watches: 2, Data: 1, DataPaths: 1, DataConnections: 1}
	if got := table.Counts(); got != want {
		t.Errorf("after RemoveAll Counts = %+v, want %+v", got, want)
	}
}

// TestManyWatchersOfOnePath takes a set through splitting, firing and draining chunks.
func TestManyWatchersOfOnePath(t *testing.T) {
	const n = 5000
	orders := map[string]func(i int) ID{
		"ascending":  func(i int) ID { return ID(i) },
		"descending": func(i int) ID { return ID(n - 1 - i) },
		"scattered":  func(i int) ID { return ID(i * 2741 % n) }, // 2741 and n have no common factor
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			table := newTable(t)
			for i := range n {
				table.Add("/a", Data, order(i))
			}
			if err := table.check(); err != nil {
				t.Fatal(err)
			}
			for i := 0; i < n; i += 2 {
				table.RemoveAll(order(i))
			}
			if err := table.check(); err != nil {
				t.Fatal(err)
			}
			got := table.Fire(Event{changed, "/a"}, nil)
			if len(got) != n/2 || !sorted(got) {
				t.Errorf("%d deliveries, sorted %v, want %d sorted", len(got), sorted(got), n/2)
			}
			if c := table.Counts(); c != (Counts{}) {
				t.Errorf("left over: %+v", c)
			}
		})
	}
}

func TestManyWatchesOfOneConnection(t *testing.T) {
	const n = 3*removeAtOnce + 1
	table := newTable(t)
	for i := range n {
		table.Add(fmt.Sprintf("/n%d", i), Data, 3)
	}
	if got := table.CostOf(3); got != n {
		t.Errorf("CostOf = %d, want %d", got, n)
	}
	table.RemoveAll(3)
	if c := table.Counts(); c != (Counts{}) || table.CostOf(3) != 0 {
		t.Errorf("left over: %+v", c)
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	table := newTable(t)
	var wg sync.WaitGroup
	for id := range ID(4) {
		wg.Go(func() {
			for i := range 200 {
				path := fmt.Sprintf("/n%d", i%10)
				table.Add(path, Kind(1<<(i%4)), id)
				table.Has(path, wire.WatcherAny, id)
				table.Fire(Event{deleted, path}, nil)
				table.Counts()
				table.ByPath()
				table.ByConnection()
				if i%50 == 0 {
					table.RemoveAll(id)
				}
			}
		})
	}
	wg.Wait()
}

func TestFireOnUnwatchedPathDoesNotAllocate(t *testing.T) {
	table := newTable(t)
	table.Add("/a", Data, 1)
	table.Add("/x/y", Recursive, 1)
	if n := testing.AllocsPerRun(100, func() {
		table.Fire(Event{created, "/some/path/to/a/node"}, nil)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
