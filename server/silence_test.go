package server

import (
	"encoding/binary"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// asleep is a server whose own loops do not look while a test does.
func asleep(t *testing.T, opts ...option) *testServer {
	return startServer(t, append([]option{set("tickTime", "60000"), set("minSessionTimeout", "1000")}, opts...)...)
}

// agesIn are the sessions in a report, and how many milliseconds ago each was heard.
func agesIn(report []byte) map[int64]uint32 {
	ages := map[int64]uint32{}
	for b := report[reportHead:]; len(b) > 0; b = b[reportEntry:] {
		ages[int64(binary.BigEndian.Uint64(b))] = binary.BigEndian.Uint32(b[8:])
	}
	return ages
}

// What came last on a connection that has ended since its silence was judged is not overlooked.
func TestConnectionThatEndsWhileItIsJudgedHasItsTimeout(t *testing.T) {
	srv := asleep(t)
	c := open(t, srv.addr, 1000)
	conn := srv.connOf(c.session)
	now := srv.nowNs() + 2*srv.expiry.tickNs
	require.Len(t, srv.expiry.due(now), 1)
	conn.lastSeen.Store(now) // a request, just now
	require.NoError(t, c.nc.Close())
	eventually(t, "the end", func() bool { return srv.connOf(c.session) == nil })
	require.True(t, srv.expiry.heardMeanwhile(c.session, now))
	require.False(t, srv.expiry.heardMeanwhile(c.session, now+srv.expiry.tickNs))
}

// A connection that never learned that it has the session does not keep it for ever.
func TestSessionOfAnUnfinishedConnectionEnds(t *testing.T) {
	srv := asleep(t)
	c := open(t, srv.addr, 1000)
	conn := srv.connOf(c.session)
	conn.mu.Lock()
	conn.session, conn.timeoutMs = 0, 0
	conn.mu.Unlock()
	require.NoError(t, c.nc.Close())
	eventually(t, "the end", func() bool { return srv.connectionCount() == 0 })
	now := srv.nowNs() + 2*srv.expiry.tickNs
	require.Len(t, srv.expiry.due(now), 1)
	require.False(t, srv.expiry.heardMeanwhile(c.session, now))
}

// A connection that ends while a report is made is in it all the same.
func TestReportHasTheConnectionThatEndsMeanwhile(t *testing.T) {
	srv := asleep(t)
	c := open(t, srv.addr, 1000)
	reported := make(chan []byte, 1)
	srv.mu.Lock()
	unlock := sync.OnceFunc(srv.mu.Unlock)
	defer unlock()
	go func() {
		report, _, _ := srv.appendReport(nil, nil, srv.nowNs(), false)
		reported <- report
	}()
	stacks := make([]byte, 1<<20)
	eventually(t, "a report that waits for the connections", func() bool {
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "signsOfLife")
	})
	// As Server.forget does.
	srv.expiry.mu.Lock()
	srv.expiry.gone[c.session] = srv.nowNs()
	srv.expiry.mu.Unlock()
	delete(srv.sessions, c.session)
	unlock()
	require.Contains(t, agesIn(<-reported), c.session)
}

// A snapshot of the leader takes the place of the state here, and ends all connections: what came
// last on them the leader must learn.
func TestLastSignBeforeASnapshotIsReported(t *testing.T) {
	srv := newServer(t)
	srv.clustered = true
	const session, timeoutMs = 7, 4000
	m := state.New()
	m.Apply(&state.BatchHeader{}, &state.Command{Kind: state.KindCreateSession, Session: session, TimeoutMs: timeoutMs}, &state.Result{})
	srv.expiry.opened(session, 1, timeoutMs, srv.boot)
	seen := srv.nowNs()
	srv.expiry.rebuild(m, srv.nowNs()+1)
	srv.expiry.parted(session, seen)
	srv.expiry.parted(session, seen-int64(time.Hour)) // the connection before
	report, _, _ := srv.appendReport(nil, nil, seen, false)
	require.Equal(t, map[int64]uint32{session: 0}, agesIn(report))
}

// The first report over a new stream says when each was heard, in as many messages as that takes:
// nobody knows whether the last one over the stream before has arrived.
func TestReportsOverANewStreamHaveEverybody(t *testing.T) {
	srv := asleep(t)
	c := open(t, srv.addr, 1000)
	report, _, more := srv.appendReport(nil, nil, srv.nowNs(), false)
	require.False(t, more)
	require.Contains(t, agesIn(report), c.session)
	_, _, more = srv.appendReport(make([]byte, reportEntries*reportEntry), nil, srv.nowNs(), true)
	require.True(t, more, "there was no room")
	report, _, more = srv.appendReport(nil, nil, srv.nowNs(), false)
	require.False(t, more)
	require.Contains(t, agesIn(report), c.session)
}

// A client that has just got what it waited for has its whole timeout to say something.
func TestClientThatWaitedForTheLogIsNotCutWithItsAnswer(t *testing.T) {
	var g gate
	srv := asleep(t, withGate(&g))
	c := open(t, srv.addr, 1000)
	conn := srv.connOf(c.session)
	g.block(t, srv)
	xid := c.send(wire.OpCreate, createBody("/n", nil, ephemeral))
	eventually(t, "the write", conn.waitsForLog)
	long := srv.nowNs() - int64(time.Hour)
	conn.lastSeen.Store(long)
	require.False(t, conn.endSilence(srv.nowNs()))
	g.open()
	c.expect(xid, wire.OK)
	require.False(t, conn.endSilence(srv.nowNs()))
	c.ping()
}

// The leader must not take the session of a client that waits for its attach here.
func TestClientThatWaitsForItsAttachIsReported(t *testing.T) {
	var g gate
	srv := asleep(t, withGate(&g))
	old := open(t, srv.addr, 1000)
	require.NoError(t, old.nc.Close())
	eventually(t, "the end", func() bool { return srv.connectionCount() == 0 })
	g.block(t, srv)
	c := dial(t, srv.addr)
	c.write(frame(old.reconnect().Append(nil)))
	eventually(t, "the attach", func() bool {
		report, _, _ := srv.appendReport(nil, nil, srv.nowNs()+int64(time.Hour), false)
		age, has := agesIn(report)[old.session]
		return has && age == 0
	})
	g.open()
	c.frame()
	report, _, _ := srv.appendReport(nil, nil, srv.nowNs()+int64(time.Hour), true)
	require.NotZero(t, agesIn(report)[old.session])
}

// When a process stood still, what clients have sent meanwhile is not read at once.
func TestReportAfterAStandstillProvesNothing(t *testing.T) {
	const tick = int64(time.Second)
	p := newPace()
	now := int64(time.Hour)
	for _, step := range []struct {
		after       int64
		all, proves bool
	}{
		{0, true, false},           // the first one
		{tick / 100, false, false}, // it had no room for everybody
		{tick / 4, false, true},    // what came meanwhile is read
		{tick, false, true},        // a slow answer
		{3 * tick, true, false},    // a standstill
		{tick / 100, false, false}, //
		{2*tick + 1, true, false},  // the next one
		{tick / 4, false, true},    //
	} {
		now += step.after
		all, proves := p.next(now, tick)
		require.Equal(t, step.all, all, "%+v", step)
		require.Equal(t, step.proves, proves, "%+v", step)
	}
}

// Whoever could not be answered for its whole timeout may have lost its session; nobody else has.
func TestConnectionsThatWereNotAnsweredAreCutBeforeTheyAre(t *testing.T) {
	srv := asleep(t)
	short, long := open(t, srv.addr, 1000), open(t, srv.addr, 600_000)
	conn := srv.connOf(short.session)
	const never = -int64(time.Hour)
	conn.endUnanswered(never, conn.began+int64(time.Second)/2) // it has just come
	now := conn.began + int64(time.Minute)
	conn.endUnanswered(now-int64(time.Second)/2, now)
	short.ping()
	srv.connOf(long.session).endUnanswered(never, now)
	conn.endUnanswered(now-int64(time.Second), now)
	short.expectClosed()
	long.ping()
}
