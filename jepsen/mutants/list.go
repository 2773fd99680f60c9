package mutants

import (
	"fmt"
	"slices"
	"strings"
)

// A Mutant is a planted bug, and what must catch it.
type Mutant struct {
	Name     string
	Doc      string
	Change   Change
	And      []Change // more, where one alone does no harm
	Workload string
	Nemeses  []string
	// Harness says that the bug is in the product's client or recipes: not the server is built
	// with it, but the harness, in which they run.
	Harness bool
}

// Changes are all that make the mutant.
func (m *Mutant) Changes() []Change { return append([]Change{m.Change}, m.And...) }

// Find returns a mutant.
func Find(name string) (Mutant, error) {
	var names []string
	for _, m := range All() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mutant{}, fmt.Errorf("there is no mutant %q; there are %s", name, strings.Join(names, ", "))
}

// All are the mutants.
func All() []Mutant {
	return slices.Concat(planted(), writeMutants(), sessionMutants(), watchMutants(), storeMutants(), accessMutants())
}

// planted are the first ones, of everything.
func planted() []Mutant {
	return []Mutant{
		{
			Name: "no-fsync", Doc: "writes are acknowledged before they are on the disk", Workload: "set", Nemeses: []string{"power"},
			Change: Change{
				"server/replication/segment/append.go",
				"if err := s.file.Sync(); err != nil {\n\t\treturn l.fail(\"cannot sync the log\", err)",
				"if err := error(nil); err != nil {\n\t\treturn l.fail(\"cannot sync the log\", err)",
			},
		},
		{
			Name: "local-sync", Doc: "sync answers without asking anybody", Workload: "register", Nemeses: []string{"partition", "delay"},
			Change: Change{
				"server/request.go",
				"\tpath := bytes.Clone(d.StringBytes())\n\tif d.Err() != nil {\n\t\tc.answer(h, wire.MarshallingError)\n\t\treturn nil\n\t}\n\tc.mu.Lock()\n\tc.syncs++",
				"\tpath := bytes.Clone(d.StringBytes())\n\tif d.Err() == nil {\n\t\tc.answerFrame(h, c.s.zxid.Load(), wire.OK, wire.AppendBuffer(nil, path))\n\t\treturn nil\n\t}\n\tc.mu.Lock()\n\tc.syncs++",
			},
		},
		{
			Name: "no-version-check", Doc: "setData takes any version", Workload: "register",
			Change: Change{
				"server/state/write.go",
				"len(req.Data)-len(n.Data())); code != wire.OK {\n\t\treturn code\n\t}\n\tif req.Version != anyVersion && req.Version != n.Version() {",
				"len(req.Data)-len(n.Data())); code != wire.OK {\n\t\treturn code\n\t}\n\tif false {",
			},
		},
		{
			Name: "done-twice", Doc: "a write that is proposed again after a change of leader is done again", Workload: "session-order", Nemeses: []string{"cut"},
			Change: Change{"server/state/session.go", "case c.Req <= s.LastReq:", "case c.Req < 0:"},
		},
		{
			Name: "reads-overtake", Doc: "reads do not wait for the writes sent before them", Workload: "session-order",
			Change: Change{"server/request.go", "if c.pending.len() > 0 {\n\t\tc.push(pendingRequest{\n\t\t\tkind: pendingRead", "if false {\n\t\tc.push(pendingRequest{\n\t\t\tkind: pendingRead"},
		},
		{
			Name: "partial-multi", Doc: "a multi that fails leaves what it had done before", Workload: "append",
			Change: Change{"server/state/multi.go", "m.rollback()\n\t\t\tq.r.failMulti", "m.commit()\n\t\t\tq.r.failMulti"},
		},
		{
			Name: "sequence-by-children", Doc: "the number of children is the next sequence number", Workload: "sequence",
			Change: Change{"server/state/create.go", "m.tree.NextSequence(parent)", "int64(parent.Stat().NumChildren)"},
		},
		{
			Name: "ephemerals-stay", Doc: "the end of a session leaves its nodes", Workload: "ephemeral",
			Change: Change{"server/state/session.go", "m.tree.Ephemerals(id, \"\") {", "m.tree.Ephemerals(id, \"\")[:0] {"},
		},
		{
			Name: "early-expiry", Doc: "sessions are expired after half of their timeout", Workload: "lock",
			Change: Change{"server/expiry.go", "timeoutNs: int64(timeoutMs) * int64(time.Millisecond),", "timeoutNs: int64(timeoutMs) * int64(time.Millisecond) / 2,"},
		},
		{
			Name: "no-fresh-timeout", Doc: "a new leader expires by what it happens to have heard", Workload: "ephemeral", Nemeses: []string{"kill"},
			Change: Change{"server/expiry.go", "\t\te.restart(now + e.unledNs())\n", "\t\t_ = now\n"},
			And:    []Change{{"server/expiry.go", "return now >= e.sinceNs+e.unledNs()+l.timeoutNs", "return true"}},
		},
		{
			Name: "watches-forgotten", Doc: "what changed while a client moved is not told", Workload: "watch",
			Change: Change{"server/state/rewatch.go", "case n.Stat().Mzxid > req.RelativeZxid:", "case n == nil && n.Stat().Mzxid > req.RelativeZxid:"},
		},
		{
			Name: "events-lost", Doc: "one event in seven is not sent", Workload: "watch",
			Change: Change{"server/apply.go", "\t\tc.sendEvent(frame)\n", "\t\tif e.Zxid%7 != 0 {\n\t\t\tc.sendEvent(frame)\n\t\t}\n"},
		},
		{
			Name: "events-twice", Doc: "one event in seven is sent twice", Workload: "watch",
			Change: Change{"server/apply.go", "\t\tc.sendEvent(frame)\n", "\t\tc.sendEvent(frame)\n\t\tif e.Zxid%7 == 0 {\n\t\t\tc.sendEvent(frame)\n\t\t}\n"},
		},
		{
			Name: "local-time", Doc: "each server stamps nodes with its own clock", Workload: "set",
			Change: Change{"server/replication/fsm.go", "\tm.BeginBatch(&f.header)\n", "\tf.header.TimeMs = start.UnixMilli()\n\tm.BeginBatch(&f.header)\n"},
		},
		{
			Name: "cut-off-answers", Doc: "a server that is cut off from the leader goes on answering", Workload: "ephemeral", Nemeses: []string{"partition"},
			Change: Change{"server/report.go", "return !s.clustered || s.nowNs()-s.ackedNs.Load() <= int64(answerWindow)", "return true"},
		},
	}
}
