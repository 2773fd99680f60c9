package fourletter

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// masks are those of testdata/capture.py, in the same order.
var masks = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+-[^,]*, built on [0-9-]+ [0-9:]+ [A-Z]+`), "VERSION"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{2} [0-9:]{8} [A-Z]+ [0-9]{4}`), "DATE"},
	{regexp.MustCompile(`=/[^\n]*`), "=PATH"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "HEX"},
	{regexp.MustCompile(`/[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+:[0-9]+`), "/ADDR"},
	{regexp.MustCompile(`127\.0\.0\.1:`), "HOST:"},
	{regexp.MustCompile(`-?[0-9]+\.[0-9]+`), "FLOAT"},
	{regexp.MustCompile(`-?\b[0-9]+\b`), "INT"},
}

var (
	enviSize  = regexp.MustCompile(`(?m)=[0-9]+MB$`)
	enviValue = regexp.MustCompile(`(?m)=.*$`)
	hashZxid  = regexp.MustCompile(`(?m)^[0-9a-f]+: `)
)

// shape masks the values of an answer.
func shape(word, text string) string {
	switch word {
	case "envi":
		text = enviSize.ReplaceAllString(text, "=SIZE")
		return enviValue.ReplaceAllStringFunc(text, func(v string) string {
			switch {
			case v == "=SIZE":
				return v
			case masks[0].pattern.MatchString(v):
				return "=VERSION"
			}
			return "=TEXT"
		})
	case "hash":
		text = hashZxid.ReplaceAllString(text, "HEX: ")
	}
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.name)
	}
	return text
}

// anyOrder sorts what ZooKeeper puts out in the order of its hash tables: whole connections
// in cons; elsewhere neighbouring blocks (a line and the indented ones below it) with the
// same first line. Buckets that have become empty, which dump shows until they are due, are
// left out.
func anyOrder(word, text string) string {
	lines := strings.SplitAfter(text, "\n")
	if word == "cons" {
		slices.Sort(lines)
		return strings.Join(lines, "")
	}
	var blocks []string
	for _, l := range lines {
		if strings.HasPrefix(l, "\t") && len(blocks) > 0 {
			blocks[len(blocks)-1] += l
			continue
		}
		blocks = append(blocks, l)
	}
	blocks = slices.DeleteFunc(blocks, func(b string) bool { return b == "INT expire at DATE:\n" })
	head := func(b string) string { h, _, _ := strings.Cut(b, "\n"); return h }
	for i := 0; i < len(blocks); {
		j := i + 1
		for j < len(blocks) && head(blocks[j]) == head(blocks[i]) {
			j++
		}
		slices.Sort(blocks[i:j])
		i = j
	}
	return strings.Join(blocks, "")
}

// Every answer has the shape of what Apache ZooKeeper 3.8.0 answers in the same situation.
func TestAnswersHaveTheShapeOfZooKeepers(t *testing.T) {
	tests := []struct {
		dir    string
		source *fakeSource
		allow  string
	}{
		{"alone", busySource(), "*"},
		{"leader", busySource().inEnsemble(ModeLeader), "*"},
		{"follower", busySource().inEnsemble(ModeFollower).idle(), "*"},
		{"readonly", readOnlySource(), "*"},
		{"electing", &fakeSource{mask: DefaultTraceMask}, "*"},
		{"forbidden", busySource().idle(), " ruok "},
		{"reset", afterReset(), "*"},
	}
	for _, tt := range tests {
		t.Run(tt.dir, func(t *testing.T) {
			c := commandsFor(tt.source)
			c.Allowed = ParseWhitelist(tt.allow, false)
			for _, word := range recordedWords(t, tt.dir) {
				if word == "mntr" && tt.allow == "*" && tt.source.serving {
					compareMonitor(t, c, tt.dir)
					continue
				}
				want := read(t, tt.dir, word)
				got := shape(word, run(t, c, word))
				if word == "envi" { // the last line is our own
					got = strings.TrimSuffix(got, "zkd.version=TEXT\n")
				}
				if anyOrder(word, got) != anyOrder(word, want) {
					t.Errorf("%s\n got:\n%s\nwant:\n%s", word, got, want)
				}
			}
		})
	}
}

func readOnlySource() *fakeSource {
	f := busySource().inEnsemble(ModeReadOnly).idle()
	f.sessions, f.ephemerals, f.digests = Sessions{Learner: true}, nil, nil
	return f
}

func afterReset() *fakeSource {
	f := busySource()
	for i := range f.conns {
		f.conns[i].Stats.LastOp, f.conns[i].Stats.LastCxid, f.conns[i].Stats.LastZxid = "NA", -1, -1
	}
	f.conns = slices.Delete(f.conns, 1, 2)
	return f
}

func recordedWords(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata", "zookeeper-3.8.0", dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"testdata", "zookeeper-3.8.0"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func run(t *testing.T, c *Commands, word string) string {
	t.Helper()
	var out strings.Builder
	if err := c.Run(&out, word, make([]byte, ExtraBytes(word))); err != nil {
		t.Fatalf("%s: %v", word, err)
	}
	return out.String()
}

// newer are metrics that came after 3.8.0: restore and the rate limits with 3.9, the rest
// with 3.10. The threshold counter was there up to 3.5.
var newer = regexp.MustCompile(`^zk_(restore_|snapshot_(error|rate)|.*restore_time$|op_count_|ttl_node_|fsync_threshold_|.*_zkd_)`)

// The names and the kind of number of every line of mntr are ZooKeeper's. What ZooKeeper
// has and zkd does not is listed in testdata/mntr-without-counterpart.txt, so that nothing
// is forgotten silently.
func compareMonitor(t *testing.T, c *Commands, dir string) {
	t.Helper()
	ours, theirs := monitorLines(t, shape("mntr", run(t, c, "mntr"))), monitorLines(t, read(t, dir, "mntr"))
	missing := withoutCounterpart(t)
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		v, ok := theirs[key]
		switch {
		case ok && v != ours[key]:
			t.Errorf("%s is %q, ZooKeeper has %q", key, ours[key], v)
		case !ok && !newer.MatchString(key) && !strings.HasSuffix(key, "_per_namespace") && !strings.HasPrefix(key, "zk_zkd_"):
			t.Errorf("%s = %q is not in ZooKeeper's output", key, ours[key])
		}
		if missing[summaryName(key)] {
			t.Errorf("%s is listed as missing, but is here", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		if _, ok := ours[key]; !ok && !missing[summaryName(key)] && !strings.HasSuffix(key, "_per_namespace") {
			t.Errorf("%s (%s) is missing", key, theirs[key])
		}
	}
}

func monitorLines(t *testing.T, text string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		key, value, ok := strings.Cut(l, "\t")
		if !ok || m[key] != "" {
			t.Errorf("line %q", l)
		}
		if i < 2 && key != []string{"zk_version", "zk_server_state"}[i] {
			t.Errorf("line %d is %q", i+1, l)
		}
		m[key] = value
	}
	return m
}

// summaryName is the name of a metric without what mntr puts in front of a summary, and
// without the key of a set of servers.
func summaryName(key string) string {
	return regexp.MustCompile(`^zk_((avg|min|max|cnt|sum|p50|p95|p99|p999)_)?([0-9]+_)?`).ReplaceAllString(key, "")
}

func withoutCounterpart(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("testdata/mntr-without-counterpart.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]bool{}
	for l := range strings.Lines(string(b)) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			m[l] = true
		}
	}
	return m
}
