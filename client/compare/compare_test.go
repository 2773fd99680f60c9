package compare

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/internal/echo"
	"github.com/zkd-project/zkd/zkdtest"
)

const (
	nodePath  = "/bench/a/path/of/usual/length"
	dataBytes = 100
	patience  = 30 * time.Second
)

// A contender is one client with the calls that are measured.
type contender struct {
	name  string
	calls map[string]func() error
}

// operations are the calls that every contender has, in the order in which they are run.
var operations = []string{"get", "exists", "set", "create"}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// zkd connects package client.
func zkd(b *testing.B, addr string) contender {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.Cleanup(cancel)
	c, err := client.Dial(ctx, addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(ctx) })
	data, use := make([]byte, dataBytes), context.Background()
	return contender{"zkd", map[string]func() error{
		"get":    func() error { _, _, err := c.Get(use, nodePath); return err },
		"exists": func() error { _, _, err := c.Exists(use, nodePath); return err },
		"set":    func() error { _, err := c.Set(use, nodePath, data, client.AnyVersion); return err },
		"create": func() error {
			_, _, err := c.Create(use, nodePath+"/n-", data, client.ModePersistentSequential, nil)
			return err
		},
	}}
}

// goZookeeper connects github.com/go-zookeeper/zk.
func goZookeeper(b *testing.B, addr string) contender {
	b.Helper()
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	for limit := time.After(patience); c.State() != zk.StateHasSession; {
		select {
		case <-events:
		case <-limit:
			b.Fatal("go-zookeeper has no session")
		}
	}
	data, acl := make([]byte, dataBytes), zk.WorldACL(zk.PermAll)
	return contender{"go-zookeeper", map[string]func() error{
		"get":    func() error { _, _, err := c.Get(nodePath); return err },
		"exists": func() error { _, _, err := c.Exists(nodePath); return err },
		"set":    func() error { _, err := c.Set(nodePath, data, -1); return err },
		"create": func() error {
			_, err := c.Create(nodePath+"/n-", data, zk.FlagSequence, acl)
			return err
		},
	}}
}

// BenchmarkEcho shows the clients' own cost: the server answers at once and allocates nothing.
func BenchmarkEcho(b *testing.B) { run(b, echo.Start(b, dataBytes).Addr()) }

// BenchmarkZkd contains the cost of a server in memory in the same process.
func BenchmarkZkd(b *testing.B) {
	addr := zkdtest.Start(b).Addr()
	makeNode(b, addr)
	run(b, addr)
}

func makeNode(b *testing.B, addr string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(ctx)
	if _, _, err := c.Create(ctx, nodePath, make([]byte, dataBytes), client.ModePersistent, nil, client.MakeParents()); err != nil {
		b.Fatal(err)
	}
}

// run measures every operation, the contenders one right after the other.
func run(b *testing.B, addr string) {
	contenders := []contender{zkd(b, addr), goZookeeper(b, addr)}
	for _, op := range operations {
		for _, outstanding := range []int{1, 64, 1024} {
			for _, c := range contenders {
				b.Run(fmt.Sprintf("%s/outstanding=%d/%s", op, outstanding, c.name), func(b *testing.B) {
					measure(b, outstanding, c.calls[op])
				})
			}
		}
	}
}

// measure keeps so many calls under way, a multiple of GOMAXPROCS or 1.
func measure(b *testing.B, outstanding int, call func() error) {
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
