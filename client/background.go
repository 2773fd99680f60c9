package client

import (
	"errors"
	"strings"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// What must be deleted is deleted, also when nobody waits for it any more: these deletions are
// requests of the client itself, queued again after every lost connection until a server has
// answered. They are bound to a session where the session's end does the same. Close waits for
// them.

// backgroundPause is the delay after an answer that says "not now".
const backgroundPause = 500 * time.Millisecond

// beginBackground and endBackground count what is not done yet. Called with mu held.
func (k *core) beginBackground() { k.background++ }

func (k *core) endBackground() {
	if k.background--; k.background == 0 && k.idle != nil {
		close(k.idle)
		k.idle = nil
	}
}

// awaitIdle returns a channel that is closed when nothing is under way in the background.
// Called with mu held.
func (k *core) awaitIdle() <-chan struct{} {
	if k.background == 0 {
		ch := make(chan struct{})
		close(ch)
		return ch
	}
	if k.idle == nil {
		k.idle = make(chan struct{})
	}
	return k.idle
}

// A deletion removes one node.
type deletion struct {
	k       *core
	path    string // on the server
	version int32
	session int64 // ends with this session; 0: goes on over sessions
	before  int64 // a node that is younger is another's; 0: the name is unique
	// A node of our session may be younger than that: its create was under way, and given up, when
	// the deletion began. own is what the first sync has shown; what the session has made since then
	// was made after the deletion was asked for, and stays. 0: not known, because the sync was lost.
	own    int64
	looked bool
}

// deleteLater starts a deletion. Called with mu held.
func (k *core) deleteLater(d *deletion) {
	d.k = k
	k.beginBackground()
	d.look()
}

// look asks whether the node is still there and still the one that is meant, unless its name
// says so. The sync before it makes sure that nothing sent earlier is still on its way; so the look is
// bound to the connection, for on the next one it would come without.
func (d *deletion) look() {
	if d.before == 0 {
		d.remove()
		return
	}
	if !d.alive() {
		d.k.endBackground()
		return
	}
	sync := d.request(wire.OpSync)
	sync.frame = appendPathOnly(sync.frame, sync.op, "", d.path)
	sync.onDone = func() {
		if !d.looked && sync.err == nil && sync.code == wire.OK {
			d.own = sync.zxid
		}
		d.looked = true
	}
	exists := d.request(wire.OpExists)
	exists.bound = true
	exists.frame = appendPathWatch(exists.frame, exists.op, "", d.path)
	exists.onDone = func() {
		dec := wire.NewDecoder(exists.body)
		switch stat := dec.Stat(); {
		case d.later(exists, d.look):
		case exists.code != wire.OK || dec.Err() != nil || !d.meant(&stat):
			d.k.endBackground()
		default:
			d.remove()
		}
	}
	d.k.enqueue(sync)
	d.k.enqueue(exists)
}

// meant says whether a node is the one to be deleted, and not one that was made in its place.
func (d *deletion) meant(stat *wire.Stat) bool {
	return stat.Czxid <= d.before || stat.EphemeralOwner == d.session && d.session != 0 && stat.Czxid <= d.own
}

func (d *deletion) remove() {
	if !d.alive() {
		d.k.endBackground()
		return
	}
	r := d.request(wire.OpDelete)
	r.frame = appendDelete(r.frame, "", d.path, d.version)
	r.onDone = func() {
		if !d.later(r, d.look) {
			d.k.endBackground()
		}
	}
	d.k.enqueue(r)
}

func (d *deletion) request(op wire.OpCode) *request {
	r := d.k.newRequest(op)
	r.inSession = d.session
	return r
}

func (d *deletion) alive() bool {
	return d.k.fatal == nil && (d.session == 0 || d.session == d.k.session.id)
}

// later says that the request must be made again, and sees to it.
func (d *deletion) later(r *request, again func()) bool { return d.k.later(r, again) }

// later runs again if a request of the background was not answered, or only with "not now".
// Called with mu held, as again is.
func (k *core) later(r *request, again func()) bool {
	_, oversized := errors.AsType[*oversizedError](r.err)
	switch {
	case k.fatal != nil || r.err == ErrSessionExpired || oversized:
		return false
	case r.err != nil, r.code == wire.SessionMoved: // which ends the connection
		again()
		return true
	case r.code != wire.NotReadOnly && r.code != wire.ThrottledOp:
		return false
	}
	time.AfterFunc(backgroundPause, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		again()
	})
	return true
}

// A cleanup removes what a protected create may have left behind: it lists the parent, because
// the number of a sequential node is not known, and deletes what carries the unique name.
type cleanup struct {
	k            *core
	parent, name string
	sequential   bool
	session      int64 // as in deletion
}

// cleanLater starts a cleanup. Called with mu held.
func (k *core) cleanLater(c *cleanup) {
	c.k = k
	k.beginBackground()
	c.list()
}

func (c *cleanup) list() {
	if c.k.fatal != nil || c.session != 0 && c.session != c.k.session.id {
		c.k.endBackground()
		return
	}
	sync := c.k.newRequest(wire.OpSync)
	sync.frame = appendPathOnly(sync.frame, sync.op, "", c.parent)
	sync.onDone = func() {}
	r := c.k.newRequest(wire.OpGetChildren)
	r.frame = appendPathWatch(r.frame, r.op, "", c.parent)
	sync.inSession, r.inSession = c.session, c.session
	r.bound = true // as in deletion.look
	r.onDone = func() {
		if c.k.later(r, c.list) {
			return
		}
		d := wire.NewDecoder(r.body)
		d.SetMaxLen(c.k.cfg.maxFrame)
		for _, child := range d.Strings() { // nothing after an error
			if isProtected(child, c.name, c.sequential) {
				c.k.deleteLater(&deletion{path: join(c.parent, child), version: AnyVersion, session: c.session})
			}
		}
		c.k.endBackground()
	}
	c.k.enqueue(sync)
	c.k.enqueue(r)
}

// isProtected says whether a child is the node with that unique name, whatever its number.
func isProtected(child, name string, sequential bool) bool {
	rest, ok := strings.CutPrefix(child, name)
	if !ok || !sequential {
		return ok && rest == ""
	}
	rest = strings.TrimPrefix(rest, "-") // of a counter that has wrapped around
	return len(rest) >= 9 && strings.Trim(rest, "0123456789") == ""
}
