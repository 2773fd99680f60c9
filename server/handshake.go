package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zkd-project/zkd/internal/failpoint"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

var (
	errClientAhead  = errors.New("the client has seen a later state than this server")
	errNotServing   = errors.New("this server is not serving")
	errLeaderShuns  = errors.New("this server leads, and leaderServes is no")
	errThrottled    = errors.New("too many sessions at once: connection_throttle_tokens")
	errNoSessionIDs = errors.New("no free session id was found")
	errLogStands    = fmt.Errorf("the log did not open the session in time: %w", os.ErrDeadlineExceeded)
	errRefused      = errors.New("the session has expired, is unknown, or the password is wrong")
)

// connect serves the first frame: it creates a session, or attaches the connection to one.
// The reader takes no further frame until the answer is queued. The order of the checks is
// that of ZooKeeper's processConnectRequest, except that the password comes before
// anything that another connection could notice.
func (c *conn) connect(body []byte) error {
	var req wire.ConnectRequest
	d := wire.NewDecoder(body)
	req.Decode(&d)
	if err := d.Err(); err != nil {
		return fmt.Errorf("connect request: %w", err)
	}
	readOnly := c.s.readOnly()
	if !readOnly && !c.s.serving() {
		c.s.stats.ClosedNotServing.Add(1)
		return errNotServing
	}
	if c.s.shunning.Load() {
		c.s.stats.ClosedNotServing.Add(1)
		return errLeaderShuns
	}
	c.s.stats.ConnectionRequests.Add(1)
	if !c.s.throttle.take(c.s.nowNs()) {
		c.s.stats.ConnectionsRejected.Add(1)
		return errThrottled
	}
	if readOnly {
		return c.connectReadOnly(&req)
	}
	if err := c.s.catchUp(req.LastZxidSeen); err != nil {
		return err
	}
	timeoutMs := min(max(req.TimeoutMs, c.s.cfg.MinSessionTimeoutMs), c.s.cfg.MaxSessionTimeoutMs)
	c.mu.Lock()
	c.readOnlyAck = req.HasReadOnly
	c.mu.Unlock()
	err := c.openSession(&req, timeoutMs)
	if errors.Is(err, errRefused) {
		c.refuse()
		return errEnd
	}
	if err != nil {
		return err
	}
	c.established = true
	c.setDeadline(time.Time{})
	return nil
}

// catchUp returns when this server is at least where a client has been. A server that is a
// little behind the others waits a moment for the log; one that stays behind refuses, and the
// client finds another.
func (s *Server) catchUp(seen int64) error {
	if s.machineZxid() >= seen {
		return nil
	}
	if s.clustered {
		ctx, cancel := context.WithTimeout(s.lifetime, time.Duration(s.expiry.tickNs))
		defer cancel()
		if err := s.barrier(ctx); err == nil && s.machineZxid() >= seen {
			return nil
		}
	}
	return fmt.Errorf("%w: 0x%x, here 0x%x", errClientAhead, seen, s.machineZxid())
}

func (c *conn) openSession(req *wire.ConnectRequest, timeoutMs int32) error {
	if err := failpoint.Err(failpoint.SessionCreate); err != nil {
		return err
	}
	if req.SessionID == 0 {
		return c.createSession(timeoutMs)
	}
	c.s.stats.ConnectionRevalidations.Add(1)
	return c.attachSession(req.SessionID, req.Password, timeoutMs)
}

// createSession draws an id and a password until the log has taken them.
func (c *conn) createSession(timeoutMs int32) error {
	for range createAttempts {
		cmd := state.Command{
			Kind: state.KindCreateSession, Session: c.s.drawSessionID(), TimeoutMs: timeoutMs,
			Origin: session.Origin{Boot: c.s.boot, Conn: c.number},
		}
		_, _ = rand.Read(cmd.Password[:]) // never fails
		outcome, err := c.proposeHandshake(&cmd)
		if err != nil || outcome == state.Applied {
			return err
		}
	}
	return errNoSessionIDs
}

// attachSession takes over an existing session. A session that moves meanwhile is looked
// at again: the newest connection wins.
func (c *conn) attachSession(id int64, password []byte, timeoutMs int32) error {
	for current := !c.s.clustered; ; {
		c.s.node.RLock()
		sess := c.s.node.Machine().Session(id)
		known := sess != nil && subtle.ConstantTimeCompare(sess.Password[:], password) == 1
		cmd := state.Command{
			Kind: state.KindAttach, Session: id, TimeoutMs: timeoutMs,
			Origin: session.Origin{Boot: c.s.boot, Conn: c.number},
		}
		if known {
			cmd.Epoch, cmd.Password = sess.Epoch, sess.Password
		}
		c.s.node.RUnlock()
		if !known && !current {
			// It may have been created elsewhere a moment ago.
			if err := c.s.catchUpNow(); err != nil {
				return err
			}
			current = true
			continue
		}
		if !known {
			return errRefused
		}
		outcome, err := c.proposeHandshake(&cmd)
		switch {
		case err != nil:
			return err
		case outcome == state.Applied:
			return nil
		case outcome != state.Stale:
			return errRefused
		}
	}
}

// catchUpNow returns when all that was acknowledged anywhere before the call is applied here.
func (s *Server) catchUpNow() error {
	ctx, cancel := context.WithTimeout(s.lifetime, s.handshakeTimeout())
	defer cancel()
	return s.barrier(ctx)
}

// proposeHandshake proposes cmd and waits until it is applied. When it is, establish has
// queued the answer already. A log that stands still must not keep the connections of clients
// that have given up long ago: nobody reads them meanwhile.
func (c *conn) proposeHandshake(cmd *state.Command) (state.Outcome, error) {
	defer c.s.opens(c, cmd.Session)()
	c.mu.Lock()
	c.answered = false
	gen, encoded := c.encode(cmd)
	c.handshake = encoded
	c.mu.Unlock()
	late := false // guarded by mu
	defer time.AfterFunc(c.s.handshakeTimeout(), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.answered {
			late = true
			c.abortLocked()
		}
	}).Stop()
	err := errNotServing
	if !c.s.cutOff.Load() { // else checkGrace may not have seen that this connection waits
		err = c.propose(cmd, gen, encoded)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.handshake = nil }()
	if err != nil {
		return 0, err
	}
	for !c.answered && !c.dead && !c.finishing {
		c.room.Wait()
	}
	switch {
	case c.answered:
		return c.outcome, nil
	case late:
		return 0, errLogStands
	}
	return 0, errNotServing
}

// establish runs under the write lock when the create or attach of this connection has
// been applied: from here on the connection is the session's. If it has ended meanwhile,
// forget needs to know the session all the same.
func (c *conn) establish(cmd *state.Command, r *state.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return // a repeat
	}
	c.answered, c.outcome = true, r.Outcome
	if r.Outcome == state.Duplicate {
		// The session is this connection's already: when that was applied, the answer to an older
		// attempt, which had been repeated, was taken for the answer to it.
		c.outcome = state.Applied
	}
	c.room.Broadcast()
	if c.outcome != state.Applied {
		return
	}
	c.session, c.epoch, c.timeoutMs = cmd.Session, r.Epoch, r.TimeoutMs
	// cons shows a new session as an operation with number 0, and a resumed one as none.
	op := wire.OpNotification
	if cmd.Kind == state.KindCreateSession {
		op = wire.OpCreateSession
	}
	now := c.s.nowNs()
	c.stats.Responded(op, 0, r.Zxid, now, now-c.lastSeen.Swap(now)) // the client waited for the log until now
	if !c.dead {
		c.appendConnectResponse(&wire.ConnectResponse{
			TimeoutMs: r.TimeoutMs, SessionID: cmd.Session, Password: cmd.Password[:],
		})
	}
}

// refuse queues the answer that tells a client that its session is over.
func (c *conn) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.appendConnectResponse(&wire.ConnectResponse{Password: make([]byte, 16)})
	c.stats.Sent()
}

// appendConnectResponse is called with mu held. The caller counts the frame.
func (c *conn) appendConnectResponse(r *wire.ConnectResponse) {
	r.HasReadOnly = c.readOnlyAck
	c.out.grow()
	b, mark := wire.AppendFrame(c.out.queued)
	c.out.queued = r.Append(b)
	wire.FinishFrame(c.out.queued, mark)
}

// drawSessionID draws an id whose top byte is the server's, as ZooKeeper's ids have it; 255
// would mark TTL nodes, so that server's ids say 0. The state machine refuses an id that is
// in use.
func (s *Server) drawSessionID() int64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		b[0] = byte(s.cfg.Cluster.ServerID % 255)
		if id := int64(binary.BigEndian.Uint64(b[:])); session.ValidID(id) {
			return id
		}
	}
}
