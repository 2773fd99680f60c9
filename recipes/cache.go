package recipes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// CacheEventType says what happened to an entry of a Cache.
type CacheEventType int

// The events of a Cache.
const (
	CacheCreated     CacheEventType = iota + 1 // New is set
	CacheChanged                               // Old and New are set
	CacheDeleted                               // Old is set
	CacheInitialized                           // all that was there has been told; neither is set
)

// String returns the name of the type.
func (t CacheEventType) String() string {
	names := [...]string{"?", "Created", "Changed", "Deleted", "Initialized"}
	if t < 1 || int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// An Entry is a node as a Cache knows it.
type Entry[T any] struct {
	Path  string
	Value T
	Stat  client.Stat
	Err   error // the node may not be read, or its data not be decoded; Value is the zero value then
}

// A CacheEvent is one change of a Cache.
type CacheEvent[T any] struct {
	Type     CacheEventType
	Old, New Entry[T]
}

// Path is the path of the entry that has changed.
func (ev CacheEvent[T]) Path() string {
	if ev.New.Path != "" {
		return ev.New.Path
	}
	return ev.Old.Path
}

// A CacheOption changes a Cache.
type CacheOption func(*cacheConfig)

type cacheConfig struct {
	maxEvents int
	maxNodes  int
}

// MaxEvents bounds the events that are kept for readers of Events, instead of 16,384. A reader
// that falls further behind gets client.ErrLagged and then everything from the beginning.
func MaxEvents(n int) CacheOption { return func(c *cacheConfig) { c.maxEvents = n } }

// MaxNodes makes a Cache end with an error when there are more nodes, instead of growing.
func MaxNodes(n int) CacheOption { return func(c *cacheConfig) { c.maxNodes = n } }

// cacheReads bounds how many nodes are read at the same time.
const cacheReads = 64

// A Cache is a copy of a part of the tree that follows the server: a node, its children, or
// everything below it. It lags behind by the time of a message. What is changed and changed back in
// short succession may be told as one change or none; whoever applies the events arrives at the
// state of the server, also over lost connections and sessions.
//
// One goroutine (run) owns what is written; it reads every node of which an event tells, so the
// order of events is the order in which the Cache learned.
type Cache[T any] struct {
	c     *client.Client
	root  string
	depth int // 0: the node, 1: its children, -1: everything
	codec Codec[T]
	cfg   cacheConfig

	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned
	ready  chan struct{} // closed when everything has been read once

	mu      sync.Mutex
	entries map[string]Entry[T] // guarded by mu
	err     error               // guarded by mu; why run has ended
	log     []CacheEvent[T]     // guarded by mu; the newest events, for readers
	base    int                 // guarded by mu; number of the first event in log
	readers int                 // guarded by mu
	changed chan struct{}       // guarded by mu; closed and replaced at every event
}

// NewNodeCache follows one node, which need not exist. Close it.
func NewNodeCache[T any](c *client.Client, path string, codec Codec[T], opts ...CacheOption) *Cache[T] {
	return newCache(c, path, 0, codec, opts)
}

// NewChildrenCache follows the children of a node, which need not exist. Close it.
func NewChildrenCache[T any](c *client.Client, path string, codec Codec[T], opts ...CacheOption) *Cache[T] {
	return newCache(c, path, 1, codec, opts)
}

// NewTreeCache follows a node and everything below it. Close it.
func NewTreeCache[T any](c *client.Client, path string, codec Codec[T], opts ...CacheOption) *Cache[T] {
	return newCache(c, path, -1, codec, opts)
}

func newCache[T any](c *client.Client, path string, depth int, codec Codec[T], opts []CacheOption) *Cache[T] {
	k := &Cache[T]{
		c: c, root: path, depth: depth, codec: codec, cfg: cacheConfig{maxEvents: 16 << 10},
		done: make(chan struct{}), ready: make(chan struct{}),
		entries: map[string]Entry[T]{}, changed: make(chan struct{}),
	}
	for _, o := range opts {
		o(&k.cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	go k.run(ctx)
	return k
}

// Close ends the Cache. What it holds can still be read.
func (k *Cache[T]) Close() {
	k.cancel()
	<-k.done
}

// Done is closed when the Cache follows no longer; Err says why.
func (k *Cache[T]) Done() <-chan struct{} { return k.done }

// Err is nil while the Cache follows the server.
func (k *Cache[T]) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Ready waits until everything has been read once.
func (k *Cache[T]) Ready(ctx context.Context) error {
	select {
	case <-k.ready:
		return nil
	case <-k.done:
		select {
		case <-k.ready:
			return nil
		default:
			return k.Err()
		}
	case <-ctx.Done():
		return fmt.Errorf("cache of %s: %w", k.root, ended(ctx))
	}
}

// Get returns what is known of a node.
func (k *Cache[T]) Get(path string) (Entry[T], bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.entries[path]
	return e, ok
}

// Len is the number of nodes.
func (k *Cache[T]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.entries)
}

// All yields the nodes as they are at this moment, in the order of their paths.
func (k *Cache[T]) All() iter.Seq2[string, Entry[T]] {
	return func(yield func(string, Entry[T]) bool) {
		k.mu.Lock()
		entries := maps.Clone(k.entries)
		k.mu.Unlock()
		for _, path := range slices.Sorted(maps.Keys(entries)) {
			if !yield(path, entries[path]) {
				return
			}
		}
	}
}

// Events yields every node that is there as Created, then Initialized, and then every change. It
// ends with an error when ctx ends or the Cache does. client.ErrLagged is an error after which it
// goes on, from the beginning.
func (k *Cache[T]) Events(ctx context.Context) iter.Seq2[CacheEvent[T], error] {
	return func(yield func(CacheEvent[T], error) bool) {
		if err := k.Ready(ctx); err != nil {
			yield(CacheEvent[T]{}, err)
			return
		}
		events, next := k.join()
		defer k.leave()
		for {
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
			}
			var err error
			events, next, err = k.after(ctx, next)
			if err != nil && (!yield(CacheEvent[T]{}, err) || !errors.Is(err, client.ErrLagged)) {
				return
			}
		}
	}
}

// join returns the present state as events, and the number of the event that comes next.
func (k *Cache[T]) join() ([]CacheEvent[T], int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readers++
	return k.snapshot(), k.base + len(k.log)
}

// snapshot is called with mu held.
func (k *Cache[T]) snapshot() []CacheEvent[T] {
	events := make([]CacheEvent[T], 0, len(k.entries)+1)
	for _, path := range slices.Sorted(maps.Keys(k.entries)) {
		events = append(events, CacheEvent[T]{Type: CacheCreated, New: k.entries[path]})
	}
	return append(events, CacheEvent[T]{Type: CacheInitialized})
}

func (k *Cache[T]) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.readers--; k.readers == 0 {
		k.base += len(k.log)
		k.log = nil
	}
}

// after waits for events from number next on.
func (k *Cache[T]) after(ctx context.Context, next int) ([]CacheEvent[T], int, error) {
	for {
		k.mu.Lock()
		last, changed, err := k.base+len(k.log), k.changed, k.err
		switch {
		case next < k.base:
			events := k.snapshot()
			k.mu.Unlock()
			return events, last, fmt.Errorf("cache of %s: %w", k.root, client.ErrLagged)
		case next < last:
			events := slices.Clone(k.log[next-k.base:])
			k.mu.Unlock()
			return events, last, nil
		}
		k.mu.Unlock()
		if err != nil {
			return nil, next, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, next, fmt.Errorf("cache of %s: %w", k.root, ended(ctx))
		}
	}
}

// tell appends an event to the log. Called with mu held.
func (k *Cache[T]) tell(ev CacheEvent[T]) {
	if k.readers == 0 {
		k.base++
	} else {
		if len(k.log) >= k.cfg.maxEvents {
			drop := max(1, len(k.log)/2)
			k.base += drop
			k.log = slices.Clone(k.log[drop:])
		}
		k.log = append(k.log, ev)
	}
	k.wake()
}

func (k *Cache[T]) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// covers says whether a path belongs to the cache.
func (k *Cache[T]) covers(path string) bool {
	if path == k.root {
		return k.depth != 1
	}
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(k.root, "/")+"/")
	return below && (k.depth < 0 || k.depth == 1 && !strings.Contains(rest, "/"))
}
