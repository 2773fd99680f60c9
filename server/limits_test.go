package server

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

func TestConnectionsOfOneAddressAreLimited(t *testing.T) {
	srv := startServer(t, set("maxClientCnxns", "2"))
	a, b := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	dial(t, srv.addr).expectClosed()
	over := dial(t, srv.addr) // words count, too
	_, _ = over.nc.Write([]byte("ruok"))
	over.expectClosed()
	a.call(wire.OpCloseSession, nil, wire.OK)
	a.expectClosed()
	_ = a.nc.Close()
	eventually(t, "the place is free", func() bool { return srv.connectionCount() == 1 })
	open(t, srv.addr, 10_000)
	b.ping()
}

func TestConnectionsInAllAreLimited(t *testing.T) {
	srv := startServer(t, set("maxCnxns", "1"))
	c := open(t, srv.addr, 10_000)
	dial(t, srv.addr).expectClosed()
	c.ping()
}

// deaf connects with a small receive window, so that little is enough to fill it.
func deaf(t *testing.T, addr string, timeoutMs int32) *rawClient {
	t.Helper()
	c := dial(t, addr)
	if err := c.nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	return c.create(timeoutMs)
}

// A client that asks for more and more and takes nothing: the server stops reading it, holds
// little, and cuts it when it has been stuck for as long as it may be silent.
func TestNeverReadingClientIsCutAndOthersAreServed(t *testing.T) {
	srv := startServer(t, set("tickTime", "100"), set("maxSessionTimeout", "60000"))
	other := open(t, srv.addr, 60_000)
	other.call(wire.OpCreate, createBody("/big", make([]byte, 500_000), persistent), wire.OK)
	c := deaf(t, srv.addr, 500)
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		f := bytes.Repeat(request(1, wire.OpGetData, readBody("/big", false)), 100)
		for {
			if _, err := c.nc.Write(f); err != nil {
				return // cut
			}
		}
	}()
	const bound = 2 << 20
	for running := true; running; {
		select {
		case <-flooded:
			running = false
		default:
		}
		other.call(wire.OpSetData, setBody("/", "x"), wire.OK)
		if n := srv.waitingBytes.Load(); n > bound {
			t.Fatalf("%d bytes wait for a client that does not read", n)
		}
	}
	eventually(t, "the connection is forgotten", func() bool { return srv.connectionCount() == 1 })
	if n := srv.waitingBytes.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestWatchStormToANeverReadingClientCutsIt(t *testing.T) {
	srv := startServer(t, set("zkd.maxConnQueueBytes", "65536"))
	c := deaf(t, srv.addr, 20_000)
	r := wire.AddWatchRequest{Path: "/", Mode: wire.AddWatchPersistentRecursive}
	c.call(wire.OpAddWatch, r.Append(nil), wire.OK)
	writer := open(t, srv.addr, 10_000)
	long := "/" + strings.Repeat("n", 10_000)
	writer.call(wire.OpCreate, createBody(long, nil, persistent), wire.OK)
	for i := 0; srv.connectionCount() > 1; i++ {
		if i > 100_000 {
			t.Fatal("it is not cut")
		}
		writer.call(wire.OpSetData, setBody(long, ""), wire.OK)
	}
	if n := srv.stats.ConnectionsDropped.Value(0); n != 1 {
		t.Errorf("connection_drop_count is %d", n)
	}
}

// When slow clients hold too much in all, each may hold less.
func TestWatchStormToManyNeverReadingClientsIsBoundedInAll(t *testing.T) {
	srv := startServer(t, set("zkd.maxTotalBufferBytes", "4194304"), set("maxClientCnxns", "0"))
	writer := open(t, srv.addr, 20_000)
	long := "/" + strings.Repeat("n", 100_000)
	writer.call(wire.OpCreate, createBody(long, nil, persistent), wire.OK)
	const n = 20
	for range n {
		c := deaf(t, srv.addr, 20_000)
		r := wire.AddWatchRequest{Path: long, Mode: wire.AddWatchPersistent}
		c.call(wire.OpAddWatch, r.Append(nil), wire.OK)
	}
	most := int64(0)
	for i := 0; srv.stats.ConnectionsDropped.Value(0) == 0; i++ {
		if i > 100_000 {
			t.Fatal("none is cut")
		}
		writer.call(wire.OpSetData, setBody(long, ""), wire.OK)
		most = max(most, srv.waitingBytes.Load())
	}
	if bound := int64(4<<20 + n*(outSoftLimit+100_000)); most > bound {
		t.Errorf("%d bytes waited, want at most %d", most, bound)
	}
}

// Clients that are slow, each within its limit, get no more than one reply at a time when
// too much waits for all of them.
func TestRepliesToSlowClientsAreBoundedInAll(t *testing.T) {
	const limit = 4 << 20
	srv := startServer(t, set("zkd.maxTotalBufferBytes", fmt.Sprint(limit)))
	c := open(t, srv.addr, 60_000)
	c.call(wire.OpCreate, createBody("/big", make([]byte, outSoftLimit-1000), persistent), wire.OK)
	const n = 60
	var slow []*conn
	for range n {
		d := deaf(t, srv.addr, 60_000)
		d.write(bytes.Repeat(request(1, wire.OpGetData, readBody("/big", false)), 100))
		slow = append(slow, srv.connOf(d.session))
	}
	waiting := 0
	eventually(t, "all are stuck", func() bool {
		waiting = 0
		stuck := 0
		for _, c := range slow {
			c.mu.Lock()
			waiting += len(c.out.queued) + len(c.out.buf)
			if c.outFull() {
				stuck++
			}
			c.mu.Unlock()
		}
		return stuck == n
	})
	if most := limit + (n+2)*outSoftLimit; waiting > most {
		t.Errorf("%d bytes wait, want at most %d", waiting, most)
	}
	c.ping()
}

func TestClientWithTooMuchUnderWayIsServedInTime(t *testing.T) {
	for _, tc := range []struct{ key, value string }{
		{"zkd.maxConnRequests", "3"},
		{"globalOutstandingLimit", "1"},
		{"zkd.maxConnBufferBytes", "1048575"},
	} {
		t.Run(tc.key, func(t *testing.T) {
			srv := startServer(t, set(tc.key, tc.value))
			c := open(t, srv.addr, 10_000)
			c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
			const n = 400
			var frames []byte
			for i := range int32(n) {
				switch i % 4 {
				case 0:
					frames = append(frames, request(i, wire.OpSetData, setBody("/n", string(make([]byte, 5000))))...)
				case 1:
					frames = append(frames, request(i, wire.OpGetData, readBody("/n", false))...)
				case 2:
					frames = append(frames, request(i, wire.OpSync, pathBody("/"))...)
				default:
					frames = append(frames, request(i, wire.OpAuth, authBody("digest", "a:b"))...)
				}
			}
			go func() { _, _ = c.nc.Write(frames) }()
			for i := range int32(n) {
				c.expect(i, wire.OK)
			}
			eventually(t, "nothing is under way", func() bool {
				return srv.pendingRequests.Load() == 0 && srv.pendingBytes.Load() == 0
			})
		})
	}
}

func TestMostRequestsUnderWayIsAHardLimit(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.maxConnRequests", "5"))
	c, other := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	g.close(t)
	const n = 50
	var frames []byte
	for i := range int32(n) {
		frames = append(frames, request(i, wire.OpSync, pathBody("/"))...)
	}
	c.write(frames)
	eventually(t, "the limit is reached", func() bool { return srv.pendingRequests.Load() == 5 })
	for range 10 {
		other.ping()
		if got := srv.pendingRequests.Load(); got != 5 {
			t.Fatalf("%d requests are under way", got)
		}
	}
	g.open()
	for i := range int32(n) {
		c.expect(i, wire.OK)
	}
}

func TestOperationsOfAMultiAreLimited(t *testing.T) {
	c := open(t, startServer(t, set("zkd.maxMultiOps", "3")).addr, 10_000)
	multi := func(op wire.OpCode, n int) []byte {
		ops := make([]wire.MultiOp, n)
		for i := range ops {
			ops[i] = wire.MultiOp{Op: op, Check: wire.CheckRequest{Path: "/", Version: -1}, Path: wire.PathWatchRequest{Path: "/"}}
		}
		return wire.AppendMulti(nil, ops)
	}
	c.call(wire.OpMulti, multi(wire.OpCheck, 3), wire.OK)
	c.call(wire.OpMulti, multi(wire.OpCheck, 4), wire.MarshallingError)
	c.call(wire.OpMultiRead, multi(wire.OpGetData, 3), wire.OK)
	c.call(wire.OpMultiRead, multi(wire.OpGetData, 4), wire.MarshallingError)
}

func TestLongMultiReadFailsWithoutItsReply(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.call(wire.OpCreate, createBody("/big", make([]byte, 1_000_000), persistent), wire.OK)
	ops := make([]wire.MultiOp, 9)
	for i := range ops {
		ops[i] = wire.MultiOp{Op: wire.OpGetData, Path: wire.PathWatchRequest{Path: "/big"}}
	}
	c.call(wire.OpMultiRead, wire.AppendMulti(nil, ops), wire.MarshallingError)
	c.call(wire.OpMultiRead, wire.AppendMulti(nil, ops[:8]), wire.OK)
}

func TestWatchesOfAConnectionAreLimited(t *testing.T) {
	srv := startServer(t, set("zkd.maxConnWatches", "10"))
	c := open(t, srv.addr, 10_000)
	for i := range 10 {
		path := fmt.Sprintf("/n%d", i)
		c.call(wire.OpExists, readBody(path, true), wire.NoNode)
		// What has fired does not count.
		xid := c.send(wire.OpCreate, createBody(path, nil, persistent))
		c.expectEvent(wire.EventNodeCreated, path)
		c.expect(xid, wire.OK)
	}
	for i := range 10 {
		c.call(wire.OpGetData, readBody(fmt.Sprintf("/n%d", i), true), wire.OK)
		c.call(wire.OpGetData, readBody(fmt.Sprintf("/n%d", i), true), wire.OK)
	}
	c.send(wire.OpGetData, readBody("/", true))
	c.expectClosed()
	eventually(t, "no watch is left", func() bool { return srv.watches.Counts().Watches == 0 })
}

// What has no node can be watched, too, so the paths are as long as the client likes.
func TestLongPathsCountAsSeveralWatches(t *testing.T) {
	srv := startServer(t, set("zkd.maxConnWatches", "1000"))
	c := open(t, srv.addr, 10_000)
	long := "/" + strings.Repeat("n", 100_000)
	c.call(wire.OpExists, readBody(long+"1", true), wire.NoNode)
	c.call(wire.OpExists, readBody(long+"2", true), wire.NoNode)
	r := wire.WatchesRequest{Path: long + "1", Type: wire.WatcherAny}
	c.call(wire.OpRemoveWatches, r.Append(nil), wire.OK)
	c.call(wire.OpExists, readBody(long+"3", true), wire.NoNode)
	c.send(wire.OpExists, readBody(long+"4", true))
	for { // the reply may still have left
		if _, err := c.readFrame(); err != nil {
			break
		}
	}
	eventually(t, "no watch is left", func() bool { return srv.watches.Counts().Watches == 0 })
}

func TestIdentitiesOfAConnectionAreLimited(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	for i := range maxIdentityBytes {
		c.write(request(wire.XidAuth, wire.OpAuth, authBody("digest", strings.Repeat("u", 1000)+fmt.Sprint(i)+":p")))
		if r := c.next(); r.Err == wire.AuthFailed {
			c.expectClosed()
			return
		}
	}
	t.Error("there is no limit")
}

// Unfinished frames of many connections together may not take more than is configured.
func TestUnfinishedFramesAreBoundedInAll(t *testing.T) {
	srv := startServer(t, set("zkd.maxTotalBufferBytes", "4194304"))
	most := int64(0)
	for range 10 {
		c := dial(t, srv.addr)
		go func() {
			f := make([]byte, 900_000)
			copy(f, []byte{0, 0xf, 0xff, 0xff})
			_, _ = c.nc.Write(f)
		}()
	}
	eventually(t, "some are refused", func() bool {
		most = max(most, srv.heldBytes.Load())
		return srv.stats.LargeRequestsRefused.Value(0) > 0
	})
	if most > 4<<20+1<<20 {
		t.Errorf("%d bytes were held", most)
	}
}

// More replies to reads between two writes than may wait: cutting the connection is the
// only way to neither break the order nor hold it all.
func TestTooManyReadsBetweenPipelinedWritesCutTheConnection(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.maxConnQueueBytes", "100000"))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", make([]byte, 50_000), persistent), wire.OK)
	g.block(t, srv)
	frames := [][]byte{request(1, wire.OpSync, pathBody("/"))}
	for range 5 {
		frames = append(frames, request(2, wire.OpGetData, readBody("/n", false)))
	}
	c.write(append(frames, request(3, wire.OpDelete, deleteBody("/n")))...)
	c.ping()
	g.open()
	for {
		if _, err := c.readFrame(); err != nil {
			break
		}
	}
	open(t, srv.addr, 10_000).call(wire.OpExists, readBody("/n", false), wire.NoNode)
}
