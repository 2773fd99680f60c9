package admin

import (
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/stats"
)

// serverStats is server_stats, and the first part of stats.
func (c *commands) serverStats(o *object) {
	s := c.source.Status()
	o.str("version", c.version)
	o.boolean("read_only", s.ReadOnly)
	o.object("server_stats", func() { c.numbers(o, &s) })
	last, smallest, largest := c.stats.ResponseSizes()
	sizes(o, "client_response", last, smallest, largest)
	if s.Mode == fourletter.ModeLeader {
		last, smallest, largest := c.stats.ProposalSizes.Values()
		sizes(o, "proposal_stats", last, smallest, largest)
	}
	integer(o, "node_count", s.Nodes)
}

// numbers are the properties of Java's ServerStats; the odd spelling of two is its own.
func (c *commands) numbers(o *object, s *fourletter.Status) {
	gauge := c.gauges()
	lat := c.stats.Latency(stats.SinceReset)
	dataBytes, logBytes := c.source.DirSizes()
	integer(o, "packets_sent", c.stats.PacketsSent(stats.SinceReset))
	integer(o, "packets_received", c.stats.PacketsReceived(stats.SinceReset))
	integer(o, "fsync_threshold_exceed_count", c.stats.FsyncSlow.Value(stats.SinceReset))
	last, smallest, largest := c.stats.ResponseSizes()
	sizes(o, "client_response_stats", last, smallest, largest)
	integer(o, "data_dir_size", dataBytes)
	integer(o, "log_dir_size", logBytes)
	o.boolean("provider_null", false)
	o.str("server_state", s.Mode)
	integer(o, "last_processed_zxid", s.Zxid)
	integer(o, "outstanding_requests", s.Outstanding)
	o.float("avg_latency", lat.Avg())
	integer(o, "max_latency", lat.Max())
	integer(o, "min_latency", lat.Min())
	integer(o, "num_alive_client_connections", s.Connections)
	integer(o, "auth_failed_count", c.stats.AuthFailures.Value(stats.SinceStart))
	integer(o, "non_mtlsremote_conn_count", gauge["non_mtls_remote_conn_count"])
	integer(o, "non_mtlslocal_conn_count", gauge["non_mtls_local_conn_count"])
	integer(o, "uptime", gauge["uptime"])
}

// gauges are the whole numbers that the server computes when it is asked.
func (c *commands) gauges() map[string]int64 {
	m := map[string]int64{}
	c.stats.Registry().Visit(stats.SinceReset, func(metric stats.Metric, key string, v stats.Value) {
		if metric.Kind == stats.KindGauge && key == "" && !v.IsFloat {
			m[metric.Name] = v.Int
		}
	})
	return m
}

func sizes(o *object, name string, last, smallest, largest int64) {
	o.object(name, func() {
		integer(o, "last_buffer_size", last)
		integer(o, "min_buffer_size", smallest)
		integer(o, "max_buffer_size", largest)
	})
}
