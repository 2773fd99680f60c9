package stats

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxSetKeys bounds the keys of one set. Keys such as namespaces are chosen by clients, who
// could else fill the memory, and the output of mntr, by creating top-level nodes.
const maxSetKeys = 1000

// otherKey collects what comes after a set is full.
const otherKey = "other"

// A keyed is a set of values by key that grows up to maxSetKeys. Looking up a known key costs
// an atomic load and a map access: the map is never changed, only replaced.
type keyed[T any] struct {
	m     atomic.Pointer[map[string]*T]
	mu    sync.Mutex // held while the map is replaced
	fresh func() *T  // immutable
}

func (k *keyed[T]) get(key string) *T {
	if m := k.m.Load(); m != nil {
		if v, ok := (*m)[key]; ok {
			return v
		}
		if v, ok := (*m)[otherKey]; ok && len(*m) > maxSetKeys {
			return v
		}
	}
	return k.add(key)
}

func (k *keyed[T]) add(key string) *T {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := map[string]*T{}
	if m := k.m.Load(); m != nil {
		if v, ok := (*m)[key]; ok {
			return v
		}
		if len(*m) >= maxSetKeys {
			key = otherKey
		}
		if v, ok := (*m)[key]; ok {
			return v
		}
		next = maps.Clone(*m)
	}
	v := k.fresh()
	next[strings.Clone(key)] = v // not all of the path that it may be a part of
	k.m.Store(&next)
	return v
}

// each calls fn for all keys in order.
func (k *keyed[T]) each(fn func(key string, v *T)) {
	m := k.m.Load()
	if m == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(*m)) {
		fn(key, (*m)[key])
	}
}

// A CounterSet is a Counter for each of up to 1000 keys; what comes later is counted under
// the key "other".
type CounterSet struct{ keys keyed[Counter] }

// NewCounterSet returns an empty set.
func NewCounterSet() *CounterSet {
	return &CounterSet{keyed[Counter]{fresh: func() *Counter { return new(Counter) }}}
}

// Add counts n more for key.
func (s *CounterSet) Add(key string, n int64) {
	s.keys.get(key).Add(n)
}

// Reset resets every counter; the keys stay.
func (s *CounterSet) Reset() {
	s.keys.each(func(_ string, c *Counter) { c.Reset() })
}

// Namespace is the first component of a path, under which ZooKeeper groups what it counts
// by namespace: "a" for "/a/b". The root has none.
func Namespace(path string) string {
	if len(path) < 2 {
		return ""
	}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return path[1:i]
		}
	}
	return path[1:]
}
