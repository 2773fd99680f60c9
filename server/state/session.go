package state

import (
	"crypto/subtle"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
)

// createSession makes a session, unless it exists already: then by whoever knows its
// password, in the same proposal sent twice, or by somebody else.
func (m *Machine) createSession(c *Command, r *Result) {
	r.Op = wire.OpCreateSession
	switch s := m.sessions.Get(c.Session); {
	case s != nil && samePassword(s, c):
		r.Outcome = Duplicate
		r.session(s)
	case s != nil || !session.ValidID(c.Session):
		r.Outcome = SessionTaken
	default:
		m.nextZxid()
		r.session(m.sessions.Create(c.Session, c.Password, c.TimeoutMs, c.Origin))
	}
}

// attach gives the session to another connection. That it is decided here, by the place in
// the log, is what orders "the session has moved" and "a late write through the old
// connection".
func (m *Machine) attach(c *Command, r *Result) {
	s := m.sessions.Get(c.Session)
	switch {
	case s == nil || !samePassword(s, c):
		r.Outcome = NoSession
		return
	case s.Origin == c.Origin:
		r.Outcome = Duplicate
	case s.Epoch != c.Epoch:
		r.Outcome = Stale
	default:
		s = m.sessions.Attach(c.Session, c.TimeoutMs, c.Origin)
	}
	r.session(s)
}

func samePassword(s *session.Session, c *Command) bool {
	return subtle.ConstantTimeCompare(s.Password[:], c.Password[:]) == 1
}

// session notes what a connection must know of its session.
func (r *Result) session(s *session.Session) {
	r.Session, r.Epoch, r.TimeoutMs = s.ID, s.Epoch, s.TimeoutMs
}

// numbered decides whether a command of a connection is the next one of its session, and
// if so notes its number. Outcome says why not.
func (m *Machine) numbered(c *Command, r *Result) bool {
	s := m.sessions.Get(c.Session)
	switch {
	case s == nil:
		r.Outcome = NoSession
	case s.Epoch != c.Epoch:
		r.Outcome = Moved
	case c.Req <= s.LastReq:
		r.Outcome = Duplicate
	case c.Req > s.LastReq+1:
		r.Outcome = Gap
	default:
		m.sessions.SetLastReq(c.Session, c.Req)
		return true
	}
	return false
}

// closeSession ends a session at the wish of its client.
func (m *Machine) closeSession(c *Command, r *Result) {
	r.Op = wire.OpCloseSession
	if m.numbered(c, r) {
		m.end(c.Session, r)
	}
}

// expire ends a session that the leader has not heard of. If it has come back meanwhile,
// its epoch has risen, and it lives on.
func (m *Machine) expire(c *Command, r *Result) {
	r.Op = wire.OpCloseSession
	switch s := m.sessions.Get(c.Session); {
	case s == nil:
		r.Outcome = NoSession
	case s.Epoch != c.Epoch:
		r.Outcome = Stale
	default:
		m.end(c.Session, r)
	}
}

// end removes a session and its ephemeral nodes, all at one zxid, in the order of their
// paths.
func (m *Machine) end(id int64, r *Result) {
	m.nextZxid()
	for _, path := range m.tree.Ephemerals(id, "") {
		m.remove(m.tree.Lookup(path), path, r)
	}
	m.sessions.Remove(id)
	r.Closed = id
}
