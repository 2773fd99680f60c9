package server

import (
	"time"

	"github.com/zkd-project/zkd/server/replication"
)

// meters count what the log does, under ZooKeeper's names where the thing exists there.
func (s *Server) meters() replication.Meters {
	st := s.stats
	slow := time.Duration(s.cfg.FsyncWarningMs) * time.Millisecond
	return replication.Meters{
		Proposed: func(commands, bytes int) {
			st.Proposals.Add(int64(commands))
			st.ProposalSizes.Record(int64(bytes))
			st.BatchSize.Record(int64(commands))
		},
		Stored: func(_ int, took time.Duration) {
			st.FsyncTime.Record(int64(took))
			if took > slow {
				st.FsyncSlow.Add(1)
			}
		},
		Applied: func(commands int, took time.Duration) {
			st.Commits.Add(int64(commands))
			st.BatchApplyTime.Record(int64(took))
		},
		Snapshot: func(took time.Duration, err error) {
			if err != nil {
				st.SnapshotErrors.Add(1)
				return
			}
			st.SnapshotTime.Record(int64(took))
		},
		SlowDisk:   func() { st.SlowDiskHandOvers.Add(1) },
		Propagated: func(since time.Duration) { st.PropagationTime.Record(int64(since)) },
		Started: func(u replication.Startup) {
			st.DBInitTime.Record(int64(u.Took))
			if u.Snapshot > 0 {
				st.StartupSnapTime.Record(int64(u.Snapshot))
			}
			st.StartupTxnTime.Record(int64(u.Replay))
			st.StartupTxns.Record(int64(u.Commands))
		},
		Looking: func() { st.Looking.Add(1) },
		Elected: func(took time.Duration) { st.ElectionTime.Record(int64(took)) },
		Routed: func(took time.Duration, leads bool) {
			st.UnavailableTime.Record(int64(took))
			if leads {
				st.LeaderUnavailable.Record(int64(took))
			}
		},
		Synced: func(took time.Duration, votes bool) {
			if votes {
				st.FollowerSyncTime.Record(int64(took))
			} else {
				st.ObserverSyncTime.Record(int64(took))
			}
		},
		SnapshotSent: func() { st.SnapshotsSent.Add(1) },
	}
}
