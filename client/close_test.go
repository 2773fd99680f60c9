package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// There is no server any more, and the context has no end: Close has one.
func TestCloseGivesUpWhenTheSessionIsSurelyOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		c := f.client()
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
		require.Error(t, c.SureDelete(ended(t), "/a", AnyVersion)) // Close waits for this, too
		began := time.Now()
		err := c.Close(context.Background())
		require.ErrorIs(t, err, ErrSessionLapsed)
		require.ErrorContains(t, err, "left to expire")
		require.Greater(t, time.Since(began), defaultTimeout, "the session may still be resumed")
		require.NoError(t, c.Close(context.Background()))
	})
}

// A server that comes back before that is asked to end the session.
func TestCloseWaitsForAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		c := f.client()
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
		time.AfterFunc(defaultTimeout, func() { f.setRefuse(nil) }) // it has lapsed by then
		require.NoError(t, c.Close(context.Background()))
	})
}

// The second of two who close has no more patience than its context.
func TestSecondCloseTellsThatItDidNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		c := f.client()
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
		first := make(chan error, 1)
		go func() { first <- c.Close(context.Background()) }()
		synctest.Wait()
		require.ErrorIs(t, c.Close(ended(t)), context.Canceled)
		<-first
	})
}

// ended returns a context that is over.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
