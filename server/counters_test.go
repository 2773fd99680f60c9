package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/wire"
)

// readings are counters and the numbers of values of histograms, since the start.
func readings(s *stats.Server) map[string]int64 {
	m := map[string]int64{}
	s.Registry().Visit(stats.SinceStart, func(metric stats.Metric, key string, v stats.Value) {
		if metric.Kind == stats.KindGauge {
			return
		}
		if v.Summary != nil {
			v.Int = v.Summary.Count
		}
		m[metric.Name+key] = v.Int
	})
	return m
}

func TestEachMeterMovesItsMetrics(t *testing.T) {
	srv := newServer(t)
	m := srv.meters()
	for name, test := range map[string]struct {
		do    func()
		moves []string
	}{
		"proposed":     {func() { m.Proposed(1, 100) }, []string{"proposal_count", "sync_processor_batch_size"}},
		"stored":       {func() { m.Stored(1, time.Hour) }, []string{"fsynctime", "fsync_threshold_exceed_count"}},
		"applied":      {func() { m.Applied(1, time.Millisecond) }, []string{"commit_count", "write_batch_time_in_commit_processor"}},
		"snapshot":     {func() { m.Snapshot(time.Second, nil) }, []string{"snapshottime"}},
		"no snapshot":  {func() { m.Snapshot(0, context.Canceled) }, []string{"snapshot_error_count"}},
		"slow disk":    {m.SlowDisk, []string{"zkd_slow_disk_handovers"}},
		"propagated":   {func() { m.Propagated(time.Millisecond) }, []string{"propagation_latency"}},
		"clocks apart": {func() { m.Propagated(-time.Second) }, nil},
		"started": {
			func() {
				m.Started(replication.Startup{Snapshot: time.Second, Replay: time.Second, Commands: 3, Took: time.Minute})
			},
			[]string{"dbinittime", "startup_snap_load_time", "startup_txns_load_time", "startup_txns_loaded"},
		},
		"started without a snapshot": {
			func() { m.Started(replication.Startup{Took: time.Minute}) },
			[]string{"dbinittime", "startup_txns_load_time", "startup_txns_loaded"},
		},
		"looking":         {m.Looking, []string{"looking_count"}},
		"elected":         {func() { m.Elected(time.Second) }, []string{"election_time"}},
		"follows":         {func() { m.Routed(time.Second, false) }, []string{"unavailable_time"}},
		"leads":           {func() { m.Routed(time.Second, true) }, []string{"unavailable_time", "leader_unavailable_time"}},
		"follower synced": {func() { m.Synced(time.Second, true) }, []string{"follower_sync_time"}},
		"observer synced": {func() { m.Synced(time.Second, false) }, []string{"observer_sync_time"}},
		"snapshot sent":   {m.SnapshotSent, []string{"snap_count"}},
		"wrong data":      {srv.Quarantined, []string{"digest_mismatches_count"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := readings(srv.Stats())
			test.do()
			after := readings(srv.Stats())
			for _, metric := range test.moves {
				if _, there := before[metric]; !there || after[metric] != before[metric]+1 {
					t.Errorf("%s went from %d to %d", metric, before[metric], after[metric])
				}
				delete(after, metric)
			}
			for metric, value := range after {
				if value != before[metric] {
					t.Errorf("%s moved, too", metric)
				}
			}
		})
	}
}

func TestNodesWithATimeToLiveAreCounted(t *testing.T) {
	srv := startServer(t, set("znode.container.checkIntervalMs", "10"))
	c := open(t, srv.addr, 30_000)
	ttl := func(path string) wire.CreateTTLRequest {
		return wire.CreateTTLRequest{Path: path, ACL: openACL, Flags: 5, TTLMs: 1}
	}
	expect := func(want map[string]int64) {
		t.Helper()
		got := readings(srv.Stats())
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%s is %d, want %d", name, got[name], n)
			}
		}
	}
	nodes := srv.NodeCount()
	first := ttl("/first")
	c.call(wire.OpCreateTTL, first.Append(nil), wire.OK)
	c.call(wire.OpMulti, wire.AppendMulti(nil, []wire.MultiOp{
		{Op: wire.OpCreateTTL, CreateTTL: ttl("/second")}, {Op: wire.OpCreateTTL, CreateTTL: ttl("/third")},
	}), wire.OK)
	c.call(wire.OpMulti, wire.AppendMulti(nil, []wire.MultiOp{ // fails as a whole
		{Op: wire.OpCreateTTL, CreateTTL: ttl("/fourth")}, {Op: wire.OpDelete, Delete: wire.DeleteRequest{Path: "/none"}},
	}), wire.OK)
	expect(map[string]int64{"ttl_node_created_count": 3})
	// A container goes, too, and is none of them.
	c.call(wire.OpCreateContainer, createBody("/container", nil, 4), wire.OK)
	c.call(wire.OpCreate, createBody("/container/n", nil, persistent), wire.OK)
	c.call(wire.OpDelete, deleteBody("/container/n"), wire.OK)
	eventually(t, "only what was there at first", func() bool { return srv.NodeCount() == nodes })
	eventually(t, "what was applied is counted", func() bool { return readings(srv.Stats())["ttl_node_deleted_count"] >= 3 })
	expect(map[string]int64{"ttl_node_created_count": 3, "ttl_node_deleted_count": 3})
}

func TestRefusalsOfAQuotaAreCountedByNamespace(t *testing.T) {
	srv := startServer(t, set("enforceQuota", "true"))
	c := open(t, srv.addr, 30_000)
	for _, path := range []string{"/q", "/zookeeper/quota/q"} {
		c.call(wire.OpCreate, createBody(path, nil, persistent), wire.OK)
	}
	limits := []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2")
	c.call(wire.OpCreate, createBody("/zookeeper/quota/q/zookeeper_limits", limits, persistent), wire.OK)
	c.call(wire.OpCreate, createBody("/zookeeper/quota/q/zookeeper_stats", []byte("count=0,bytes=0"), persistent), wire.OK)
	c.call(wire.OpCreate, createBody("/q/a", nil, persistent), wire.OK)
	c.call(wire.OpCreate, createBody("/q/b", nil, persistent), wire.QuotaExceeded)
	c.call(wire.OpMulti, wire.AppendMulti(nil, []wire.MultiOp{
		{Op: wire.OpCreate, Create: wire.CreateRequest{Path: "/q/c", ACL: openACL}},
	}), wire.OK)
	if n := readings(srv.Stats())["quota_exceeded_error_per_namespaceq"]; n != 2 {
		t.Errorf("%d refusals were counted, want 2", n)
	}
	shown := map[string]int64{}
	srv.Stats().Registry().Visit(stats.SinceStart, func(m stats.Metric, key string, v stats.Value) {
		if strings.HasPrefix(m.Name, "quota_") && m.Kind == stats.KindGauge {
			shown[m.Name+" "+key] = v.Int
		}
	})
	require.Equal(t, map[string]int64{ // no limit of bytes
		"quota_count_limit_per_namespace q": 2, "quota_count_usage_per_namespace q": 2, "quota_bytes_usage_per_namespace q": 0,
	}, shown)
}

// What an earlier run has done is not done again.
func TestWhatTheLogHoldsIsNotCountedAgain(t *testing.T) {
	stores := replication.NewMemoryStores()
	keep := func(s *setup) { s.options.Stores = stores }
	srv := startServer(t, keep)
	c := open(t, srv.addr, 30_000)
	node := wire.CreateTTLRequest{Path: "/n", ACL: openACL, Flags: 5, TTLMs: 1_000_000}
	c.call(wire.OpCreateTTL, node.Append(nil), wire.OK)
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	got := readings(startServer(t, keep).Stats())
	if got["ttl_node_created_count"] != 0 || got["dbinittime"] != 1 || got["startup_txns_loaded"] != 1 {
		t.Errorf("%d nodes, %d starts and %d numbers of transactions were counted", got["ttl_node_created_count"],
			got["dbinittime"], got["startup_txns_loaded"])
	}
}
