package replication

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// A leader that is cut off learns late that it leads no more: raft looks once per lease, and takes
// failed requests for contacts, while the others elect another one after silenceLimit. For what
// must not be said any more by then (a session that the new leader counts as silent is told that
// it lives) Leads is no proof, and LeadAge is.
//
// Argument. A follower that answers a request in the term of the request had voted in no newer one,
// and the answer was given after the request was sent. If a majority has answered requests that
// were sent at T or later, whoever is elected in a newer term has the vote of one of them, given
// after T. So before T nobody else led. What counts is when requests were sent: an answer may
// have been on its way for long.

// contacts are when requests were sent that members have answered, in one term of leadership.
type contacts struct {
	mu   sync.Mutex // guards what follows
	term uint64
	sent map[raft.ServerID]time.Time // of the newest that was answered
}

// note takes in an answer, of the term of its request.
func (c *contacts) note(id raft.ServerID, term uint64, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term < c.term {
		return
	}
	if term > c.term || c.sent == nil {
		c.term, c.sent = term, map[raft.ServerID]time.Time{}
	}
	if sent.After(c.sent[id]) {
		c.sent[id] = sent
	}
}

// confirmed is a time before which nobody led in a newer term, by the answers of enough others; zero
// if too few have answered.
func (c *contacts) confirmed(term uint64, others []raft.ServerID, enough int) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var times []time.Time
	for _, id := range others {
		if at, ok := c.sent[id]; ok && c.term == term {
			times = append(times, at)
		}
	}
	if len(times) < enough {
		return time.Time{}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	return times[enough-1]
}

// Leading says whether this server takes commands as the leader, in which generation, and in which
// term: that is another one if somebody else has led meanwhile. A hand-over that came to nothing changes
// the generation alone.
func (n *Node) Leading() (term, gen uint64, leads bool) {
	r, gen := n.queue.current()
	if r != routeLog {
		return 0, 0, false
	}
	return n.raft().CurrentTerm(), gen, true
}

// LeadAge says for how long it has not been confirmed that this server, which takes commands as
// the leader, leads: nobody else did before that time. It is a few hundred milliseconds while a
// majority of the members can be reached, and grows when it cannot; false if this server does not
// lead.
func (n *Node) LeadAge() (time.Duration, bool) {
	if !n.Leads() {
		return 0, false
	}
	if n.peers == nil {
		return 0, true
	}
	term, voters := n.raft().CurrentTerm(), n.voters()
	others := slices.DeleteFunc(slices.Clone(voters), func(id raft.ServerID) bool { return id == n.stores.id.serverID() })
	enough := len(voters)/2 + 1 - (len(voters) - len(others)) // this server is of the majority
	if enough <= 0 {
		return 0, true
	}
	at := n.contacts.confirmed(term, others, enough)
	if at.IsZero() {
		return never, true // it was elected just now
	}
	return time.Since(at), true
}
