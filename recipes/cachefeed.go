package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// How a Cache follows the server. The subscription says which node may have changed, and then the
// node is read: what counts is the read, so an event may come twice or late without harm. After
// EventReset and ErrLagged everything is read, and the difference is told.

// run follows until ctx ends, or nothing can be followed any more.
func (k *Cache[T]) run(ctx context.Context) {
	defer close(k.done)
	err := k.follow(ctx)
	if ctx.Err() != nil {
		err = fmt.Errorf("cache of %s: closed", k.root)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	k.wake()
}

func (k *Cache[T]) follow(ctx context.Context) error {
	mode := client.Recursive
	if k.depth == 0 {
		mode = client.Persistent
	}
	for ev, err := range k.c.Watch(ctx, k.root, mode, client.Coalesce()) {
		switch {
		case errors.Is(err, client.ErrLagged), err == nil && ev.Type == client.EventReset:
			err = k.reload(ctx)
		case err != nil:
			return err
		case ev.Type == client.EventChildrenChanged || !k.covers(ev.Path):
		case ev.Type == client.EventDeleted && ev.Zxid != 0:
			k.deleted(ev)
		default:
			err = k.refresh(ctx, ev.Path)
		}
		if err != nil {
			return err
		}
	}
	return ended(ctx)
}

// deleted takes a deletion, unless the node that is known was created after it.
func (k *Cache[T]) deleted(ev client.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.entries[ev.Path]; ok && e.Stat.Czxid < ev.Zxid {
		k.forget(e)
	}
}

// refresh reads a node of which an event tells.
func (k *Cache[T]) refresh(ctx context.Context, path string) error {
	e, ok, err := k.read(ctx, path)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !ok {
		if old, known := k.entries[path]; known {
			k.forget(old)
		}
		return nil
	}
	return k.learn(e)
}

// read reads a node; false: there is none. A node that may not be read has an Err and
// no Stat.
func (k *Cache[T]) read(ctx context.Context, path string) (Entry[T], bool, error) {
	e := Entry[T]{Path: path}
	data, stat, err := k.c.Get(ctx, path)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return e, false, nil
	case errors.Is(err, client.ErrNoAuth):
		e.Err = err // and the Stat is a secret too
		return e, true, nil
	case err != nil:
		return e, false, err
	}
	e.Stat = stat
	if e.Value, err = k.codec.Decode(data); err != nil {
		e.Err = fmt.Errorf("decode %s: %w", path, err)
	}
	return e, true, nil
}

// learn takes in a node that was read. Called with mu held.
func (k *Cache[T]) learn(e Entry[T]) error {
	old, known := k.entries[e.Path]
	switch {
	case known && old.Stat.Czxid == e.Stat.Czxid && old.Stat.Mzxid == e.Stat.Mzxid:
		k.entries[e.Path] = e // what concerns its children or permissions may be new
		return nil
	case known && old.Stat.Czxid != e.Stat.Czxid: // deleted and made again
		k.forget(old)
		known = false
	case !known && k.cfg.maxNodes > 0 && len(k.entries) >= k.cfg.maxNodes:
		return fmt.Errorf("cache of %s: there are more than %d nodes", k.root, k.cfg.maxNodes)
	}
	k.entries[e.Path] = e
	if known {
		k.tell(CacheEvent[T]{Type: CacheChanged, Old: old, New: e})
	} else {
		k.tell(CacheEvent[T]{Type: CacheCreated, New: e})
	}
	return nil
}

// forget drops a node. Called with mu held.
func (k *Cache[T]) forget(e Entry[T]) {
	delete(k.entries, e.Path)
	k.tell(CacheEvent[T]{Type: CacheDeleted, Old: e})
}

// A sweep reads everything, several nodes at a time.
type sweep[T any] struct {
	k    *Cache[T]
	ctx  context.Context
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	seen    map[string]bool // guarded by mu
	pending []string        // guarded by mu; not read yet
	workers int             // guarded by mu; goroutines that read
}

// reload reads everything and forgets what is not there.
func (k *Cache[T]) reload(ctx context.Context) error {
	s := &sweep[T]{k: k, seen: map[string]bool{}}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)
	s.add(k.root)
	s.wg.Wait()
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for path, e := range k.entries {
		if !s.seen[path] {
			k.forget(e)
		}
	}
	select {
	case <-k.ready:
	default:
		close(k.ready)
	}
	return nil
}

// add has nodes read, by more workers where there is room for them.
func (s *sweep[T]) add(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, paths...)
	for range min(len(paths), cacheReads-s.workers) {
		s.workers++
		s.wg.Go(s.work)
	}
}

// work reads nodes until none is left. The listing of a node comes first: a child that appears
// after it has an event of its own.
func (s *sweep[T]) work() {
	for {
		s.mu.Lock()
		n := len(s.pending)
		if n == 0 || s.ctx.Err() != nil {
			s.workers--
			s.mu.Unlock()
			return
		}
		path := s.pending[n-1]
		s.pending = s.pending[:n-1]
		s.mu.Unlock()
		names, err := s.visit(path)
		if err != nil {
			s.stop(err)
			continue
		}
		for i, name := range names {
			names[i] = join(path, name)
		}
		s.add(names...)
	}
}

func (s *sweep[T]) visit(path string) (names []string, err error) {
	k := s.k
	if k.depth < 0 || k.depth == 1 && path == k.root {
		names, _, err = k.c.Children(s.ctx, path)
		if errors.Is(err, client.ErrNoAuth) || errors.Is(err, client.ErrNoNode) {
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
	if !k.covers(path) {
		return names, nil
	}
	e, ok, err := k.read(s.ctx, path)
	if err != nil || !ok {
		return names, err
	}
	s.mu.Lock()
	s.seen[path] = true
	s.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	return names, k.learn(e)
}
