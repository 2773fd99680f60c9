package peer

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raft pauses after each request that fails, up to 10 s between two of them once a member has been
// away for half a minute, and nothing shortens the pause: a member that comes back would get no
// entry for as long, and a majority that needs it would stand still. So requests to a member that
// cannot be reached do not fail but wait until it can be. Heartbeats go on failing, and dial it
// again and again: raft's lease needs to know, and the request that waits hears of their link.

// absentError is a dial or handshake that failed.
type absentError struct{ error }

func (e absentError) Unwrap() error { return e.error }

// await returns when there is a link for messages of raft, or when nobody should wait longer: raft
// here leads no more in that term, Hurry was called, or patience is over.
func (p *peer) await(term uint64) {
	patience := time.NewTimer(absentPatience)
	defer patience.Stop()
	look := time.NewTicker(absentInterval)
	defer look.Stop()
	hurry := p.t.hurry.next()
	for {
		up := p.up.next()
		p.mu.Lock()
		k := p.links[lineRaft]
		p.mu.Unlock()
		if k != nil && k.alive() {
			return
		}
		select {
		case <-up:
		case <-look.C:
			if !p.t.o.Leads(term) {
				return
			}
		case <-hurry:
			return
		case <-patience.C:
			return
		case <-p.t.ctx.Done():
			return
		}
	}
}

// Hurry has requests fail that wait for members that cannot be reached, so that raft does what else
// it has to do for these members: a transfer of the leadership waits for that.
func (t *Transport) Hurry() { t.hurry.fire() }

// A broadcast wakes all who wait for it. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // closed by the next fire; nil if nobody has waited since the last
}

func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// isHeartbeat says whether a request only says who leads.
func isHeartbeat(args *raft.AppendEntriesRequest) bool {
	return len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0
}
