package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/zkdtest"
)

// Both clients against the same server in the same process, so the figures contain the server's
// work too; the difference is the clients'.

type quiet struct{}

func (quiet) Printf(string, ...any) {}

const benchPath = "/bench/a/path/of/usual/length"

// benchmarkClients runs get with each client, for several numbers of goroutines.
func benchmarkClients(b *testing.B, ours func(*Client) error, theirs func(*zk.Conn) error) {
	srv := zkdtest.Start(b)
	ctx := testContext(b)
	c, err := Dial(ctx, srv.Addr())
	require.NoError(b, err)
	defer closeClient(b, c)
	_, _, err = c.Create(ctx, benchPath, make([]byte, 100), ModePersistent, nil, MakeParents())
	require.NoError(b, err)
	z, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(b, err)
	defer z.Close()
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("zkd/callers=%d", callers), func(b *testing.B) { inParallel(b, callers, func() error { return ours(c) }) })
		b.Run(fmt.Sprintf("go-zookeeper/callers=%d", callers), func(b *testing.B) { inParallel(b, callers, func() error { return theirs(z) }) })
	}
}

func inParallel(b *testing.B, callers int, call func() error) {
	b.ReportAllocs()
	if callers == 1 {
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	next := make(chan struct{}, 4*callers)
	done := make(chan error, callers)
	for range callers {
		go func() {
			for range next {
				if err := call(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for b.Loop() {
		next <- struct{}{}
	}
	close(next)
	for range callers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	ctx := b.Context()
	benchmarkClients(b,
		func(c *Client) error { _, _, err := c.Get(ctx, benchPath); return err },
		func(z *zk.Conn) error { _, _, err := z.Get(benchPath); return err })
}

func BenchmarkExists(b *testing.B) {
	ctx := b.Context()
	benchmarkClients(b,
		func(c *Client) error { _, _, err := c.Exists(ctx, benchPath); return err },
		func(z *zk.Conn) error { _, _, err := z.Exists(benchPath); return err })
}

func BenchmarkSet(b *testing.B) {
	ctx, data := b.Context(), make([]byte, 100)
	benchmarkClients(b,
		func(c *Client) error { _, err := c.Set(ctx, benchPath, data, AnyVersion); return err },
		func(z *zk.Conn) error { _, err := z.Set(benchPath, data, -1); return err })
}

// BenchmarkWatchEvents is the way of an event from the socket to the reader of a Subscription.
func BenchmarkWatchEvents(b *testing.B) {
	k := newCore(defaultConfig(), []string{"a:1"})
	defer k.cancel()
	s := &Subscription{k: k, path: "/a", mode: Recursive, limit: defaultQueue, wake: make(chan struct{}, 1)}
	k.watches.addSubscription(k.watches.entry("/a"), s)
	ev := Event{Type: EventDataChanged, Path: "/a/b/c/d"}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		k.mu.Lock()
		k.watches.dispatch(k, ev)
		k.mu.Unlock()
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
