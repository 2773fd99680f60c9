package znode

import (
	"slices"
	"strings"
	"testing"
)

func TestParseUsage(t *testing.T) {
	tests := []struct {
		in   string
		want Usage
	}{
		{"count=2,bytes=3", Usage{2, 3, -1, -1}},
		{"count=2,bytes=-1=;byteHardLimit=10;countHardLimit=3", Usage{2, -1, 3, 10}},
		{"count=2,bytes=-1=;countHardLimit=3", Usage{2, -1, 3, -1}},
		{"bytes=4,count=5", Usage{5, 4, -1, -1}},
		{"count=,bytes=7", Usage{-1, 7, -1, -1}},
		{"count=1;;,bytes=2", Usage{1, 2, -1, -1}},
		{"count=x,bytes=2", Usage{-1, 2, -1, -1}},
		{"count=99999999999999999999,bytes=2", Usage{-1, 2, -1, -1}},
		{"", Usage{-1, -1, -1, -1}},
		{"garbage", Usage{-1, -1, -1, -1}},
		{"=;,=\x00", Usage{-1, -1, -1, -1}},
	}
	for _, tt := range tests {
		if got := ParseUsage(tt.in); got != tt.want {
			t.Errorf("ParseUsage(%q) = %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

func TestUsageIsWrittenAsZooKeeperDoes(t *testing.T) {
	for _, s := range []string{
		"count=1,bytes=0", "count=-1,bytes=-1",
		"count=2,bytes=-1=;byteHardLimit=10;countHardLimit=3",
		"count=2,bytes=5=;byteHardLimit=10", "count=2,bytes=5=;countHardLimit=0",
	} {
		if got := ParseUsage(s).String(); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func FuzzParseUsage(f *testing.F) {
	f.Add("count=2,bytes=-1=;byteHardLimit=10;countHardLimit=3")
	f.Add("=,;")
	f.Fuzz(func(t *testing.T, s string) {
		u := ParseUsage(s)
		u.BytesHard, u.CountHard = max(u.BytesHard, -1), max(u.CountHard, -1) // negative is none
		if got := ParseUsage(u.String()); got != u {
			t.Fatalf("%q: %+v, then %+v", s, u, got)
		}
	})
}

func TestExcess(t *testing.T) {
	tests := []struct {
		name           string
		limits, stats  string
		nodes, bytes   int64
		count, size, h bool
	}{
		{"no limits", "count=-1,bytes=-1", "count=9,bytes=9", 1, 1, false, false, false},
		{"at the soft limit", "count=3,bytes=5", "count=2,bytes=4", 1, 1, false, false, false},
		{"beyond the soft limits", "count=2,bytes=4", "count=2,bytes=4", 1, 1, true, true, false},
		{"at the hard limit", "count=1,bytes=1=;byteHardLimit=5;countHardLimit=3", "count=2,bytes=4", 1, 1, false, false, false},
		{"beyond the hard count", "count=-1,bytes=-1=;countHardLimit=2", "count=2,bytes=4", 1, 1, true, false, true},
		{"beyond the hard bytes", "count=-1,bytes=-1=;byteHardLimit=4", "count=2,bytes=4", 1, 1, false, true, true},
		{"soft count, hard bytes", "count=1,bytes=-1=;byteHardLimit=4", "count=2,bytes=4", 1, 1, true, true, true},
		{"hard count, soft bytes", "count=1,bytes=1=;countHardLimit=1", "count=2,bytes=4", 1, 1, true, true, true},
		{"no nodes added", "count=-1,bytes=-1=;countHardLimit=2", "count=5,bytes=4", 0, 1, false, false, false},
		{"no bytes added", "count=-1,bytes=-1=;byteHardLimit=2", "count=5,bytes=4", 1, 0, false, false, false},
		{"shrinking but still above", "count=-1,bytes=-1=;byteHardLimit=2", "count=5,bytes=9", 0, -1, false, true, true},
		{"hard limit 0", "count=-1,bytes=-1=;countHardLimit=0", "count=0,bytes=0", 1, 0, true, false, true},
	}
	for _, tt := range tests {
		q := Quota{Path: "/a", Limits: ParseUsage(tt.limits), Stats: ParseUsage(tt.stats)}
		want := Excess{Count: tt.count, Bytes: tt.size, Hard: tt.h}
		if got := q.Excess(tt.nodes, tt.bytes); got != want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
	}
}

// quotaTree has quotas for /a (hard: 4 nodes, 10 bytes) and /a/deep (no limits).
func quotaTree(t *testing.T) *Tree {
	tree := newTree(t)
	for _, p := range []string{"/a", "/a/deep", "/ab", "/zookeeper/quota/a", "/zookeeper/quota/a/deep"} {
		tree.Create(p, []byte("x"), 0, NoOwner, 1, 1)
	}
	tree.Create("/zookeeper/quota/a/zookeeper_limits", []byte("count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=4"), 0, NoOwner, 2, 2)
	tree.Create("/zookeeper/quota/a/zookeeper_stats", []byte("count=0,bytes=0"), 0, NoOwner, 3, 3)
	tree.Create("/zookeeper/quota/a/deep/zookeeper_limits", nil, 0, NoOwner, 4, 4)
	tree.Create("/zookeeper/quota/a/deep/zookeeper_stats", nil, 0, NoOwner, 5, 5)
	return tree
}

func TestQuotasAreListedUpToABound(t *testing.T) {
	tree := quotaTree(t)
	tree.Create("/zookeeper/quota/a/"+"without", nil, 0, NoOwner, 6, 6)
	tree.Create("/zookeeper/quota/a/without/zookeeper_limits", nil, 0, NoOwner, 7, 7)
	for most, want := range map[int][]string{100: {"/a", "/a/deep"}, 5: {"/a"}, 4: nil, 0: nil} {
		var got []string
		tree.Quotas(most, func(q Quota) {
			if q.Path == "/a" && (q.Limits != Usage{-1, -1, 4, 10} || q.Stats.Count != 2) {
				t.Errorf("%+v", q)
			}
			got = append(got, q.Path)
		})
		if !slices.Equal(got, want) {
			t.Errorf("of %d nodes: %q, want %q", most, got, want)
		}
	}
}

func stats(tree *Tree, path string) string {
	return string(tree.Lookup(QuotaPath + path + "/" + statsName).Data())
}

func TestStatsFollowTheLongestPrefixOnly(t *testing.T) {
	tree := quotaTree(t)
	check := func(what, a, deep string) {
		t.Helper()
		if stats(tree, "/a") != a || stats(tree, "/a/deep") != deep {
			t.Errorf("%s: /a has %q, /a/deep has %q; want %q, %q", what, stats(tree, "/a"), stats(tree, "/a/deep"), a, deep)
		}
	}
	check("at creation", "count=2,bytes=2", "count=1,bytes=1")
	before := tree.Lookup(QuotaPath + "/a/" + statsName).Persisted()
	tree.Create("/a/b", []byte("12"), 0, NoOwner, 6, 6)
	check("after a create", "count=3,bytes=4", "count=1,bytes=1")
	tree.SetData(tree.Lookup("/a"), nil, 7, 7)
	check("after a setData", "count=3,bytes=3", "count=1,bytes=1")
	tree.Create("/a/deep/c", []byte("123"), 0, NoOwner, 8, 8)
	check("after a create below both", "count=3,bytes=3", "count=2,bytes=4")
	tree.Delete(tree.Lookup("/a/b"), 9)
	check("after a delete", "count=2,bytes=1", "count=2,bytes=4")
	tree.Create("/ab/c", []byte("1"), 0, NoOwner, 10, 10)
	check("after a create beside", "count=2,bytes=1", "count=2,bytes=4")
	if got := tree.Lookup(QuotaPath + "/a/" + statsName).Persisted(); got != before {
		t.Errorf("the stat of the stats node went from %+v to %+v", before, got)
	}
	tree.Delete(tree.Lookup(QuotaPath+"/a/deep/"+limitsName), 11)
	tree.Create("/a/deep/d", nil, 0, NoOwner, 12, 12)
	check("after /a/deep was unregistered", "count=3,bytes=1", "count=2,bytes=4")
	tree.SetData(tree.Lookup(QuotaPath+"/a/"+statsName), []byte("garbage"), 13, 13)
	tree.Create("/a/e", nil, 0, NoOwner, 14, 14)
	check("after the stats were overwritten", "count=5,bytes=4", "count=2,bytes=4")
}

func TestCheckQuota(t *testing.T) {
	tree := quotaTree(t)
	tests := []struct {
		path  string
		nodes int
		bytes int64
		ok    bool
	}{
		{"/a/n", 1, 0, true},
		{"/a/n", 2, 0, true},
		{"/a/n", 3, 0, false},
		{"/a", 0, 8, true},
		{"/a", 0, 9, false},
		{"/a/deep/n", 9, 999, true},
		{"/ab/n", 9, 999, true},
		{"/", 9, 999, true},
		{"/a/n/m/o", 0, 9, false},
	}
	for _, tt := range tests {
		if got := tree.CheckQuota(tt.path, tt.nodes, tt.bytes); got != tt.ok {
			t.Errorf("CheckQuota(%s, %d, %d) = %v", tt.path, tt.nodes, tt.bytes, got)
		}
	}
	tree.SetData(tree.Lookup(QuotaPath+"/a/"+limitsName), []byte("garbage"), 9, 9)
	if !tree.CheckQuota("/a/n", 100, 100) {
		t.Error("garbage limits refuse")
	}
	long := "countHardLimit=0" + strings.Repeat(",", maxUsageBytes)
	tree.SetData(tree.Lookup(QuotaPath+"/a/"+limitsName), []byte(long), 9, 9)
	if !tree.CheckQuota("/a/n", 100, 100) {
		t.Error("limits are read that take all writers below them as long as a client likes")
	}
	tree.SetData(tree.Lookup(QuotaPath+"/a/"+statsName), []byte("count=77,bytes=77"+strings.Repeat(",", maxUsageBytes)), 9, 9)
	tree.SetData(tree.Lookup("/a"), []byte("new"), 9, 9)
	if got := stats(tree, "/a"); got != tree.trueUsage("/a").String() {
		t.Errorf("stats that are too long became %q", got)
	}
	tree.Delete(tree.Lookup(QuotaPath+"/a/"+statsName), 10)
	if _, ok := tree.QuotaOf("/a/n"); ok {
		t.Error("a quota without stats")
	}
}

func TestQuotaOfTheRootHasNoEffect(t *testing.T) {
	tree := newTree(t)
	tree.Create("/zookeeper/quota/zookeeper_limits", []byte("count=0,bytes=0=;countHardLimit=0"), 0, NoOwner, 1, 1)
	tree.Create("/zookeeper/quota/zookeeper_stats", []byte("mine"), 0, NoOwner, 1, 1)
	if _, ok := tree.QuotaOf("/x"); ok || !tree.CheckQuota("/x", 1, 1) {
		t.Error("the root has a quota")
	}
	tree.Create("/x", nil, 0, NoOwner, 2, 2)
	if got := string(tree.Lookup("/zookeeper/quota/zookeeper_stats").Data()); got != "mine" {
		t.Errorf("stats of the root: %q", got)
	}
}

func TestRefreshQuotasTellsTheTruth(t *testing.T) {
	tree := quotaTree(t)
	if _, err := tree.Import("/a/imported", []byte("123"), 0, Persisted{Czxid: 1}); err != nil {
		t.Fatal(err)
	}
	if got := stats(tree, "/a"); got != "count=2,bytes=2" {
		t.Errorf("Import changed the stats to %q", got)
	}
	tree.RefreshQuotas()
	if got := stats(tree, "/a"); got != "count=3,bytes=5" {
		t.Errorf("stats %q", got)
	}
}
