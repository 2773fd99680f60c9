package server

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
)

// heldElsewhere is a session whose client is connected to another server, whose process has the nonce.
func heldElsewhere(t *testing.T, srv *testServer, id int64, timeoutMs int32, boot uint64) {
	t.Helper()
	require.NoError(t, srv.propose(&state.Command{
		Kind: state.KindCreateSession, Session: id, TimeoutMs: timeoutMs, Origin: session.Origin{Boot: boot, Conn: 1},
	}))
	eventually(t, "the session", func() bool { return srv.knows(id) })
}

func (s *testServer) knows(id int64) bool {
	s.node.RLock()
	defer s.node.RUnlock()
	return s.node.Machine().Session(id) != nil
}

// reportOf is a report of a server that has heard of a session just now.
func reportOf(boot uint64, id int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, boot)
	return appendSign(binary.BigEndian.AppendUint64(b, 0), id, 0)
}

// The servers of a cluster may have different ticks, halfway through a change: for how long they answer
// without the leader, and what the leader reckons with, must be the same all the same.
func TestHowLongAServerAnswersDoesNotFollowItsTick(t *testing.T) {
	const timeoutMs, other = 4000, 4711
	srv := asleep(t)
	srv.clustered = true
	defer func() { srv.clustered = false }()
	e := newExpiry(srv.Server) // nobody else looks at it
	for _, e.tickNs = range []int64{int64(100 * time.Millisecond), int64(time.Minute)} {
		srv.ackedNs.Store(srv.nowNs() - int64(answerWindow) - 1)
		require.False(t, srv.mayAnswer())
		srv.ackedNs.Store(srv.nowNs() + int64(time.Hour))
		require.True(t, srv.mayAnswer())
		require.Equal(t, int64(answerWindow+surelyLed), e.unledNs(), "what a new leader gives")
		l := &living{timeoutNs: timeoutMs * int64(time.Millisecond), boot: other}
		e.mu.Lock()
		e.holders[other] = &holder{heardNs: 0}
		end := int64(answerWindow) + l.timeoutNs // somebody was answered at answerWindow
		require.False(t, e.over(l, end-1))
		require.True(t, e.over(l, end))
		e.mu.Unlock()
	}
}

// What a leader has judged is of no use once it leads no more: its successor hears of sessions of which it
// has heard nothing.
func TestWhatALeaderHasJudgedDoesNotOutliveItsLeadership(t *testing.T) {
	srv := asleep(t)
	c := open(t, srv.addr, 1000)
	e := srv.expiry
	_, gen, leads := srv.node.Leading()
	require.True(t, leads)
	now := srv.nowNs() + 2*e.tickNs
	e.gen = gen + 1 // it judges in a generation that is not that of the log any more
	e.look(now, now)
	require.True(t, e.proposed(c.session))
	heldElsewhere(t, srv, 78, 60_000, 4711) // which is behind it in the log
	require.True(t, srv.knows(c.session))
	e.gen = gen
	now += 2 * e.tickNs
	e.look(now, now)
	eventually(t, "the end", func() bool { return !srv.knows(c.session) })
}

func (e *expiry) proposed(id int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.known[id]
	return l != nil && l.proposedNs != 0
}

// While a leader tries in vain to hand over it takes no reports: that the others are silent then is its own
// doing.
func TestSilenceDuringAHandOverThatCameToNothingEndsNoSession(t *testing.T) {
	srv := asleep(t)
	const id, timeoutMs, other = 77, 1000, 4711
	heldElsewhere(t, srv, id, timeoutMs, other)
	srv.clustered = true
	defer func() { srv.clustered = false }()
	e := newExpiry(srv.Server) // whose loop does not run
	e.tickNs = int64(500 * time.Millisecond)
	const step = int64(250 * time.Millisecond)
	now := srv.nowNs()
	require.True(t, e.leads(now))
	now += e.unledNs() + timeoutMs*int64(time.Millisecond)
	for range 8 {
		now += step
		require.True(t, e.leads(now))
		require.NoError(t, e.takeReport(reportOf(other, id), now))
		require.Empty(t, e.due(now))
	}
	for range 2 {
		now += 20 * step
		e.mu.Lock()
		e.led = false // as leads notes it while there is no route
		e.mu.Unlock()
		require.True(t, e.leads(now)) // the first look since; the other server's report is on its way
		require.Empty(t, e.due(now), "nobody could report")
	}
	now += int64(answerWindow) + timeoutMs*int64(time.Millisecond) + e.tickNs
	require.True(t, e.leads(now))
	require.Len(t, e.due(now), 1, "but now it could")
}
