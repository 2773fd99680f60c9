package recipes

import (
	"context"
	"slices"
	"strings"
)

// Locker is what a MultiLock is made of: a Mutex, or a half of a RWMutex by ReadHalf and
// WriteHalf.
type Locker interface {
	Path() string
	Lock(ctx context.Context) (Lease, error)
	TryLock(ctx context.Context) (Lease, error)
}

// ReadHalf makes the read lock of m a part of a MultiLock.
func ReadHalf(m *RWMutex) Locker { return readHalf{m} }

// WriteHalf makes the write lock of m a part of a MultiLock.
func WriteHalf(m *RWMutex) Locker { return m }

type readHalf struct{ m *RWMutex }

func (h readHalf) Path() string                               { return h.m.Path() }
func (h readHalf) Lock(ctx context.Context) (Lease, error)    { return h.m.RLock(ctx) }
func (h readHalf) TryLock(ctx context.Context) (Lease, error) { return h.m.TryRLock(ctx) }

// A MultiLock is several locks of which one holds all or none. Its lease ends when the first of
// them does; its Guard checks all of them, and its Token is the newest one.
type MultiLock struct {
	locks []Locker
}

// NewMultiLock takes the locks in the given order. Whoever takes some of the same locks must
// take them in the same order, or both wait for ever: see Sorted.
func NewMultiLock(locks ...Locker) *MultiLock { return &MultiLock{locks: slices.Clone(locks)} }

// Sorted takes the locks in the order of their paths: then all who do so agree.
func (m *MultiLock) Sorted() *MultiLock {
	locks := slices.Clone(m.locks)
	slices.SortStableFunc(locks, func(a, b Locker) int { return strings.Compare(a.Path(), b.Path()) })
	return &MultiLock{locks: locks}
}

// Path is that of the first lock.
func (m *MultiLock) Path() string {
	if len(m.locks) == 0 {
		return ""
	}
	return m.locks[0].Path()
}

// Lock waits for all locks. After an error none of them is held.
func (m *MultiLock) Lock(ctx context.Context) (Lease, error) {
	return m.lock(ctx, Locker.Lock)
}

// TryLock is Lock without waiting: it returns ErrLocked.
func (m *MultiLock) TryLock(ctx context.Context) (Lease, error) {
	return m.lock(ctx, Locker.TryLock)
}

func (m *MultiLock) lock(ctx context.Context, lock func(Locker, context.Context) (Lease, error)) (Lease, error) {
	var all []member
	for _, l := range m.locks {
		lease, err := lock(l, ctx)
		if err == nil {
			if part, ok := lease.(member); ok {
				all = append(all, part)
				continue
			}
			err = errForeignLease
			_ = lease.Release(ctx)
		}
		_ = releaseAll(ctx, all) // what is not deleted now is deleted in the background
		return nil, err
	}
	if len(all) == 0 {
		return nil, errNoLocks
	}
	return bundled(all), nil
}

// Do runs f while it holds all locks; see Mutex.Do.
func (m *MultiLock) Do(ctx context.Context, f func(ctx context.Context, l Lease) error) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return runUnder(ctx, l, f)
}
