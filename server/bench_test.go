package server

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

// benchPipelined keeps 64 requests under way on one connection.
func benchPipelined(b *testing.B, srv *testServer, op wire.OpCode, body []byte) {
	c := open(b, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", make([]byte, 100), persistent), wire.OK)
	const half = 32
	var requests []byte
	for i := range half {
		requests = append(requests, request(int32(i), op, body)...)
	}
	c.write(requests)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%half == 0 {
			c.write(requests)
		}
		c.skipFrame()
	}
}

func BenchmarkPipelinedGet(b *testing.B) {
	benchPipelined(b, startServer(b), wire.OpGetData, readBody("/n", false))
}

func BenchmarkPipelinedSet(b *testing.B) {
	benchPipelined(b, startServer(b), wire.OpSetData, setBody("/n", string(make([]byte, 100))))
}

// BenchmarkOneSet has one write under way: its latency, without a disk.
func BenchmarkOneSet(b *testing.B) {
	c := open(b, startServer(b).addr, 10_000)
	f := request(1, wire.OpSetData, setBody("/", "x"))
	b.ReportAllocs()
	for b.Loop() {
		c.write(f)
		c.skipFrame()
	}
}

// BenchmarkIdleConnection opens connections that then do nothing, and reports what each
// costs, the client's socket in this process included.
func BenchmarkIdleConnection(b *testing.B) {
	const n = 5000
	for b.Loop() {
		b.StopTimer()
		srv := startServer(b)
		before, rssBefore := inUse(), resident()
		clients := make([]*rawClient, n)
		b.StartTimer()
		for i := range clients {
			clients[i] = open(b, srv.addr, 60_000)
			clients[i].ping()
			clients[i].in = nil // the client's buffer is not the server's
		}
		b.StopTimer()
		b.ReportMetric(float64(inUse()-before)/n, "B/conn")
		b.ReportMetric(float64(resident()-rssBefore)/n, "RSS-B/conn")
		for _, c := range clients {
			_ = c.nc.Close()
		}
		_ = srv.Close()
		b.StartTimer()
	}
}

// inUse is the memory of heap and stacks after a collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // stacks shrink and pools are emptied by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// resident is the memory of the process as the system sees it, 0 where that is not known.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return int64(pages * os.Getpagesize())
}

// BenchmarkFanOut changes a node that 1,000 connections watch for ever: the time until the
// last of them has its event.
func BenchmarkFanOut(b *testing.B) {
	const n = 1000
	srv := startServer(b)
	writer := open(b, srv.addr, 60_000)
	writer.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	clients := make([]*rawClient, n)
	for i := range clients {
		clients[i] = open(b, srv.addr, 60_000)
		r := wire.AddWatchRequest{Path: "/n", Mode: wire.AddWatchPersistent}
		clients[i].call(wire.OpAddWatch, r.Append(nil), wire.OK)
	}
	f := request(1, wire.OpSetData, setBody("/n", "x"))
	b.ReportAllocs()
	for b.Loop() {
		writer.write(f)
		writer.skipFrame()
		for _, c := range clients {
			c.skipFrame()
		}
	}
}
