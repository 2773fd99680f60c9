package server

import (
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/ensemble"
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
		SingleVoter:    s.cfg.Cluster.SingleVoter,
		MultiAddress:   s.cfg.Cluster.MultiAddress,
		MaxNeverUsedMs: s.cfg.ContainerMaxNeverUsedMs,
	}
}

// replicationOptions says where the log lives and who hears of it.
func (s *Server) replicationOptions() replication.Options {
	c := s.cfg
	settings := s.settings() // does not change while the server runs
	return replication.Options{
		Cluster: s.clusterOptions(), Ensemble: s.firstEnsemble(), Boot: s.boot,
		Dir: c.DataDir, LogDir: c.DataLogDir, Memory: s.opts.Memory, Stores: s.opts.Stores,
		FS: s.opts.FS, SegmentBytes: s.opts.SegmentBytes,
		NoAutocreate: !c.DataDirAutocreate, NoNewDatabase: !c.DBAutocreate,
		LogStore: string(c.LogStore), MyID: c.Cluster.ServerID,
		SnapshotBytes: s.snapshotBytes(), SnapCount: c.SnapCount,
		SnapRetain: c.SnapRetainCount, PurgeInterval: purgeInterval(c),
		Settings: func() state.Settings { return settings },
		Now:      s.now, Logger: s.log, Fatal: s.fatal, Observer: s,
		Meters: s.meters(), SlowSync: time.Duration(c.FsyncWarningMs) * time.Millisecond,
		SlowDisk:        slowDisk(c),
		MaxCommandBytes: max(2<<20, c.JuteMaxBuffer+64<<10), // a request, and who it comes from
	}
}

// firstEnsemble is the configuration with which a cluster begins: the server lines.
func (s *Server) firstEnsemble() string {
	if !s.clustered {
		return ""
	}
	c, err := ensemble.New(s.cfg.Cluster.Members)
	if err != nil {
		s.log.Error("the server lines make no ensemble: reconfig will not work", "reason", err)
		return ""
	}
	return c.String()
}

// clusterOptions says who the other servers are; nil: there are none.
func (s *Server) clusterOptions() *replication.Cluster {
	if !s.clustered {
		return nil
	}
	c := &s.cfg.Cluster
	o := &replication.Cluster{
		Network: s.opts.PeerNetwork, TLS: s.opts.PeerTLS, Roots: s.opts.PeerRoots, BootstrapMajority: s.opts.BootstrapMajority,
		Report: s.takeReports,
	}
	for i := range c.Members {
		m := &c.Members[i]
		var addresses, ports []string
		for _, p := range m.Peers {
			addresses = append(addresses, net.JoinHostPort(p.Host, strconv.Itoa(p.Port)))
			if everywhere := net.JoinHostPort("", strconv.Itoa(p.Port)); !slices.Contains(ports, everywhere) {
				ports = append(ports, everywhere)
			}
		}
		o.Members = append(o.Members, replication.Member{
			Number: m.ID, Address: addresses[0], More: addresses[1:], Observer: m.Role == config.Observer,
		})
		if m.ID != c.ServerID {
			continue
		}
		if c.ListenOnAllIPs {
			addresses = ports
		}
		o.Listen, o.AlsoListen = addresses[0], addresses[1:]
	}
	return o
}

// snapshotBytes translates: for replication a negative number means that SnapCount alone
// decides, and 0 its own default, which is less where the log is in memory.
func (s *Server) snapshotBytes() int64 {
	switch n := s.cfg.SnapshotBytes; {
	case n == 0:
		return -1
	case s.opts.Memory:
		return 0
	default:
		return n
	}
}

// purgeInterval translates: for replication 0 means after every snapshot, and a negative
// duration never, in the configuration it is the other way round.
func purgeInterval(c *config.Config) time.Duration {
	switch {
	case c.PurgeIntervalMs < 0:
		return 0
	case c.PurgeIntervalMs == 0:
		return -1
	}
	return time.Duration(c.PurgeIntervalMs) * time.Millisecond
}

// slowDisk translates: for replication a negative time means never.
func slowDisk(c *config.Config) replication.SlowDisk {
	d := replication.SlowDisk{
		Sync: time.Duration(c.SlowDiskMs) * time.Millisecond, For: time.Duration(c.SlowDiskForMs) * time.Millisecond,
	}
	if c.SlowDiskMs == 0 {
		d.Sync = -1
	}
	return d
}

// NodeCount is the number of znodes as ZooKeeper counts them.
func (s *Server) NodeCount() int64 {
	return s.look(func(m *state.Machine) int64 { return int64(m.Tree().NodeCount()) })
}

// SessionCount is the number of sessions.
func (s *Server) SessionCount() int64 {
	return s.look(func(m *state.Machine) int64 { return int64(m.SessionCount()) })
}
