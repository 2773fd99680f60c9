package stats

// The names are those of Apache ZooKeeper (ServerMetrics, ServerStats and the gauges of
// ZooKeeperServer, 3.9, with the op_count_ counters of 3.10). Listed is what exists here in
// the same sense: stages of ZooKeeper's pipeline that have no counterpart are left out, not
// shown as zero. A test in server/metrics sees that each field is counted somewhere.

// registerOwnGauges lists the gauges that need nothing from the server.
func (s *Server) registerOwnGauges() {
	r := s.registry
	always := func(f func() int64) func() (int64, bool) {
		return func() (int64, bool) { return f(), true }
	}
	r.FloatGauge("avg_latency", "mean request latency in ms since srst", func() (float64, bool) {
		return s.Latency(SinceReset).Avg(), true
	})
	r.Gauge("max_latency", "longest request latency in ms since srst",
		always(func() int64 { return s.Latency(SinceReset).Max() }))
	r.Gauge("min_latency", "shortest request latency in ms since srst",
		always(func() int64 { return s.Latency(SinceReset).Min() }))
	r.Gauge("packets_received", "frames received since srst",
		always(func() int64 { return s.PacketsReceived(SinceReset) }))
	r.Gauge("packets_sent", "frames sent since srst",
		always(func() int64 { return s.PacketsSent(SinceReset) }))
	r.Gauge("last_client_response_size", "bytes of the last reply, -1 before the first",
		always(func() int64 { last, _, _ := s.ResponseSizes(); return last }))
	r.Gauge("max_client_response_size", "bytes of the largest reply since srst, -1 before the first",
		always(func() int64 { _, _, largest := s.ResponseSizes(); return largest }))
	r.Gauge("min_client_response_size", "bytes of the smallest reply since srst, -1 before the first",
		always(func() int64 { _, smallest, _ := s.ResponseSizes(); return smallest }))
	r.Gauge("auth_failed_count", "authentications refused since the start",
		always(func() int64 { return s.AuthFailures.Value(SinceStart) }))
}

// registerTraffic lists what the shards count.
func (s *Server) registerTraffic() {
	r := s.registry
	for _, m := range []struct {
		name, help string
		of         func(*Shard) *Counter
	}{
		{"bytes_received_count", "bytes of frames received", func(sh *Shard) *Counter { return &sh.bytesReceived }},
		{"response_bytes", "bytes of replies", func(sh *Shard) *Counter { return &sh.replyBytes }},
		{"watch_bytes", "bytes of watch notifications", func(sh *Shard) *Counter { return &sh.watchBytes }},
	} {
		r.CounterFunc(m.name, m.help, func(v View) int64 { return s.sum(v, m.of) })
	}

	counted := func(want func(opInfo) bool) func(View) int64 {
		return func(v View) int64 {
			var snap Snapshot
			s.readLatency(v, &snap, want)
			return snap.Count
		}
	}
	r.CounterFunc("op_count_total", "requests answered", counted(func(o opInfo) bool { return o.count != "" }))
	seen := map[string]bool{"": true}
	for _, o := range ops {
		if !seen[o.count] {
			seen[o.count] = true
			r.CounterFunc("op_count_"+o.count, "requests of this kind answered",
				counted(func(p opInfo) bool { return p.count == o.count }))
		}
	}

	latency := func(name, help string, want func(opInfo) bool) {
		r.SummaryFunc(name, help, KindAdvanced, func(v View, snap *Snapshot) { s.readLatency(v, snap, want) })
	}
	latency("readlatency", "ms from reading a read request to its reply", func(o opInfo) bool { return !o.write })
	latency("updatelatency", "ms from reading a write request to its reply", func(o opInfo) bool { return o.write })
	r.add(Metric{
		Name: "zkd_op_latency_ms", Help: "ms from reading a request to its reply, by opcode", Kind: KindAdvanced, Set: true,
	}, func(v View, emit emitFunc) {
		for i := range ops {
			snap := new(Snapshot)
			if s.readOp(v, i, snap); snap.Count > 0 {
				emit(opKey(i), Value{Summary: snap})
			}
		}
	})
}

// registerCounters lists the counters that are fields.
func (s *Server) registerCounters() {
	for _, m := range []struct {
		name, help string
		c          *Counter
	}{
		{"connection_request_count", "handshakes", &s.ConnectionRequests},
		{"connection_rejected", "connections refused over a limit", &s.ConnectionsRejected},
		{"connection_drop_count", "connections closed by the server", &s.ConnectionsDropped},
		{"connection_revalidate_count", "handshakes that renewed a session", &s.ConnectionRevalidations},
		{"stale_sessions_expired", "sessions expired by this server as leader", &s.SessionsExpired},
		{"sessionless_connections_expired", "connections closed for silence", &s.SessionlessExpired},
		{"cnxn_closed_without_zk_server_running", "connections closed while not serving", &s.ClosedNotServing},
		{"unsuccessful_handshake", "TLS handshakes that failed", &s.HandshakesFailed},
		{"insecure_admin_count", "plain requests to an admin port that wants TLS", &s.InsecureAdmin},
		{"large_requests_rejected", "large requests refused over the limit", &s.LargeRequestsRefused},
		{"looking_count", "searches for a leader, the first one at the start", &s.Looking},
		{"snap_count", "snapshots sent to followers", &s.SnapshotsSent},
		{"commit_count", "transactions applied", &s.Commits},
		{"proposal_count", "transactions proposed as leader", &s.Proposals},
		{"digest_mismatches_count", "times the state here differed from that of the majority", &s.DigestMismatches},
		{"fsync_threshold_exceed_count", "slow syncs of the log", &s.FsyncSlow},
		{"zkd_slow_disk_handovers", "hand-overs of the leadership because of a slow disk here", &s.SlowDiskHandOvers},
		{"snapshot_error_count", "snapshots that could not be written", &s.SnapshotErrors},
		{"snapshot_rate_limited_count", "snapshots refused by the rate limit", &s.SnapshotsRateLimited},
		{"restore_error_count", "snapshots that could not be restored", &s.RestoreErrors},
		{"restore_rate_limited_count", "restores refused by the rate limit", &s.RestoresRateLimited},
		{"ttl_node_created_count", "nodes created with a TTL", &s.TTLNodesCreated},
		{"ttl_node_deleted_count", "nodes deleted by their TTL", &s.TTLNodesDeleted},
		{"ensemble_auth_success", "clients that named this ensemble", &s.EnsembleAuthSuccess},
		{"ensemble_auth_fail", "clients that named another ensemble", &s.EnsembleAuthFail},
		{"ensemble_auth_skip", "clients whose ensemble was not checked", &s.EnsembleAuthSkip},
		{"zkd_audit_written", "lines of the audit log", &s.AuditWritten},
		{"zkd_audit_lost", "lines missing in the audit log, since it could not be written as fast", &s.AuditLost},
	} {
		s.registry.Counter(m.name, m.help, m.c)
		s.resets = append(s.resets, m.c.Reset)
	}
	s.QuotaExceeded = NewCounterSet()
	s.resets = append(s.resets, s.QuotaExceeded.Reset)
	s.registry.CounterSet("quota_exceeded_error_per_namespace", "writes refused by a quota", s.QuotaExceeded)
}

// registerSummaries makes and lists the histograms.
func (s *Server) registerSummaries() {
	for _, m := range []struct {
		name, help string
		kind       Kind
		unit       Unit
		h          **Histogram
	}{
		{"fsynctime", "ms of a sync of the log", KindSummary, Millis, &s.FsyncTime},
		{"snapshottime", "ms to write a snapshot", KindSummary, Millis, &s.SnapshotTime},
		{"restore_time", "ms to restore a snapshot on demand", KindSummary, Millis, &s.RestoreTime},
		{"dbinittime", "ms to load snapshot and log at the start", KindSummary, Millis, &s.DBInitTime},
		{"startup_snap_load_time", "ms to load the snapshot at the start", KindSummary, Millis, &s.StartupSnapTime},
		{"startup_txns_load_time", "ms to replay the log at the start", KindSummary, Millis, &s.StartupTxnTime},
		{"startup_txns_loaded", "transactions replayed at the start", KindSummary, Count, &s.StartupTxns},
		{"election_time", "ms to know a leader, from the start or the loss of the way to one", KindSummary, Millis, &s.ElectionTime},
		{"unavailable_time", "ms without a way for writes", KindSummary, Millis, &s.UnavailableTime},
		{"leader_unavailable_time", "ms without a way for writes, as the new leader", KindSummary, Millis, &s.LeaderUnavailable},
		{"follower_sync_time", "ms to catch up with a new leader", KindSummary, Millis, &s.FollowerSyncTime},
		{"observer_sync_time", "ms to catch up with a new leader, as an observer", KindSummary, Millis, &s.ObserverSyncTime},
		{"node_created_watch_count", "watchers per node created", KindSummary, Count, &s.WatchCreated},
		{"node_deleted_watch_count", "watchers per node deleted", KindSummary, Count, &s.WatchDeleted},
		{"node_changed_watch_count", "watchers per change of data", KindSummary, Count, &s.WatchChanged},
		{"node_children_watch_count", "watchers per change of children", KindSummary, Count, &s.WatchChildren},
		{"sync_processor_batch_size", "transactions in a log entry", KindSummary, Count, &s.BatchSize},
		{"write_batch_time_in_commit_processor", "ms to apply a log entry", KindSummary, Millis, &s.BatchApplyTime},
		{"propagation_latency", "ms from proposal to applied here, by the clocks of both servers", KindAdvanced, Millis, &s.PropagationTime},
	} {
		*m.h = NewHistogram(m.unit)
		s.registry.Summary(m.name, m.help, m.kind, *m.h)
		s.resets = append(s.resets, (*m.h).Reset)
	}
}
