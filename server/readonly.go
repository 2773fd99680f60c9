package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// Read-only mode (readonlymode.enabled), as in ZooKeeper: a server that has no leader serves
// those clients that say that they can do with reads of an old state. Nothing of it passes the
// log: their sessions live here alone, hold nothing, and end with the mode.
//
// There are two ways into it. A server that loses its leader goes on with the state that it
// has applied (checkGrace). One that waits for its first leader has applied nothing behind its
// newest snapshot, for what is committed only a leader can say; so it shows all that its log
// holds, as ZooKeeper does, in a second machine that goes when the mode ends.
//
// The order of the steps keeps a connection from outliving the mode: on is cleared before the
// connections are looked through, and a handshake looks at on after its connection counts.

// readOnlyMode is the part of Server that this file owns.
type readOnlyMode struct {
	on      atomic.Bool
	view    atomic.Pointer[state.Machine] // what is shown; nil: the node's machine
	secret  [32]byte                      // immutable after New: makes the passwords of sessions
	sweptNs int64                         // owned by who runs the mode: when silent clients were last looked for
}

// readOnlyPatience is how long a server that starts waits at least for its first leader.
const readOnlyPatience = 2 * time.Second

var (
	errReadOnly      = errors.New("this server is read-only, and the client did not ask for such a one")
	errGlobalSession = errors.New("this server is read-only and cannot take over a session of the cluster")
)

func (m *readOnlyMode) init() {
	_, _ = rand.Read(m.secret[:]) // never fails
}

// password is that of a read-only session: nobody remembers these sessions, so that nobody can
// fill the memory with them.
func (m *readOnlyMode) password(session int64) []byte {
	h := hmac.New(sha256.New, m.secret[:])
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(session))) // never fails
	return h.Sum(nil)[:16]
}

// readOnly says whether only read-only clients are let in.
func (s *Server) readOnly() bool {
	return s.ro.on.Load() && s.phase.Load() != phaseOver && !s.quarantined.Load() && !s.serving()
}

// enterReadOnly begins the mode. view is the machine to show, nil for the node's own.
func (s *Server) enterReadOnly(view *state.Machine) {
	s.ro.view.Store(view)
	s.ro.on.Store(true)
	s.log.Warn("read-only: clients that ask for it are served from the state that was reached", "zxid", sessionText(s.readOnlyZxid()))
}

// leaveReadOnly ends the mode. Its clients are sent away: they find a read-write server, which
// may be this one.
func (s *Server) leaveReadOnly() {
	if !s.ro.on.Swap(false) {
		return
	}
	s.ro.view.Store(nil)
	closed := 0
	for _, c := range s.connections() {
		c.mu.Lock()
		if c.readOnly && !c.dead {
			c.abortLocked()
			closed++
		}
		c.mu.Unlock()
	}
	s.log.Info("not read-only any more", "connections", closed)
}

func (s *Server) readOnlyZxid() int64 {
	if m := s.ro.view.Load(); m != nil {
		return m.Zxid()
	}
	return s.machineZxid()
}

// sweepReadOnly ends the read-only sessions of which nothing was heard for too long.
func (s *Server) sweepReadOnly() {
	now := s.nowNs()
	if !s.ro.on.Load() || now-s.ro.sweptNs < s.expiry.tickNs/4 {
		return
	}
	s.ro.sweptNs = now
	for _, c := range s.connections() {
		c.mu.Lock()
		if silence := now - c.signNs(); c.readOnly && silence > int64(c.timeoutMs)*int64(time.Millisecond) {
			c.abortLocked()
		}
		c.mu.Unlock()
	}
}

// readOnlyUntilReady serves read-only while the node waits for its first leader, if that takes
// long. The function that it returns ends that.
func (s *Server) readOnlyUntilReady() (end func()) {
	if !s.cfg.ReadOnlyMode || !s.clustered {
		return func() {}
	}
	ctx, cancel := context.WithCancel(s.startup)
	var running sync.WaitGroup
	running.Go(func() { s.previewLoop(ctx) })
	return func() {
		cancel()
		running.Wait()
		s.leaveReadOnly()
	}
}

// previewLoop enters the mode when it is time and there is something to show. It runs until ctx
// ends.
func (s *Server) previewLoop(ctx context.Context) {
	wait.Pause(ctx, max(readOnlyPatience, time.Duration(s.expiry.tickNs)))
	for ctx.Err() == nil {
		view, err := s.node.Preview(ctx)
		switch {
		case err == nil && view.Zxid() > 0:
			s.zxid.Store(view.Zxid())
			s.enterReadOnly(view)
			for ctx.Err() == nil {
				s.sweepReadOnly()
				wait.Pause(ctx, time.Duration(s.expiry.tickNs/4))
			}
			return
		case err == nil:
			return // an empty server
		case ctx.Err() == nil:
			s.log.Warn("not read-only: the data cannot be shown", "reason", err)
		}
		wait.Pause(ctx, time.Duration(s.expiry.tickNs))
	}
}

// connectReadOnly serves the first frame in read-only mode: who does not want that is closed
// without a byte, as is who comes with a session of the cluster. A read-only session may come
// back to the process that made it.
func (c *conn) connectReadOnly(req *wire.ConnectRequest) error {
	if !req.ReadOnly {
		c.s.stats.ClosedNotServing.Add(1)
		return errReadOnly
	}
	id := req.SessionID
	if id == 0 {
		id = c.s.drawSessionID()
	} else if !hmac.Equal(req.Password, c.s.ro.password(id)) {
		return errGlobalSession
	}
	view := c.s.ro.view.Load()
	if at := c.s.readOnlyZxid(); req.LastZxidSeen > at {
		return errClientAhead
	}
	timeoutMs := min(max(req.TimeoutMs, c.s.cfg.MinSessionTimeoutMs), c.s.cfg.MaxSessionTimeoutMs)
	now := c.s.nowNs()
	c.mu.Lock()
	c.readOnly, c.readOnlyAck, c.session, c.timeoutMs = true, true, id, timeoutMs
	c.view = view
	c.stats.Responded(wire.OpCreateSession, 0, c.s.zxid.Load(), now, now-c.lastSeen.Load())
	c.appendConnectResponse(&wire.ConnectResponse{
		TimeoutMs: timeoutMs, SessionID: id, Password: c.s.ro.password(id), ReadOnly: true,
	})
	c.mu.Unlock()
	if !c.s.readOnly() {
		return errNotServing // the mode has ended, and may not have seen this connection
	}
	c.established = true
	c.setDeadline(time.Time{})
	return nil
}

// readOnlyRequest serves what a read-only session may ask for, and refuses the rest.
func (c *conn) readOnlyRequest(h wire.RequestHeader, d *wire.Decoder) error {
	if isRead(h.Op) {
		return c.readRequest(h, d.Rest())
	}
	c.mu.Lock()
	err := c.admit()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	switch h.Op {
	case wire.OpAuth:
		return c.auth(h, d)
	case wire.OpSASL:
		return c.saslStep(h, d)
	case wire.OpCloseSession:
		return c.endWith(h, c.s.zxid.Load(), wire.OK)
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData,
		wire.OpSetACL, wire.OpMulti, wire.OpReconfig, wire.OpSync, wire.OpCheck, wire.OpDeleteContainer:
		c.answer(h, wire.NotReadOnly)
		return nil
	default:
		return c.endWith(h, -1, wire.Unimplemented)
	}
}

// machine is what the connection reads from. Called under the node's read lock.
func (c *conn) machine() *state.Machine {
	if c.view != nil {
		return c.view
	}
	return c.s.node.Machine()
}
