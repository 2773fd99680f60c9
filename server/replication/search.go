package replication

import "time"

// A search is the time for which a member of a cluster has no way for proposals, neither into
// its own log nor to another leader: from its start on, and whenever that way is lost. It is
// measured for the operator alone (Meters). Who leads is known before there is a way: a follower
// has to apply what its leader has applied, and a new leader what was left by the one before.
type search struct {
	since time.Time // zero: there is a way
	known bool      // somebody leads
}

// lost begins a search, unless one is under way. Called with mu held.
func (q *queue) lost() {
	q.routed.Store(false)
	if q.n.o.Cluster == nil || q.closed || !q.search.since.IsZero() {
		return
	}
	q.search = search{since: time.Now()}
	q.n.o.Meters.Looking()
}

// knowsLeader is told that somebody leads.
func (q *queue) knowsLeader() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.elected()
}

// elected is called with mu held. A leader that was known before the way to it was lost, or never
// forgotten, is known with the new way at the latest.
func (q *queue) elected() {
	if s := &q.search; !s.since.IsZero() && !s.known {
		s.known = true
		q.n.o.Meters.Elected(time.Since(s.since))
	}
}

// found ends the search. Called with mu held.
func (q *queue) found(leads bool) {
	q.routed.Store(true)
	if q.search.since.IsZero() {
		return
	}
	q.elected()
	q.n.o.Meters.Routed(time.Since(q.search.since), leads)
	q.search = search{}
}
