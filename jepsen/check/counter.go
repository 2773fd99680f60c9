package check

import (
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Counter checks counters that clients raise by one, each at the version that it has read, and
// folders into which they create several nodes at a time.
//
// A counter is what its version says; no session ever sees it fall; and at the end it is between
// the number of increments that were answered and those with the unanswered ones. A folder has
// at the end every node of an answered multi, and of an unanswered one all or none.
func Counter(ops []history.Op) Result {
	r := Result{Checker: "counter"}
	sums := map[string]*sum{}
	at := func(key string) *sum {
		s := sums[key]
		if s == nil {
			s = &sum{seen: map[int64]*history.Op{}}
			sums[key] = s
		}
		return s
	}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Kind == history.Fail || o.Kind == history.OK && o.Code != codeOK:
		case o.F == opSet && o.Note == "increment":
			at(o.Key).count(o)
		case o.F == opMulti:
			folder := at(parent(o.Parts[0].Key)) // which all of them share
			folder.multis = append(folder.multis, o)
		case o.F == opChildren && o.Kind == history.OK && o.Note == "final":
			at(o.Key).lists = append(at(o.Key).lists, o)
		}
		if o.Stat != nil && o.Kind == history.OK && strings.HasPrefix(o.Key, "/counter/") {
			r.Checked++
			r.counted(at(o.Key), o)
		}
	}
	for key, s := range sums {
		switch {
		case len(s.multis) > 0:
			r.batches(key, s)
		case s.final == nil && s.ok > 0:
			r.add(nil, "nobody has read %s at the end", key)
		case s.final != nil && (s.value < s.ok || s.value > s.ok+s.unknown):
			r.add([]history.Op{*s.final}, "%s is %d after %d increments that were answered and %d that were not", key, s.value, s.ok, s.unknown)
		}
	}
	return r
}

// sum is what is known of a counter or a folder.
type sum struct {
	ok, unknown int
	seen        map[int64]*history.Op // by session: the newest that it saw
	final       *history.Op
	value       int // of final
	multis      []*history.Op
	lists       []*history.Op // at the end
}

func (s *sum) count(o *history.Op) {
	if o.Kind == history.OK {
		s.ok++
	} else {
		s.unknown++
	}
}

// counted judges what one answer shows of a counter.
func (r *Result) counted(s *sum, o *history.Op) {
	value, err := strconv.Atoi(o.Value)
	if err != nil && o.Value != "" {
		r.add([]history.Op{*o}, "a counter is %q", o.Value)
		return
	}
	if value != int(o.Stat.Version) {
		r.add([]history.Op{*o}, "a counter is %d in its version %d: an increment is lost, or was done twice", value, o.Stat.Version)
	}
	if before := s.seen[o.Session]; before != nil && o.Stat.Version < before.Stat.Version {
		r.add([]history.Op{*before, *o}, "a counter falls")
	}
	s.seen[o.Session] = o
	if o.Note == "final" {
		s.final, s.value = o, value
	}
}

// batches judges a folder into which multis created several nodes each.
func (r *Result) batches(key string, s *sum) {
	if len(s.lists) == 0 {
		r.add(nil, "nobody has read %s at the end", key)
	}
	for _, list := range s.lists {
		r.batchesIn(key, s, list)
	}
}

func (r *Result) batchesIn(key string, s *sum, list *history.Op) {
	there := map[string]bool{}
	for _, p := range list.Parts {
		there[key+"/"+p.Key] = true
	}
	known := 0
	for _, o := range s.multis {
		r.Checked++
		n := 0
		for _, p := range o.Parts {
			if there[p.Key] {
				n++
			}
		}
		known += n
		switch {
		case o.Kind == history.OK && n != len(o.Parts):
			r.add([]history.Op{*o, short(list)}, "%d of %d nodes of an answered multi are there", n, len(o.Parts))
		case n != 0 && n != len(o.Parts):
			r.add([]history.Op{*o, short(list)}, "%d of %d nodes of a multi are there", n, len(o.Parts))
		}
	}
	if known != len(there) {
		r.add([]history.Op{short(list)}, "%d nodes of %s were made by nobody", len(there)-known, key)
	}
}
