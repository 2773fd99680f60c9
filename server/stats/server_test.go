package stats

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

// monitor collects what mntr would print, and fails on a key that comes twice.
func monitor(t *testing.T, r *Registry) map[string]string {
	t.Helper()
	m := map[string]string{}
	r.Monitor(func(key, value string) {
		if _, ok := m[key]; ok {
			t.Errorf("key %s comes twice", key)
		}
		m[key] = value
	})
	return m
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
}

func TestRequestsShowUpUnderAllTheirNames(t *testing.T) {
	s := New()
	for i := range uint64(40) { // spread over all shards
		sh := s.Shard(i)
		sh.Received(1, 10)
		sh.Request(wire.OpGetData, 1e6)
		sh.Reply(100)
		sh.Received(1, 20)
		sh.Request(wire.OpSetData, 3e6)
		sh.Reply(60 + int(i))
		sh.Event(7)
	}
	s.Shard(3).Request(wire.OpCode(4711), 11e6)
	s.Shard(3).Received(1, 4)
	s.Shard(3).Text()
	expect(t, monitor(t, s.Registry()), map[string]string{
		"packets_received": "81", "packets_sent": "121", "bytes_received_count": "1204",
		"response_bytes": fmt.Sprint(40*160 + 39*40/2), "watch_bytes": "280",
		"last_client_response_size": "99", "min_client_response_size": "60", "max_client_response_size": "100",
		"min_latency": "1", "max_latency": "11", "avg_latency": "2.1111",
		"cnt_readlatency": "41", "sum_readlatency": "51", "p50_readlatency": "1",
		"cnt_updatelatency": "40", "avg_updatelatency": "3.0", "p999_updatelatency": "3",
		"op_count_total": "80", "op_count_get_data": "40", "op_count_set_data": "40", "op_count_create": "0",
		"cnt_getData_zkd_op_latency_ms": "40", "max_other_zkd_op_latency_ms": "11",
	})
}

func TestKindsOfOneOperationAreCountedTogether(t *testing.T) {
	s := New()
	for _, op := range []wire.OpCode{
		wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL,
		wire.OpDelete, wire.OpDeleteContainer, wire.OpGetChildren, wire.OpGetChildren2,
		wire.OpSetWatches, wire.OpSetWatches2, wire.OpAuth, wire.OpCloseSession, wire.OpWhoAmI,
	} {
		s.Shard(0).Request(op, 1)
	}
	expect(t, monitor(t, s.Registry()), map[string]string{
		"op_count_create": "4", "op_count_delete": "2", "op_count_get_children": "2",
		"op_count_set_watches": "2", "op_count_close_session": "1", "op_count_who_am_i": "1",
		"op_count_total": "12",
	})
}

func TestResetClearsWhatSrstClears(t *testing.T) {
	s := New()
	fill := func() {
		s.Shard(1).Received(1, 10)
		s.Shard(1).Reply(10)
		s.Shard(1).Request(wire.OpPing, 5e6)
		s.Commits.Add(3)
		s.AuthFailures.Add(1)
		s.FsyncTime.Record(9e6)
		s.ProposalSizes.Record(77)
		s.QuotaExceeded.Add("app", 2)
	}
	fill()
	s.Reset()
	zero := map[string]string{
		"packets_received": "0", "packets_sent": "0", "max_latency": "0", "avg_latency": "0.0", "commit_count": "0",
		"cnt_fsynctime": "0", "max_fsynctime": "0", "last_client_response_size": "-1",
		"app_quota_exceeded_error_per_namespace": "0", "auth_failed_count": "1",
	}
	expect(t, monitor(t, s.Registry()), zero)
	if last, lo, hi := s.ProposalSizes.Values(); last != -1 || lo != -1 || hi != -1 {
		t.Errorf("proposal sizes %d %d %d after reset", last, lo, hi)
	}

	// Monitoring systems go on counting.
	fill()
	got := map[string]int64{}
	s.Registry().Visit(SinceStart, func(m Metric, key string, v Value) {
		if v.Summary != nil {
			v.Int = v.Summary.Count
		}
		got[m.Name+key] = v.Int
	})
	for name, want := range map[string]int64{
		"commit_count": 6, "fsynctime": 2, "readlatency": 2, "bytes_received_count": 20,
		"quota_exceeded_error_per_namespaceapp": 4,
	} {
		if got[name] != want {
			t.Errorf("%s is %d since the start, want %d", name, got[name], want)
		}
	}
}

func TestLeaderGaugesShowOnlyWhileLeading(t *testing.T) {
	leads := false
	s := New()
	one := func() int64 { return 1 }
	s.SetGauges(Gauges{
		Leads: func() bool { return leads }, Ensemble: func() bool { return true },
		ZnodeCount: one, Learners: one, QuorumSize: one,
		OpenFiles: OpenFiles, MaxFiles: MaxFiles, DropProbability: func() float64 { return 0 },
		QuotaCountLimit: func() map[string]int64 { return map[string]int64{"b": 2, "a": 1} },
	})
	m := monitor(t, s.Registry())
	expect(t, m, map[string]string{
		"znode_count": "1", "quorum_size": "1", "connection_drop_probability": "0.0",
		"a_quota_count_limit_per_namespace": "1", "b_quota_count_limit_per_namespace": "2",
	})
	for _, key := range []string{"learners", "last_proposal_size", "watch_count"} {
		if v, ok := m[key]; ok {
			t.Errorf("%s = %s on a follower without it", key, v)
		}
	}
	leads = true
	expect(t, monitor(t, s.Registry()), map[string]string{"learners": "1", "max_proposal_size": "-1"})
}

// The line format that collectors (telegraf's inputs.zookeeper for one) insist on.
func TestEveryMonitorLineCanBeCollected(t *testing.T) {
	line := regexp.MustCompile(`^zk_(\w[\w\.\-]*)\s+([\w\.\-]+)$`)
	s := New()
	s.QuotaExceeded.Add("two words\u00e4\u2028=1", 5)
	s.Registry().Monitor(func(key, value string) {
		if l := "zk_" + key + "\t" + value; !line.MatchString(l) {
			t.Errorf("line %q", l)
		}
	})
	expect(t, monitor(t, s.Registry()), map[string]string{"two_words___1_quota_exceeded_error_per_namespace": "5"})
}

func TestASetStopsGrowing(t *testing.T) {
	s := NewCounterSet()
	for i := range 3 * maxSetKeys {
		s.Add(fmt.Sprint(i), 1)
	}
	got := map[string]int64{}
	s.keys.each(func(key string, c *Counter) { got[key] = c.Value(SinceReset) })
	if len(got) != maxSetKeys+1 || got[otherKey] != 2*maxSetKeys || got["0"] != 1 {
		t.Errorf("%d keys, other %d", len(got), got[otherKey])
	}
	s.Add("0", 5)
	if m := maps.Collect(func(yield func(string, int64) bool) {
		s.keys.each(func(k string, c *Counter) { yield(k, c.Value(SinceReset)) })
	}); m["0"] != 6 {
		t.Errorf("a known key of a full set has %d, want 6", m["0"])
	}
}

func TestRegisteringANameTwicePanics(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "twice") {
			t.Errorf("recovered %v", r)
		}
	}()
	New().Registry().Counter("commit_count", "", new(Counter))
}

func TestNothingIsLostWhenAllRecordAtOnce(t *testing.T) {
	s := New()
	const goroutines, each = 8, 2000
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			sh := s.Shard(uint64(g))
			for i := range each {
				sh.Received(1, 1)
				sh.Request(wire.OpExists, int64(i))
				sh.Reply(i + 1)
				s.QuotaExceeded.Add(fmt.Sprint(i%50), 1)
				if i%500 == 0 {
					s.Registry().Monitor(func(string, string) {})
				}
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	s.Registry().Visit(SinceReset, func(m Metric, _ string, v Value) {
		if m.Name == "quota_exceeded_error_per_namespace" {
			sum += v.Int
		}
	})
	if want := int64(goroutines * each); s.PacketsReceived(SinceReset) != want || s.Latency(SinceReset).Count != want || sum != want {
		t.Errorf("received %d, requests %d, in the set %d, want %d", s.PacketsReceived(SinceReset),
			s.Latency(SinceReset).Count, sum, want)
	}
	if _, lo, hi := s.ResponseSizes(); lo != 1 || hi != each {
		t.Errorf("sizes %d to %d", lo, hi)
	}
}

func TestNamespaceIsTheTopNode(t *testing.T) {
	for path, want := range map[string]string{"": "", "/": "", "/a": "a", "/ab/c": "ab", "/zookeeper/quota/x": "zookeeper"} {
		if got := Namespace(path); got != want {
			t.Errorf("Namespace(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	s := New()
	var c ConnStats
	c.Init(0)
	all := func() {
		sh := s.Shard(5)
		sh.Received(1, 40)
		sh.Request(wire.OpGetData, 12345)
		sh.Reply(100)
		sh.Event(10)
		s.FsyncTime.Record(1e6)
		s.Commits.Add(1)
		s.QuotaExceeded.Add("app", 1)
		c.Received(1)
		c.Begin()
		c.Responded(wire.OpGetData, 1, 2, 3, 4)
		c.Sent()
		c.End()
	}
	all()
	if n := testing.AllocsPerRun(100, all); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkShardRequest(b *testing.B) {
	b.ReportAllocs()
	sh := New().Shard(0)
	i := int64(0)
	for b.Loop() {
		i++
		sh.Request(wire.OpGetData, i&0xfffff)
	}
}

func BenchmarkShardRequestParallel(b *testing.B) {
	s := New()
	var next uint64
	var mu sync.Mutex
	b.RunParallel(func(pb *testing.PB) {
		mu.Lock()
		sh := s.Shard(next)
		next++
		mu.Unlock()
		for i := int64(0); pb.Next(); i++ {
			sh.Request(wire.OpGetData, i&0xfffff)
		}
	})
}

func BenchmarkShardReply(b *testing.B) {
	b.ReportAllocs()
	sh := New().Shard(0)
	for b.Loop() {
		sh.Reply(120)
	}
}

func BenchmarkHistogramRecord(b *testing.B) {
	b.ReportAllocs()
	h := NewHistogram(Millis)
	i := int64(0)
	for b.Loop() {
		i++
		h.Record(i & 0xfffff)
	}
}

func BenchmarkSetAdd(b *testing.B) {
	b.ReportAllocs()
	s := NewCounterSet()
	for b.Loop() {
		s.Add("application", 1)
	}
}

func BenchmarkConnResponded(b *testing.B) {
	b.ReportAllocs()
	var c ConnStats
	c.Init(0)
	i := int64(0)
	for b.Loop() {
		i++
		c.Responded(wire.OpGetData, int32(i), i, i, i&0xffff)
	}
}

func BenchmarkMonitor(b *testing.B) {
	b.ReportAllocs()
	s := New()
	for i := range uint64(16) {
		s.Shard(i).Request(wire.OpGetData, 1e6)
	}
	for b.Loop() {
		s.Registry().Monitor(func(string, string) {})
	}
}
