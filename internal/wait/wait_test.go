package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Pause(t.Context(), time.Minute)
		require.Equal(t, time.Minute, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		Pause(ctx, time.Hour)
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

// A look in vain is forgotten as soon as one finds somebody.
func TestWhoIsGoneIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("nobody there")
		began, looks := time.Now(), 0
		ctx, stop := WhileAlive(t.Context(), time.Second, 3, func(context.Context) bool {
			looks++
			return looks == 1 || looks == 4
		}, gone)
		defer stop()
		<-ctx.Done()
		require.Equal(t, gone, context.Cause(ctx))
		require.Equal(t, 7*time.Second, time.Since(began))
	})
}

func TestNobodyLooksAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := WhileAlive(t.Context(), time.Second, 1, func(context.Context) bool { return true }, errors.New("nobody there"))
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		stop()
		require.Equal(t, context.Canceled, context.Cause(ctx))
	})
}
