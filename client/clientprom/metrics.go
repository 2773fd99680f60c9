package clientprom

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/client"
)

// Metrics is a client.Tracer that counts, and the prometheus.Collector of what it has counted. One
// may serve several clients; its methods may be called from any goroutine.
type Metrics struct {
	duration                          *prometheus.HistogramVec
	operations                        *prometheus.CounterVec
	retries, requestBytes, replyBytes *prometheus.CounterVec
	inFlight                          prometheus.Gauge
	connection                        *prometheus.CounterVec
	rewatched, stoodStill             prometheus.Counter
	sessions                          *prometheus.CounterVec
	ops                               sync.Map // of wire.OpCode to *operation

	mu       sync.Mutex
	attached map[*client.Client]struct{} // guarded by mu
}

var (
	_ client.Tracer        = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// An operation is what is counted of one kind of operation, found once and not for every call.
type operation struct {
	duration                     prometheus.Observer
	ok                           prometheus.Counter
	retries, requestB, responseB prometheus.Counter
}

// An Option changes what New returns.
type Option func(*config)

type config struct {
	histogram prometheus.HistogramOpts
}

// WithBuckets sets the upper bounds of the histogram's buckets, in seconds and rising. The default
// goes from 100 µs to 13 s in steps of three times: a read in one room takes less than a millisecond,
// and a call that waits for a new leader some seconds.
func WithBuckets(seconds ...float64) Option {
	return func(c *config) { c.histogram.Buckets = seconds }
}

// WithNativeHistogram has the durations collected as a native histogram, too, of which each bucket
// is that factor wider than the one before (for example 1.1), in at most 100 buckets.
func WithNativeHistogram(factor float64) Option {
	return func(c *config) {
		c.histogram.NativeHistogramBucketFactor, c.histogram.NativeHistogramMaxBucketNumber = factor, 100
	}
}

// New returns Metrics without a client; see the package for how to give it one.
func New(opts ...Option) *Metrics {
	cfg := config{prometheus.HistogramOpts{
		Name:    "zkd_client_operation_duration_seconds",
		Help:    "Time from the call of an operation to its outcome, with waiting and repetitions.",
		Buckets: prometheus.ExponentialBucketsRange(0.0001, 13, 12),
	}}
	for _, o := range opts {
		o(&cfg)
	}
	return &Metrics{
		duration:     prometheus.NewHistogramVec(cfg.histogram, []string{"op"}),
		operations:   counters("operations_total", "Operations by outcome: ok, a server's answer such as NONODE, or why there was none.", "op", "result"),
		retries:      counters("operation_retries_total", "Requests that were sent again.", "op"),
		requestBytes: counters("request_bytes_total", "Bytes of the frames of requests, each counted once.", "op"),
		replyBytes:   counters("response_bytes_total", "Bytes of the bodies of replies.", "op"),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "zkd_client_operations_in_flight", Help: "Operations that have begun and not ended.",
		}),
		connection: counters("connection_events_total", "What happened to the connection.", "event"),
		rewatched:  counter("rewatched_paths_total", "Paths whose watches were set again after a reconnect."),
		stoodStill: counter("stood_still_seconds_total", "Time for which this process did not run, as far as it was noticed."),
		sessions:   counters("session_events_total", "Changes of the session's state, of attached clients.", "state"),
		attached:   map[*client.Client]struct{}{},
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "zkd_client_" + name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "zkd_client_" + name, Help: help}, labels)
}

// OpStart implements client.Tracer.
func (m *Metrics) OpStart(ctx context.Context, _ client.OpInfo) context.Context {
	m.inFlight.Inc()
	return ctx
}

// OpEnd implements client.Tracer.
func (m *Metrics) OpEnd(_ context.Context, op client.OpInfo, o client.OpOutcome) {
	m.inFlight.Dec()
	k := m.operation(op)
	k.duration.Observe(o.Took.Seconds())
	if result := o.Result(); result == "ok" {
		k.ok.Inc()
	} else {
		m.operations.WithLabelValues(op.Op.String(), result).Inc()
	}
	if o.Attempts > 1 {
		k.retries.Add(float64(o.Attempts - 1))
	}
	k.requestB.Add(float64(op.Bytes))
	k.responseB.Add(float64(o.Bytes))
}

// operation finds the counters of a kind of operation, of which a client has some twenty.
func (m *Metrics) operation(op client.OpInfo) *operation {
	if k, ok := m.ops.Load(op.Op); ok {
		return k.(*operation)
	}
	name := op.Op.String()
	k, _ := m.ops.LoadOrStore(op.Op, &operation{
		duration: m.duration.WithLabelValues(name),
		ok:       m.operations.WithLabelValues(name, "ok"),
		retries:  m.retries.WithLabelValues(name),
		requestB: m.requestBytes.WithLabelValues(name), responseB: m.replyBytes.WithLabelValues(name),
	})
	return k.(*operation)
}

// Connection implements client.Tracer.
func (m *Metrics) Connection(ev client.ConnEvent) {
	m.connection.WithLabelValues(label(ev.Kind.String())).Inc()
	m.rewatched.Add(float64(ev.Watches))
	m.stoodStill.Add(ev.For.Seconds())
}
