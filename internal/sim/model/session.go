package model

import (
	"slices"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// admit says whether a numbered command of a session is the next one to be applied, and
// counts it.
func (m *Model) admit(c *state.Command) (state.Result, bool) {
	s, ok := m.sessions[c.Session]
	switch {
	case !ok:
		return state.Result{Outcome: state.NoSession}, false
	case c.Epoch != s.epoch:
		return state.Result{Outcome: state.Moved}, false
	case c.Req <= s.lastReq:
		return state.Result{Outcome: state.Duplicate}, false
	case c.Req > s.lastReq+1:
		return state.Result{Outcome: state.Gap}, false
	}
	s.lastReq = c.Req
	m.sessions[c.Session] = s
	return state.Result{}, true
}

// createSession makes a session. The same id and password again is the same session.
func (m *Model) createSession(c *state.Command) state.Result {
	if s, taken := m.sessions[c.Session]; taken {
		if s.password != c.Password {
			return state.Result{Outcome: state.SessionTaken}
		}
		return sessionResult(state.Duplicate, c.Session, s)
	}
	m.nextZxid()
	s := sessionState{password: c.Password, timeoutMs: c.TimeoutMs, epoch: 1, origin: c.Origin}
	m.sessions[c.Session] = s
	return sessionResult(state.Applied, c.Session, s)
}

// attach moves a session to another connection: the requests of the old one count no
// longer, the numbers start again, and the timeout is the one that the new connection has
// negotiated.
func (m *Model) attach(c *state.Command) state.Result {
	s, ok := m.sessions[c.Session]
	switch {
	case !ok || s.password != c.Password:
		return state.Result{Outcome: state.NoSession}
	case s.origin == c.Origin:
		return sessionResult(state.Duplicate, c.Session, s)
	case s.epoch != c.Epoch:
		return state.Result{Outcome: state.Stale}
	}
	s.epoch++
	s.origin = c.Origin
	s.timeoutMs = c.TimeoutMs
	s.lastReq = 0
	m.sessions[c.Session] = s
	return sessionResult(state.Applied, c.Session, s)
}

func sessionResult(o state.Outcome, id int64, s sessionState) state.Result {
	return state.Result{Outcome: o, Session: id, Epoch: s.epoch, TimeoutMs: s.timeoutMs}
}

func (m *Model) closeSession(c *state.Command) state.Result {
	if outcome, ok := m.admit(c); !ok {
		return outcome
	}
	return m.end(c)
}

func (m *Model) expire(c *state.Command) state.Result {
	s, ok := m.sessions[c.Session]
	switch {
	case !ok:
		return state.Result{Outcome: state.NoSession}
	case s.epoch != c.Epoch:
		return state.Result{Outcome: state.Stale}
	}
	return m.end(c)
}

// end removes a session and its ephemerals, all at one zxid, in the order of their paths.
func (m *Model) end(c *state.Command) state.Result {
	t := m.begin(c)
	for _, path := range m.nodes.ephemerals(c.Session) {
		t.remove(path)
	}
	m.nodes = t.nodes
	delete(m.sessions, c.Session)
	return state.Result{Outcome: state.Applied, Closed: c.Session, Events: t.events}
}

// ephemerals lists the ephemeral nodes of a session, sorted.
func (t tree) ephemerals(id int64) []string {
	var list []string
	for path, n := range t {
		if n.owner == id {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// reap deletes a container or TTL node if it is still due; else it fails like a delete
// that came too late.
func (m *Model) reap(c *state.Command) state.Result {
	t := m.begin(c)
	r := state.Result{Op: wire.OpDeleteContainer}
	n, ok := t.nodes[c.Path]
	switch {
	case !ok:
		r.Code = wire.NoNode
	case t.nodes.children(c.Path) > 0:
		r.Code = wire.NotEmpty
	case !n.isContainer && n.ttlMs == 0, !m.due(n):
		r.Code = wire.BadVersion
	}
	if r.Code != wire.OK {
		r.Outcome = state.Failed
		return r
	}
	t.remove(c.Path)
	m.nodes = t.nodes
	r.Events = t.events
	return r
}

// due says whether a childless container or TTL node has outlived its use.
func (m *Model) due(n node) bool {
	idleMs := m.nowMs - n.mtimeMs
	if n.isContainer {
		return n.created > 0 || (m.set.MaxNeverUsedMs != 0 && idleMs > m.set.MaxNeverUsedMs)
	}
	return idleMs > n.ttlMs
}
