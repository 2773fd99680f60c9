package server

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/wire"
)

// quick makes sessions expire a fraction of a second after their timeout.
func quick() option {
	return func(s *setup) {
		set("tickTime", "20")(s)
		set("minSessionTimeout", "40")(s)
		set("maxSessionTimeout", "60000")(s)
	}
}

func TestSilentSessionExpiresWithItsEphemerals(t *testing.T) {
	t.Parallel() // it waits
	srv := startServer(t, quick())
	watcher, c := open(t, srv.addr, 60_000), open(t, srv.addr, 2000)
	c.call(wire.OpCreate, createBody("/e1", nil, ephemeral), wire.OK)
	c.call(wire.OpCreate, createBody("/e2", nil, ephemeral), wire.OK)
	watcher.call(wire.OpExists, readBody("/e1", true), wire.OK)
	watcher.call(wire.OpExists, readBody("/e2", true), wire.OK)
	c.expectClosed()
	first := watcher.expectEvent(wire.EventNodeDeleted, "/e1")
	second := watcher.expectEvent(wire.EventNodeDeleted, "/e2")
	if first.Zxid != second.Zxid {
		t.Errorf("deleted at 0x%x and 0x%x", first.Zxid, second.Zxid)
	}
	dial(t, srv.addr).refused(c.reconnect())
	if n := srv.stats.SessionsExpired.Value(0); n != 1 {
		t.Errorf("stale_sessions_expired is %d", n)
	}
}

func TestSessionWithoutAConnectionExpires(t *testing.T) {
	t.Parallel() // it waits
	srv := startServer(t, quick())
	watcher, c := open(t, srv.addr, 60_000), open(t, srv.addr, 2000)
	c.call(wire.OpCreate, createBody("/e", nil, ephemeral), wire.OK)
	watcher.call(wire.OpExists, readBody("/e", true), wire.OK)
	_ = c.nc.Close()
	watcher.expectEvent(wire.EventNodeDeleted, "/e")
}

// until calls f again and again for as long as an unheard session of c's timeout needs to
// expire twice.
func until(srv *testServer, c *rawClient, f func()) {
	end := srv.nowNs() + 2*(int64(c.timeout)*1e6+srv.expiry.tickNs)
	for srv.nowNs() < end {
		f()
	}
}

func TestPingingSessionNeverExpires(t *testing.T) {
	t.Parallel() // it waits
	srv := startServer(t, quick())
	c := open(t, srv.addr, 2000)
	until(srv, c, func() { c.ping() })
}

// The C client sends no ping while it waits for an answer.
func TestSessionThatWaitsForTheLogNeverExpires(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("tickTime", "60000"), set("minSessionTimeout", "1000"))
	silent, waiting := open(t, srv.addr, 1000), open(t, srv.addr, 1000)
	g.block(t, srv)
	waiting.write(
		request(1, wire.OpCreate, createBody("/e", nil, ephemeral)),
		request(2, wire.OpExists, readBody("/e", false)),
		request(3, wire.OpSync, pathBody("/")),
	)
	waiting.ping()
	now := srv.nowNs()
	for range 10 { // minutes
		srv.expiry.look(now, now+srv.expiry.tickNs)
		now += srv.expiry.tickNs
	}
	g.open()
	silent.expectClosed()
	waiting.expect(1, wire.OK)
	waiting.expect(2, wire.OK)
	waiting.expect(3, wire.OK)
	waiting.ping()
}

// Once the end of a session may be on its way through the log its client is told nothing any
// more: it would believe that it has its whole timeout again.
func TestSilentClientIsNotAnsweredWhileItsEndIsUnderWay(t *testing.T) {
	for _, who := range []string{"by the leader itself", "by the leader, whom a report tells"} {
		t.Run(who, func(t *testing.T) {
			var g gate
			srv := startServer(t, withGate(&g), set("tickTime", "60000"), set("minSessionTimeout", "1000"))
			silent, heard := open(t, srv.addr, 1000), open(t, srv.addr, 600_000)
			g.block(t, srv) // nothing that is decided now is applied
			now := srv.nowNs() + 2*srv.expiry.tickNs
			if who == "by the leader itself" {
				srv.expiry.look(now, now)
			} else {
				srv.endSilences(now)
			}
			silent.expectClosed()
			heard.ping()
			g.open()
		})
	}
}

// What did not find room in a report is not taken for silence.
func TestReportThatIsNotCompleteProvesNothing(t *testing.T) {
	srv := startServer(t)
	for id := int64(1); id <= reportEntries; id++ {
		srv.expiry.gone[id] = 1
	}
	report, told, more := srv.appendReport(nil, nil, srv.nowNs(), true)
	require.True(t, more)
	require.Less(t, len(told), reportEntries)
	require.Len(t, report, reportHead+len(told)*reportEntry)
	srv.expiry.acknowledged(told)
	rest, last, more := srv.appendReport(nil, nil, srv.nowNs(), true)
	require.False(t, more)
	require.Equal(t, reportEntries, len(told)+len(last))
	require.NoError(t, srv.expiry.takeReport(rest, srv.nowNs()))
	require.Zero(t, srv.expiry.holders[srv.boot].coverNs, "it is for reportToLeader to say that it is complete")
}

func TestExpireSessionReturnsWhenAllIsGone(t *testing.T) {
	srv := startServer(t)
	c, other := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/e", nil, ephemeral), wire.OK)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := srv.ExpireSession(ctx, c.session); err != nil {
		t.Fatal(err)
	}
	other.call(wire.OpExists, readBody("/e", false), wire.NoNode)
	c.expectClosed()
	dial(t, srv.addr).refused(c.reconnect())
	if err := srv.ExpireSession(ctx, c.session); err != nil {
		t.Errorf("a session that is over: %v", err)
	}
}

func TestSessionCanBeExpiredAsSoonAsItsClientKnowsIt(t *testing.T) {
	srv := startServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 100 {
		c := open(t, srv.addr, 10_000)
		if err := srv.ExpireSession(ctx, c.session); err != nil {
			t.Fatal(err)
		}
		c.expectClosed()
	}
}

func TestExpireSessionEndsWithItsContextAndWithTheServer(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.drainTimeoutMs", "0"))
	c := open(t, srv.addr, 10_000)
	g.close(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := srv.ExpireSession(ctx, c.session); err == nil {
		t.Error("it returned before the session was gone")
	}
	result := make(chan error)
	go func() { result <- srv.ExpireSession(context.Background(), c.session) }()
	go func() { _ = srv.Close() }()
	if err := <-result; err == nil {
		t.Error("it returned nil from a closed server")
	}
	g.open()
}

// An expiry names the connection that was silent: whoever has come back meanwhile lives.
func TestExpiryOfAnOldConnectionDoesNotHitTheNewOne(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g))
	old := open(t, srv.addr, 10_000)
	g.block(t, srv)
	c := dial(t, srv.addr)
	c.write(frame(old.reconnect().Append(nil)))
	eventually(t, "the attach", func() bool { return srv.stats.ConnectionRevalidations.Value(0) == 1 })
	due := srv.expiry.due(srv.nowNs() + 1e12)
	if len(due) != 1 {
		t.Fatalf("%d sessions are due", len(due))
	}
	g.open()
	c.frame()
	if err := srv.propose(&due[0]); err != nil {
		t.Fatal(err)
	}
	c.call(wire.OpSync, pathBody("/"), wire.OK)
	c.ping()
}

// After a pause of the process, nothing has been read from sockets yet: silence proves
// nothing, also for sessions whose connections were last heard of long ago.
func TestSessionsGetTheirFullTimeoutAfterAStandstill(t *testing.T) {
	srv := startServer(t, set("tickTime", "60000"), set("minSessionTimeout", "1000"), set("maxSessionTimeout", "60000"))
	c := open(t, srv.addr, 1000)
	now := srv.nowNs() + int64(10*time.Minute) // c was last heard of ten minutes ago
	srv.expiry.look(now-2*srv.expiry.tickNs, now)
	srv.expiry.look(now, now+int64(time.Second)/2)
	c.call(wire.OpSync, pathBody("/"), wire.OK)
	c.ping()
	srv.expiry.look(now, now+int64(time.Minute))
	srv.expiry.look(now+int64(time.Minute), now+2*int64(time.Minute))
	c.expectClosed()
}

// A session that was made slowly, for the log stood still, has its full timeout from the
// moment it was made.
func TestTimeoutBeginsWhenTheSessionIsMade(t *testing.T) {
	srv := startServer(t, set("tickTime", "60000"), set("minSessionTimeout", "1000")) // its own loop sleeps
	c := open(t, srv.addr, 2000)
	conn := srv.connOf(c.session)
	conn.lastSeen.Store(srv.nowNs() - int64(time.Hour))
	now := srv.nowNs()
	srv.expiry.collect(now)
	if due := srv.expiry.due(now + 1e9); len(due) != 0 {
		t.Errorf("due: %v", due)
	}
}

func TestBucketsOfDump(t *testing.T) {
	srv := startServer(t)
	before := time.Now()
	a, b := open(t, srv.addr, 10_000), open(t, srv.addr, 40_000)
	buckets := srv.expiry.buckets()
	if len(buckets) != 2 || buckets[0].IDs[0] != a.session || buckets[1].IDs[0] != b.session {
		t.Fatalf("%+v", buckets)
	}
	at := buckets[0].Expires
	if at.Before(before.Add(8*time.Second)) || at.After(time.Now().Add(10*time.Second+2*2*time.Second)) {
		t.Errorf("expires %v after the session was asked for", at.Sub(before))
	}
}
