package recipes

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// The sum is written, and then the context ends while the mark is deleted: whoever got an error would
// add again.
func TestAddOnceIsDoneWhenTheSumIsWritten(t *testing.T) {
	r := newRig(t)
	r.stays("/once")
	ctx, cancel := context.WithCancel(testContext(t))
	p := tap{request: func(op wire.OpCode) {
		if op == wire.OpDelete {
			cancel()
		}
	}}
	sum, err := NewCounter(r.dial(p.option()), "/once").AddOnce(ctx, 3)
	require.NoError(t, err)
	require.Equal(t, int64(3), sum)
	require.Error(t, ctx.Err(), "the test has not ended the context")
}

// The lock behind which a change is made only keeps others from trying: that it cannot be released does
// not undo the change.
func TestUpdateIsDoneThoughItsLockIsNotReleased(t *testing.T) {
	r := newRig(t)
	r.stays("/v")
	ctx, cancel := context.WithCancel(testContext(t))
	var p tap
	p.request = func(op wire.OpCode) {
		if op == wire.OpDelete && ctx.Err() == nil {
			p.down.Store(true)
			cancel()
			p.cut()
		}
	}
	c, other := r.dial(p.option()), r.dial()
	v := NewAtomicValue(c, "/v", Text())
	require.NoError(t, v.Set(testContext(t), "0"))
	tries := 0
	before, after, err := v.Update(ctx, func(s string) (string, error) {
		if tries++; tries <= optimistic {
			set(t, other, "/v", s+"x") // somebody else comes first
		}
		return s + "y", nil
	})
	require.NoError(t, err)
	require.Equal(t, "0xxxxxxxx", before)
	require.Equal(t, "0xxxxxxxxy", after)
	require.Error(t, ctx.Err(), "the test has not ended the context")
	p.down.Store(false)
}

// A value that was read is known: the seed is nothing that anybody has written.
func TestSharedValueIsKnownWhenItIsReady(t *testing.T) {
	r := newRig(t)
	r.stays("/v")
	c := r.dial()
	create(t, c, "/v", "written")
	for range 100 {
		v := NewSharedValue(c, "/v", Text(), "seed")
		require.NoError(t, v.Ready(testContext(t)))
		require.Equal(t, "written", v.Get().Value)
		v.Close()
	}
}

// Until the limit is known nobody gets a permit for the seed's sake.
func TestSemaphoreWaitsForItsLimit(t *testing.T) {
	r := newRig(t)
	r.stays("/limit")
	c := r.dial()
	one, err := BigEndian[int32]().Encode(1)
	require.NoError(t, err)
	create(t, c, "/limit", string(one))
	proceed := make(chan struct{})
	p := tap{reply: func(op wire.OpCode, _ []byte) bool {
		if op == wire.OpGetData {
			<-proceed
		}
		return true
	}}
	limit := NewSharedCount(r.dial(p.option()), "/limit", 5)
	defer limit.Close()
	s := NewSemaphoreLimit(c, "/sem", limit)
	ctx, cancel := context.WithTimeout(testContext(t), 500*time.Millisecond) // it would be had at once
	defer cancel()
	_, err = s.Acquire(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(proceed)
	l := mustLock(t, permits(s, 1))
	_, err = s.TryAcquire(testContext(t), 1)
	require.ErrorIs(t, err, ErrLocked)
	release(t, l)
}

// Our node has changed and no server answers the look at it: the clocks go on.
func TestLookAtOurNodeDoesNotHoldUpTheEndOfTheHold(t *testing.T) {
	for name, tt := range map[string]struct {
		opts    []Option
		timeout time.Duration // of the session
		want    error
	}{
		"session": {nil, 5 * time.Second, ErrSessionLost},
		"MaxHold": {[]Option{MaxHold(4 * time.Second)}, 30 * time.Second, ErrMaxHold},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var looks int // of the one hold, by its connection's reader
			p := &tap{reply: func(op wire.OpCode, _ []byte) bool {
				if op == wire.OpGetData {
					looks++
				}
				return op != wire.OpGetData || looks != 2
			}}
			c := r.dial(p.option(), client.WithTimeout(tt.timeout), client.WithRetry(client.BackoffFunc(
				func(int) (time.Duration, bool) { return time.Hour, true })))
			other := NewMutex(r.dial(), "/lock")
			l := mustLock(t, NewMutex(c, "/lock", tt.opts...).Lock)
			require.NoError(t, other.Revoke(testContext(t), base(l.Path())))
			if tt.want == ErrSessionLost {
				eventually(t, "the look has failed, and waits to be repeated", func() bool { return c.Stats().Retries == 1 })
				p.silent.Store(true) // on what is being dialled just now, too
			}
			await(t, "the hold ends", l.Done())
			require.ErrorIs(t, l.Err(), tt.want)
			p.silent.Store(false)
			p.cut()
			require.NoError(t, l.Release(testContext(t)))
		})
	}
}

// No server answers, and the context ends: so does the call, although the node is still there.
func TestDoReturnsWithoutAServer(t *testing.T) {
	r := newRig(t)
	var p tap
	m := NewMutex(r.dial(p.option()), "/lock")
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() {
		done <- m.Do(ctx, func(ctx context.Context, _ Lease) error {
			p.down.Store(true)
			p.cut()
			cancel()
			return nil
		})
	}()
	select {
	case err := <-done:
		require.Truef(t, errors.Is(err, context.Canceled) || errors.Is(err, ErrSessionLost), "the error is %v", err)
	case <-time.After(testLimit):
		t.Error("Do waits for a server that is not there")
	}
	p.down.Store(false)
}

// A server is read-only for a while: the node is made when it no longer is.
func TestPersistentNodeOutlivesAReadOnlyServer(t *testing.T) {
	r := newRig(t)
	var refusals atomic.Int32
	p := tap{reply: func(op wire.OpCode, frame []byte) bool {
		if op == wire.OpCreate2 && refusals.Add(1) <= 2 { // the code follows the xid and the zxid
			binary.BigEndian.PutUint32(frame[16:], uint32(0xffffffff&int64(wire.NotReadOnly)))
		}
		return true
	}}
	n := NewPersistentNode(r.dial(p.option()), "/n", client.ModeEphemeral, nil)
	require.NoError(t, n.Await(testContext(t)))
	require.NoError(t, n.Err())
	require.NoError(t, n.Close(testContext(t)))
}

// Somebody deletes the node that all want by hand, and the next one takes it: the holder before learns of
// it, and does not take the place away again when it gives up its own.
func TestUnfairHolderLearnsThatItsPlaceWasTakenAway(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	first := mustLock(t, NewMutex(c, "/lock", Unfair()).Lock)
	next := start(t, testContext(t), NewMutex(r.dial(), "/lock", Unfair()).Lock)
	remove(t, c, "/lock/lock")
	second := next.got()
	await(t, "the first holder learns of it", first.Done())
	require.ErrorIs(t, first.Err(), ErrRevoked)
	release(t, first)
	require.NoError(t, second.Verify(testContext(t)))
	require.Len(t, r.children(c, "/lock"), 2)
	release(t, second)
}
