package clientprom

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testLimit bounds what a test waits for.
const testLimit = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// registry holds m as a program would.
func registry(t *testing.T, m *Metrics) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(m))
	return r
}

// value reads one number by its name and the values of its labels, in the order of the labels' names.
// ok is false if it is not there. Of a histogram it is the number of observations.
func value(t *testing.T, r *prometheus.Registry, name string, labels ...string) (v float64, ok bool) {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "zkd_client_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if strings.Join(have, "|") == strings.Join(labels, "|") {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()), true
			}
		}
	}
	return 0, false
}

func is(t *testing.T, want float64, r *prometheus.Registry, name string, labels ...string) {
	t.Helper()
	got, ok := value(t, r, name, labels...)
	require.True(t, ok, "%s %v is missing", name, labels)
	require.InDelta(t, want, got, 0.001, "%s %v", name, labels)
}

// becomes waits until a number is at least that.
func becomes(t *testing.T, want float64, r *prometheus.Registry, name string, labels ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, ok := value(t, r, name, labels...)
		return ok && got >= want
	}, testLimit, 2*time.Millisecond, "%s %v", name, labels)
}

func TestOperationsAreCountedByOutcome(t *testing.T) {
	srv := zkdtest.Start(t)
	m := New()
	r := registry(t, m)
	c, err := client.Dial(testContext(t), srv.Addr(), client.WithTracer(m))
	require.NoError(t, err)
	ctx := testContext(t)
	_, _, err = c.Create(ctx, "/a", []byte("x"), client.ModePersistent, nil)
	require.NoError(t, err)
	for range 3 {
		_, _, err = c.Get(ctx, "/a")
		require.NoError(t, err)
	}
	_, _, err = c.Get(ctx, "/b", client.Fresh())
	require.ErrorIs(t, err, client.ErrNoNode)
	_, err = c.Multi().Check("/a", 7).Commit(ctx)
	require.ErrorIs(t, err, client.ErrBadVersion)
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = c.Get(over, "/a")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, c.Close(ctx))
	_, _, err = c.Get(ctx, "/a")
	require.ErrorIs(t, err, client.ErrClosed)

	is(t, 3, r, "operations_total", "getData", "ok")
	is(t, 1, r, "operations_total", "getData", "NONODE")
	is(t, 1, r, "operations_total", "getData", "canceled")
	is(t, 1, r, "operations_total", "getData", "closed")
	is(t, 1, r, "operations_total", "multi", "BADVERSION")
	is(t, 6, r, "operation_duration_seconds", "getData")
	is(t, 0, r, "operations_in_flight")
	sent, _ := value(t, r, "request_bytes_total", "getData")
	require.GreaterOrEqual(t, sent, 6.0*(4+8+4+2+1))
	received, _ := value(t, r, "response_bytes_total", "getData")
	require.GreaterOrEqual(t, received, 3.0*(4+1+68))
	becomes(t, 1, r, "connection_events_total", "attempt")
	becomes(t, 1, r, "connection_events_total", "established")
	becomes(t, 1, r, "connection_events_total", "lost")
}

func TestLostConnectionsAndRetriesAreCounted(t *testing.T) {
	srv := zkdtest.Start(t)
	p := srv.Proxy()
	m := New()
	r := registry(t, m)
	c, err := client.Dial(testContext(t), p.Addr(), client.WithTracer(m))
	require.NoError(t, err)
	m.Attach(c)
	m.Attach(c) // no second time
	_, _, w, err := c.ExistsW(testContext(t), "/a")
	require.NoError(t, err)
	becomes(t, 1, r, "session_events_total", "connected")
	is(t, 1, r, "watches")
	is(t, 1, r, "sessions", "connected")
	is(t, 0, r, "sessions", "read_only")

	var cut atomic.Bool
	p.On(func(f zkdtest.Frame) zkdtest.Action { // the reply to a read is lost
		if f.Direction == zkdtest.ToClient && f.Op == wire.OpGetData && !cut.Swap(true) {
			return zkdtest.Cut()
		}
		return zkdtest.Pass()
	})
	_, _, err = c.Get(testContext(t), "/")
	require.NoError(t, err)
	becomes(t, 1, r, "operation_retries_total", "getData")
	is(t, 1, r, "operation_duration_seconds", "getData")
	becomes(t, 2, r, "connection_events_total", "established")
	becomes(t, 1, r, "connection_events_total", "lost")
	becomes(t, 1, r, "connection_events_total", "rewatched")
	becomes(t, 1, r, "rewatched_paths_total")
	becomes(t, 1, r, "session_events_total", "disconnected")
	becomes(t, 2, r, "session_events_total", "connected")

	_, _, err = c.Create(testContext(t), "/a", nil, client.ModePersistent, nil)
	require.NoError(t, err)
	<-w.C()
	is(t, 0, r, "watches")
	srv.ExpireSession(c.SessionID())
	becomes(t, 1, r, "session_events_total", "expired")
	require.NoError(t, c.Close(testContext(t)))
	require.Eventually(t, func() bool { // a closed client is collected no more
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.attached) == 0
	}, testLimit, 2*time.Millisecond)
	is(t, 1, r, "session_events_total", "closed")
	is(t, 0, r, "sessions", "connected")
}

// What is under way is seen while it is.
func TestWhatIsInFlightIsSeen(t *testing.T) {
	srv := zkdtest.Start(t)
	p := srv.Proxy()
	m := New()
	r := registry(t, m)
	c, err := client.Dial(testContext(t), p.Addr(), client.WithTracer(m))
	require.NoError(t, err)
	m.Attach(c)
	p.On(func(f zkdtest.Frame) zkdtest.Action {
		if f.Op == wire.OpGetData {
			return zkdtest.Swallow()
		}
		return zkdtest.Pass()
	})
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Get(ctx, "/")
		done <- err
	}()
	becomes(t, 1, r, "operations_in_flight")
	becomes(t, 1, r, "in_flight_requests")
	becomes(t, 10, r, "in_flight_bytes")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	is(t, 0, r, "operations_in_flight")
	require.NoError(t, c.Close(testContext(t)))
}

// Nothing that a server or a user chooses becomes the value of a label.
func TestLabelsAreBounded(t *testing.T) {
	m := New(WithBuckets(1, 2), WithNativeHistogram(1.5))
	r := registry(t, m)
	for i := range int32(100) {
		m.OpEnd(t.Context(), client.OpInfo{Op: wire.OpGetData, Path: "/" + string(rune('a'+i))}, client.OpOutcome{Err: wire.Code(-1000 - i)})
		m.OpEnd(t.Context(), client.OpInfo{Op: wire.OpGetData}, client.OpOutcome{Err: errors.New(string(rune('a' + i)))})
		m.Connection(client.ConnEvent{Kind: client.ConnFailed, Server: string(rune('a' + i)), Err: errors.New(string(rune('a' + i)))})
	}
	m.Connection(client.ConnEvent{Kind: client.ConnStoodStill, For: 1500 * time.Millisecond})
	is(t, 200, r, "operations_total", "getData", "other")
	is(t, 100, r, "connection_events_total", "failed")
	is(t, 1, r, "connection_events_total", "stood_still")
	is(t, 1.5, r, "stood_still_seconds_total")
	n, err := testutil.GatherAndCount(r, "zkd_client_operations_total", "zkd_client_connection_events_total", "zkd_client_operation_duration_seconds")
	require.NoError(t, err)
	require.Equal(t, 2+2+1, n) // ok is there from the first operation on
}

// Names and units are as Prometheus asks for.
func TestNamesFollowTheConventions(t *testing.T) {
	srv := zkdtest.Start(t)
	m := New()
	r := registry(t, m)
	c, err := client.Dial(testContext(t), srv.Addr(), client.WithTracer(m))
	require.NoError(t, err)
	m.Attach(c)
	require.NoError(t, c.Sync(testContext(t), "/"))
	becomes(t, 1, r, "session_events_total", "connected")
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, c.Close(testContext(t)))
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := New()
	op, o := client.OpInfo{Op: wire.OpGetData, Path: "/a", Bytes: 20}, client.OpOutcome{Took: time.Millisecond, Attempts: 1, Bytes: 80}
	require.Zero(t, testing.AllocsPerRun(100, func() { m.OpEnd(m.OpStart(t.Context(), op), op, o) }))
}
