package server

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

var (
	errClientAhead  = errors.New("the client has seen a later state than this server")
	errNotServing   = errors.New("this server is not serving")
	errNoSessionIDs = errors.New("no free session id was found")
	errRefused      = errors.New("the session has expired, is unknown, or the password is wrong")
)

// handshakeResult is what the apply loop says of a create or an attach.
type handshakeResult struct {
	outcome state.Outcome
}

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
	if !c.s.serving() {
		return errNotServing
	}
	c.s.stats.ConnectionRequests.Add(1)
	c.s.node.RLock()
	zxid := c.s.node.Machine().Zxid()
	c.s.node.RUnlock()
	if req.LastZxidSeen > zxid {
		return fmt.Errorf("%w: 0x%x, here 0x%x", errClientAhead, req.LastZxidSeen, zxid)
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
	return c.sock.SetReadDeadline(time.Time{})
}

func (c *conn) openSession(req *wire.ConnectRequest, timeoutMs int32) error {
	if req.SessionID == 0 {
		return c.createSession(timeoutMs)
	}
	return c.attachSession(req.SessionID, req.Password, timeoutMs)
}

// createSession draws an id and a password until the log has taken them.
func (c *conn) createSession(timeoutMs int32) error {
	for range createAttempts {
		cmd := state.Command{
			Kind: state.KindCreateSession, Session: c.s.drawSessionID(), TimeoutMs: timeoutMs,
			Origin: session.Origin{Boot: c.s.boot, Conn: c.number},
		}
		if _, err := rand.Read(cmd.Password[:]); err != nil {
			return fmt.Errorf("draw a session password: %w", err)
		}
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
	for {
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

// proposeHandshake proposes cmd and waits until it is applied. When it is, establish has
// queued the answer already.
func (c *conn) proposeHandshake(cmd *state.Command) (state.Outcome, error) {
	if err := c.s.propose(cmd); err != nil {
		return 0, err
	}
	select {
	case r := <-c.handshake:
		return r.outcome, nil
	case <-c.s.closing:
		return 0, errNotServing
	}
}

// establish runs under the write lock when the create or attach of this connection has
// been applied: from here on the connection is the session's.
func (c *conn) establish(cmd *state.Command, r *state.Result) {
	if r.Outcome == state.Applied {
		c.mu.Lock()
		c.session, c.epoch, c.timeoutMs = cmd.Session, r.Epoch, r.TimeoutMs
		c.appendConnectResponse(&wire.ConnectResponse{
			TimeoutMs: r.TimeoutMs, SessionID: cmd.Session, Password: cmd.Password[:],
		})
		c.mu.Unlock()
	}
	select {
	case c.handshake <- handshakeResult{r.Outcome}:
	default: // a repeat: the reader has its answer
	}
}

// refuse queues the answer that tells a client that its session is over.
func (c *conn) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.appendConnectResponse(&wire.ConnectResponse{Password: make([]byte, 16)})
}

// appendConnectResponse is called with mu held.
func (c *conn) appendConnectResponse(r *wire.ConnectResponse) {
	r.HasReadOnly = c.readOnlyAck
	c.out.grow()
	b, mark := wire.AppendFrame(c.out.queued)
	c.out.queued = r.Append(b)
	wire.FinishFrame(c.out.queued, mark)
	c.stats.Sent()
}

// drawSessionID draws an id whose top byte is the server's, as ZooKeeper's ids have it.
// The state machine refuses an id that is in use.
func (s *Server) drawSessionID() int64 {
	for {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			panic("server: no random numbers: " + err.Error())
		}
		b[0] = byte(s.cfg.Cluster.ServerID)
		if id := int64(binary.BigEndian.Uint64(b[:])); session.ValidID(id) {
			return id
		}
	}
}
