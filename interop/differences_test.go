package interop

import (
	"flag"
	"regexp"
	"slices"
	"testing"
)

// update writes testdata/ anew from Apache ZooKeeper.
var update = flag.Bool("update", false, "record testdata/ from Apache ZooKeeper")

// everywhere lists the differences by design that show in many conversations: a line that
// matches is expected of zkd with the replacement. zkd follows ZooKeeper 3.9, the recording
// is of 3.8.0.
var everywhere = []struct {
	match *regexp.Regexp
	put   string
	why   string
}{
	{
		regexp.MustCompile(`^(.*  event (?:created|deleted|changed|children) .*) zxid=-1$`), "$1 zxid=txn",
		"since 3.9 a notification carries the zxid of the change that fired it",
	},
	{
		regexp.MustCompile(`^(.*  )zxid=\+1 err=-5$`), "${1}zxid=+0 err=-5",
		"since 3.9 a request is decoded before it takes a zxid",
	},
}

// difference is one by design in one conversation: the recorded line, which is the n-th of
// its kind there (from 0), is expected as zkd's lines; none drops it.
type difference struct {
	group, name string
	recorded    string
	n           int
	zkd         []string
	why         string
}

// expectedOfZkd turns a recording of ZooKeeper into what this zkd is to say.
func expectedOfZkd(t *testing.T, s *server, group, name string, recorded []string) []string {
	t.Helper()
	differences := slices.Concat(byDesign, reconfigByDesign)
	if s.disturbed() {
		differences = append(differences, byDesignOnCluster...)
	}
	seen := map[string]int{}
	used := map[int]bool{}
	var out []string
	for _, line := range recorded {
		n := seen[line]
		seen[line]++
		i := slices.IndexFunc(differences, func(d difference) bool {
			return d.group == group && d.name == name && d.recorded == line && d.n == n
		})
		if i >= 0 {
			used[i] = true
			out = append(out, differences[i].zkd...)
			continue
		}
		for _, e := range everywhere {
			line = e.match.ReplaceAllString(line, e.put)
		}
		out = append(out, line)
	}
	for i, d := range differences {
		if d.group == group && d.name == name && !used[i] {
			t.Errorf("bydesign_test.go expects the line %q (number %d) in the recording, and it is not there", d.recorded, d.n)
		}
	}
	return out
}
