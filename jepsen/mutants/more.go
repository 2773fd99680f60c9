package mutants

// Bugs in the order of writes and in numbers.
func writeMutants() []Mutant {
	return []Mutant{
		{
			Name: "zxid-in-multi", Doc: "each operation of a multi takes a zxid of its own", Workload: "append",
			Change: Change{"server/state/multi.go", "\tfor i := range ops {\n\t\tif code := m.sub(", "\tfor i := range ops {\n\t\tif i > 0 {\n\t\t\tm.nextZxid()\n\t\t}\n\t\tif code := m.sub("},
		},
		{
			Name: "sequence-in-memory", Doc: "snapshots forget how many children were ever created", Workload: "sequence", Nemeses: []string{"rolling"},
			Change: Change{"server/znode/snapshot.go", "b = binary.AppendUvarint(b, uint64(m.created))", "b = binary.AppendUvarint(b, uint64(m.created-m.created%4))"},
		},
		{
			Name: "take-half", Doc: "a deletion inside a multi stays when the multi fails after it", Workload: "queue",
			Change: Change{"server/state/multi.go", "\t\t\tm.rollback()\n\t\t\tq.r.failMulti(i, len(ops), code)", "\t\t\tif i > 0 && ops[0].Op == wire.OpDelete {\n\t\t\t\tm.commit()\n\t\t\t} else {\n\t\t\t\tm.rollback()\n\t\t\t}\n\t\t\tq.r.failMulti(i, len(ops), code)"},
			And:    []Change{{"server/state/multi.go", "m.sub(q, &ops[i]); code != wire.OK {", "m.sub(q, &ops[i]); code != wire.OK || i == 1 && ops[0].Op == wire.OpDelete && m.zxid%16 == 0 {\n\t\t\tif code == wire.OK {\n\t\t\t\tcode = wire.NodeExists\n\t\t\t}"}},
		},
		{
			Name: "stale-version", Doc: "setData compares with the version before the newest one, too", Workload: "counter",
			Change: Change{
				"server/state/write.go",
				"len(req.Data)-len(n.Data())); code != wire.OK {\n\t\treturn code\n\t}\n\tif req.Version != anyVersion && req.Version != n.Version() {",
				"len(req.Data)-len(n.Data())); code != wire.OK {\n\t\treturn code\n\t}\n\tif req.Version != anyVersion && req.Version != n.Version() && req.Version != n.Version()-1 {",
			},
		},
	}
}

// Bugs in the life of sessions and of what hangs on them.
func sessionMutants() []Mutant {
	return []Mutant{
		{
			Name: "not-resumable", Doc: "a session is known only where it was opened", Workload: "session-order",
			Change: Change{"server/handshake.go", "subtle.ConstantTimeCompare(sess.Password[:], password) == 1", "subtle.ConstantTimeCompare(sess.Password[:], password) == 1 && sess.Origin.Boot == c.s.boot"},
		},
		{
			Name: "followers-unheard", Doc: "what clients say to followers does not keep their sessions", Workload: "ephemeral",
			Change: Change{"server/report.go", "\t\tg.c.reported.Store(seen)\n\t\tb = appendSign(b, g.session, now-seen)", "\t\tg.c.reported.Store(seen)"},
		},
		{
			Name: "wall-clock-expiry", Doc: "sessions expire by the wall clock", Workload: "ephemeral", Nemeses: []string{"clock"},
			Change: Change{"server/expiry.go", "\t\tnow := e.s.nowNs()\n\t\tif e.leads(now) {", "\t\tnow := e.s.nowNs() + shiftNs()\n\t\tif e.leads(now) {"},
			And: []Change{
				{"server/expiry.go", "if now-last > e.tickNs {", "if false {"},
				{"server/jepsenclock.go", "", shiftSource("server")},
			},
		},
		{
			Name: "ttl-ignored", Doc: "TTL nodes are removed after half of their time", Workload: "ttl-container",
			Change: Change{"server/znode/owned.go", "return nowMs-n.mtimeMs > n.owner.TTLMs()", "return nowMs-n.mtimeMs > n.owner.TTLMs()/2"},
		},
		{
			Name: "local-token", Doc: "the token of a lease is a counter of its process", Workload: "mutex", Harness: true,
			Change: Change{"recipes/lease.go", "func (h *hold) Token() int64 { return h.stat.Czxid }", "func (h *hold) Token() int64 { return h.stat.Czxid % 7 }"},
		},
		{
			Name: "lease-never-ends", Doc: "a lease counts as valid until somebody says otherwise", Workload: "election", Harness: true,
			Change: Change{"recipes/lease.go", "func (h *hold) Valid() bool { return h.ctx.Err() == nil && h.session.Valid() }", "func (h *hold) Valid() bool { return h.session != nil }"},
		},
	}
}

// Bugs in watches.
func watchMutants() []Mutant {
	return []Mutant{
		{
			Name: "events-late", Doc: "an event is sent with the next change, after replies that show its own", Workload: "watch",
			Change: Change{"server/apply.go", "\t\tc.sendEvent(frame)\n", "\t\tlateEvents = append(lateEvents, lateEvent{c, bytes.Clone(frame)})\n"},
			And: []Change{
				{"server/apply.go", "func (s *Server) fire(e *state.Event) {\n", "func (s *Server) fire(e *state.Event) {\n\tfor _, l := range lateEvents {\n\t\tl.c.sendEvent(l.frame)\n\t}\n\tlateEvents = lateEvents[:0]\n"},
				{"server/apply.go", "import (\n", "import (\n\t\"bytes\"\n"},
				{"server/jepsenlate.go", "", "package server\n\ntype lateEvent struct {\n\tc     *conn\n\tframe []byte\n}\n\nvar lateEvents []lateEvent\n"},
			},
		},
		{
			Name: "rewatch-always-fires", Doc: "SetWatches does not look at what the client has seen", Workload: "watch",
			Change: Change{"server/state/rewatch.go", "case n.Stat().Mzxid > req.RelativeZxid:", "case n.Stat().Mzxid > 0:"},
		},
	}
}

// Bugs in what is on the disk.
func storeMutants() []Mutant {
	return []Mutant{
		{
			Name: "term-not-stored", Doc: "the term is forgotten when a server ends", Workload: "restart-all",
			Change: Change{
				"server/replication/boltstore/stable.go",
				"func (s *Stable) SetUint64(key []byte, n uint64) error {\n",
				"func (s *Stable) SetUint64(key []byte, n uint64) error {\n\tif string(key) == \"CurrentTerm\" && n > 1 {\n\t\tn = 1\n\t}\n",
			},
		},
		{
			Name: "no-crc", Doc: "what is in the log is believed whatever its checksum", Workload: "set", Nemeses: []string{"damage"},
			Change: Change{"server/replication/segment/format.go", "if crc32.Update(seed, castagnoli, b[4:n]) != r.crc {", "if false {"},
		},
		{
			Name: "old-snapshot", Doc: "the oldest snapshot that is kept is taken for the newest", Workload: "restart-all",
			Change: Change{"server/replication/node.go", "_, in, err := n.stores.snaps.Open(newest.name)", "_, in, err := n.stores.snaps.Open(files[0].name)"},
		},
		{
			Name: "snapshot-without-pzxid", Doc: "snapshots forget when the children of a node changed", Workload: "restart-all",
			Change: Change{"server/znode/snapshot.go", "b = binary.AppendVarint(b, m.pzxid-m.czxid)", "b = binary.AppendVarint(b, 0)"},
		},
		{
			Name: "snapshot-without-mzxid", Doc: "snapshots forget when a node was written", Workload: "bulk",
			Change: Change{"server/znode/snapshot.go", "b = binary.AppendVarint(b, m.mzxid-m.czxid)", "b = binary.AppendVarint(b, 0)"},
		},
		{
			Name: "snapshot-without-acls", Doc: "snapshots have the open list for every node", Workload: "acl", Nemeses: []string{"rolling"},
			Change: Change{"server/znode/snapshot.go", "b = binary.AppendUvarint(b, uint64(m.acl))", "b = binary.AppendUvarint(b, 0)"},
		},
		{
			Name: "snapshot-without-sessions", Doc: "snapshots have no sessions", Workload: "session-order", Nemeses: []string{"rolling"},
			Change: Change{"server/session/snapshot.go", "if c.sessions[i].ID != 0 {", "if c.sessions[i].ID != 0 && false {"},
		},
	}
}

// Bugs in who may do what, all to be caught by the workload acl.
func accessMutants() []Mutant {
	return []Mutant{
		{
			Name: "multi-skips-acl", Doc: "a check inside a multi asks for no permission", Workload: "acl",
			Change: Change{"server/state/multi.go", "case !m.allowed(q, n, wire.PermRead):", "case n == nil:"},
		},
		{
			Name: "getacl-skips-acl", Doc: "getACL asks for no permission", Workload: "acl",
			Change: Change{
				"server/state/read.go",
				"\tn, code := m.readable(path, wire.PermRead|wire.PermAdmin, ids)\n",
				"\tn, code := m.readable(path, wire.PermRead|wire.PermAdmin, ids)\n\tif code == wire.NoAuth {\n\t\tn, code = m.tree.Lookup(path), wire.OK\n\t}\n",
			},
		},
		{
			Name: "getacl-shows-hashes", Doc: "getACL shows the hashes of passwords to everybody", Workload: "acl",
			Change: Change{"server/state/read.go", "\t\tlist = acl.Redact(list)\n", "\t\t_ = acl.Redact(list)\n"},
		},
		{
			Name: "watch-skips-acl", Doc: "events reach who may not read the node", Workload: "acl",
			Change: Change{"server/apply.go", "c.ids.Load()) {\n\t\t\tcontinue\n", "c.ids.Load()) && s == nil {\n\t\t\tcontinue\n"},
		},
		{
			Name: "multiread-skips-acl", Doc: "reads inside a multi ask for no permission", Workload: "acl",
			Change: Change{
				"server/state/read.go",
				"op.Path.Path, wire.PermRead, ids)\n\tif code != wire.OK {\n\t\tfailed",
				"op.Path.Path, wire.PermRead, ids)\n\tif code == wire.NoAuth {\n\t\tn, code = m.tree.Lookup(op.Path.Path), wire.OK\n\t}\n\tif code != wire.OK {\n\t\tfailed",
			},
		},
	}
}

// shiftSource is the clock of Clock for another package, in nanoseconds.
func shiftSource(pkg string) string {
	return "package " + pkg + `

import (
	"os"
	"strconv"
	"strings"
)

func shiftNs() int64 {
	b, err := os.ReadFile(os.Getenv("` + ClockFile + `"))
	if err != nil {
		return 0
	}
	ms, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return ms * 1_000_000
}
`
}
