package clientotel

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
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

// A rig is a Telemetry with both ends of it in hand.
type rig struct {
	*Telemetry
	t      *testing.T
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
	reader *sdk.ManualReader
}

func newRig(t *testing.T, opts ...Option) *rig {
	t.Helper()
	r := &rig{t: t, spans: tracetest.NewSpanRecorder(), reader: sdk.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	meters := sdk.NewMeterProvider(sdk.WithReader(r.reader))
	t.Cleanup(func() {
		require.NoError(t, errors.Join(tracers.Shutdown(context.Background()), meters.Shutdown(context.Background())))
	})
	var err error
	r.Telemetry, err = New(append(opts, WithTracerProvider(tracers), WithMeterProvider(meters))...)
	require.NoError(t, err)
	r.tracer = tracers.Tracer("test")
	return r
}

func (r *rig) dial(addr string) *client.Client {
	r.t.Helper()
	c, err := client.Dial(testContext(r.t), addr, client.WithTracer(r))
	require.NoError(r.t, err)
	return c
}

// span returns the one span of that name.
func (r *rig) span(name string) sdktrace.ReadOnlySpan {
	r.t.Helper()
	all := r.spans.Ended()
	i := slices.IndexFunc(all, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == name })
	require.GreaterOrEqual(r.t, i, 0, "no span %s", name)
	return all[i]
}

func attrs(list []attribute.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// value sums the points of a metric that have this attribute; of a histogram it counts. ok is false
// if there is none.
func (r *rig) value(name, key, want string) (sum float64, ok bool) {
	r.t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(r.t, r.reader.Collect(context.Background(), &rm))
	add := func(set attribute.Set, v float64) {
		if key == "" || attrs(set.ToSlice())[key] == want {
			sum, ok = sum+v, true
		}
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, p.Value)
				}
			default:
				require.Fail(r.t, "a metric of a new form", "%s %T", name, d)
			}
		}
	}
	return sum, ok
}

func (r *rig) is(want float64, name, key, val string) {
	r.t.Helper()
	got, ok := r.value(name, key, val)
	require.True(r.t, ok, "%s %s=%s is missing", name, key, val)
	require.InDelta(r.t, want, got, 0.001, "%s %s=%s", name, key, val)
}

// becomes waits until a number is at least that.
func (r *rig) becomes(want float64, name, key, val string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		got, ok := r.value(name, key, val)
		return ok && got >= want
	}, testLimit, 2*time.Millisecond, "%s %s=%s", name, key, val)
}

func TestOperationIsASpanBelowItsCaller(t *testing.T) {
	srv := zkdtest.Start(t)
	r := newRig(t)
	c := r.dial(srv.Addr())
	ctx, parent := r.tracer.Start(testContext(t), "request")
	_, _, err := c.Create(ctx, "/a", []byte("x"), client.ModePersistent, nil)
	require.NoError(t, err)
	parent.End()
	require.NoError(t, c.Close(testContext(t)))

	s := r.span("create2")
	require.Equal(t, trace.SpanKindClient, s.SpanKind())
	require.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID())
	require.Equal(t, codes.Unset, s.Status().Code)
	a := attrs(s.Attributes())
	require.NotEmpty(t, a["zkd.request.size"])
	require.NotEmpty(t, a["zkd.response.size"])
	require.NotEmpty(t, a["zkd.zxid"])
	for _, k := range []string{"zkd.request.size", "zkd.response.size", "zkd.zxid"} {
		delete(a, k)
	}
	require.Equal(t, srv.Addr(), a["server.address"]+":"+a["server.port"])
	delete(a, "server.address")
	delete(a, "server.port")
	require.Equal(t, map[string]string{"db.system.name": "zookeeper", "db.operation.name": "create2", "zkd.path": "/a"}, a)
}

func TestFailureIsInSpanAndMetrics(t *testing.T) {
	srv := zkdtest.Start(t)
	r := newRig(t)
	c := r.dial(srv.Addr())
	ctx := testContext(t)
	_, _, err := c.Get(ctx, "/nothing", client.Fresh())
	require.ErrorIs(t, err, client.ErrNoNode)
	_, ok, err := c.Exists(ctx, "/nothing")
	require.NoError(t, err)
	require.False(t, ok)
	_, err = c.Multi().Check("/", 77).Commit(ctx)
	require.ErrorIs(t, err, client.ErrBadVersion)
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = c.Children(over, "/")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, c.Close(testContext(t)))

	for _, tc := range []struct{ span, status, kind string }{
		{"getData", "NONODE", "NONODE"}, {"exists", "NONODE", ""}, {"multi", "BADVERSION", "BADVERSION"}, {"getChildren2", "", "canceled"},
	} {
		s := r.span(tc.span)
		a := attrs(s.Attributes())
		require.Equal(t, tc.status, a["db.response.status_code"], tc.span)
		require.Equal(t, tc.kind, a["error.type"], tc.span)
		require.Equal(t, tc.kind != "", s.Status().Code == codes.Error, tc.span)
		r.is(1, "db.client.operation.duration", "db.operation.name", tc.span)
	}
	require.Contains(t, r.span("getData").Status().Description, "/nothing")
	r.is(1, "db.client.operation.duration", "error.type", "canceled")
	r.is(1, "db.client.operation.duration", "error.type", "NONODE")
	r.is(2, "db.client.operation.duration", "db.response.status_code", "NONODE")
	r.is(0, "zkd.client.operations.active", "", "")
	sent, _ := r.value("zkd.client.io", "network.io.direction", "transmit")
	require.Greater(t, sent, 40.0)
	_, ok = r.value("db.client.operation.duration", "zkd.path", "/nothing")
	require.False(t, ok)
}

func TestPathsCanBeLeftOut(t *testing.T) {
	srv := zkdtest.Start(t)
	r := newRig(t, WithoutPaths())
	c := r.dial(srv.Addr())
	_, _, err := c.Get(testContext(t), "/secret")
	require.ErrorIs(t, err, client.ErrNoNode)
	require.NoError(t, c.Close(testContext(t)))
	s := r.span("getData")
	require.Equal(t, "NONODE", s.Status().Description)
	for _, v := range attrs(s.Attributes()) {
		require.NotContains(t, v, "secret")
	}
}

func TestReconnectsAndSessionsAreCounted(t *testing.T) {
	srv := zkdtest.Start(t)
	p := srv.Proxy()
	r := newRig(t)
	c := r.dial(p.Addr())
	require.NoError(t, r.Attach(c))
	_, _, w, err := c.ExistsW(testContext(t), "/a")
	require.NoError(t, err)
	r.is(1, "zkd.client.watches", "zkd.watch.kind", "one-shot")
	r.is(0, "zkd.client.watches", "zkd.watch.kind", "persistent")
	r.is(1, "zkd.client.session.state", "zkd.session.state", "Connected")
	r.is(0, "zkd.client.session.state", "zkd.session.state", "Lapsed")

	var cut atomic.Bool
	p.On(func(f zkdtest.Frame) zkdtest.Action { // the reply to a read is lost
		if f.Direction == zkdtest.ToClient && f.Op == wire.OpGetData && !cut.Swap(true) {
			return zkdtest.Cut()
		}
		return zkdtest.Pass()
	})
	_, _, err = c.Get(testContext(t), "/")
	require.NoError(t, err)
	require.NotEmpty(t, attrs(r.span("getData").Attributes())["zkd.attempts"])
	r.becomes(1, "zkd.client.retries", "db.operation.name", "getData")
	r.becomes(2, "zkd.client.connection.events", "zkd.connection.event", "established")
	r.becomes(1, "zkd.client.connection.events", "zkd.connection.event", "lost")
	r.becomes(1, "zkd.client.rewatched", "", "")
	r.becomes(2, "zkd.client.session.events", "zkd.session.state", "Connected")
	r.becomes(1, "zkd.client.session.events", "zkd.session.state", "Disconnected")
	_, _, err = c.Create(testContext(t), "/a", nil, client.ModePersistent, nil)
	require.NoError(t, err)
	<-w.C()

	srv.ExpireSession(c.SessionID())
	r.becomes(1, "zkd.client.session.events", "zkd.session.state", "Expired")
	require.NoError(t, c.Close(testContext(t)))
	require.Eventually(t, func() bool { // a closed client is asked no more
		_, ok := r.value("zkd.client.session.state", "zkd.session.state", "Closed")
		return !ok
	}, testLimit, 2*time.Millisecond)
	r.is(1, "zkd.client.session.events", "zkd.session.state", "Closed")
}

// What is under way is seen while it is.
func TestWhatIsInFlightIsSeen(t *testing.T) {
	srv := zkdtest.Start(t)
	p := srv.Proxy()
	r := newRig(t)
	c := r.dial(p.Addr())
	require.NoError(t, r.Attach(c))
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
	r.becomes(1, "zkd.client.operations.active", "", "")
	r.becomes(1, "zkd.client.in_flight.requests", "", "")
	r.becomes(10, "zkd.client.in_flight.size", "", "")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	r.is(0, "zkd.client.operations.active", "", "")
	require.NoError(t, c.Close(testContext(t)))
}

func TestStandstillIsCounted(t *testing.T) {
	r := newRig(t)
	r.Connection(client.ConnEvent{Kind: client.ConnStoodStill, For: 1500 * time.Millisecond})
	r.is(1.5, "zkd.client.stood_still", "", "")
}

// With the global providers, which do nothing unless a program sets them, nothing is in the way.
func TestNothingIsSetUp(t *testing.T) {
	srv := zkdtest.Start(t)
	tel, err := New()
	require.NoError(t, err)
	c, err := client.Dial(testContext(t), srv.Addr(), client.WithTracer(tel))
	require.NoError(t, err)
	require.NoError(t, tel.Attach(c))
	require.NoError(t, c.Sync(testContext(t), "/"))
	require.NoError(t, c.Close(testContext(t)))
}
