package watch

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/zkd-project/zkd/wire"
)

// A model is ZooKeeper's way of keeping watches, as plainly as possible: two tables, each
// a set of (path, connection, mode).
type model struct {
	data, child map[modelKey]bool
}

type modelKey struct {
	path string
	id   ID
	mode Kind // oneShot, Persistent or Recursive
}

func (m *model) add(path string, k Kind, id ID) bool {
	before := len(m.data) + len(m.child)
	if k&Data != 0 {
		m.data[modelKey{path, id, oneShot}] = true
	}
	if k&Child != 0 {
		m.child[modelKey{path, id, oneShot}] = true
	}
	if k&Persistent != 0 {
		m.data[modelKey{path, id, Persistent}] = true
		m.child[modelKey{path, id, Persistent}] = true
	}
	if k&Recursive != 0 {
		m.data[modelKey{path, id, Recursive}] = true
	}
	return len(m.data)+len(m.child) > before
}

// find returns the keys in each table that a watcher type means.
func (m *model) find(path string, typ wire.WatcherType, id ID) (data, child []modelKey) {
	for _, mode := range []Kind{oneShot, Persistent, Recursive} {
		k := modelKey{path, id, mode}
		inD := typ == wire.WatcherAny || typ == wire.WatcherData && mode == oneShot ||
			typ == wire.WatcherPersistent && mode == Persistent ||
			typ == wire.WatcherPersistentRecursive && mode == Recursive
		inC := typ == wire.WatcherAny || typ == wire.WatcherChildren && mode == oneShot ||
			typ == wire.WatcherPersistent && mode == Persistent
		if inD && m.data[k] {
			data = append(data, k)
		}
		if inC && m.child[k] {
			child = append(child, k)
		}
	}
	return data, child
}

func (m *model) remove(path string, typ wire.WatcherType, id ID) bool {
	data, child := m.find(path, typ, id)
	for _, k := range data {
		delete(m.data, k)
	}
	for _, k := range child {
		delete(m.child, k)
	}
	return len(data)+len(child) > 0
}

// trigger fires one table as WatchManager.triggerWatch does.
func trigger(table map[modelKey]bool, path string) []ID {
	told := map[ID]bool{}
	for k := range table {
		above := k.path == "/" || strings.HasPrefix(path, k.path+"/")
		if k.path == path || k.mode == Recursive && above {
			told[k.id] = true
			if k.mode == oneShot {
				delete(table, k)
			}
		}
	}
	var ids []ID
	for id := range told {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (m *model) fire(ev Event) []Delivery {
	var out []Delivery
	first := trigger(m.data, ev.Path)
	for _, id := range first {
		out = append(out, Delivery{ID: id, Type: ev.Type, Path: ev.Path})
	}
	if ev.Type == changed {
		return out
	}
	if ev.Type == deleted {
		for _, id := range trigger(m.child, ev.Path) {
			if !slices.Contains(first, id) {
				out = append(out, Delivery{ID: id, Type: ev.Type, Path: ev.Path})
			}
		}
	}
	if ev.Path == "/" {
		return out
	}
	parent := ev.Path[:strings.LastIndex(ev.Path, "/")]
	if parent == "" {
		parent = "/"
	}
	for _, id := range trigger(m.child, parent) {
		out = append(out, Delivery{ID: id, Type: children, Path: parent, OnParent: true})
	}
	return out
}

func (m *model) counts() Counts {
	type pair struct {
		path string
		id   ID
	}
	data, child := map[pair]bool{}, map[pair]bool{}
	paths, conns := map[string]bool{}, map[ID]bool{}
	for k := range m.data {
		data[pair{k.path, k.id}] = true
		paths[k.path] = true
		conns[k.id] = true
	}
	for k := range m.child {
		child[pair{k.path, k.id}] = true
	}
	return Counts{Watches: len(data) + len(child), Data: len(data), DataPaths: len(paths), DataConnections: len(conns)}
}

// TestTableIsTheModel runs random operations on the Table and on the model.
func TestTableIsTheModel(t *testing.T) {
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/a/bc", "/b", "/b/a"}
	rapid.Check(t, func(t *rapid.T) {
		table := New()
		m := &model{data: map[modelKey]bool{}, child: map[modelKey]bool{}}
		path := rapid.SampledFrom(paths)
		id := rapid.Custom(func(t *rapid.T) ID { return ID(rapid.IntRange(0, 5).Draw(t, "id")) })
		typ := rapid.Custom(func(t *rapid.T) wire.WatcherType {
			return wire.WatcherType(rapid.Int32Range(1, 5).Draw(t, "type"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				p, k, c := path.Draw(t, "path"), Kind(rapid.IntRange(1, 15).Draw(t, "kind")), id.Draw(t, "conn")
				if got, want := table.Add(p, k, c), m.add(p, k, c); got != want {
					t.Fatalf("Add = %v, want %v", got, want)
				}
			},
			"remove": func(t *rapid.T) {
				p, w, c := path.Draw(t, "path"), typ.Draw(t, "watcher"), id.Draw(t, "conn")
				if got, want := table.Remove(p, w, c), m.remove(p, w, c); got != want {
					t.Fatalf("Remove = %v, want %v", got, want)
				}
			},
			"has": func(t *rapid.T) {
				p, w, c := path.Draw(t, "path"), typ.Draw(t, "watcher"), id.Draw(t, "conn")
				data, child := m.find(p, w, c)
				if got, want := table.Has(p, w, c), len(data)+len(child) > 0; got != want {
					t.Fatalf("Has = %v, want %v", got, want)
				}
			},
			"end": func(t *rapid.T) {
				c := id.Draw(t, "conn")
				table.RemoveAll(c)
				for _, p := range paths {
					m.remove(p, wire.WatcherAny, c)
				}
			},
			"fire": func(t *rapid.T) {
				ev := Event{rapid.SampledFrom([]wire.EventType{created, deleted, changed}).Draw(t, "type"), path.Draw(t, "path")}
				if got, want := table.Fire(ev, nil), m.fire(ev); !slices.Equal(got, want) {
					t.Fatalf("Fire(%v) = %v, want %v", ev, show(got), show(want))
				}
			},
			"": func(t *rapid.T) {
				if err := table.check(); err != nil {
					t.Fatal(err)
				}
				if got, want := table.Counts(), m.counts(); got != want {
					t.Fatalf("Counts = %+v, want %+v", got, want)
				}
			},
		})
	})
}
