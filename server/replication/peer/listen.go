package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// acceptLoop owns a listener until it is closed.
func (t *Transport) acceptLoop(l net.Listener) {
	pause := acceptPause
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = acceptPause
			t.counters.accepted.Add(1)
			t.attend(nc)
			continue
		}
		if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		t.o.Logger.Error("cannot accept connections of other members", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-t.ctx.Done():
			return
		}
		pause = min(2*pause, maxAcceptPause)
	}
}

// attend starts the handshake of a connection, and its service after it.
func (t *Transport) attend(nc net.Conn) {
	g := t.lobby.enter(nc)
	if !t.spawn(func() { t.host(nc, g) }) {
		t.lobby.leave(g)
		nc.Close()
	}
}

func (t *Transport) host(nc net.Conn, g *guest) {
	c, p, err := t.receive(nc)
	evicted := t.lobby.leave(g)
	if err != nil {
		nc.Close()
		t.strange(nc, err, evicted)
		return
	}
	defer p.leave(c)
	if !t.keep(c) {
		c.end(ErrClosed, true)
		return
	}
	defer t.drop(c)
	if err := t.serve(c, p); err != nil {
		c.end(err, false)
	}
	if c.broken() {
		t.o.Logger.Debug("a connection from a member broke", "member", c.peer, "kind", c.kind, "error", c.err())
		p.lost(c.boot, c.err())
	}
}

// strange counts handshakes that came to nothing, and says so now and then.
func (t *Transport) strange(nc net.Conn, err error, evicted bool) {
	var refusal *RefusedError
	switch {
	case t.ctx.Err() != nil || errors.Is(err, io.EOF):
		return // closing, or somebody looked whether the port is open
	case evicted:
		t.counters.evicted.Add(1)
	case errors.As(err, &refusal): // counted
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.counters.slow.Add(1)
	default:
		t.counters.malformed.Add(1)
	}
	if t.notices.allow() {
		t.o.Logger.Warn("a connection to the peer port failed its handshake",
			"from", nc.RemoteAddr().String(), "error", err, "suppressed", t.notices.suppressed())
	}
}

// serve handles a connection that another member opened, until it ends.
func (t *Transport) serve(c *conn, p *peer) error {
	switch c.kind {
	case KindRaft:
		limitSilence(c.raw, silenceTimeout)
		return t.serveRaft(c)
	case KindSnapshot:
		limitSilence(c.raw, t.o.StallTimeout)
		return t.serveSnapshot(c, p)
	case KindControl:
		return t.serveControl(c)
	case KindProbe:
		return t.serveProbe(c)
	default:
		limitSilence(c.raw, t.o.StallTimeout)
		return t.serveStream(c)
	}
}

// serveProbe waits for the end: who dialed has its answer. Nothing may be sent.
func (t *Transport) serveProbe(c *conn) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(t.o.HandshakeTimeout)); err != nil {
		return err
	}
	_, _, err := c.in.next(func(frameType) (int, bool) { return 0, false }, nil)
	c.end(err, true)
	return nil
}

// A lobby holds the connections whose handshake is not done, at most maxLobby. When it is
// full, one has to go: the oldest of the address that has most. So a flood drives out
// itself, and a member at another address always has the time it needs; one at the same
// address has as long as the flood needs for maxLobby connections.
type lobby struct {
	mu     sync.Mutex // guards guests
	guests []*guest   // oldest first
}

type guest struct {
	nc      net.Conn
	host    string
	evicted bool
}

func (l *lobby) enter(nc net.Conn) *guest {
	g := &guest{nc: nc, host: hostOf(nc.RemoteAddr())}
	l.mu.Lock()
	l.guests = append(l.guests, g)
	var victim *guest
	if len(l.guests) > maxLobby {
		victim = l.victim()
		victim.evicted = true
		l.remove(victim)
	}
	l.mu.Unlock()
	if victim != nil {
		victim.nc.Close()
	}
	return g
}

func (l *lobby) victim() *guest {
	count := map[string]int{}
	for _, g := range l.guests {
		count[g.host]++
	}
	victim := l.guests[0]
	for _, g := range l.guests {
		if count[g.host] > count[victim.host] {
			victim = g
		}
	}
	return victim
}

func (l *lobby) remove(g *guest) {
	l.guests = slices.DeleteFunc(l.guests, func(other *guest) bool { return other == g })
}

// leave takes a connection out, and says whether it had been driven out.
func (l *lobby) leave(g *guest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(g)
	return g.evicted
}

func (l *lobby) closeAll() {
	l.mu.Lock()
	guests := slices.Clone(l.guests)
	l.mu.Unlock()
	for _, g := range guests {
		g.nc.Close()
	}
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
