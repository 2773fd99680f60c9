package server

import (
	"testing"

	"github.com/zkd-project/zkd/wire"
)

// benchPipelined keeps 64 requests under way on one connection.
func benchPipelined(b *testing.B, op wire.OpCode, body []byte) {
	srv := startServer(b)
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
	benchPipelined(b, wire.OpGetData, readBody("/n", false))
}

func BenchmarkPipelinedSet(b *testing.B) {
	benchPipelined(b, wire.OpSetData, setBody("/n", string(make([]byte, 100))))
}
