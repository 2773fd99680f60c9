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
		SlowDisk: func() { st.SlowDiskHandOvers.Add(1) },
	}
}
