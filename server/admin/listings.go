package admin

import (
	"cmp"
	"iter"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/server/fourletter"
)

func compareText(a, b string) int { return cmp.Compare(a, b) }

// connections lists the plain connections, then those with TLS.
func (c *commands) connections(o *object, brief bool) {
	for _, part := range []struct {
		name   string
		secure bool
	}{{"connections", false}, {"secure_connections", true}} {
		o.list(part.name, func(element func(func()) bool) {
			for conn := range c.source.Connections() {
				if conn.Secure == part.secure && !element(func() { connection(o, &conn, brief) }) {
					return
				}
			}
		})
	}
}

func connection(o *object, c *fourletter.Connection, brief bool) {
	s := &c.Stats
	o.str("remote_socket_address", address(c.Remote))
	integer(o, "interest_ops", c.InterestOps)
	integer(o, "outstanding_requests", s.Queued)
	integer(o, "packets_received", s.Received)
	integer(o, "packets_sent", s.Sent)
	if brief {
		return
	}
	integer(o, "session_id", c.SessionID)
	o.str("last_operation", s.LastOp)
	integer(o, "established", s.EstablishedMs)
	integer(o, "session_timeout", c.TimeoutMs)
	integer(o, "last_cxid", s.LastCxid)
	integer(o, "last_zxid", s.LastZxid)
	integer(o, "last_response_time", s.LastReplyMs)
	integer(o, "last_latency", s.LastLatencyMs)
	integer(o, "min_latency", s.MinLatencyMs)
	integer(o, "avg_latency", s.AvgLatencyMs)
	integer(o, "max_latency", s.MaxLatencyMs)
}

// address is host:port; the zero address belongs to a transport without addresses.
func address(a netip.AddrPort) string {
	if !a.IsValid() {
		return "unknown:0"
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
}

// dump shows which sessions expire when, where this server decides on it, and what they own.
func (c *commands) dump(_ url.Values, o *object) {
	o.object("expiry_time_to_session_ids", func() {
		s := c.source.Sessions()
		if s.Learner {
			return
		}
		for _, b := range slices.Concat(s.Local, s.Expiring) {
			o.integers(strconv.FormatInt(b.Expires.UnixMilli(), 10), b.IDs...)
		}
	})
	o.object("session_id_to_ephemeral_paths", func() {
		if e := c.source.Ephemerals(); e.Each != nil {
			pathsBySession(o, e.Each)
		}
	})
}

func (c *commands) watchSummary(_ url.Values, o *object) {
	s := c.source.WatchSummary()
	integer(o, "num_connections", s.Connections)
	integer(o, "num_paths", s.Paths)
	integer(o, "num_total_watches", s.Watches)
}

func (c *commands) watchesBySession(_ url.Values, o *object) {
	o.object("session_id_to_watched_paths", func() { pathsBySession(o, c.source.WatchesBySession()) })
}

func pathsBySession(o *object, each iter.Seq2[int64, []string]) {
	for id, paths := range each {
		o.strings(strconv.FormatInt(id, 10), paths...)
		if o.err != nil {
			return
		}
	}
}

func (c *commands) watchesByPath(_ url.Values, o *object) {
	o.object("path_to_session_ids", func() {
		for path, ids := range c.source.WatchesByPath() {
			o.integers(path, ids...)
			if o.err != nil {
				return
			}
		}
	})
}
