package metrics

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/wire"
)

// A fakeSource is a leader.
type fakeSource struct{ serving bool }

func (f fakeSource) Serving() bool             { return f.serving }
func (f fakeSource) Status() fourletter.Status { return fourletter.Status{Mode: fourletter.ModeLeader} }
func (f fakeSource) DirSizes() (int64, int64)  { return 10, 20 }
func (f fakeSource) LastSnapshot() (int64, time.Time, bool) {
	return 7, time.Unix(1795298795, 0), true
}

// leaderStats are the stats of a leader that has done a little of everything, so that each
// metric has a sample.
func leaderStats() *stats.Server {
	s := stats.New()
	sh := s.Shard(0)
	sh.Received(1, 40)
	sh.Request(wire.OpGetData, 2e6)
	sh.Request(wire.OpSetData, 22e6)
	sh.Reply(90)
	s.QuotaExceeded.Add("d", 1)
	s.QuotaExceeded.Add("a \"quoted\\ name\n\xff", 1)
	yes := func() bool { return true }
	one := func() int64 { return 1 }
	maybe := func() (int64, bool) { return 1, true }
	quota := func() map[string]int64 { return map[string]int64{"d": 1} }
	s.SetGauges(stats.Gauges{
		Leads: yes, Ensemble: yes, NumAliveConnections: one, OutstandingRequests: one, UptimeMs: one, ZnodeCount: one,
		WatchCount: one, EphemeralsCount: one, ApproximateDataSize: one, GlobalSessions: one, LocalSessions: one,
		OpenFiles: maybe, MaxFiles: maybe, DropProbability: func() float64 { return 0.25 }, TLSHandshakes: one,
		NonMTLSRemote: one, NonMTLSLocal: one, QuotaCountLimit: quota, QuotaBytesLimit: quota, QuotaCountUsage: quota,
		QuotaBytesUsage: quota, QuorumSize: one, Learners: one, SyncedFollowers: one, SyncedNonVotingFollowers: one,
		SyncedObservers: one, PendingSyncs: one, LeaderUptimeMs: one,
	})
	return s
}

func options(s *stats.Server) Options {
	return Options{
		Config: &config.Metrics{ExportProcessInfo: true, HTTPHost: "127.0.0.1"}, Stats: s, Source: fakeSource{true},
		Log: slog.New(slog.DiscardHandler),
	}
}

func scrape(t *testing.T, h http.Handler) exposed {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	return parse(t, w.Body.String())
}

// The names that dashboards and alert rules for ZooKeeper ask for (its documentation, and
// Grafana's dashboard 10465), but for those of the Java machine.
func TestNamesAreThoseOfZooKeeper(t *testing.T) {
	e := scrape(t, Handler(options(leaderStats())))
	for name, kind := range map[string]string{
		"znode_count": "gauge", "num_alive_connections": "gauge", "approximate_data_size": "gauge", "watch_count": "gauge",
		"ephemerals_count": "gauge", "avg_latency": "gauge", "outstanding_requests": "gauge", "quorum_size": "gauge",
		"open_file_descriptor_count": "gauge", "max_file_descriptor_count": "gauge", "learners": "gauge",
		"synced_followers": "gauge", "uptime": "gauge", "leader_uptime": "gauge", "packets_received": "gauge",
		"packets_sent": "gauge", "commit_count": "counter", "proposal_count": "counter", "election_time": "summary",
		"fsynctime": "summary", "snapshottime": "summary", "readlatency": "summary", "updatelatency": "summary",
	} {
		require.Equal(t, kind, e.types[name], "%s", name)
		if kind != "summary" {
			require.Contains(t, e.series, name+"{}")
			continue
		}
		require.Contains(t, e.series, name+"_count{}")
		require.Contains(t, e.series, name+"_sum{}")
		require.Contains(t, e.series, name+`{quantile="0.5"}`)
	}
	require.Contains(t, e.series, `updatelatency{quantile="0.9"}`)
	require.Contains(t, e.series, `updatelatency{quantile="0.99"}`)
	require.NotContains(t, e.series, `fsynctime{quantile="0.9"}`, "a basic summary has one percentile")
	require.Contains(t, e.series, `quota_exceeded_error_per_namespace{key="d"}`)
}

func TestValues(t *testing.T) {
	e := scrape(t, Handler(options(leaderStats())))
	for series, want := range map[string]string{
		`updatelatency_count{}`: "1", `updatelatency_sum{}`: "22", `readlatency_sum{}`: "2", `fsynctime{quantile="0.5"}`: "NaN",
		`connection_drop_probability{}`: "0.25", `zkd_serving{}`: "1", `zkd_server_state{state="leader"}`: "1",
		`zkd_server_state{state="follower"}`: "0", `zkd_data_dir_bytes{}`: "10", `zkd_log_dir_bytes{}`: "20",
		`zkd_last_snapshot_timestamp_seconds{}`:                                     "1795298795",
		`quota_exceeded_error_per_namespace{key="a \"quoted\\ name\n` + "\uFFFD\"}": "1",
	} {
		require.Equal(t, want, e.series[series], "%s", series)
	}
}

// A server that does not serve is in no state.
func TestNoStateWithoutServing(t *testing.T) {
	o := options(leaderStats())
	o.Source = fakeSource{}
	e := scrape(t, Handler(o))
	require.Equal(t, "0", e.series["zkd_serving{}"])
	require.Equal(t, "0", e.series[`zkd_server_state{state="leader"}`])
}

// Prometheus takes a counter that falls for a restart.
func TestCountersDoNotFallWithAReset(t *testing.T) {
	s := leaderStats()
	h := Handler(options(s))
	s.Commits.Add(5)
	s.Reset()
	e := scrape(t, h)
	require.Equal(t, "5", e.series["commit_count{}"])
	require.Equal(t, "1", e.series["updatelatency_count{}"])
	require.Equal(t, "0", e.series["packets_received{}"], "a gauge in ZooKeeper, since srst")
}

func TestPercentilesAreOfTheLastMinutes(t *testing.T) {
	s := leaderStats()
	o := options(s)
	now := time.Unix(1e9, 0)
	o.Now = func() time.Time { return now }
	h := Handler(o)
	median := func() float64 {
		v, err := strconv.ParseFloat(scrape(t, h).series[`snapshottime{quantile="0.5"}`], 64)
		require.NoError(t, err)
		return v
	}
	for range 1000 {
		s.SnapshotTime.Record(100e6)
	}
	require.InEpsilon(t, 100, median(), 0.07)
	for range 2 { // both readings that are kept have the thousand
		now = now.Add(windowTime)
		median()
	}
	for range 10 {
		s.SnapshotTime.Record(1e6)
	}
	require.InEpsilon(t, 1, median(), 0.07, "the thousand are forgotten")
	now = now.Add(windowTime)
	require.InEpsilon(t, 1, median(), 0.07, "the ten are not yet")
	now = now.Add(windowTime)
	median()
	require.NotEqual(t, median(), median(), "now they are: NaN")
}

func TestProcessMetricsCanBeLeftOut(t *testing.T) {
	o := options(leaderStats())
	e := scrape(t, Handler(o))
	for _, name := range []string{"go_goroutines", "go_info", "go_gc_duration_seconds_count", "go_memstats_alloc_bytes", "go_threads"} {
		require.True(t, e.names()[name], "%s", name)
	}
	o.Config.ExportProcessInfo = false
	for name := range scrape(t, Handler(o)).names() {
		require.False(t, strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_"), "%s", name)
	}
}

func TestProcessNumbersFromProc(t *testing.T) {
	line := "4 (a name) with) parens) S 1 4 4 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0 12345 1300758528 4512 18446744073709551615"
	f := statFields([]byte(line))
	require.Equal(t, []float64{250, 50, 12345, 1300758528, 4512}, []float64{f[utime], f[stime], f[startTime], f[vsize], f[rss]})
	require.Nil(t, statFields([]byte("4 (short) S 1 2")))
	require.Nil(t, statFields(nil))
}

func TestPathsAndMethods(t *testing.T) {
	h := Handler(options(leaderStats()))
	for _, tt := range []struct {
		method, path string
		status       int
	}{{"GET", "/", 200}, {"HEAD", "/metrics", 200}, {"GET", "/other", 404}, {"POST", "/metrics", 405}, {"GET", "/commands", 404}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		require.Equal(t, tt.status, w.Code, "%s %s", tt.method, tt.path)
	}
}

func BenchmarkScrape(b *testing.B) {
	h := Handler(options(leaderStats()))
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
