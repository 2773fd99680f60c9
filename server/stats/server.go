package stats

// A Server holds what one server counts. The owner of an event records it in the field or
// Shard that stands for it; readers use the Registry or the methods at the end. New makes
// it; all fields may be used by any number of goroutines.
//
// Durations are recorded in nanoseconds and shown in milliseconds.
type Server struct {
	// Connections and sessions.
	ConnectionRequests      Counter // sessions asked for and renewed: handshakes that got as far as a ConnectRequest
	ConnectionsRejected     Counter // over a limit of connections
	ConnectionsDropped      Counter // closed by the server for a reason of its own
	ConnectionRevalidations Counter // handshakes that renewed a session
	SessionsExpired         Counter // sessions that this server, as leader, found expired
	SessionlessExpired      Counter // connections closed since no handshake came, or nothing any more
	ClosedNotServing        Counter // connections closed since the server did not serve
	HandshakesFailed        Counter // TLS handshakes that failed
	AuthFailures            Counter // auth and SASL requests refused; srst leaves it alone
	InsecureAdmin           Counter // plain requests where the admin server wants TLS
	EnsembleAuthSuccess     Counter // clients that named this ensemble
	EnsembleAuthFail        Counter // clients that named another
	EnsembleAuthSkip        Counter // clients that named one where nobody says what this one is called, or named none

	// Audit log.
	AuditWritten Counter // lines in the file
	AuditLost    Counter // lines that are missing there

	// Requests.
	LargeRequestsRefused Counter // frames refused over the limit of large requests

	// Replication.
	Looking           Counter    // times the server lost the way to its leader, or began, and looked for one
	SnapshotsSent     Counter    // snapshots sent to followers that were too far behind
	Commits           Counter    // transactions applied
	Proposals         Counter    // transactions proposed as leader
	DigestMismatches  Counter    // times the digest of the state differed from that of the majority
	ProposalSizes     Sizes      // bytes of what was proposed as leader
	ElectionTime      *Histogram // from losing the way to the leader to knowing one
	UnavailableTime   *Histogram // from losing the way to the leader to having one for writes again
	LeaderUnavailable *Histogram // the same where this server became leader
	FollowerSyncTime  *Histogram // bringing this server up to date with a new leader, as a voter
	ObserverSyncTime  *Histogram // the same as an observer
	PropagationTime   *Histogram // from proposing to applied here, by the clocks of the leader and of this server
	BatchSize         *Histogram // transactions in one log entry
	BatchApplyTime    *Histogram // applying the transactions of one log entry

	// Disk.
	FsyncTime            *Histogram // one sync of the log
	FsyncSlow            Counter    // syncs longer than fsync.warningthresholdms
	SlowDiskHandOvers    Counter    // of the leadership, because the disk here is slow
	SnapshotTime         *Histogram // writing a snapshot
	SnapshotErrors       Counter    // snapshots that could not be written
	SnapshotsRateLimited Counter    // snapshots refused by the admin server's limit
	RestoreTime          *Histogram // loading a snapshot on demand
	RestoreErrors        Counter    // snapshots that could not be loaded
	RestoresRateLimited  Counter    // restores refused by the admin server's limit
	DBInitTime           *Histogram // loading everything at the start
	StartupSnapTime      *Histogram // loading the snapshot at the start
	StartupTxnTime       *Histogram // replaying the log at the start
	StartupTxns          *Histogram // transactions replayed at the start

	// Tree and watches.
	WatchCreated    *Histogram  // watchers told that a node was created
	WatchDeleted    *Histogram  // watchers told that a node was deleted
	WatchChanged    *Histogram  // watchers told that data changed
	WatchChildren   *Histogram  // watchers told that children changed
	TTLNodesCreated Counter     // nodes created with a TTL
	TTLNodesDeleted Counter     // nodes deleted since their TTL was over
	QuotaExceeded   *CounterSet // writes refused by a quota, by namespace

	registry   *Registry
	shards     []Shard // immutable slice, a power of two
	replySizes Sizes
	resets     []func() // what Reset calls; immutable after New
}

// New returns the counters of a server, all zero, and registered.
func New() *Server {
	s := &Server{registry: NewRegistry()}
	s.shards = newShards(&s.replySizes)
	s.registerOwnGauges()
	s.registerTraffic()
	s.registerCounters()
	s.registerSummaries()
	s.resets = append(s.resets, s.replySizes.Reset, s.ProposalSizes.Reset)
	return s
}

// Registry lists all metrics. Add what the server computes when asked with SetGauges.
func (s *Server) Registry() *Registry {
	return s.registry
}

// Shard is the shard of a connection; n is any number that differs between connections.
func (s *Server) Shard(n uint64) *Shard {
	return &s.shards[n&uint64(len(s.shards)-1)]
}

// Reset is what srst does: packets, latencies, sizes, counters and summaries begin anew in
// the view SinceReset. ZooKeeper leaves the number of failed authentications as it is.
func (s *Server) Reset() {
	for i := range s.shards {
		s.shards[i].reset()
	}
	for _, f := range s.resets {
		f()
	}
}

// PacketsReceived is the number of frames and four-letter words received.
func (s *Server) PacketsReceived(v View) int64 {
	return s.sum(v, func(sh *Shard) *Counter { return &sh.received })
}

// PacketsSent is the number of frames and answers to four-letter words sent.
func (s *Server) PacketsSent(v View) int64 {
	return s.sum(v, func(sh *Shard) *Counter { return &sh.sent })
}

// Latency is the latency of all requests.
func (s *Server) Latency(v View) *Snapshot {
	snap := new(Snapshot)
	s.readLatency(v, snap, func(opInfo) bool { return true })
	return snap
}

// ResponseSizes are the bytes of the last, smallest and largest reply, -1 before the first.
func (s *Server) ResponseSizes() (last, smallest, largest int64) {
	return s.replySizes.Values()
}

func (s *Server) sum(v View, of func(*Shard) *Counter) int64 {
	n := int64(0)
	for i := range s.shards {
		n += of(&s.shards[i]).Value(v)
	}
	return n
}

// readLatency adds up the requests of those opcodes that are wanted.
func (s *Server) readLatency(v View, snap *Snapshot, want func(opInfo) bool) {
	for op := range ops {
		if want(ops[op]) {
			s.readOp(v, op, snap)
		}
	}
	snap.Unit = Millis
}

func (s *Server) readOp(v View, op int, snap *Snapshot) {
	for i := range s.shards {
		s.shards[i].latency[op].Read(v, snap)
	}
}
