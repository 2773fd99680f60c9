package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// taker is a line or a post: what a mutex or an election is made of.
type taker interface {
	take(ctx context.Context, w want) (*hold, error)
	participants(ctx context.Context) ([]Participant, error)
	breakNode(ctx context.Context, node string) error
	revoke(ctx context.Context, node string) error
}

// A Mutex is a lock that one holder has at a time, in all processes that use the same path.
// Its methods may be called from any goroutine: each call of Lock is a contender of its own,
// unless WithOwner says that it belongs to one who holds already.
type Mutex struct {
	c      *client.Client
	path   string
	cfg    config
	place  taker
	owners owners
}

// NewMutex returns the lock at path. The node at path, and its parents, are made when needed and
// go when nobody has used the lock for a while, where the server knows containers.
//
// It shares its queue with Curator's InterProcessMutex and, with the option WithFormat(Kazoo),
// with kazoo's Lock.
func NewMutex(c *client.Client, path string, opts ...Option) *Mutex {
	m := &Mutex{c: c, path: path, cfg: newConfig(opts)}
	if m.cfg.unfair {
		m.place = &post{c: c, dir: path, name: "lock", cfg: &m.cfg}
	} else {
		m.place = &line{c: c, dir: path, names: lockNames(m.cfg.format), cfg: &m.cfg}
	}
	return m
}

// Path is where the lock is.
func (m *Mutex) Path() string { return m.path }

// Lock waits until the lock is ours, or ctx ends: a deadline makes it timed. After an error no
// node of ours is left.
func (m *Mutex) Lock(ctx context.Context) (Lease, error) { return m.lock(ctx, false) }

// TryLock is Lock without waiting: if somebody else has the lock, or stands before us, it returns
// ErrLocked.
func (m *Mutex) TryLock(ctx context.Context) (Lease, error) { return m.lock(ctx, true) }

func (m *Mutex) lock(ctx context.Context, try bool) (Lease, error) {
	w := want{kind: exclusive, data: m.cfg.data, try: try}
	if owner, ok := OwnerFrom(ctx); ok {
		w.data = []byte(owner)
		return m.owners.enter(ctx, entrant{owner, exclusive}, func() (*hold, error) { return m.place.take(ctx, w) })
	}
	if _, held := (heldKey{m.c, m.path}).heldBy(ctx); held {
		return nil, fmt.Errorf("lock %s: %w", m.path, ErrDeadlock)
	}
	h, err := m.place.take(ctx, w)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Unlock releases the newest lease of the owner in ctx. It returns ErrNotHeld if there is no
// owner, or it has none.
func (m *Mutex) Unlock(ctx context.Context) error {
	owner, _ := OwnerFrom(ctx)
	s := m.owners.newest(entrant{owner, exclusive})
	if s == nil {
		return fmt.Errorf("unlock %s: %w", m.path, ErrNotHeld)
	}
	return s.Release(ctx)
}

// Do runs f while it holds the lock, under a context that ends with the hold. The lock is
// released when f returns or panics. If the hold was lost meanwhile the error says so, also
// when f has not noticed. When ctx has ended and no server answers, the node is deleted in the
// background, and Do does not wait for that.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, l Lease) error) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return runUnder(ctx, l, f)
}

// runUnder runs f under a lease and releases it.
func runUnder(ctx context.Context, l Lease, f func(ctx context.Context, l Lease) error) (err error) {
	inner, cancel := l.Context(ctx)
	defer func() {
		cancel()
		lost := l.Err()
		if lost != nil && !errors.Is(lost, ErrReleased) && !errors.Is(err, lost) {
			err = errors.Join(err, lost)
		}
		undo, done := parting(ctx)
		defer done()
		if e := l.Release(undo); err == nil && lost == nil {
			err = e
		}
	}()
	return f(inner, l)
}

// Participants lists who holds the lock (the first) and who waits, in order. In the unfair form
// only the holder is known.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.place.participants(ctx)
}

// Break takes a participant's node away: a holder's lease ends with ErrRevoked, one that waits
// queues up again. A holder that is not reachable does not know until its session ends: whatever
// it writes late must be held back by Guard or Token.
func (m *Mutex) Break(ctx context.Context, node string) error { return m.place.breakNode(ctx, node) }

// Revoke asks a participant to let go: its lease's RevokeRequested is closed. It works with
// Curator's revocable locks in both directions. What the node said of its owner is overwritten.
func (m *Mutex) Revoke(ctx context.Context, node string) error { return m.place.revoke(ctx, node) }

// Locker returns a sync.Locker for code that knows no contexts. Lock panics when ctx ends or the
// lock cannot be had, Unlock when it is not held. What Lock protects may lose its protection while
// it runs; the option OnLost tells.
func (m *Mutex) Locker(ctx context.Context) sync.Locker { return &locker{m: m, ctx: ctx} }

type locker struct {
	m   *Mutex
	ctx context.Context

	mu    sync.Mutex
	lease Lease // guarded by mu
}

// Lock implements sync.Locker.
func (l *locker) Lock() {
	lease, err := l.m.Lock(l.ctx)
	if err != nil {
		panic(fmt.Sprintf("recipes: lock %s: %v", l.m.path, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// Unlock implements sync.Locker.
func (l *locker) Unlock() {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		panic(fmt.Sprintf("recipes: unlock %s: %v", l.m.path, ErrNotHeld))
	}
	ctx, cancel := parting(l.ctx)
	defer cancel()
	_ = lease.Release(ctx) // it becomes free, at the latest with the session
}
