package server

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

// cpuPerOp measures CPU time, which tells more than the clock where others use the machine, too.
func cpuPerOp(b *testing.B, run func()) {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	run()
	b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
}

// BenchmarkAccounting is what counting one request costs: the part of the hot path that metrics,
// srvr, cons and mntr live from. Compare it with BenchmarkRequests.
func BenchmarkAccounting(b *testing.B) {
	srv := startServer(b)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	c := newConn(srv.Server, ours, 1, 0, false)
	b.ReportAllocs()
	cpuPerOp(b, func() {
		for b.Loop() {
			c.shard.Received(1, 60)
			c.stats.Received(1)
			c.replied(wire.OpGetData, 1, 0, 120)
		}
	})
}

// BenchmarkRequests has 64 requests under way, with what an operator can turn on off and on:
// the audit log, somebody who looks at top.
func BenchmarkRequests(b *testing.B) {
	for _, kind := range []struct {
		name string
		op   wire.OpCode
		body []byte
	}{
		{"get", wire.OpGetData, readBody("/n", false)}, {"set", wire.OpSetData, setBody("/n", string(make([]byte, 100)))},
	} {
		b.Run(kind.name+"/off", func(b *testing.B) {
			cpuPerOp(b, func() { benchPipelined(b, startServer(b), kind.op, kind.body) })
		})
		b.Run(kind.name+"/audit", func(b *testing.B) {
			srv := startServer(b, withAudit(filepath.Join(b.TempDir(), "audit.log")))
			cpuPerOp(b, func() { benchPipelined(b, srv, kind.op, kind.body) })
		})
		b.Run(kind.name+"/top", func(b *testing.B) {
			srv := startServer(b)
			o := &observer{depth: 2}
			srv.observe(o)
			defer srv.unobserve(o)
			cpuPerOp(b, func() { benchPipelined(b, srv, kind.op, kind.body) })
		})
	}
}

// Counting must not allocate: it is done for every request.
func TestAccountingDoesNotAllocate(t *testing.T) {
	srv := startServer(t)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	c := newConn(srv.Server, ours, 1, 0, false)
	n := 1.0
	for range 5 { // the server's own goroutines may allocate meanwhile
		n = min(n, testing.AllocsPerRun(100, func() {
			c.shard.Received(1, 60)
			c.stats.Received(1)
			c.replied(wire.OpGetData, 1, 0, 120)
			c.notified(40)
		}))
	}
	if n != 0 {
		t.Errorf("%v allocations for each request", n)
	}
}
