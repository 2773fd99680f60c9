package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// The workload ephemeral: clients fight for a few locks, each an ephemeral node. Who has created
// one, or sees that it owns it, holds it, as long as it believes its session to be alive: until
// the timeout after the last request that was answered. It ends by deleting the node, by closing
// the session, or by dropping the session without a word.

const (
	ephemeralRoot = "/ephemeral"
	locks         = 2
)

func ephemeralScript(ctx context.Context, c *Client) {
	for ctx.Err() == nil {
		l := c.Link(ctx)
		if l == nil {
			return
		}
		path := fmt.Sprintf("%s/%d", ephemeralRoot, c.Rand.Intn(locks))
		r, ok := l.Do(Op{Code: wire.OpCreate2, Path: path, Data: name("of ", c.Number), Flags: wire.FlagEphemeral})
		mine := ok && r.Err == wire.OK
		if ok && r.Err == wire.NodeExists {
			r, ok = l.Fresh(Op{Code: wire.OpGetData, Path: path})
			mine = ok && r.Err == wire.OK && r.Owner == l.session
		}
		if mine {
			c.hold(ctx, l, path)
		}
		pause(ctx, time.Duration(20+c.Rand.Intn(500))*time.Millisecond)
	}
}

// hold keeps a lock for a while.
func (c *Client) hold(ctx context.Context, l *Link, path string) {
	c.w.History.add(l.entry(Entry{Kind: Held, Op: Op{Path: path}}))
	lasts := time.Duration(c.Rand.Intn(int(c.timeout) / 2))
	if c.Rand.OneIn(4) {
		lasts += time.Duration(c.Rand.Intn(int(4 * c.timeout)))
	}
	for until := c.w.History.now() + lasts; c.w.History.now() < until && ctx.Err() == nil; {
		if !c.Believes(l.session) {
			break
		}
		pause(ctx, 50*time.Millisecond)
	}
	c.w.History.add(l.entry(Entry{Kind: Released, Op: Op{Path: path}}))
	switch {
	case c.Rand.OneIn(5):
		c.Abandon()
	case c.Rand.OneIn(5):
		c.closeSession(ctx)
	default:
		c.release(ctx, l.session, path)
	}
}

// release deletes the node, whatever connection it takes. A delete whose outcome is unknown may
// have been carried out, and then the node may be another's: so the client looks first.
func (c *Client) release(ctx context.Context, session int64, path string) {
	for c.Believes(session) {
		l := c.Link(ctx)
		if l == nil || l.session != session {
			return
		}
		r, ok := l.Do(Op{Code: wire.OpGetData, Path: path})
		if ok && (r.Err != wire.OK || r.Owner != session) {
			return
		}
		if !ok {
			continue
		}
		if _, ok = l.Do(Op{Code: wire.OpDelete, Path: path, Version: -1}); ok {
			return
		}
	}
}

// closeSession ends the session in order, if there is a connection.
func (c *Client) closeSession(ctx context.Context) {
	l := c.Link(ctx)
	if l == nil {
		return
	}
	if r, ok := l.Do(Op{Code: wire.OpCloseSession, Path: "(session)"}); ok && r.Err == wire.OK {
		c.Abandon()
	}
}

func ephemeralFinish(ctx context.Context, c *Client) error {
	for i := range locks {
		if _, err := lastRead(ctx, c, fmt.Sprintf("%s/%d", ephemeralRoot, i)); err != nil {
			return err
		}
	}
	return nil
}

// A holding is what the checker knows of a session.
type holding struct {
	timeout time.Duration
	alive   time.Duration     // when that was sent which was answered last
	held    map[string]*Entry // by path: what the client counts on
	closing bool              // closeSession was sent
	closed  int               // Seq of its reply; 0: there is none
}

func (h *holding) believes(at time.Duration) bool { return at < h.alive+h.timeout }

// checkEphemeral demands: nobody gets a node that somebody else counts on; nobody sees it missing,
// or another's; no session is told to be over whose client had an answer within its timeout; and
// after a session was closed its nodes are seen by nobody who looks.
func checkEphemeral(entries []Entry) []error {
	var errs []error
	sessions := map[int64]*holding{}
	get := func(id int64) *holding {
		if sessions[id] == nil {
			sessions[id] = &holding{held: map[string]*Entry{}}
		}
		return sessions[id]
	}
	bad := func(e *Entry, format string, args ...any) {
		errs = append(errs, fmt.Errorf("ephemeral: %s\n%v", fmt.Sprintf(format, args...), e))
	}
	for i := range entries {
		e := &entries[i]
		h := get(e.Session)
		switch e.Kind {
		case Opened:
			h.timeout, h.alive = e.Timeout, max(h.alive, e.SentAt)
		case Alive:
			h.alive = max(h.alive, e.SentAt)
		case Expired:
			if h.believes(e.At) && !h.closing {
				bad(e, "the session is over, but at %.3fs something was sent that was answered, and its timeout is %v", h.alive.Seconds(), h.timeout)
			}
		case Held:
			for id, other := range sessions {
				if first := other.held[e.Op.Path]; first != nil && id != e.Session && other.believes(e.At) {
					bad(e, "two hold it; the other since\n%v", first)
				}
			}
			h.held[e.Op.Path] = e
		case Released:
			delete(h.held, e.Op.Path)
		case Sent:
			h.closing = h.closing || e.Op.Code == wire.OpCloseSession
		case Replied:
			if e.Op.Code == wire.OpCloseSession && e.Result.Err == wire.OK {
				h.closed = e.Seq
			}
			for _, err := range seen(e, sessions) {
				bad(e, "%v", err)
			}
		}
	}
	return errs
}

// seen compares what a fresh read shows of a lock with what the sessions count on.
func seen(e *Entry, sessions map[int64]*holding) []error {
	if e.Op.Code != wire.OpGetData || e.Since == 0 {
		return nil
	}
	var errs []error
	for id, other := range sessions {
		first := other.held[e.Op.Path]
		if first != nil && first.Seq < e.Since && other.believes(e.At) && (e.Result.Err != wire.OK || e.Result.Owner != id) {
			errs = append(errs, fmt.Errorf("it is not there, or another's, but somebody counts on it since\n%v", first))
		}
		if e.Result.Err == wire.OK && e.Result.Owner == id && other.closed != 0 && other.closed < e.Since {
			errs = append(errs, fmt.Errorf("its session, %x, was closed before", uint64(id)))
		}
	}
	return errs
}
