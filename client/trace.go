package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// A Tracer is told what a client does: for logs, metrics and spans. Its methods are called from
// many goroutines and hold up the call or the connection that they are about, so they must
// return soon, and must not call the client.
type Tracer interface {
	// OpStart is called when an operation begins. The context that it returns is used for the
	// operation and handed to OpEnd.
	OpStart(ctx context.Context, op OpInfo) context.Context
	// OpEnd is called when the operation is over.
	OpEnd(ctx context.Context, op OpInfo, outcome OpOutcome)
	// Connection is called when something happens to the connection.
	Connection(ev ConnEvent)
}

// OpInfo says what an operation is.
type OpInfo struct {
	Op    wire.OpCode // its String is ZooKeeper's name
	Path  string
	Bytes int // of the request frame
}

// OpOutcome says how an operation ended.
type OpOutcome struct {
	Err      error // of an exists: ErrNoNode where there is none, though the caller gets no error
	Took     time.Duration
	Attempts int // how often it was sent, or waited to be
	Bytes    int // of the reply's body
	Zxid     int64
}

// Result is Err as one word of a small set, for the labels of metrics: "ok", the name of a server's
// answer as in "NONODE", "uncertain", "canceled", "deadline_exceeded", "session_lapsed", "closed"
// or "other".
func (o OpOutcome) Result() string {
	if o.Err == nil {
		return "ok" // before there is a code, which would be allocated
	}
	var code wire.Code
	switch {
	case errors.Is(o.Err, ErrUncertain):
		return "uncertain"
	case errors.Is(o.Err, ErrClosed):
		return "closed"
	case errors.Is(o.Err, ErrSessionLapsed):
		return "session_lapsed"
	case errors.Is(o.Err, context.Canceled):
		return "canceled"
	case errors.Is(o.Err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case errors.As(o.Err, &code) && !strings.Contains(code.String(), " "): // a code without a name has a space
		return code.String()
	}
	return "other"
}

// ConnEventKind says what happened to the connection.
type ConnEventKind int

// The kinds of a ConnEvent.
const (
	ConnAttempt     ConnEventKind = iota // an address is dialled
	ConnFailed                           // it was not to be had
	ConnEstablished                      // it is authenticated, and the watches are set
	ConnLost                             // it has ended
	ConnRewatched                        // watches were set again
	ConnStoodStill                       // this process did not run for a while, nor its timers
)

// String returns the name of the kind.
func (k ConnEventKind) String() string {
	return [...]string{"attempt", "failed", "established", "lost", "rewatched", "stood still"}[k]
}

// A ConnEvent is something that happened to the connection.
type ConnEvent struct {
	Kind      ConnEventKind
	Server    string
	SessionID int64         // ConnEstablished
	ReadOnly  bool          // ConnEstablished
	Watches   int           // ConnRewatched: how many paths
	Frames    int           // ConnRewatched: in how many frames
	For       time.Duration // ConnStoodStill: for how long, at least
	Err       error         // ConnFailed, ConnLost
}

// traced does the operation and tells the tracer of it.
func (cl *call) traced(ctx context.Context, do func(ctx context.Context) error) error {
	t := cl.k.cfg.tracer
	info := OpInfo{Op: cl.op, Path: cl.path, Bytes: len(cl.r.frame)}
	began := time.Now()
	ctx = t.OpStart(ctx, info)
	err := do(ctx)
	out := OpOutcome{Err: err, Took: time.Since(began), Attempts: cl.tries}
	if cl.r != nil {
		out.Bytes, out.Zxid = len(cl.r.body), cl.r.zxid
		if err == nil && cl.op == wire.OpMulti {
			out.Err = cl.refusedInside()
		}
	}
	t.OpEnd(ctx, info, out)
	return err
}

// refusedInside is why nothing of a multi was done. The header of such a reply says that all is
// well. It is for tracers; the caller of Commit gets a better one, which knows the operations.
func (cl *call) refusedInside() error {
	d := cl.decoder()
	var h wire.MultiHeader
	for i := 0; ; i++ {
		h.Decode(&d)
		if d.Err() != nil || h.Done || h.Op != wire.OpError { // of a failed multi all results are errors
			return nil
		}
		if code := wire.Code(d.Int32()); d.Err() == nil && !isRuntime(code) {
			return multiError(i, cl.answer(code))
		}
	}
}

func (k *core) trace(ev ConnEvent) {
	switch ev.Kind {
	case ConnFailed:
		k.counts.failures.Add(1)
	case ConnEstablished:
		k.counts.connections.Add(1)
	}
	if k.cfg.tracer != nil {
		k.cfg.tracer.Connection(ev)
	}
}

// counters are what Stats shows beside what the core knows anyway.
type counters struct {
	connections, failures, retries atomic.Int64
}

// Stats is a look at a client, for metrics.
type Stats struct {
	State            State
	InFlightBytes    int   // frames without a reply, sent or not
	InFlightRequests int   // their number
	Waiting          int   // callers that wait for room
	Watches          int   // of GetW, ExistsW, ChildrenW that have not ended
	Subscriptions    int   // that are not closed
	Background       int   // deletions that are not known to be done
	Connections      int64 // established so far
	Failures         int64 // attempts to connect that failed
	Retries          int64 // requests that were sent again
}

// Stats looks at the client. It walks over all watched paths: not for every request.
func (c *Client) Stats() Stats {
	k := c.k
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Stats{
		State: k.state, InFlightBytes: k.budget.bytes, InFlightRequests: k.budget.requests,
		Waiting: len(k.budget.waiters), Background: k.background,
		Connections: k.counts.connections.Load(), Failures: k.counts.failures.Load(), Retries: k.counts.retries.Load(),
	}
	for _, e := range k.watches.entries {
		for _, list := range e.oneShot {
			s.Watches += len(list)
		}
		s.Subscriptions += len(e.persistent) + len(e.recursive)
	}
	return s
}

// JoinTracers returns a Tracer that tells all of them, in this order, and of the end of an operation
// in the reverse one. The context of OpStart goes from each to the next.
func JoinTracers(tracers ...Tracer) Tracer { return joinedTracers(slices.Clone(tracers)) }

type joinedTracers []Tracer

func (ts joinedTracers) OpStart(ctx context.Context, op OpInfo) context.Context {
	for _, t := range ts {
		ctx = t.OpStart(ctx, op)
	}
	return ctx
}

func (ts joinedTracers) OpEnd(ctx context.Context, op OpInfo, o OpOutcome) {
	for _, t := range slices.Backward(ts) {
		t.OpEnd(ctx, op, o)
	}
}

func (ts joinedTracers) Connection(ev ConnEvent) {
	for _, t := range ts {
		t.Connection(ev)
	}
}

// SlogTracer logs to l: changes of the connection at Info (attempts at Debug), operations at
// Debug.
func SlogTracer(l *slog.Logger) Tracer { return slogTracer{l} }

type slogTracer struct{ l *slog.Logger }

func (t slogTracer) OpStart(ctx context.Context, _ OpInfo) context.Context { return ctx }

func (t slogTracer) OpEnd(ctx context.Context, op OpInfo, o OpOutcome) {
	if !t.l.Enabled(ctx, slog.LevelDebug) {
		return
	}
	t.l.LogAttrs(ctx, slog.LevelDebug, "zookeeper operation", slog.String("op", op.Op.String()),
		slog.String("path", op.Path), slog.Duration("took", o.Took), slog.Int("attempts", o.Attempts),
		slog.Any("error", o.Err))
}

func (t slogTracer) Connection(ev ConnEvent) {
	level := slog.LevelInfo
	if ev.Kind == ConnAttempt {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{slog.String("what", ev.Kind.String()), slog.String("server", ev.Server)}
	switch {
	case ev.Kind == ConnEstablished:
		attrs = append(attrs, slog.Uint64("session", uint64(ev.SessionID)), slog.Bool("readOnly", ev.ReadOnly))
	case ev.Kind == ConnRewatched:
		attrs = append(attrs, slog.Int("watches", ev.Watches), slog.Int("frames", ev.Frames))
	case ev.Kind == ConnStoodStill:
		attrs = append(attrs, slog.Duration("for", ev.For))
	case ev.Err != nil:
		attrs = append(attrs, slog.Any("error", ev.Err))
	}
	t.l.LogAttrs(context.Background(), level, "zookeeper connection", attrs...)
}
