package fourletter

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/wire"
)

// A fakeSource answers from fields.
type fakeSource struct {
	serving    bool
	status     Status
	config     Config
	data, log  int64
	conns      []Connection
	sessions   Sessions
	ephemerals map[int64][]string
	summary    WatchSummary
	bySession  map[int64][]string
	digests    []Digest
	mask       int64
	resets     int
}

func (f *fakeSource) Serving() bool                     { return f.serving }
func (f *fakeSource) Status() Status                    { return f.status }
func (f *fakeSource) Config() Config                    { return f.config }
func (f *fakeSource) DirSizes() (int64, int64)          { return f.data, f.log }
func (f *fakeSource) Connections() iter.Seq[Connection] { return slices.Values(f.conns) }
func (f *fakeSource) ResetConnections()                 { f.resets++ }
func (f *fakeSource) Sessions() Sessions                { return f.sessions }
func (f *fakeSource) WatchSummary() WatchSummary        { return f.summary }
func (f *fakeSource) Digests() iter.Seq[Digest]         { return slices.Values(f.digests) }
func (f *fakeSource) TraceMask() int64                  { return f.mask }
func (f *fakeSource) SetTraceMask(mask int64)           { f.mask = mask }

func (f *fakeSource) Ephemerals() Ephemerals {
	return Ephemerals{Sessions: len(f.ephemerals), Each: inOrder(f.ephemerals)}
}

func (f *fakeSource) WatchesBySession() iter.Seq2[int64, []string] {
	return inOrder(f.bySession)
}

func (f *fakeSource) WatchesByPath() iter.Seq2[string, []int64] {
	byPath := map[string][]int64{}
	for id, paths := range inOrder(f.bySession) {
		for _, p := range paths {
			byPath[p] = append(byPath[p], id)
		}
	}
	return inOrder(byPath)
}

func inOrder[K int64 | string, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

const (
	sessionA = 0x300000c48830000
	sessionB = 0x300000c48830001
)

var expiry = time.Date(2026, 11, 21, 18, 45, 9, 0, time.UTC)

func conn(port uint16, session int64, timeoutMs int32, expires time.Duration, frames int64) Connection {
	c := Connection{
		Remote: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), SessionID: session,
		TimeoutMs: timeoutMs, InterestOps: 1, Expires: expiry.Add(expires),
	}
	c.Stats = stats.ConnSnapshot{Received: frames, LastOp: "NA", LastCxid: -1, LastZxid: -1}
	return c
}

// busySource is a server in the state that testdata/capture.py brings one into.
func busySource() *fakeSource {
	a, b := conn(60578, sessionA, 10000, 10*time.Second, 10), conn(60586, sessionB, 6000, 0, 4)
	a.Stats = stats.ConnSnapshot{
		Received: 10, Sent: 11, LastOp: "GETC", EstablishedMs: 1795286704106, LastCxid: 9, LastZxid: 0x100000007,
		LastReplyMs: 815058, LastLatencyMs: 1, AvgLatencyMs: 5, MaxLatencyMs: 22,
	}
	b.Stats = stats.ConnSnapshot{
		Queued: 2, Received: 4, Sent: 5, LastOp: "GETD", EstablishedMs: 1795286704137, LastCxid: 3, LastZxid: 0x100000007,
		LastReplyMs: 815059, AvgLatencyMs: 1, MaxLatencyMs: 4,
	}
	asking := conn(60642, 0, 0, 10*time.Second, 1)
	asking.InterestOps = 0
	return &fakeSource{
		serving: true,
		status:  Status{Mode: ModeStandalone, Zxid: 0x100000007, Nodes: 9, Connections: 4},
		config: Config{
			ClientPort: 2181, SecureClientPort: -1, DataDir: "/data/version-2", DataLogDir: "/log/version-2",
			TickTimeMs: 2000, MaxClientCnxns: 60, MinSessionTimeoutMs: 4000, MaxSessionTimeoutMs: 40000,
			ClientPortBacklog: -1,
		},
		data: 597, log: 67109477,
		conns: []Connection{asking, conn(60592, 0, 0, 10*time.Second, 0), a, b},
		sessions: Sessions{Expiring: []SessionBucket{
			{expiry.Add(2 * time.Second), []int64{sessionB}}, {expiry.Add(6 * time.Second), []int64{sessionA}},
		}},
		ephemerals: map[int64][]string{sessionA: {"/d/e1", "/d/e2"}, sessionB: {"/d/b1"}},
		summary:    WatchSummary{Connections: 2, Paths: 2, Watches: 3},
		bySession:  map[int64][]string{sessionA: {"/d", "/d/b1"}, sessionB: {"/d"}},
		digests:    []Digest{{0x80, 1<<63 + 5}},
		mask:       DefaultTraceMask,
	}
}

// inEnsemble makes a server the member of an ensemble of three.
func (f *fakeSource) inEnsemble(mode string) *fakeSource {
	f.status.Mode = mode
	f.config.ServerID = 3
	f.config.Ensemble = &Ensemble{
		InitLimit: 10, SyncLimit: 5, ElectionAlg: 3, ElectionPort: 3888, QuorumPort: 2888,
		Membership: "server.1=127.0.0.1:2888:3888:participant\nserver.2=127.0.0.1:2889:3889:participant\n" +
			"server.3=127.0.0.1:2890:3890:participant\nversion=0",
	}
	switch mode {
	case ModeLeader:
		f.status.PeerState = "leading - broadcast"
	case ModeFollower:
		f.status.PeerState = "following - broadcast"
		f.sessions = Sessions{Learner: true, Known: []KnownSession{{sessionA, 10000}, {sessionB, 6000}}}
	case ModeReadOnly:
		f.status.ReadOnly = true
		f.config.Ensemble.Membership = ""
	}
	return f
}

// idle takes the clients away but the connection that asks.
func (f *fakeSource) idle() *fakeSource {
	f.conns, f.bySession, f.summary = f.conns[:1], nil, WatchSummary{}
	return f
}

// testStats are the stats of a server that has done a little of everything.
func testStats(mode string) *stats.Server {
	s := stats.New()
	sh := s.Shard(0)
	for range 30 {
		sh.Received(1, 40)
		sh.Request(wire.OpGetData, 2e6)
		sh.Reply(90)
	}
	sh.Request(wire.OpSetData, 22e6)
	s.ProposalSizes.Record(186)
	s.ProposalSizes.Record(48)
	s.ProposalSizes.Record(60)
	s.QuotaExceeded.Add("d", 1)

	one := func() int64 { return 1 }
	maybe := func() (int64, bool) { return 1, true }
	s.SetGauges(stats.Gauges{
		Leads:    func() bool { return mode == ModeLeader },
		Ensemble: func() bool { return mode != ModeStandalone && mode != ModeReadOnly },

		NumAliveConnections: one, OutstandingRequests: one, UptimeMs: one, ZnodeCount: one, WatchCount: one,
		EphemeralsCount: one, ApproximateDataSize: one, GlobalSessions: one, LocalSessions: one,
		OpenFiles: maybe, MaxFiles: maybe, DropProbability: func() float64 { return 0 }, TLSHandshakes: one,
		NonMTLSRemote: one, NonMTLSLocal: one, QuorumSize: one, Learners: one, SyncedFollowers: one,
		SyncedNonVotingFollowers: one, SyncedObservers: one, PendingSyncs: one, LeaderUptimeMs: one,
	})
	return s
}

func commandsFor(f *fakeSource) *Commands {
	return &Commands{
		Source: f, Stats: testStats(f.status.Mode), Allowed: ParseWhitelist("*", false),
		Version: "3.9.5-zkd-0123abcd, built on 2026-11-21 10:00 UTC", Location: time.UTC,
	}
}
