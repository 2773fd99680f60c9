package peer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// A line is a link to a member that is dialed when needed and again when it broke.
type line int

const (
	lineRaft line = iota
	lineControl
	lineCount
)

func (l line) kind() Kind {
	if l == lineControl {
		return KindControl
	}
	return KindRaft
}

// A peer is another member.
//
// Invariants:
//
//	P1  links[l] is the newest link of its line, and dialing[l] is set while its successor
//	    is being dialed: there is never a second dial for a line;
//	P2  inbound has at most one connection of KindRaft and of KindControl: the newest, since
//	    the other side keeps one and has given up the one before;
//	P3  progress belongs to links[lineRaft] as far as it says what that was told.
type peer struct {
	t     *Transport
	id    raft.ServerID
	bytes []byte // of id; raft keeps it, nobody changes it

	mu       sync.Mutex // guards the fields below
	boot     uint64     // of the process that was last met there, 0 if none
	links    [lineCount]*link
	dialing  [lineCount]*dialing
	inbound  map[*conn]struct{}
	contact  time.Time
	progress progress
	kept     uint64 // up to where it has acknowledged what is committed, to this member as leader
	lacking  uint64 // nonce of the process that was found to lack some of that
	carrying bool   // the courier runs
	looking  looking

	up broadcast // links[lineRaft] is new
}

// dialing is a dial that callers wait for together.
type dialing struct {
	done chan struct{} // closed when link and err are set
	link *link
	err  error
}

func newPeer(t *Transport, id raft.ServerID) *peer {
	return &peer{t: t, id: id, bytes: []byte(id), inbound: map[*conn]struct{}{}}
}

// link returns the link of a line, after dialing it if there is none. The dial goes on when
// ctx ends, for whoever asks next.
func (p *peer) link(ctx context.Context, l line) (*link, error) {
	p.mu.Lock()
	if k := p.links[l]; k != nil && k.alive() {
		p.mu.Unlock()
		return k, nil
	}
	d, first := p.dialing[l], false
	if d == nil {
		d, first = &dialing{done: make(chan struct{})}, true
		p.dialing[l] = d
	}
	p.mu.Unlock()
	if first && !p.t.spawn(func() { p.connect(l, d) }) {
		d.err = ErrClosed
		close(d.done)
	}
	select {
	case <-d.done:
		return d.link, d.err
	case <-ctx.Done():
		if p.t.ctx.Err() != nil {
			return nil, ErrClosed
		}
		return nil, fmt.Errorf("no connection to member %s yet: %w", p.id, context.Cause(ctx))
	}
}

// connect makes one attempt to dial a line, and then serves the link until it ends.
func (p *peer) connect(l line, d *dialing) {
	c, err := p.t.dial(p.t.ctx, p.id, l.kind())
	if err == nil {
		limitSilence(c.raw, silenceTimeout)
		d.link = newLink(p, l, c)
	} else if p.t.ctx.Err() != nil {
		err = ErrClosed
	}
	d.err = err
	p.mu.Lock()
	p.dialing[l] = nil
	if d.link != nil {
		p.links[l] = d.link
		if l == lineRaft {
			p.progress.reconnect(d.link)
		}
	}
	p.mu.Unlock()
	close(d.done)
	if d.link == nil {
		return
	}
	if l == lineRaft {
		p.up.fire()
	}
	p.consider()
	d.link.run()
	p.t.drop(c)
	if c.broken() {
		p.lost(c.boot, c.err())
	}
}

// ask sends a request over a line and waits for its answer.
func (p *peer) ask(ctx context.Context, l line, f frameType, fill func([]byte, uint64) []byte) (answer, error) {
	for {
		k, err := p.link(ctx, l)
		if err != nil {
			return answer{}, err
		}
		c, err := k.begin(f, fill)
		if err == errIdle { // closed in the moment it was to be used
			continue
		}
		if err != nil {
			return answer{}, err
		}
		timer := time.NewTimer(p.t.o.Timeout)
		a, err := k.wait(ctx, c, timer.C)
		timer.Stop()
		return a, err
	}
}

// enter takes in a connection that the member has opened; false if there are too many.
func (p *peer) enter(c *conn) bool {
	p.mu.Lock()
	var before *conn
	n := 0
	for other := range p.inbound {
		if other.kind == c.kind || other.kind >= FirstKind && c.kind >= FirstKind {
			before = other
			n++
		}
	}
	limit, replaces := maxStreams, false
	switch c.kind {
	case KindRaft, KindControl:
		limit, replaces = 1, n > 0
	case KindSnapshot:
		limit = maxSnapshots
	case KindProbe:
		limit = maxProbes
	}
	ok := n < limit || replaces
	if ok {
		p.inbound[c] = struct{}{}
	}
	other := p.boot != 0 && c.boot != p.boot
	if p.boot == 0 {
		p.boot = c.boot
	}
	if ok && p.looking.reported == c.boot {
		p.looking.reported = 0 // whoever dials is alive
	}
	boot := p.boot
	p.mu.Unlock()

	if ok && replaces {
		before.end(errReplaced, true)
	}
	if ok && other && c.kind != KindProbe {
		// The sender says that it is another process than the one we know. That alone proves
		// nothing, for its hello may have waited while the one we know came up: look there.
		p.lost(boot, errOtherBoot)
	}
	return ok
}

func (p *peer) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inbound, c)
}

// heard notes that the member has answered.
func (p *peer) heard() {
	p.mu.Lock()
	p.contact = time.Now()
	p.mu.Unlock()
}

// idleSince says whether nothing is open, and since when nothing was heard.
func (p *peer) idleSince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := len(p.inbound) == 0 && !p.carrying && !p.looking.running
	for l := range p.links {
		idle = idle && p.dialing[l] == nil && (p.links[l] == nil || !p.links[l].alive())
	}
	return p.contact, idle
}

func (p *peer) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.links[lineRaft]
	g := &p.progress
	return Status{
		ID: p.id, Boot: p.boot, Connected: k != nil && k.alive(), Inbound: len(p.inbound), Contact: p.contact,
		Term: g.term, Acked: g.acked, Told: g.told,
	}
}
