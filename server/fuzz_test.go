package server

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// FuzzConversation sends any bytes behind a handshake, and before one: whatever comes, the
// connection ends in time and others are served.
func FuzzConversation(f *testing.F) {
	srv := startServer(f, set("zkd.handshakeTimeoutMs", "10000"))
	auth := wire.AuthPacket{Scheme: "digest", Auth: []byte("a:b")}
	watches := wire.SetWatches2{DataWatches: []string{"/", ""}, PersistentRecursiveWatches: []string{"//"}}
	for _, b := range [][]byte{
		nil,
		[]byte("ruok"),
		[]byte("stmk1"),
		{0xff, 0xff, 0xff, 0xff},
		request(1, wire.OpCreate, createBody("/a", []byte("x"), ephemeral)),
		request(1, wire.OpSetWatches2, watches.Append(nil)),
		request(-4, wire.OpAuth, auth.Append(nil)),
		request(1, wire.OpSASL, wire.AppendBuffer(nil, []byte("x"))),
		request(1, wire.OpMulti, wire.AppendMulti(nil, []wire.MultiOp{{Op: wire.OpCheck}, {Op: wire.OpDelete}})),
		append(request(1, wire.OpSync, pathBody("/")), request(2, wire.OpCloseSession, nil)...),
		request(1, wire.OpReconfig, []byte{0, 0, 0, 0}),
	} {
		f.Add(true, b)
		f.Add(false, b)
	}
	f.Fuzz(func(t *testing.T, handshake bool, b []byte) {
		c := dial(t, srv.addr)
		if handshake {
			c.create(10_000)
		}
		_, _ = c.nc.Write(b)
		_ = c.nc.(*net.TCPConn).CloseWrite()
		_ = c.nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c.nc); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Fatal("the connection does not end")
			}
		}
		open(t, srv.addr, 10_000).call(wire.OpExists, readBody("/", false), wire.OK)
	})
}
