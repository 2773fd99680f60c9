package recipes

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// A RWMutex is a lock that many readers or one writer hold. Who comes later does not overtake:
// a reader waits for the writers before it, a writer for everybody before it.
type RWMutex struct {
	c      *client.Client
	path   string
	cfg    config
	line   *line
	owners owners
}

// NewRWMutex returns the lock at path. It shares its queue with Curator's
// InterProcessReadWriteLock and, with the option WithFormat(Kazoo), with kazoo's ReadLock and
// WriteLock. There is no unfair form: Unfair is ignored.
func NewRWMutex(c *client.Client, path string, opts ...Option) *RWMutex {
	m := &RWMutex{c: c, path: path, cfg: newConfig(opts)}
	m.line = &line{c: c, dir: path, names: readWriteNames(m.cfg.format), cfg: &m.cfg}
	return m
}

// Path is where the lock is.
func (m *RWMutex) Path() string { return m.path }

// Lock waits for the write lock. The holder of a read lock gets ErrUpgrade.
func (m *RWMutex) Lock(ctx context.Context) (Lease, error) { return m.lock(ctx, exclusive, false) }

// TryLock is Lock without waiting: it returns ErrLocked.
func (m *RWMutex) TryLock(ctx context.Context) (Lease, error) { return m.lock(ctx, exclusive, true) }

// RLock waits for a read lock. The owner (WithOwner) of the write lock gets one at once: releasing
// the write lock then makes it a mere reader, without a moment in between.
func (m *RWMutex) RLock(ctx context.Context) (Lease, error) { return m.lock(ctx, shared, false) }

// TryRLock is RLock without waiting: it returns ErrLocked.
func (m *RWMutex) TryRLock(ctx context.Context) (Lease, error) { return m.lock(ctx, shared, true) }

func (m *RWMutex) lock(ctx context.Context, k kind, try bool) (Lease, error) {
	w := want{kind: k, data: m.cfg.data, try: try}
	if owner, ok := OwnerFrom(ctx); ok {
		return m.lockOwned(ctx, owner, w)
	}
	if had, held := (heldKey{m.c, m.path}).heldBy(ctx); held {
		if had == shared && k == exclusive {
			return nil, fmt.Errorf("lock %s: %w", m.path, ErrUpgrade)
		}
		return nil, fmt.Errorf("lock %s: %w", m.path, ErrDeadlock)
	}
	h, err := m.line.take(ctx, w)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (m *RWMutex) lockOwned(ctx context.Context, owner string, w want) (Lease, error) {
	writes := m.owners.living(entrant{owner, exclusive})
	if w.kind == exclusive && writes == nil && m.owners.living(entrant{owner, shared}) != nil {
		return nil, fmt.Errorf("lock %s: %w", m.path, ErrUpgrade)
	}
	w.data = []byte(owner)
	return m.owners.enter(ctx, entrant{owner, w.kind}, func() (*hold, error) {
		if w.kind == shared && writes != nil {
			if c, ok := m.line.names.read(base(writes.path)); ok {
				w.number = &c.seq
				w.behind = c.name
			}
		}
		return m.line.take(ctx, w)
	})
}

// Do runs f while it holds the write lock; see Mutex.Do.
func (m *RWMutex) Do(ctx context.Context, f func(ctx context.Context, l Lease) error) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return runUnder(ctx, l, f)
}

// RDo runs f while it holds a read lock; see Mutex.Do.
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context, l Lease) error) error {
	l, err := m.RLock(ctx)
	if err != nil {
		return err
	}
	return runUnder(ctx, l, f)
}

// Participants lists readers and writers, those who hold and those who wait, in order.
func (m *RWMutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.line.participants(ctx)
}

// Break takes a participant's node away; see Mutex.Break.
func (m *RWMutex) Break(ctx context.Context, node string) error { return m.line.breakNode(ctx, node) }

// Revoke asks a participant to let go; see Mutex.Revoke.
func (m *RWMutex) Revoke(ctx context.Context, node string) error { return m.line.revoke(ctx, node) }
