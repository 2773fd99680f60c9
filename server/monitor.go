package server

import (
	"fmt"
	"syscall"

	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/server/znode"
)

// gauges are the values that the server computes when somebody looks.
func (s *Server) gauges() stats.Gauges {
	ofMachine := func(f func(m *state.Machine) int64) func() int64 {
		return func() int64 { return s.look(f) }
	}
	ofQuotas := func(f func(q *znode.Quota) int64) func() map[string]int64 {
		return func() map[string]int64 { return s.quotaSums(f) }
	}
	ofFollowers := func(f func(l replication.Followers) int) func() int64 {
		return func() int64 {
			n := s.currentNode()
			if n == nil {
				return 0
			}
			return int64(f(n.Followers()))
		}
	}
	return stats.Gauges{
		QuorumSize:      ofFollowers(func(l replication.Followers) int { return l.Members }),
		Learners:        ofFollowers(func(l replication.Followers) int { return l.InContact }),
		SyncedFollowers: ofFollowers(func(l replication.Followers) int { return l.SyncedVoters }),
		SyncedObservers: ofFollowers(func(l replication.Followers) int { return l.SyncedObservers }),

		QuotaCountLimit: ofQuotas(func(q *znode.Quota) int64 { return hardFirst(q.Limits.CountHard, q.Limits.Count) }),
		QuotaBytesLimit: ofQuotas(func(q *znode.Quota) int64 { return hardFirst(q.Limits.BytesHard, q.Limits.Bytes) }),
		QuotaCountUsage: ofQuotas(func(q *znode.Quota) int64 { return q.Stats.Count }),
		QuotaBytesUsage: ofQuotas(func(q *znode.Quota) int64 { return q.Stats.Bytes }),

		PendingSyncs:   s.pendingSyncs.Load,
		LeaderUptimeMs: func() int64 { return (s.nowNs() - s.leadsSinceNs.Load()) / 1e6 },

		Leads:               func() bool { return s.clustered && s.currentNode() != nil && s.node.Leads() },
		Ensemble:            func() bool { return s.clustered },
		NumAliveConnections: func() int64 { return int64(s.connectionCount()) },
		OutstandingRequests: s.pendingRequests.Load,
		UptimeMs:            func() int64 { return s.nowNs() / 1e6 },
		ZnodeCount:          ofMachine(func(m *state.Machine) int64 { return int64(m.Tree().NodeCount()) }),
		WatchCount:          func() int64 { return int64(s.watches.Counts().Watches) },
		EphemeralsCount:     ofMachine(func(m *state.Machine) int64 { return int64(m.Tree().EphemeralCount()) }),
		ApproximateDataSize: ofMachine(func(m *state.Machine) int64 { return m.Tree().ApproximateDataSize() }),
		GlobalSessions:      ofMachine(func(m *state.Machine) int64 { return int64(m.SessionCount()) }),
		LocalSessions:       func() int64 { return 0 },
		OpenFiles:           stats.OpenFiles,
		MaxFiles:            stats.MaxFiles,
		DropProbability:     func() float64 { return 0 },
		TLSHandshakes:       s.tlsHandshakes.Load,
		NonMTLSRemote:       func() int64 { return s.withoutCertificate(false) },
		NonMTLSLocal:        func() int64 { return s.withoutCertificate(true) },
	}
}

// maxQuotasShown nodes below /zookeeper/quota are looked at for the gauges: writes wait meanwhile.
const maxQuotasShown = 10_000

// quotaSums adds up something of all quotas, by namespace; what is negative is no limit.
func (s *Server) quotaSums(f func(q *znode.Quota) int64) map[string]int64 {
	sums := map[string]int64{}
	s.look(func(m *state.Machine) int64 {
		m.Tree().Quotas(maxQuotasShown, func(q znode.Quota) {
			if v := f(&q); v >= 0 {
				sums[stats.Namespace(q.Path)] += v
			}
		})
		return 0
	})
	return sums
}

// hardFirst is the limit that counts.
func hardFirst(hard, soft int64) int64 {
	if hard >= 0 {
		return hard
	}
	return soft
}

// look computes something of the machine, 0 while there is none.
func (s *Server) look(f func(m *state.Machine) int64) int64 {
	n := s.currentNode()
	if n == nil {
		return 0
	}
	if m := s.ro.view.Load(); m != nil { // it does not change
		return f(m)
	}
	n.RLock()
	defer n.RUnlock()
	return f(n.Machine())
}

func (s *Server) connectionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byNumber)
}

// withoutCertificate counts the connections that no certificate vouches for.
func (s *Server) withoutCertificate(local bool) int64 {
	var n int64
	for _, c := range s.connections() {
		if c.remote.Addr().IsLoopback() == local && !c.mutual.Load() {
			n++
		}
	}
	return n
}

// reservedFiles are the open files kept for logs, snapshots and listeners: clients must not
// be able to use them up.
const reservedFiles = 128

// connectionLimit is how many connections the server takes: what is configured, and never
// more than the open files allow. 0: no limit.
func connectionLimit(configured int) int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || r.Cur > 1<<30 {
		return configured
	}
	files := max(int(r.Cur)-reservedFiles, 16)
	if configured == 0 {
		return files
	}
	return min(configured, files)
}

// sessionText is a session id as ZooKeeper's tools show it.
func sessionText(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }
