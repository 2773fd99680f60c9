package server

import (
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
)

// settings are the switches that travel with every batch while this server leads.
func (s *Server) settings() state.Settings {
	a := &s.cfg.Auth
	return state.Settings{
		ACL: acl.Settings{
			SkipACL:          s.cfg.SkipACL,
			DigestDisabled:   !a.DigestEnabled,
			SASLEnabled:      s.cfg.SASL.Provider,
			X509Enabled:      a.X509Enabled,
			LetAnySASLUserDo: s.cfg.SASL.LetAnyUserDo,
		},
		EnforceQuota:   s.cfg.EnforceQuota,
		ExtendedTypes:  s.cfg.ExtendedTypesEnabled,
		Reconfig:       s.cfg.ReconfigEnabled,
		MaxNeverUsedMs: s.cfg.ContainerMaxNeverUsedMs,
	}
}

// replicationOptions says where the log lives and who hears of it.
func (s *Server) replicationOptions() replication.Options {
	st := s.cfg
	settings := s.settings() // does not change while the server runs
	return replication.Options{
		Dir: st.DataDir, LogDir: st.DataLogDir, Memory: s.opts.Memory, Stores: s.opts.Stores, FS: vfs.OS,
		LogStore: string(st.LogStore), MyID: s.cfg.Cluster.ServerID,
		SnapshotBytes: st.SnapshotBytes, SnapCount: st.SnapCount,
		SnapRetain: st.SnapRetainCount,
		Settings:   func() state.Settings { return settings },
		Now:        s.now, Logger: s.log, Fatal: s.fatal, Observer: s,
	}
}

// NodeCount is the number of znodes as ZooKeeper counts them.
func (s *Server) NodeCount() int64 {
	return s.look(func(m *state.Machine) int64 { return int64(m.Tree().NodeCount()) })
}

// SessionCount is the number of sessions.
func (s *Server) SessionCount() int64 {
	return s.look(func(m *state.Machine) int64 { return int64(m.SessionCount()) })
}
