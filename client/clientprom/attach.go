package clientprom

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/client"
)

// The gauges, which ask the attached clients at every collection.
var (
	sessionsDesc      = desc("sessions", "Attached clients by the state of their session.", "state")
	inFlightBytesDesc = desc("in_flight_bytes", "Bytes of the frames that wait for their reply, sent or not.")
	requestsDesc      = desc("in_flight_requests", "Requests that wait for their reply, sent or not.")
	waitingDesc       = desc("waiting_calls", "Calls that wait for room in flight.")
	watchesDesc       = desc("watches", "Watches that have not fired.")
	subscriptionsDesc = desc("subscriptions", "Persistent watches that are not closed.")
	backgroundDesc    = desc("background_deletions", "Deletions of the background that are not known to be done.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("zkd_client_"+name, help, labels, nil)
}

// Attach adds the client to those whose state is collected, and counts the changes of that state,
// until the client is closed or has ended for good. It has a goroutine until then. Views of one
// session (client.Chroot) are one client: attach one of them.
func (m *Metrics) Attach(c *client.Client) {
	m.mu.Lock()
	_, known := m.attached[c]
	m.attached[c] = struct{}{}
	m.mu.Unlock()
	if known {
		return
	}
	go func() {
		for ev := range c.Events(context.Background()) { // ends with a final state
			m.sessions.WithLabelValues(label(ev.State.String())).Inc()
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.attached, c)
	}()
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.parts() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{sessionsDesc, inFlightBytesDesc, requestsDesc, waitingDesc, watchesDesc, subscriptionsDesc, backgroundDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.parts() {
		c.Collect(ch)
	}
	m.mu.Lock()
	clients := make([]*client.Client, 0, len(m.attached))
	for c := range m.attached {
		clients = append(clients, c)
	}
	m.mu.Unlock()
	var sum client.Stats
	in := map[client.State]int{}
	for _, c := range clients {
		s := c.Stats()
		in[s.State]++
		sum.InFlightBytes += s.InFlightBytes
		sum.InFlightRequests += s.InFlightRequests
		sum.Waiting += s.Waiting
		sum.Watches += s.Watches
		sum.Subscriptions += s.Subscriptions
		sum.Background += s.Background
	}
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for s := client.StateConnecting; s <= client.StateClosed; s++ { // all of them, so that none is missing in a query
		gauge(sessionsDesc, in[s], label(s.String()))
	}
	gauge(inFlightBytesDesc, sum.InFlightBytes)
	gauge(requestsDesc, sum.InFlightRequests)
	gauge(waitingDesc, sum.Waiting)
	gauge(watchesDesc, sum.Watches)
	gauge(subscriptionsDesc, sum.Subscriptions)
	gauge(backgroundDesc, sum.Background)
}

// parts are the collectors that keep their own numbers.
func (m *Metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{
		m.duration, m.operations, m.retries, m.requestBytes, m.replyBytes, m.inFlight, m.connection,
		m.rewatched, m.stoodStill, m.sessions,
	}
}

// label writes a name of the client as label values are written: "ReadOnly" is read_only.
func label(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case r == ' ':
			b.WriteByte('_')
		case 'A' <= r && r <= 'Z' && i > 0:
			b.WriteByte('_')
			fallthrough
		default:
			b.WriteString(strings.ToLower(string(r)))
		}
	}
	return b.String()
}
