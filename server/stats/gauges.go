package stats

// Gauges are the values that a server computes when it is asked, under ZooKeeper's names. A
// nil function leaves its gauge out. None may block or wait for other servers.
type Gauges struct {
	// Leads says whether this server leads an ensemble at the moment: what stands under
	// "leader only" is shown while it does. Ensemble says whether it is a member of one.
	Leads    func() bool
	Ensemble func() bool

	NumAliveConnections func() int64
	OutstandingRequests func() int64
	UptimeMs            func() int64
	ZnodeCount          func() int64
	WatchCount          func() int64 // data and child watches
	EphemeralsCount     func() int64
	ApproximateDataSize func() int64 // bytes of all paths and data
	GlobalSessions      func() int64
	LocalSessions       func() int64
	OpenFiles           func() (int64, bool) // see OpenFiles of this package
	MaxFiles            func() (int64, bool)
	DropProbability     func() float64 // of the connection throttle, 0 without one
	TLSHandshakes       func() int64   // under way
	NonMTLSRemote       func() int64   // connections from afar without a client certificate
	NonMTLSLocal        func() int64   // the same from this machine

	QuotaCountLimit func() map[string]int64 // by namespace
	QuotaBytesLimit func() map[string]int64
	QuotaCountUsage func() map[string]int64
	QuotaBytesUsage func() map[string]int64

	QuorumSize func() int64 // voters and observers; members of an ensemble only

	// Leader only.
	Learners                 func() int64 // followers and observers
	SyncedFollowers          func() int64
	SyncedNonVotingFollowers func() int64 // nil: there is no such role, and the gauge says 0
	SyncedObservers          func() int64
	PendingSyncs             func() int64 // of the clients of this server
	LeaderUptimeMs           func() int64
}

// SetGauges lists the gauges of a server. It is called once, before anyone reads.
func (s *Server) SetGauges(g Gauges) {
	r := s.registry
	yes := func() bool { return true }
	when := func(cond func() bool, name, help string, f func() int64) {
		if f != nil && cond != nil {
			r.Gauge(name, help, func() (int64, bool) {
				if !cond() {
					return 0, false
				}
				return f(), true
			})
		}
	}
	when(yes, "num_alive_connections", "client connections", g.NumAliveConnections)
	when(yes, "outstanding_requests", "requests without an answer yet", g.OutstandingRequests)
	when(yes, "znode_count", "nodes", g.ZnodeCount)
	when(yes, "watch_count", "data and child watches", g.WatchCount)
	when(yes, "ephemerals_count", "ephemeral nodes", g.EphemeralsCount)
	when(yes, "approximate_data_size", "bytes of all paths and data", g.ApproximateDataSize)
	when(yes, "global_sessions", "sessions of the ensemble", g.GlobalSessions)
	when(yes, "local_sessions", "sessions known to this server only", g.LocalSessions)
	when(yes, "uptime", "ms since the start", g.UptimeMs)
	if g.OpenFiles != nil {
		r.Gauge("open_file_descriptor_count", "open files and sockets of the process", g.OpenFiles)
	}
	if g.MaxFiles != nil {
		r.Gauge("max_file_descriptor_count", "limit of open files and sockets", g.MaxFiles)
	}
	if g.DropProbability != nil {
		r.FloatGauge("connection_drop_probability", "share of new connections that the throttle drops",
			func() (float64, bool) { return g.DropProbability(), true })
	}
	when(yes, "outstanding_tls_handshake", "TLS handshakes under way", g.TLSHandshakes)
	when(yes, "non_mtls_remote_conn_count", "remote connections without a client certificate", g.NonMTLSRemote)
	when(yes, "non_mtls_local_conn_count", "local connections without a client certificate", g.NonMTLSLocal)
	when(g.Ensemble, "quorum_size", "members of the ensemble", g.QuorumSize)
	s.setLeaderGauges(g, when)
	for _, q := range []struct {
		name, help string
		f          func() map[string]int64
	}{
		{"quota_count_limit_per_namespace", "most nodes allowed", g.QuotaCountLimit},
		{"quota_bytes_limit_per_namespace", "most bytes allowed", g.QuotaBytesLimit},
		{"quota_count_usage_per_namespace", "nodes counted against the quota", g.QuotaCountUsage},
		{"quota_bytes_usage_per_namespace", "bytes counted against the quota", g.QuotaBytesUsage},
	} {
		if q.f != nil {
			r.GaugeSet(q.name, q.help, q.f)
		}
	}
}

func (s *Server) setLeaderGauges(g Gauges, when func(cond func() bool, name, help string, f func() int64)) {
	when(g.Leads, "learners", "followers and observers", g.Learners)
	when(g.Leads, "synced_followers", "followers that are up to date", g.SyncedFollowers)
	nonVoting := g.SyncedNonVotingFollowers
	if nonVoting == nil {
		nonVoting = func() int64 { return 0 }
	}
	when(g.Leads, "synced_non_voting_followers", "followers without a vote that are up to date", nonVoting)
	when(g.Leads, "synced_observers", "observers that are up to date", g.SyncedObservers)
	when(g.Leads, "pending_syncs", "syncs of the clients of this server that wait for the log", g.PendingSyncs)
	when(g.Leads, "leader_uptime", "ms since this server leads", g.LeaderUptimeMs)
	when(g.Leads, "last_proposal_size", "bytes of the last proposal, -1 before the first",
		func() int64 { last, _, _ := s.ProposalSizes.Values(); return last })
	when(g.Leads, "max_proposal_size", "bytes of the largest proposal, -1 before the first",
		func() int64 { _, _, largest := s.ProposalSizes.Values(); return largest })
	when(g.Leads, "min_proposal_size", "bytes of the smallest proposal, -1 before the first",
		func() int64 { _, smallest, _ := s.ProposalSizes.Values(); return smallest })
}
