package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// A Counter is a number in one node that many add to. It is Curator's DistributedAtomicLong, with
// the codec Decimal kazoo's Counter.
type Counter struct {
	v *AtomicValue[int64]
}

// NewCounter returns the counter at path, in Curator's form unless a codec says otherwise. A
// counter that is not there is 0.
func NewCounter(c *client.Client, path string, codec ...Codec[int64]) *Counter {
	form := BigEndian[int64]()
	if len(codec) > 0 {
		form = codec[0]
	}
	return &Counter{v: NewAtomicValue(c, path, form)}
}

// Get returns the number as it is now.
func (k *Counter) Get(ctx context.Context) (int64, error) { return k.v.Get(ctx) }

// Set writes a number, whatever was there.
func (k *Counter) Set(ctx context.Context, n int64) error { return k.v.Set(ctx, n) }

// Add adds delta and returns the sum. If the reply to the decisive write is lost, the error is
// ErrUnknownOutcome: it was added, or not. AddOnce does not have that.
func (k *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	_, sum, err := k.v.Update(ctx, func(n int64) (int64, error) { return n + delta, nil })
	return sum, err
}

// AddOnce adds delta exactly once, also when replies are lost: in one Multi with the number it
// creates an ephemeral node with a unique name beside it, by which it finds out what has happened,
// and deletes that afterwards. It costs three requests more than Add. The mark hangs on the session:
// only if that is lost with the reply the outcome is unknown.
func (k *Counter) AddOnce(ctx context.Context, delta int64) (int64, error) {
	c, mark := k.v.c, k.v.path+"-_c_"+client.NewUUID()
	for {
		n, stat, exists, err := k.v.read(ctx)
		if err != nil {
			return 0, err
		}
		if !exists {
			if err := k.create(ctx); err != nil {
				return 0, err
			}
			continue
		}
		data, err := k.v.codec.Encode(n + delta)
		if err != nil {
			return 0, fmt.Errorf("counter %s: %w", k.v.path, err)
		}
		s, err := c.AwaitSession(ctx)
		if err != nil {
			return 0, fmt.Errorf("counter %s: %w", k.v.path, err)
		}
		_, err = c.Multi().Create(mark, nil, client.ModeEphemeral, nil).Set(k.v.path, data, stat.Version).Commit(ctx, client.In(s))
		if errors.Is(err, client.ErrUncertain) && ctx.Err() == nil {
			err = k.settle(ctx, s, mark, err)
		}
		switch {
		case err == nil:
			_ = c.SureDelete(ctx, mark, client.AnyVersion) // it goes on in the background: the sum is written
			return n + delta, nil
		case errors.Is(err, client.ErrUncertain):
			_ = c.SureDelete(ctx, mark, client.AnyVersion)
			return 0, err
		case !errors.Is(err, client.ErrBadVersion) && !errors.Is(err, client.ErrNoNode) && !errors.Is(err, errAgain) && s.Err() == nil:
			return 0, err
		}
	}
}

// settle finds out what has become of a Multi whose reply was lost: nil if it has happened, errAgain
// if not. A new session could not tell, since the mark went with the old one.
func (k *Counter) settle(ctx context.Context, s *client.Session, mark string, uncertain error) error {
	_, there, err := k.v.c.Exists(ctx, mark, client.Fresh(), client.In(s))
	switch {
	case err != nil || s.Err() != nil:
		return uncertain
	case there:
		return nil
	}
	return errAgain
}

func (k *Counter) create(ctx context.Context) error {
	data, err := k.v.codec.Encode(0)
	if err != nil {
		return fmt.Errorf("counter %s: %w", k.v.path, err)
	}
	_, _, err = k.v.c.Create(ctx, k.v.path, data, client.ModePersistent, nil, client.MakeParents(), client.Idempotent())
	if errors.Is(err, client.ErrNodeExists) {
		return nil
	}
	return err
}

// A CachedCounter hands out numbers that nobody else gets, from blocks that it takes from a
// Counter: one write serves as many numbers as a block holds. Numbers of one CachedCounter grow;
// those of a block that is not used up are lost. It is Curator's CachedAtomicLong.
type CachedCounter struct {
	k     *Counter
	block int64

	mu        sync.Mutex
	next, end int64 // guarded by mu; end is behind the last one
}

// NewCachedCounter takes blocks of that many numbers from k.
func NewCachedCounter(k *Counter, block int64) *CachedCounter {
	return &CachedCounter{k: k, block: max(block, 1)}
}

// Next returns a number. A block whose outcome is unknown is given up.
func (k *CachedCounter) Next(ctx context.Context) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.next == k.end {
		end, err := k.k.Add(ctx, k.block)
		if errors.Is(err, ErrUnknownOutcome) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return 0, err
		}
		k.next, k.end = end-k.block, end
	}
	n := k.next
	k.next++
	return n, nil
}
