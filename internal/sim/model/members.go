package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// lines are a configuration: what stands behind "server.N=" by number. The model takes lines as
// they are: histories have only such as are written in one way, with a host of its own for each
// number, or the text Garbage.
type lines map[int]string

// Garbage is a line that is none.
const Garbage = "garbage"

func (c lines) voters() int {
	n := 0
	for _, line := range c {
		if strings.Contains(line, ":participant") {
			n++
		}
	}
	return n
}

// text is what /zookeeper/config shows.
func (c lines) text(version int64) []byte {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "server.%d=%s\n", n, c[n])
	}
	fmt.Fprintf(&b, "version=%x", version)
	return []byte(b.String())
}

// parse reads lines with one of the separators between them; ok is false if one is garbage.
func parse(text, separator string) (c lines, ok bool) {
	c = lines{}
	for _, part := range strings.Split(text, separator) {
		var n int
		var line string
		switch k, _ := fmt.Sscanf(part, "server.%d=%s", &n, &line); {
		case part == "" || strings.HasPrefix(part, "version="):
		case k != 2:
			return nil, false
		default:
			c[n] = line
		}
	}
	return c, true
}

// A membership is who belongs to the cluster, and a change that is under way.
type membership struct {
	current lines
	version int64
	target  *target
}

type target struct {
	zxid            int64
	config, reached lines
	steps           uint64
	asker           state.Asker
}

// reconfig carries out a request to change the members: refused, answered at once, or answered by
// the step that ends the change.
func (m *Model) reconfig(t *txn, c *state.Command, rd *reader, r *state.Result) wire.Code {
	joining, leaving := rd.string(), rd.string()
	null := len(rd.b) >= 4 && string(rd.b[:4]) == "\xff\xff\xff\xff"
	whole := rd.string()
	version := rd.int64()
	switch {
	case rd.bad:
		return wire.MarshallingError
	case !m.set.Reconfig:
		return wire.ReconfigDisabled
	case m.members == nil:
		return wire.Unimplemented
	case m.members.target != nil:
		return wire.ReconfigInProgress
	case version != -1 && version != m.members.version:
		return wire.BadVersion
	}
	next, ok := m.members.current.change(joining, leaving)
	if !null {
		next, ok = parse(whole, "\n")
	}
	switch {
	case !ok || !m.enough(next):
		return wire.BadArguments
	case !allowed(&m.set.ACL, m.nodes[reservedConfig].acl, wire.PermWrite, c.IDs):
		return wire.NoAuth
	case maps.Equal(next, m.members.current):
		m.record(t, next, r)
		return wire.OK
	}
	asker := state.Asker{Session: c.Session, Epoch: c.Epoch, Req: c.Req}
	m.members = &membership{m.members.current, m.members.version, &target{m.zxid, next, m.members.current, 0, asker}}
	r.Deferred = true
	return wire.OK
}

// change takes servers out and others in.
func (c lines) change(joining, leaving string) (lines, bool) {
	next := maps.Clone(c)
	for _, number := range strings.Split(leaving, ",") {
		var n int
		if _, err := fmt.Sscanf(number, "%d", &n); err != nil && number != "" {
			return nil, false
		}
		delete(next, n)
	}
	join, ok := parse(joining, ",")
	maps.Copy(next, join)
	return next, ok
}

// enough says whether a configuration has the participants that it needs: two, unless that is
// switched off, or a lone server changes its line.
func (m *Model) enough(next lines) bool {
	alone := false
	if len(m.members.current) == 1 && len(next) == 1 {
		for n := range next {
			alone = m.members.current[n] != ""
		}
	}
	v := next.voters()
	return v > 1 || v == 1 && (alone || m.set.SingleVoter)
}

// record makes a configuration the current one, and shows it in the tree of t.
func (m *Model) record(t *txn, c lines, r *state.Result) {
	m.members = &membership{current: c, version: t.zxid}
	r.Data = c.text(t.zxid)
	n := t.nodes[reservedConfig]
	grown := int64(len(r.Data)) - int64(len(n.data))
	n.data, n.mzxid, n.mtimeMs, n.version = r.Data, t.zxid, t.nowMs, -1
	t.nodes[reservedConfig] = n
	t.quotaChanged(reservedConfig, 0, grown)
	t.event(wire.EventNodeDataChanged, reservedConfig, n.acl)
	r.Stat = t.nodes.stat(reservedConfig)
}

// step carries out what a leader says of the members.
func (m *Model) step(c *state.Command) state.Result {
	r := state.Result{Outcome: state.Applied}
	now, ok := parse(string(c.Body), "\n")
	refused := state.Result{Outcome: state.Failed, Code: wire.BadArguments}
	if c.Members == state.MembersInitial {
		switch {
		case m.members != nil:
			return state.Result{Outcome: state.Stale}
		case !ok || now.voters() == 0:
			return refused
		}
		m.recorded(c, now, &r)
		return r
	}
	if m.members == nil || m.members.target == nil || m.members.target.zxid != c.Target {
		return state.Result{Outcome: state.Stale}
	}
	t := *m.members.target
	switch c.Members {
	case state.MembersReached:
		switch {
		case c.Req != t.steps+1:
			return state.Result{Outcome: state.Stale}
		case !ok || now.voters() == 0:
			return refused
		}
		t.reached, t.steps = now, c.Req
		m.members = &membership{m.members.current, m.members.version, &t}
	case state.MembersDone:
		r.Op, r.Asker = wire.OpReconfig, m.waiting(t.asker)
		m.recorded(c, t.config, &r)
	case state.MembersAborted:
		if c.Code == wire.OK {
			return refused
		}
		r.Op, r.Asker, r.Code = wire.OpReconfig, m.waiting(t.asker), c.Code
		if maps.Equal(t.reached, m.members.current) {
			m.members = &membership{current: m.members.current, version: m.members.version}
		} else {
			m.recorded(c, t.reached, &r)
		}
	}
	return r
}

// recorded is record in a transaction of its own.
func (m *Model) recorded(c *state.Command, now lines, r *state.Result) {
	t := m.begin(c)
	m.record(t, now, r)
	m.nodes, r.Events = t.nodes, t.events
}

// waiting is who asked, if he still has the connection on which he did.
func (m *Model) waiting(a state.Asker) state.Asker {
	if s, ok := m.sessions[a.Session]; ok && s.epoch == a.Epoch {
		return a
	}
	return state.Asker{}
}
