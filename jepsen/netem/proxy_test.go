package netem

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
)

// rig is a server that echoes, behind a proxy from host 1 to host 2.
func rig(t *testing.T) (*Table, *Proxy) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	table := NewTable()
	p, err := NewProxy(table, 1, 2, freeport.Addr(t), l.Addr().String()) // which is there for it after Down, too
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return table, p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// echo sends a byte and waits so long for it to come back.
func echo(c net.Conn, wait time.Duration) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// long is never waited out, and short is always.
const (
	long  = 2 * time.Minute
	short = 50 * time.Millisecond
)

func TestProxyHoldsBackEachDirectionByItself(t *testing.T) {
	for _, way := range [][2]int{{1, 2}, {2, 1}} {
		table, p := rig(t)
		c := dial(t, p)
		require.NoError(t, echo(c, long))
		table.OneWay(way[0], way[1])
		require.ErrorIs(t, echo(c, short), os.ErrDeadlineExceeded)
		table.Heal()
		// What was held back is not lost.
		_ = c.SetReadDeadline(time.Now().Add(long))
		_, err := io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, echo(c, long))
	}
}

func TestProxyDelays(t *testing.T) {
	table, p := rig(t)
	c := dial(t, p)
	require.NoError(t, echo(c, long))
	table.Set(2, 1, Link{Delay: 60 * time.Millisecond})
	began := time.Now()
	require.NoError(t, echo(c, long))
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

// A narrow way takes its time for every byte, until it is wide again.
func TestProxyIsNarrow(t *testing.T) {
	const rate = 8 << 10
	table, p := rig(t)
	c := dial(t, p)
	require.NoError(t, echo(c, long))
	table.Set(2, 1, Link{Rate: rate})
	began := time.Now()
	for _, n := range []int{rate / 16, rate / 8} {
		_, err := c.Write(make([]byte, n))
		require.NoError(t, err)
		_ = c.SetReadDeadline(time.Now().Add(long))
		_, err = io.ReadFull(c, make([]byte, n))
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, time.Since(began), time.Second*3/16)
	_, err := c.Write(make([]byte, 100*rate)) // 100 s, unless the way is wide again
	require.NoError(t, err)
	_ = c.SetReadDeadline(time.Now().Add(short))
	n, err := io.ReadFull(c, make([]byte, 100*rate))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	table.Heal()
	_ = c.SetReadDeadline(time.Now().Add(long))
	_, err = io.ReadFull(c, make([]byte, 100*rate-n))
	require.NoError(t, err)
}

func TestProxyCutsAndTellsOfDeath(t *testing.T) {
	_, p := rig(t)
	c := dial(t, p)
	require.NoError(t, echo(c, long))
	p.Cut()
	err := echo(c, long)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Down()
	_, err = net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, p.Up())
	require.NoError(t, echo(dial(t, p), long))
	require.Positive(t, p.Carried())
}

// The end of a connection does not pass a partition either.
func TestProxyHoldsBackTheEnd(t *testing.T) {
	table, p := rig(t)
	c := dial(t, p)
	require.NoError(t, echo(c, long))
	table.Part([]int{1}, []int{2})
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	_ = c.SetReadDeadline(time.Now().Add(short))
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	table.Heal()
	_ = c.SetReadDeadline(time.Now().Add(long))
	_, err = c.Read(make([]byte, 1))
	require.True(t, errors.Is(err, io.EOF), "%v", err)
}

// A child of this process has all listeners until it runs its own program.
func TestProxyComesUpAlthoughAChildHasItsListenerStill(t *testing.T) {
	_, p := rig(t)
	ofChild, err := p.l.(*net.TCPListener).File()
	require.NoError(t, err)
	p.Down()
	_, err = net.Listen("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	up := make(chan error)
	go func() { up <- p.Up() }()
	select {
	case err := <-up:
		t.Fatalf("it is up beside the other one, or has given up: %v", err)
	case <-time.After(short):
	}
	require.NoError(t, ofChild.Close())
	require.NoError(t, <-up)
	require.NoError(t, echo(dial(t, p), long))
}
