package client

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/client/internal/echo"
	"github.com/zkd-project/zkd/zkdtest"
)

// One connection, and as many callers as there are requests outstanding. Against the echo server
// everything that is counted is the client's; against zkd in the same process the time and the
// allocations of the server come on top. client/compare does the same beside go-zookeeper.

const (
	benchPath  = "/bench/a/path/of/usual/length"
	benchBytes = 100
)

// benchCalls are the operations that are measured.
func benchCalls(ctx context.Context, c *Client) map[string]func() error {
	data := make([]byte, benchBytes)
	return map[string]func() error{
		"get":    func() error { _, _, err := c.Get(ctx, benchPath); return err },
		"exists": func() error { _, _, err := c.Exists(ctx, benchPath); return err },
		"set":    func() error { _, err := c.Set(ctx, benchPath, data, AnyVersion); return err },
		"create": func() error {
			_, _, err := c.Create(ctx, benchPath+"/n-", data, ModePersistentSequential, nil)
			return err
		},
	}
}

func BenchmarkEcho(b *testing.B) { benchmarkServer(b, echo.Start(b, benchBytes).Addr()) }

func BenchmarkZkd(b *testing.B) { benchmarkServer(b, zkdtest.Start(b).Addr()) }

func benchmarkServer(b *testing.B, addr string) {
	ctx := testContext(b)
	c, err := Dial(ctx, addr)
	require.NoError(b, err)
	defer closeClient(b, c)
	_, _, err = c.Create(ctx, benchPath, make([]byte, benchBytes), ModePersistent, nil, MakeParents())
	require.NoError(b, err)
	calls := benchCalls(b.Context(), c)
	for _, name := range []string{"get", "exists", "set", "create"} {
		for _, outstanding := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("%s/outstanding=%d", name, outstanding), func(b *testing.B) {
				benchmarkCalls(b, outstanding, calls[name])
			})
		}
	}
}

// benchmarkCalls keeps so many calls under way. They must be a multiple of GOMAXPROCS, or 1.
func benchmarkCalls(b *testing.B, outstanding int, call func() error) {
	b.ReportAllocs()
	before := cpuTime(b)
	if outstanding == 1 {
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	} else {
		b.SetParallelism(max(outstanding/runtime.GOMAXPROCS(0), 1))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what this process has used. On a machine that does other things too it is a better
// measure than the time that has passed.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
