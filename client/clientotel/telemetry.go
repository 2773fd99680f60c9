package clientotel

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// scope names this package as the origin of spans and metrics.
const scope = "github.com/zkd-project/zkd/client/clientotel"

// system is the value of db.system.name: the protocol, whoever speaks it.
var system = semconv.DBSystemNameKey.String("zookeeper")

// The attributes for which the conventions have no name.
const (
	pathKey         = attribute.Key("zkd.path")
	requestSizeKey  = attribute.Key("zkd.request.size")
	responseSizeKey = attribute.Key("zkd.response.size")
	zxidKey         = attribute.Key("zkd.zxid")
	attemptsKey     = attribute.Key("zkd.attempts")
	eventKey        = attribute.Key("zkd.connection.event")
	stateKey        = attribute.Key("zkd.session.state")
	kindKey         = attribute.Key("zkd.watch.kind")
)

// Telemetry is a client.Tracer that makes spans and metrics of what it is told. It is for one
// client; its methods may be called from any goroutine.
type Telemetry struct {
	tracer  trace.Tracer
	meter   metric.Meter
	noPaths bool
	instruments
	server atomic.Pointer[server] // to which the client was connected last; nil: not yet
	sets   sync.Map               // of outcome to attribute.Set, made once
}

var _ client.Tracer = (*Telemetry)(nil)

// A server is where operations are sent to.
type server struct {
	addr  string
	attrs []attribute.KeyValue
}

// An outcome is what tells one set of attributes of the duration from another.
type outcome struct {
	op     wire.OpCode
	result string
	server *server
}

// An Option changes what New returns.
type Option func(*config)

type config struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	noPaths bool
}

// WithTracerProvider takes the spans to another provider than otel's global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithMeterProvider takes the metrics to another provider than otel's global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithoutPaths leaves the paths of nodes out of the spans: for trees whose names are nobody's business.
func WithoutPaths() Option { return func(c *config) { c.noPaths = true } }

// New returns a Telemetry without a client; see the package for how to give it one. It fails when the
// meter refuses an instrument.
func New(opts ...Option) (*Telemetry, error) {
	cfg := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, o := range opts {
		o(&cfg)
	}
	t := &Telemetry{
		tracer:  cfg.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		meter:   cfg.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)),
		noPaths: cfg.noPaths,
	}
	return t, t.createWith(t.meter)
}

// OpStart implements client.Tracer: it begins the span.
func (t *Telemetry) OpStart(ctx context.Context, op client.OpInfo) context.Context {
	t.active.Add(ctx, 1)
	name := op.Op.String()
	attrs := []attribute.KeyValue{system, semconv.DBOperationName(name), requestSizeKey.Int(op.Bytes)}
	if !t.noPaths && op.Path != "" {
		attrs = append(attrs, pathKey.String(op.Path))
	}
	ctx, _ = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	return ctx
}

// OpEnd implements client.Tracer.
func (t *Telemetry) OpEnd(ctx context.Context, op client.OpInfo, o client.OpOutcome) {
	t.active.Add(ctx, -1)
	at := t.server.Load()
	result := o.Result()
	set := t.set(outcome{op.Op, result, at})
	t.duration.Record(ctx, o.Took.Seconds(), metric.WithAttributeSet(set))
	name := semconv.DBOperationName(op.Op.String())
	t.io.Add(ctx, int64(op.Bytes), metric.WithAttributes(system, name, semconv.NetworkIODirectionTransmit))
	t.io.Add(ctx, int64(o.Bytes), metric.WithAttributes(system, name, semconv.NetworkIODirectionReceive))
	if o.Attempts > 1 {
		t.retries.Add(ctx, int64(o.Attempts-1), metric.WithAttributes(system, name))
	}
	t.end(trace.SpanFromContext(ctx), op, o, set)
}

// end completes the span. What set says beyond what the span has been given at its start is set now.
func (t *Telemetry) end(span trace.Span, op client.OpInfo, o client.OpOutcome, set attribute.Set) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(set.ToSlice()...)
	if o.Bytes > 0 {
		span.SetAttributes(responseSizeKey.Int(o.Bytes))
	}
	if o.Zxid != 0 {
		span.SetAttributes(zxidKey.Int64(o.Zxid))
	}
	if o.Attempts > 1 {
		span.SetAttributes(attemptsKey.Int(o.Attempts))
	}
	switch {
	case !failed(op.Op, o.Result()):
	case t.noPaths: // they are in the texts of errors, too
		span.SetStatus(codes.Error, o.Result())
	default:
		span.SetStatus(codes.Error, o.Err.Error())
	}
}

// failed says whether the caller of the operation got an error.
func failed(op wire.OpCode, result string) bool {
	return result != "ok" && (op != wire.OpExists || result != wire.NoNode.String())
}

// set returns the attributes of an outcome.
func (t *Telemetry) set(k outcome) attribute.Set {
	if s, ok := t.sets.Load(k); ok {
		return s.(attribute.Set)
	}
	attrs := []attribute.KeyValue{system, semconv.DBOperationName(k.op.String())}
	if k.result != "ok" && k.result == strings.ToUpper(k.result) { // the name of a code
		attrs = append(attrs, semconv.DBResponseStatusCode(k.result))
	}
	if failed(k.op, k.result) {
		attrs = append(attrs, semconv.ErrorTypeKey.String(k.result))
	}
	if k.server != nil {
		attrs = append(attrs, k.server.attrs...)
	}
	s := attribute.NewSet(attrs...)
	t.sets.Store(k, s)
	return s
}

// Connection implements client.Tracer.
func (t *Telemetry) Connection(ev client.ConnEvent) {
	ctx := context.Background()
	if ev.Kind == client.ConnEstablished {
		t.moved(ev.Server)
	}
	t.connection.Add(ctx, 1, metric.WithAttributes(eventKey.String(ev.Kind.String())))
	if ev.Watches > 0 {
		t.rewatched.Add(ctx, int64(ev.Watches))
	}
	if ev.For > 0 {
		t.stoodStill.Add(ctx, ev.For.Seconds())
	}
}

// moved remembers the server. The sets of others go: with names that are resolved again and again the
// servers of a client's life may be many.
func (t *Telemetry) moved(addr string) {
	if old := t.server.Load(); old != nil && old.addr == addr {
		return
	}
	s := &server{addr: addr}
	if host, port, err := net.SplitHostPort(addr); err == nil {
		s.attrs = append(s.attrs, semconv.ServerAddress(host))
		if n, err := strconv.Atoi(port); err == nil {
			s.attrs = append(s.attrs, semconv.ServerPort(n))
		}
	}
	t.server.Store(s)
	t.sets.Clear()
}
