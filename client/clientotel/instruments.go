package clientotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"

	"github.com/zkd-project/zkd/client"
)

// instruments are what is counted.
type instruments struct {
	duration                        metric.Float64Histogram
	io, retries                     metric.Int64Counter
	active                          metric.Int64UpDownCounter
	connection, rewatched, sessions metric.Int64Counter
	stoodStill                      metric.Float64Counter

	// asked of an attached client
	state, inFlightSize, inFlight, waiting, watches, deletions metric.Int64ObservableUpDownCounter
}

// createWith has the meter make them all.
func (n *instruments) createWith(m metric.Meter) (err error) {
	count := func(name, unit, what string) metric.Int64Counter {
		c, e := m.Int64Counter("zkd.client."+name, metric.WithUnit(unit), metric.WithDescription(what))
		err = errors.Join(err, e)
		return c
	}
	observe := func(name, unit, what string) metric.Int64ObservableUpDownCounter {
		c, e := m.Int64ObservableUpDownCounter("zkd.client."+name, metric.WithUnit(unit), metric.WithDescription(what))
		err = errors.Join(err, e)
		return c
	}
	// The bounds are those of the conventions, and below them two for what a server in one room does.
	duration, e := dbconv.NewClientOperationDuration(m, metric.WithExplicitBucketBoundaries(
		0.0001, 0.0003, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10))
	n.duration, err = duration.Inst(), e
	n.io = count("io", "By", "Bytes of frames of requests and of bodies of replies.")
	n.retries = count("retries", "{request}", "Requests that were sent again.")
	n.connection = count("connection.events", "{event}", "What happened to the connection.")
	n.rewatched = count("rewatched", "{path}", "Paths whose watches were set again after a reconnect.")
	n.sessions = count("session.events", "{event}", "Changes of the session's state.")
	n.active, e = m.Int64UpDownCounter("zkd.client.operations.active", metric.WithUnit("{operation}"),
		metric.WithDescription("Operations that have begun and not ended."))
	err = errors.Join(err, e)
	n.stoodStill, e = m.Float64Counter("zkd.client.stood_still", metric.WithUnit("s"),
		metric.WithDescription("Time for which this process did not run, as far as it was noticed."))
	err = errors.Join(err, e)
	n.state = observe("session.state", "{session}", "1 for the state in which the session is.")
	n.inFlightSize = observe("in_flight.size", "By", "Frames that wait for their reply, sent or not.")
	n.inFlight = observe("in_flight.requests", "{request}", "Requests that wait for their reply, sent or not.")
	n.waiting = observe("calls.waiting", "{call}", "Calls that wait for room in flight.")
	n.watches = observe("watches", "{watch}", "Watches that have not ended.")
	n.deletions = observe("deletions.pending", "{deletion}", "Deletions of the background that are not known to be done.")
	return err
}

// The attributes of what is asked.
var (
	oneShot    = metric.WithAttributes(kindKey.String("one-shot"))
	persistent = metric.WithAttributes(kindKey.String("persistent"))
)

// Attach has the client asked for its numbers at every collection, and counts the changes of its
// session's state, until the client is closed or has ended for good. It has a goroutine until then.
func (t *Telemetry) Attach(c *client.Client) error {
	r, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		t.look(c.Stats(), o)
		return nil
	}, t.state, t.inFlightSize, t.inFlight, t.waiting, t.watches, t.deletions)
	if err != nil {
		return err
	}
	go func() {
		ctx := context.Background()
		for ev := range c.Events(ctx) { // ends with a final state
			t.sessions.Add(ctx, 1, metric.WithAttributes(stateKey.String(ev.State.String())))
		}
		_ = r.Unregister() // fails only for a callback that is not registered
	}()
	return nil
}

// look reports what the client says.
func (t *Telemetry) look(s client.Stats, o metric.Observer) {
	for state := client.StateConnecting; state <= client.StateClosed; state++ {
		var is int64
		if state == s.State {
			is = 1
		}
		o.ObserveInt64(t.state, is, metric.WithAttributes(stateKey.String(state.String())))
	}
	o.ObserveInt64(t.inFlightSize, int64(s.InFlightBytes))
	o.ObserveInt64(t.inFlight, int64(s.InFlightRequests))
	o.ObserveInt64(t.waiting, int64(s.Waiting))
	o.ObserveInt64(t.watches, int64(s.Watches), oneShot)
	o.ObserveInt64(t.watches, int64(s.Subscriptions), persistent)
	o.ObserveInt64(t.deletions, int64(s.Background))
}
