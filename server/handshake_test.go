package server

import (
	"bytes"
	"net"
	"testing"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

func TestHandshakeAnswersEveryKindOfClient(t *testing.T) {
	srv := startServer(t, set("tickTime", "2000"))
	for _, tc := range []struct {
		name    string
		req     wire.ConnectRequest
		extra   string
		length  int // of the response
		timeout int32
	}{
		{"with the read-only flag", wire.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}, "", 37, 10_000},
		{"without the flag", wire.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16)}, "", 36, 10_000},
		{"that would read only", wire.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true, ReadOnly: true}, "", 37, 10_000},
		{"with a null password", wire.ConnectRequest{TimeoutMs: 10_000}, "", 36, 10_000},
		{"with a short password", wire.ConnectRequest{TimeoutMs: 10_000, Password: []byte("12345")}, "", 36, 10_000},
		{"with bytes behind the request", wire.ConnectRequest{TimeoutMs: 10_000, HasReadOnly: true}, "more", 37, 10_000},
		{"of another protocol version", wire.ConnectRequest{ProtocolVersion: 7, TimeoutMs: 10_000}, "", 36, 10_000},
		{"with no timeout", wire.ConnectRequest{}, "", 36, 4000},
		{"with a negative timeout", wire.ConnectRequest{TimeoutMs: -5}, "", 36, 4000},
		{"with a huge timeout", wire.ConnectRequest{TimeoutMs: 99_999_999}, "", 36, 40_000},
		{"with an odd timeout", wire.ConnectRequest{TimeoutMs: 12_345}, "", 36, 12_345},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, srv.addr)
			c.write(frame(tc.req.Append(nil), []byte(tc.extra)))
			body := c.frame()
			var r wire.ConnectResponse
			d := wire.NewDecoder(body)
			r.Decode(&d)
			if len(body) != tc.length || r.TimeoutMs != tc.timeout || r.ProtocolVersion != 0 || r.ReadOnly {
				t.Errorf("%d bytes: %+v", len(body), r)
			}
			if len(r.Password) != 16 || bytes.Equal(r.Password, make([]byte, 16)) {
				t.Errorf("password %x", r.Password)
			}
			if !session.ValidID(r.SessionID) || byte(r.SessionID>>56) != 1 {
				t.Errorf("session 0x%x", uint64(r.SessionID))
			}
			c.ping()
		})
	}
}

func TestRequestsInTheSegmentOfTheHandshakeAreServed(t *testing.T) {
	c := dial(t, startServer(t).addr)
	r := wire.ConnectRequest{TimeoutMs: 10_000}
	c.write(
		frame(r.Append(nil)),
		request(1, wire.OpCreate, createBody("/n", nil, persistent)),
		request(2, wire.OpExists, readBody("/n", false)),
		request(wire.XidPing, wire.OpPing, nil)[:5],
	)
	c.frame()
	c.expect(1, wire.OK)
	c.expect(2, wire.OK)
	c.write(request(wire.XidPing, wire.OpPing, nil)[5:])
	c.expect(wire.XidPing, wire.OK)
}

// refused takes the answer that says that a session is over.
func (c *rawClient) refused(r *wire.ConnectRequest) {
	c.t.Helper()
	c.write(frame(r.Append(nil)))
	want := make([]byte, 4+4+8)
	want = wire.AppendBuffer(want, make([]byte, 16))
	if r.HasReadOnly {
		want = append(want, 0)
	}
	if body := c.frame(); !bytes.Equal(body, want) {
		c.t.Errorf("refused with %x", body)
	}
	c.expectClosed()
}

func TestWrongPasswordLeavesTheRightfulConnectionAlone(t *testing.T) {
	srv := startServer(t)
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/e", nil, ephemeral), wire.OK)
	for _, password := range [][]byte{nil, {}, []byte("short"), make([]byte, 16), make([]byte, 17)} {
		r := c.reconnect()
		r.Password = password
		dial(t, srv.addr).refused(r)
		r.HasReadOnly = false
		dial(t, srv.addr).refused(r)
	}
	c.call(wire.OpExists, readBody("/e", false), wire.OK)
}

func TestUnknownSessionIsRefused(t *testing.T) {
	srv := startServer(t)
	dial(t, srv.addr).refused(&wire.ConnectRequest{SessionID: 0x100000000000001, Password: make([]byte, 16), HasReadOnly: true})
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCloseSession, nil, wire.OK)
	c.expectClosed()
	dial(t, srv.addr).refused(c.reconnect())
}

func TestClientThatHasSeenMoreIsTurnedAwayWithoutAByte(t *testing.T) {
	c := dial(t, startServer(t).addr)
	r := wire.ConnectRequest{LastZxidSeen: 1 << 60, TimeoutMs: 10_000}
	c.write(frame(r.Append(nil)))
	c.expectClosed()
}

func TestReconnectTakesOverSessionAndTimeout(t *testing.T) {
	srv := startServer(t)
	old := open(t, srv.addr, 10_000)
	old.call(wire.OpCreate, createBody("/e", nil, ephemeral), wire.OK)
	old.call(wire.OpExists, readBody("/e", true), wire.OK)
	_ = old.nc.Close()
	old.timeout = 30_000
	c := attach(t, srv.addr, old)
	if c.timeout != 30_000 || !bytes.Equal(c.password, old.password) {
		t.Errorf("timeout %d, password %x, was %x", c.timeout, c.password, old.password)
	}
	_, st := dataOf(t, c.call(wire.OpGetData, readBody("/e", false), wire.OK))
	if st.EphemeralOwner != c.session {
		t.Errorf("owner 0x%x, session 0x%x", st.EphemeralOwner, c.session)
	}
	// Watches do not move along: the next frame is the reply.
	c.call(wire.OpSetData, setBody("/e", "x"), wire.OK)
}

func TestMovedSessionClosesTheOldConnectionWithoutAReply(t *testing.T) {
	srv := startServer(t)
	old := open(t, srv.addr, 10_000)
	c := attach(t, srv.addr, old)
	old.expectClosed()
	c.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
}

// The log decides: a write that comes behind the move of its session is refused, although
// its connection was still open when it was sent.
func TestLateWriteOfAMovedSessionIsRefused(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	old := open(t, srv.addr, 10_000)
	g.block(t, srv)
	move := state.Command{
		Kind: state.KindAttach, Session: old.session, Epoch: 1, Password: [16]byte(old.password), TimeoutMs: 10_000,
		Origin: session.Origin{Boot: srv.boot + 1, Conn: 1},
	}
	if err := srv.propose(&move); err != nil {
		t.Fatal(err)
	}
	old.send(wire.OpCreate, createBody("/late", nil, persistent))
	old.ping()
	g.open()
	old.expectClosed()
	open(t, srv.addr, 10_000).call(wire.OpExists, readBody("/late", false), wire.NoNode)
}

// A sync of the old connection has the same tag as the first one of the new connection, and
// must not answer it.
func TestLateSyncOfAMovedSessionAnswersNobodyElse(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	c := attach(t, srv.addr, open(t, srv.addr, 10_000))
	g.block(t, srv)
	xid := c.send(wire.OpSync, pathBody("/"))
	c.ping()
	late := state.Command{Kind: state.KindSync, Session: c.session, Epoch: 1, Req: 1}
	srv.Applied(&late, &state.Result{}) // the apply loop stands at the gate
	c.ping()
	g.open()
	c.expect(xid, wire.OK)
}

func TestTheNewestOfManyReconnectsWins(t *testing.T) {
	srv := startServer(t)
	first := open(t, srv.addr, 10_000)
	clients := make([]*rawClient, 8)
	for i := range clients {
		clients[i] = dial(t, srv.addr)
		clients[i].write(frame(first.reconnect().Append(nil)))
	}
	first.expectClosed()
	eventually(t, "one connection is left", func() bool {
		return srv.stats.ConnectionRevalidations.Value(0) == int64(len(clients)) && srv.connectionCount() == 1
	})
	open := 0
	for _, c := range clients {
		if _, err := c.readFrame(); err != nil {
			continue // the next one was quicker
		}
		if _, err := c.nc.Write(request(1, wire.OpExists, readBody("/", false))); err != nil {
			continue
		}
		if _, err := c.readFrame(); err == nil {
			open++
		}
	}
	if open != 1 {
		t.Errorf("%d connections of one session are open", open)
	}
	if n := len(srv.boundSessions(nil)); n != 1 {
		t.Errorf("%d sessions are bound", n)
	}
}

func TestSilentConnectionIsClosedAtTheHandshakeDeadline(t *testing.T) {
	srv := startServer(t, set("zkd.handshakeTimeoutMs", "200"))
	dial(t, srv.addr).expectClosed()
	half := dial(t, srv.addr)
	half.write([]byte{0, 0, 0, 45, 0, 0})
	half.expectClosed()
	if n := srv.stats.SessionlessExpired.Value(0); n != 2 {
		t.Errorf("sessionless_connections_expired is %d", n)
	}
}

// One byte now and then must not keep a connection alive: the deadline is absolute.
func TestDribblingHandshakeIsClosedAtTheDeadline(t *testing.T) {
	srv := startServer(t, set("zkd.handshakeTimeoutMs", "200"))
	c := dial(t, srv.addr)
	r := wire.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16<<10)}
	bytesOf := frame(r.Append(nil))
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.expectClosed()
	}()
	for i := range len(bytesOf) - 1 { // never the last one
		if _, err := c.nc.Write(bytesOf[i : i+1]); err != nil {
			break
		}
	}
	<-closed
}

// While the log stands nobody reads a connection that waits for its session, so that its client has
// gone is not seen.
func TestHandshakeThatTheLogDoesNotAnswerEndsAtTheDeadline(t *testing.T) {
	t.Parallel() // it waits
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.handshakeTimeoutMs", "5000"))
	old := open(t, srv.addr, 60_000)
	g.block(t, srv)
	fresh, returning := dial(t, srv.addr), dial(t, srv.addr)
	r := wire.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16)}
	fresh.write(frame(r.Append(nil)))
	returning.write(frame(old.reconnect().Append(nil)))
	fresh.expectClosed()
	returning.expectClosed()
	eventually(t, "they are forgotten", func() bool { return srv.connectionCount() == 1 })
	if n := srv.stats.SessionlessExpired.Value(0); n != 2 {
		t.Errorf("%d connections were closed for want of a session", n)
	}
	old.ping()
	g.open()
	// Who has given up is not let in behind its back, but the attach was proposed: it cuts the old one.
	old.expectClosed()
	attach(t, srv.addr, old).ping()
}

func TestEstablishedConnectionHasNoDeadline(t *testing.T) {
	t.Parallel() // it waits
	srv := startServer(t, set("zkd.handshakeTimeoutMs", "5000"))
	c := open(t, srv.addr, 40_000)
	dial(t, srv.addr).expectClosed() // connected later, so its deadline is later
	c.ping()
}

func TestThrottleTurnsSessionsAway(t *testing.T) {
	srv := startServer(t, set("connection_throttle_tokens", "2"), set("connection_throttle_fill_time", "3600000"))
	c := open(t, srv.addr, 10_000)
	attach(t, srv.addr, c)
	turned := dial(t, srv.addr)
	turned.write(frame(c.reconnect().Append(nil)))
	turned.expectClosed()
}

func TestThrottleFillsUp(t *testing.T) {
	srv := newServer(t, set("connection_throttle_tokens", "5"), set("connection_throttle_fill_time", "10"),
		set("connection_throttle_fill_count", "2"))
	const ms = 1e6
	take := func(nowMs int64) (n int) {
		for srv.throttle.take(nowMs * ms) {
			n++
		}
		return n
	}
	for _, tc := range []struct {
		atMs int64
		want int
	}{{0, 5}, {9, 0}, {10, 2}, {19, 0}, {35, 4}, {39, 0}, {40, 2}, {1000, 5}, {1 << 40, 5}} {
		if got := take(tc.atMs); got != tc.want {
			t.Errorf("%d tokens at %d ms, want %d", got, tc.atMs, tc.want)
		}
	}
}

func TestSessionIDsHaveTheServersNumber(t *testing.T) {
	for server, want := range map[int]byte{1: 1, 254: 254, 255: 0} {
		s := newServer(t)
		s.cfg.Cluster.ServerID = server
		if id := s.drawSessionID(); byte(id>>56) != want || !session.ValidID(id) {
			t.Errorf("server %d draws 0x%x", server, uint64(id))
		}
	}
}

func TestHandshakeIsRefusedWhileNotServing(t *testing.T) {
	srv := newServer(t)
	if err := srv.openPorts(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, srv.Addrs()[0].String())
	r := wire.ConnectRequest{TimeoutMs: 10_000}
	c.write(frame(r.Append(nil)))
	c.expectClosed()
	if n := srv.stats.ClosedNotServing.Value(0); n != 1 {
		t.Errorf("cnxn_closed_without_zk_server_running is %d", n)
	}
}

// A client that has gone while its session was being made leaves a session that expires,
// and no trace in the registry.
func TestSessionOfAVanishedClientIsBoundToNobody(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.drainTimeoutMs", "0"))
	g.block(t, srv)
	c := dial(t, srv.addr)
	r := wire.ConnectRequest{TimeoutMs: 10_000}
	c.write(frame(r.Append(nil)))
	eventually(t, "the connect request", func() bool { return srv.stats.ConnectionRequests.Value(0) == 1 })
	for _, conn := range srv.connections() {
		conn.abort()
	}
	g.open()
	c.expectClosed()
	eventually(t, "the connection is forgotten", func() bool { return srv.connectionCount() == 0 })
	if err := srv.propose(&state.Command{Kind: state.KindSync}); err != nil {
		t.Fatal(err)
	}
	open(t, srv.addr, 10_000)
	if n := len(srv.boundSessions(nil)); n != 1 {
		t.Errorf("%d sessions are bound, want that of the living client", n)
	}
}

// The same, when the log answers after the connection has died and before it is forgotten.
func TestSessionOfADyingConnectionIsForgottenWithIt(t *testing.T) {
	srv := startServer(t)
	dial(t, srv.addr)
	eventually(t, "the connection", func() bool { return srv.connectionCount() == 1 })
	dying := srv.connections()[0]
	dying.mu.Lock()
	dying.dead = true // its reader does not know yet
	dying.mu.Unlock()
	create := state.Command{
		Kind: state.KindCreateSession, Session: srv.drawSessionID(), TimeoutMs: 10_000,
		Origin: session.Origin{Boot: srv.boot, Conn: dying.number},
	}
	if err := srv.propose(&create); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session", func() bool { return srv.SessionCount() == 1 })
	dying.abort()
	eventually(t, "the connection is forgotten", func() bool { return srv.connectionCount() == 0 })
	if n := len(srv.boundSessions(nil)); n != 0 {
		t.Error("the session is bound to a connection that is gone")
	}
}

// After a change of leader an attach is proposed again, and its late answer can be taken for that
// to the next attempt. When that attempt is then found done, the session is this connection's.
func TestAttachThatIsFoundDoneTakesTheSession(t *testing.T) {
	srv := startServer(t)
	theirs, ours := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	c := newConn(srv.Server, ours, 1, 0, false)
	cmd := state.Command{Kind: state.KindAttach, Session: 7}
	c.establish(&cmd, &state.Result{Outcome: state.Stale}) // of the older attempt
	if c.outcome != state.Stale || c.session != 0 {
		t.Fatal(c.outcome, c.session)
	}
	c.answered = false // the third attempt
	c.establish(&cmd, &state.Result{Outcome: state.Duplicate, Session: 7, Epoch: 3, TimeoutMs: 4000})
	if c.outcome != state.Applied || c.session != 7 || c.epoch != 3 || c.timeoutMs != 4000 || len(c.out.queued) == 0 {
		t.Fatalf("outcome %v, session %d, epoch %d, timeout %d, %d bytes for the client",
			c.outcome, c.session, c.epoch, c.timeoutMs, len(c.out.queued))
	}
}
