package server

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

// The order guarantees of the protocol (protocol.md §3.3), one test each. That the zxid of
// replies never falls is checked by rawClient.next in every test.

func TestRepliesLeaveInRequestOrder(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.write(
		request(1, wire.OpCreate, createBody("/a", nil, persistent)),
		request(2, wire.OpExists, readBody("/a", false)),
		request(3, wire.OpSync, pathBody("/a")),
		request(4, wire.OpGetData, readBody("/missing", false)),
		request(wire.XidAuth, wire.OpAuth, authBody("digest", "bob:pw")),
		request(5, wire.OpSetData, []byte{1}), // cannot be decoded
		request(6, wire.OpSetData, setBody("/a", "x")),
		request(7, wire.OpWhoAmI, nil),
		request(8, wire.OpDelete, deleteBody("/a")),
		request(9, wire.OpExists, readBody("/a", false)),
	)
	for _, want := range []struct {
		xid  int32
		code wire.Code
	}{
		{1, wire.OK},
		{2, wire.OK},
		{3, wire.OK},
		{4, wire.NoNode},
		{wire.XidAuth, wire.OK},
		{5, wire.MarshallingError},
		{6, wire.OK},
		{7, wire.OK},
		{8, wire.OK},
		{9, wire.NoNode},
	} {
		c.expect(want.xid, want.code)
	}
}

func TestReadBehindPipelinedWriteSeesIt(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	for i := range 200 {
		want := fmt.Sprint(i)
		c.write(request(1, wire.OpSetData, setBody("/n", want)), request(2, wire.OpGetData, readBody("/n", false)))
		c.expect(1, wire.OK)
		if got, _ := dataOf(t, c.expect(2, wire.OK)); got != want {
			t.Fatalf("read %q behind a write of %q", got, want)
		}
	}
}

func TestReadDoesNotSeeWritesPipelinedBehindIt(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	g.block(t, srv)
	const n = 20
	var frames []byte
	for i := range int32(n) {
		frames = append(frames, request(2*i, wire.OpSetData, setBody("/n", fmt.Sprint(i)))...)
		frames = append(frames, request(2*i+1, wire.OpGetData, readBody("/n", false))...)
	}
	c.write(frames)
	c.ping() // everything before it is under way now
	g.open()
	for i := range int32(n) {
		c.expect(2*i, wire.OK)
		if got, _ := dataOf(t, c.expect(2*i+1, wire.OK)); got != fmt.Sprint(i) {
			t.Fatalf("the read behind write %d saw write %s", i, got)
		}
	}
}

func TestReadBeforePipelinedCloseSessionSeesItsEphemerals(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	c := open(t, srv.addr, 10_000)
	g.block(t, srv)
	c.write(
		request(1, wire.OpCreate, createBody("/e", nil, ephemeral)),
		request(2, wire.OpExists, readBody("/e", false)),
		request(3, wire.OpCloseSession, nil),
	)
	g.open()
	c.expect(1, wire.OK)
	c.expect(2, wire.OK)
	c.expect(3, wire.OK)
	c.expectClosed()
}

// A write that comes when the one before has been applied, but the read between them has
// been left to a flusher, which is not there yet.
func TestReadThatIsLeftToAFlusherDoesNotSeeALaterWrite(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	conn := srv.connOf(c.session)
	holds := func(f func() bool) func() bool {
		return func() bool {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			return f()
		}
	}
	eventually(t, "no flusher has it", holds(func() bool {
		free := !conn.inFlusher
		conn.inFlusher = true // as if it were queued
		return free
	}))
	g.block(t, srv)
	c.write(request(1, wire.OpSetData, setBody("/n", "old")), request(2, wire.OpGetData, readBody("/n", false)))
	c.ping()
	g.open()
	eventually(t, "the read is left", holds(func() bool { return conn.needDrain }))
	c.write(request(3, wire.OpSetData, setBody("/n", "new")))
	eventually(t, "the second write is applied", holds(func() bool { return conn.writes == 3 && conn.pending.writes == 0 }))
	conn.afterApply()
	c.expect(1, wire.OK)
	if got, _ := dataOf(t, c.expect(2, wire.OK)); got != "old" {
		t.Errorf("read %q", got)
	}
	c.expect(3, wire.OK)
}

func TestPipelinedWritesTakeEffectInOrder(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	const n = 300
	var frames []byte
	for i := range int32(n) {
		frames = append(frames, request(i, wire.OpSetData, setBody("/n", fmt.Sprint(i)))...)
	}
	c.write(frames)
	for i := range int32(n) {
		d := wire.NewDecoder(c.expect(i, wire.OK).body)
		if st := d.Stat(); st.Version != i+1 {
			t.Fatalf("write %d made version %d", i, st.Version)
		}
	}
	if got, _ := dataOf(t, c.call(wire.OpGetData, readBody("/n", false), wire.OK)); got != fmt.Sprint(n-1) {
		t.Fatalf("the last write is %s", got)
	}
}

func TestEventOfOwnWriteComesBeforeItsReply(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	c.call(wire.OpGetData, readBody("/n", true), wire.OK)
	xid := c.send(wire.OpSetData, setBody("/n", "x"))
	event := c.expectEvent(wire.EventNodeDataChanged, "/n")
	if r := c.expect(xid, wire.OK); event.Zxid != r.Zxid {
		t.Fatalf("event with zxid 0x%x, reply with 0x%x", event.Zxid, r.Zxid)
	}
}

func TestEventComesBeforeAReadThatShowsTheChange(t *testing.T) {
	srv := startServer(t)
	writer, reader := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	writer.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	for i := range 100 {
		_, before := dataOf(t, reader.call(wire.OpGetData, readBody("/n", true), wire.OK))
		writer.send(wire.OpSetData, setBody("/n", fmt.Sprint(i)))
		for told := false; ; {
			reader.send(wire.OpGetData, readBody("/n", false))
			r := reader.next()
			if r.Xid == wire.XidNotification {
				told = true
				r = reader.next()
			}
			if _, st := dataOf(t, r); st.Version != before.Version {
				if !told {
					t.Fatal("the change was shown before its event")
				}
				break
			}
		}
		writer.next()
	}
}

func TestEventsComeInTheOrderOfTransactions(t *testing.T) {
	srv := startServer(t)
	writer, watcher := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	r := wire.AddWatchRequest{Path: "/", Mode: wire.AddWatchPersistentRecursive}
	watcher.call(wire.OpAddWatch, r.Append(nil), wire.OK)
	const n = 100
	var frames []byte
	for i := range int32(n) {
		frames = append(frames, request(i, wire.OpCreate, createBody(fmt.Sprintf("/n%d", i), nil, persistent))...)
	}
	writer.write(frames)
	last := int64(0)
	for i := range n {
		e := watcher.expectEvent(wire.EventNodeCreated, fmt.Sprintf("/n%d", i))
		if e.Zxid <= last {
			t.Fatalf("event with zxid 0x%x behind 0x%x", e.Zxid, last)
		}
		last = e.Zxid
	}
}

// The order inside a transaction, with duplicates removed (protocol.md §7.2).
func TestEventsOfADeleteComeOnceAndTheParentLast(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.call(wire.OpCreate, createBody("/p", nil, persistent), wire.OK)
	c.call(wire.OpCreate, createBody("/p/n", nil, persistent), wire.OK)
	c.call(wire.OpGetData, readBody("/p/n", true), wire.OK)
	c.call(wire.OpExists, readBody("/p/n", true), wire.OK)
	c.call(wire.OpGetChildren, readBody("/p/n", true), wire.OK)
	c.call(wire.OpGetChildren2, readBody("/p", true), wire.OK)
	xid := c.send(wire.OpDelete, deleteBody("/p/n"))
	c.expectEvent(wire.EventNodeDeleted, "/p/n")
	c.expectEvent(wire.EventNodeChildrenChanged, "/p")
	c.expect(xid, wire.OK)
}

// If a change could fall between a read and its watch, the reader would wait for ever.
func TestReadAndWatchAreOneStep(t *testing.T) {
	srv := startServer(t)
	writer, reader := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	writer.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	const n = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			writer.call(wire.OpSetData, setBody("/n", ""), wire.OK)
		}
	}()
	for {
		_, st := dataOf(t, reader.call(wire.OpGetData, readBody("/n", true), wire.OK))
		if st.Version == n {
			break
		}
		reader.expectEvent(wire.EventNodeDataChanged, "/n")
	}
	<-done
}

func TestReadBehindSyncSeesWhatWasCommittedBefore(t *testing.T) {
	srv := startServer(t)
	writer, reader := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	writer.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	for i := range 100 {
		writer.call(wire.OpSetData, setBody("/n", fmt.Sprint(i)), wire.OK)
		reader.write(request(1, wire.OpSync, pathBody("/n")), request(2, wire.OpGetData, readBody("/n", false)))
		reader.expect(1, wire.OK)
		if got, _ := dataOf(t, reader.expect(2, wire.OK)); got != fmt.Sprint(i) {
			t.Fatalf("read %s behind a sync, want %d", got, i)
		}
	}
}

func TestSyncEchoesAnyPath(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	null := []byte{0xff, 0xff, 0xff, 0xff}
	for _, body := range [][]byte{pathBody("/"), pathBody("no path//"), pathBody(""), null} {
		if r := c.call(wire.OpSync, body, wire.OK); string(r.body) != string(body) {
			t.Errorf("sync of %x echoed %x", body, r.body)
		}
	}
}

func TestAuthIsAnsweredInItsPlace(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	g.block(t, srv)
	c.write(
		request(1, wire.OpSetData, setBody("/n", "x")),
		request(2, wire.OpExists, readBody("/n", false)),
		request(wire.XidAuth, wire.OpAuth, authBody("digest", "bob:pw")),
		request(3, wire.OpGetData, readBody("/n", false)),
	)
	c.ping()
	g.open()
	for _, xid := range []int32{1, 2, wire.XidAuth, 3} {
		if r := c.expect(xid, wire.OK); xid == wire.XidAuth && r.Zxid != 0 {
			t.Errorf("auth answered with zxid 0x%x", r.Zxid)
		}
	}
}

func TestNothingIsAnsweredBehindCloseSession(t *testing.T) {
	srv := startServer(t)
	c := open(t, srv.addr, 10_000)
	c.write(
		request(1, wire.OpCreate, createBody("/e", nil, ephemeral)),
		request(2, wire.OpCloseSession, nil),
		request(3, wire.OpExists, readBody("/", false)),
		request(4, wire.OpCreate, createBody("/behind", nil, persistent)),
	)
	c.expect(1, wire.OK)
	if r := c.expect(2, wire.OK); len(r.body) != 0 {
		t.Errorf("closeSession answered with a body %x", r.body)
	}
	c.expectClosed()
	other := open(t, srv.addr, 10_000)
	other.call(wire.OpExists, readBody("/e", false), wire.NoNode)
	other.call(wire.OpExists, readBody("/behind", false), wire.NoNode)
}

func TestPingIsAnsweredWhileTheLogIsBlocked(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	c := open(t, srv.addr, 10_000)
	g.close(t)
	c.write(request(1, wire.OpCreate, createBody("/n", nil, persistent)), request(2, wire.OpExists, readBody("/n", false)))
	for range 3 {
		c.ping()
	}
	g.open()
	c.expect(1, wire.OK)
	c.expect(2, wire.OK)
}

func TestReadsOfOtherSessionsDoNotWaitForTheLog(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	writer, reader := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	g.close(t)
	xid := writer.send(wire.OpCreate, createBody("/n", nil, persistent))
	reader.call(wire.OpExists, readBody("/n", false), wire.NoNode)
	g.open()
	writer.expect(xid, wire.OK)
}

// A full server must not stop reading pings (docs/decisions/0002).
func TestPingIsAnsweredWhileTheServerHasTooMuchUnderWay(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("globalOutstandingLimit", "2"))
	a, b := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	g.close(t)
	a.send(wire.OpCreate, createBody("/a", nil, persistent))
	b.send(wire.OpCreate, createBody("/b", nil, persistent))
	a.ping()
	b.ping()
	a.write(request(7, wire.OpCreate, createBody("/c", nil, persistent))) // has to wait
	g.open()
	a.expect(1, wire.OK)
	a.expect(7, wire.OK)
	b.expect(1, wire.OK)
}
