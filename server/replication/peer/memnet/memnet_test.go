package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns both ends of a connection from a to b.
func connect(t *testing.T, n *memnet.Network) (a, b net.Conn) {
	t.Helper()
	l, err := n.Host("b").Listen("b:1")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	a, err = n.Host("a").Dial(t.Context(), "b:1")
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func read(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return string(b)
}

func TestBytesArriveInOrderAndThenTheEnd(t *testing.T) {
	a, b := connect(t, memnet.New())
	big := bytes.Repeat([]byte("0123456789"), 100_000) // several windows
	done := make(chan error, 1)
	go func() {
		_, err := a.Write(big)
		a.Close()
		done <- err
	}()
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.True(t, bytes.Equal(big, got))
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestDeadlinesEndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connect(t, memnet.New())
		start := time.Now()
		require.NoError(t, b.SetReadDeadline(start.Add(time.Second)))
		_, err := b.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))

		require.NoError(t, a.SetWriteDeadline(start.Add(2*time.Second)))
		_, err = a.Write(make([]byte, 1<<20)) // nobody reads: the window fills up
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(start))

		require.NoError(t, b.SetReadDeadline(time.Time{}))
		_, err = b.Read(make([]byte, 1))
		require.NoError(t, err)
	})
}

func TestBlockHoldsOneDirectionBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		a, b := connect(t, n)
		n.Block("a", "b")
		_, err := a.Write([]byte("held"))
		require.NoError(t, err)
		_, err = b.Write([]byte("back"))
		require.NoError(t, err)
		require.Equal(t, "back", read(t, a, 4))

		require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = b.Read(make([]byte, 4))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, b.SetReadDeadline(time.Time{}))
		n.Unblock("a", "b")
		require.Equal(t, "held", read(t, b, 4))
	})
}

func TestBlockHoldsBackThatTheOtherEndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		a, b := connect(t, n)
		n.Block("a", "b")
		a.Close()
		_, err := b.Write([]byte("into the void"))
		require.NoError(t, err)
		n.Unblock("a", "b")
		_, err = b.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
}

func TestDelayMakesBytesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.Delay("a", "b", 20*time.Millisecond)
		start := time.Now()
		a, b := connect(t, n)
		require.Equal(t, 20*time.Millisecond, time.Since(start), "a dial takes a round trip")
		start = time.Now()
		_, err := a.Write([]byte("late"))
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		require.Equal(t, "late", read(t, b, 4))
		require.Equal(t, 20*time.Millisecond, time.Since(start))
		start = time.Now()
		_, err = b.Write([]byte("soon"))
		require.NoError(t, err)
		require.Equal(t, "soon", read(t, a, 4))
		require.Zero(t, time.Since(start))
	})
}

func TestCutResetsAndRefuseRefuses(t *testing.T) {
	n := memnet.New()
	a, b := connect(t, n)
	n.Refuse("a", "b", true)
	_, err := n.Host("a").Dial(t.Context(), "b:1")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = a.Write([]byte("lives")) // what exists goes on
	require.NoError(t, err)
	require.Equal(t, "lives", read(t, b, 5))

	n.Cut("a", "b")
	for _, c := range []net.Conn{a, b} {
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	n.Refuse("a", "b", false)
	c, err := n.Host("a").Dial(t.Context(), "b:1")
	require.NoError(t, err)
	c.Close()
}

func TestDialWaitsWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		l, err := n.Host("b").Listen("b:1")
		require.NoError(t, err)
		defer l.Close()
		n.Block("b", "a") // the answer would not come
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Host("a").Dial(ctx, "b:1")
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		time.AfterFunc(time.Second, n.Heal)
		start := time.Now()
		c, err := n.Host("a").Dial(t.Context(), "b:1")
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		c.Close()
	})
}

func TestCrashEndsEverythingOfAHost(t *testing.T) {
	n := memnet.New()
	a, b := connect(t, n)
	n.Crash("b")
	_, err := a.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = n.Host("a").Dial(t.Context(), "b:1")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = n.Host("b").Dial(t.Context(), "a:1")
	require.ErrorIs(t, err, syscall.ENETDOWN)

	l, err := n.Host("b").Listen("b:1")
	require.NoError(t, err)
	defer l.Close()
	c, err := n.Host("a").Dial(t.Context(), "b:1")
	require.NoError(t, err)
	c.Close()
}

func TestAddressesBelongToTheirHostAndOnce(t *testing.T) {
	n := memnet.New()
	_, err := n.Host("a").Listen("b:1")
	require.Error(t, err)
	l, err := n.Host("b").Listen("b:1")
	require.NoError(t, err)
	_, err = n.Host("b").Listen("b:1")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	l.Close()
	require.True(t, errors.Is(<-accepted, net.ErrClosed))
}
