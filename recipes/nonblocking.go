package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
)

// A NonBlockingLease reserves something for a span of time instead of for the life of a session: a
// job that runs once an hour, on the same host each time as long as that host lives. It is kazoo's
// NonBlockingLease, and shares its path.
//
// It is no lock: the time is that of the members' clocks, which have to agree roughly, nobody
// learns that the time is over but by looking at the clock, and there is neither a token nor a
// guard. What must not happen twice needs a Mutex.
type NonBlockingLease struct {
	c    *client.Client
	path string
	id   string
	span time.Duration
	lock *Mutex
	now  func() time.Time
}

// NewNonBlockingLease returns the lease at path for a member with that id, who renews it by obtaining
// it again. The end of the span is rounded down to a second, as kazoo does.
func NewNonBlockingLease(c *client.Client, path, id string, span time.Duration) *NonBlockingLease {
	return &NonBlockingLease{
		c: c, path: path, id: id, span: span, now: time.Now,
		lock: NewMutex(c, path, WithFormat(Kazoo), WithData([]byte(id))),
	}
}

// reservation is the data of the node. kazoo reads exactly these fields.
type reservation struct {
	Version int    `json:"version"`
	Holder  string `json:"holder"`
	End     string `json:"end"` // UTC
}

const (
	reservationVersion = 1
	reservationTime    = "2006-01-02T15:04:05"
)

func (l *NonBlockingLease) holderPath() string { return join(l.path, "lease_holder") }

// Obtain reserves the span that begins now and returns its end. If somebody else has it, the error
// is ErrLocked. It waits only for others that are just about to obtain it.
func (l *NonBlockingLease) Obtain(ctx context.Context) (until time.Time, err error) {
	err = l.lock.Do(ctx, func(ctx context.Context, held Lease) error {
		until, err = l.obtain(ctx, held)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	return until, nil
}

func (l *NonBlockingLease) obtain(ctx context.Context, held Lease) (time.Time, error) {
	now := l.now()
	r, stat, exists, err := l.read(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if exists && r.Holder != l.id {
		if end, err := r.end(); err != nil || now.Before(end) { // one that we cannot read is not ours to end
			return time.Time{}, errors.Join(fmt.Errorf("lease %s: %w", l.path, ErrLocked), err)
		}
	}
	until := now.Add(l.span).UTC().Truncate(time.Second)
	data, err := json.Marshal(reservation{reservationVersion, l.id, until.Format(reservationTime)})
	if err != nil {
		return time.Time{}, fmt.Errorf("lease %s: %w", l.path, err)
	}
	m := l.c.Multi().Add(held.Guard()...)
	if exists {
		m.Set(l.holderPath(), data, stat.Version)
	} else {
		m.Create(l.holderPath(), data, client.ModePersistent, nil)
	}
	if _, err := m.Commit(ctx); err != nil {
		return time.Time{}, err
	}
	return until, nil
}

// Holder returns who has it until when; ok is false if nobody does.
func (l *NonBlockingLease) Holder(ctx context.Context) (id string, until time.Time, ok bool, err error) {
	r, _, exists, err := l.read(ctx)
	if err != nil || !exists {
		return "", time.Time{}, false, err
	}
	if until, err = r.end(); err != nil {
		return r.Holder, time.Time{}, true, fmt.Errorf("lease %s: %w", l.path, err)
	}
	return r.Holder, until, l.now().Before(until), nil
}

// GiveUp ends our reservation before its time; somebody else's stays.
func (l *NonBlockingLease) GiveUp(ctx context.Context) error {
	r, stat, exists, err := l.read(ctx)
	if err != nil || !exists || r.Holder != l.id {
		return err
	}
	err = l.c.Delete(ctx, l.holderPath(), stat.Version)
	if errors.Is(err, client.ErrUncertain) {
		return err
	}
	if errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion) {
		return nil
	}
	return err
}

func (l *NonBlockingLease) read(ctx context.Context) (r reservation, stat client.Stat, exists bool, err error) {
	data, stat, err := l.c.Get(ctx, l.holderPath(), client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return r, stat, false, nil
	}
	if err != nil {
		return r, stat, false, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, stat, true, fmt.Errorf("lease %s: the node does not hold a reservation: %w", l.path, err)
	}
	return r, stat, true, nil
}

func (r reservation) end() (time.Time, error) {
	if r.Version != reservationVersion {
		return time.Time{}, fmt.Errorf("the reservation is of version %d, and %d is known: update this program", r.Version, reservationVersion)
	}
	end, err := time.ParseInLocation(reservationTime, r.End, time.UTC)
	if err != nil {
		return time.Time{}, fmt.Errorf("the end of the reservation cannot be read: %w", err)
	}
	return end, nil
}
