package recipes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// optimistic is how often a change is tried against those of others before it queues up in a
// lock: beyond that, trying costs more than waiting.
const optimistic = 8

// An AtomicValue is a value in one node that many change: every change is made to the newest
// value, or not at all. It is Curator's DistributedAtomicValue.
type AtomicValue[T any] struct {
	c     *client.Client
	path  string
	codec Codec[T]
	lock  *Mutex // for those who have tried in vain
}

// NewAtomicValue returns the value at path. A node that is not there is the zero value. The lock
// for times of contention is at path + "-lock".
func NewAtomicValue[T any](c *client.Client, path string, codec Codec[T]) *AtomicValue[T] {
	return &AtomicValue[T]{c: c, path: path, codec: codec, lock: NewMutex(c, path+"-lock")}
}

// Get returns the value as it is now.
func (a *AtomicValue[T]) Get(ctx context.Context) (T, error) {
	v, _, _, err := a.read(ctx)
	return v, err
}

func (a *AtomicValue[T]) read(ctx context.Context) (v T, stat client.Stat, exists bool, err error) {
	data, stat, err := a.c.Get(ctx, a.path, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return v, stat, false, nil
	}
	if err != nil {
		return v, stat, false, err
	}
	v, err = a.codec.Decode(data)
	if err != nil {
		err = fmt.Errorf("value %s: %w", a.path, err)
	}
	return v, stat, true, err
}

// Set writes a value, whatever was there. Doing it twice is as good as once, so a lost connection
// leaves no doubt.
func (a *AtomicValue[T]) Set(ctx context.Context, v T) error {
	data, err := a.codec.Encode(v)
	if err != nil {
		return fmt.Errorf("value %s: %w", a.path, err)
	}
	for {
		_, err := a.c.Set(ctx, a.path, data, client.AnyVersion, client.Idempotent())
		if !errors.Is(err, client.ErrNoNode) {
			return err
		}
		_, _, err = a.c.Create(ctx, a.path, data, client.ModePersistent, nil, client.MakeParents(), client.Idempotent())
		if !errors.Is(err, client.ErrNodeExists) {
			return err
		}
	}
}

// Update changes the value by f, which may be called several times. It returns the values before
// and after. If the reply to the decisive write is lost, the error is ErrUnknownOutcome; see
// Counter.AddOnce for a change of which that cannot happen. An error of f ends it without a change.
func (a *AtomicValue[T]) Update(ctx context.Context, f func(v T) (T, error)) (before, after T, err error) {
	for n := 1; n <= optimistic; n++ {
		var done bool
		if before, after, done, err = a.tryUpdate(ctx, f); done || err != nil {
			return before, after, err
		}
		if err := pause(ctx, rand.N(time.Duration(n)*time.Millisecond)); err != nil {
			return before, after, fmt.Errorf("value %s: %w", a.path, err)
		}
	}
	done := false
	err = a.lock.Do(ctx, func(ctx context.Context, _ Lease) (err error) {
		for !done && err == nil { // only those who still try without the lock can come between
			before, after, done, err = a.tryUpdate(ctx, f)
		}
		return err
	})
	if done { // whatever has become of the lock, which only keeps others from trying
		err = nil
	}
	return before, after, err
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// tryUpdate tries once; done is false if somebody came first.
func (a *AtomicValue[T]) tryUpdate(ctx context.Context, f func(v T) (T, error)) (before, after T, done bool, err error) {
	before, stat, exists, err := a.read(ctx)
	if err != nil {
		return before, after, false, err
	}
	if after, err = f(before); err != nil {
		return before, after, false, err
	}
	done, err = a.write(ctx, after, stat, exists)
	return before, after, done, err
}

// write writes over the version that was read. Without Idempotent, a value that is the same as
// ours is not taken for ours.
func (a *AtomicValue[T]) write(ctx context.Context, v T, stat client.Stat, exists bool) (bool, error) {
	data, err := a.codec.Encode(v)
	if err != nil {
		return false, fmt.Errorf("value %s: %w", a.path, err)
	}
	if exists {
		_, err = a.c.Set(ctx, a.path, data, stat.Version)
	} else {
		_, _, err = a.c.Create(ctx, a.path, data, client.ModePersistent, nil, client.MakeParents())
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, client.ErrUncertain):
		return false, err
	case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrNoNode):
		return false, nil
	}
	return false, err
}

// CompareAndSet writes v if the present value, encoded, is the same as old.
func (a *AtomicValue[T]) CompareAndSet(ctx context.Context, old, v T) (bool, error) {
	want, err := a.codec.Encode(old)
	if err != nil {
		return false, fmt.Errorf("value %s: %w", a.path, err)
	}
	_, _, err = a.Update(ctx, func(have T) (T, error) {
		b, err := a.codec.Encode(have)
		if err == nil && string(b) != string(want) {
			err = errDiffers
		}
		return v, err
	})
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil, err
}

// errDiffers ends an Update of CompareAndSet.
var errDiffers = errors.New("the value is another one")

// A SharedValue is a value in one node that all see, by a copy that follows it. It is Curator's
// SharedValue and, with BigEndian[int32], its SharedCount and kazoo's Counter with
// support_curator.
type SharedValue[T any] struct {
	a     *AtomicValue[T]
	seed  T
	cache *Cache[T]

	mu      sync.Mutex
	newest  Versioned[T]  // guarded by mu; by mzxid, whether it was read or written
	changed chan struct{} // guarded by mu; closed and replaced at every change
	known   chan struct{} // closed when newest is what was read first
	done    chan struct{} // closed when nothing feeds newest any more
}

// A Versioned is a value and the write that it comes from.
type Versioned[T any] struct {
	Value   T
	Version int32
	Zxid    int64 // of the write; 0: nobody has written yet, and Value is the seed
}

// NewSharedValue follows the value at path, which is seed as long as nobody has written. Close it.
func NewSharedValue[T any](c *client.Client, path string, codec Codec[T], seed T) *SharedValue[T] {
	s := &SharedValue[T]{
		a: NewAtomicValue(c, path, codec), seed: seed, cache: NewNodeCache(c, path, codec),
		newest: Versioned[T]{Value: seed}, changed: make(chan struct{}), known: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// run feeds newest from the cache until that is closed.
func (s *SharedValue[T]) run() {
	defer close(s.done)
	begun := false
	for ev, err := range s.cache.Events(context.Background()) {
		if ev.Type == CacheInitialized && !begun { // it comes again to a reader that has lagged
			begun = true
			close(s.known)
		}
		if err == nil && ev.New.Path != "" && ev.New.Err == nil {
			s.learn(Versioned[T]{Value: ev.New.Value, Version: ev.New.Stat.Version, Zxid: ev.New.Stat.Mzxid})
		}
	}
}

// learn takes in a value, unless a newer one is known: a write may be known before the event.
func (s *SharedValue[T]) learn(v Versioned[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.Zxid <= s.newest.Zxid {
		return
	}
	s.newest = v
	close(s.changed)
	s.changed = make(chan struct{})
}

// Ready waits until the value has been read once: from then on Get knows it.
func (s *SharedValue[T]) Ready(ctx context.Context) error {
	select {
	case <-s.known:
		return nil
	case <-s.done:
		return s.cache.Err()
	case <-ctx.Done():
		return fmt.Errorf("value %s: %w", s.a.path, ended(ctx))
	}
}

// Get returns the newest value that is known. It may lag behind the server.
func (s *SharedValue[T]) Get() Versioned[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// Set writes a value, whatever was there.
func (s *SharedValue[T]) Set(ctx context.Context, v T) error {
	if err := s.a.Set(ctx, v); err != nil {
		return err
	}
	return s.refresh(ctx)
}

// TrySet writes v over have, as Get returned it, and returns false if somebody else has written
// meanwhile. If the reply is lost, the error is ErrUnknownOutcome.
func (s *SharedValue[T]) TrySet(ctx context.Context, have Versioned[T], v T) (bool, error) {
	done, err := s.a.write(ctx, v, client.Stat{Version: have.Version}, have.Zxid != 0)
	if err != nil {
		return done, err
	}
	return done, s.refresh(ctx)
}

// refresh reads the value, so that Get shows what we have written.
func (s *SharedValue[T]) refresh(ctx context.Context) error {
	v, stat, exists, err := s.a.read(ctx)
	if err == nil && exists {
		s.learn(Versioned[T]{Value: v, Version: stat.Version, Zxid: stat.Mzxid})
	}
	return err
}

// Changes yields the newest value, and then every newer one that becomes known. It ends with an
// error when ctx ends or the SharedValue is closed.
func (s *SharedValue[T]) Changes(ctx context.Context) iter.Seq2[Versioned[T], error] {
	return func(yield func(Versioned[T], error) bool) {
		for {
			s.mu.Lock()
			v, changed := s.newest, s.changed
			s.mu.Unlock()
			if !yield(v, nil) {
				return
			}
			select {
			case <-changed:
			case <-s.done:
				yield(Versioned[T]{}, s.cache.Err())
				return
			case <-ctx.Done():
				yield(Versioned[T]{}, fmt.Errorf("value %s: %w", s.a.path, ended(ctx)))
				return
			}
		}
	}
}

// Close ends following.
func (s *SharedValue[T]) Close() {
	s.cache.Close()
	<-s.done
}

// A SharedCount is a SharedValue that can be the Limit of a semaphore. Others in Java use
// SharedCount and SharedCountReader.
type SharedCount struct{ *SharedValue[int32] }

// NewSharedCount follows the number at path. Close it.
func NewSharedCount(c *client.Client, path string, seed int32) SharedCount {
	return SharedCount{NewSharedValue(c, path, BigEndian[int32](), seed)}
}

// Limit implements Limit.
func (s SharedCount) Limit() (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.newest.Value), s.changed
}
