package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/wire"
)

// A conn is one client connection.
//
// Invariants:
//
//	C1  pending is in request order, and every reply of a request leaves in that order; only
//	    pings and events pass it;
//	C2  a read is served from a state that has all writes which its session sent before it,
//	    and none that it sent after it, unless it waits behind a change of the membership or
//	    of the leadership, which later writes do not wait for;
//	C3  numbers of writes are consecutive within an epoch: they are given in the order in
//	    which the entries are appended and proposed;
//	C4  lastZxid, the zxid of the newest reply, never falls;
//	C5  once dead is set no watch is registered, no deadline is moved and nothing is sent.
//
// The reader goroutine (run) owns the fields marked "reader". Fields below mu are guarded
// by it. The rest is immutable after newConn.
type conn struct {
	s      *Server
	sock   net.Conn        // the socket itself: for deadlines and the end
	nc     net.Conn        // what is read and written: sock, or TLS over it; set before the first reply
	raw    syscall.RawConn // sock's, nil for TLS; as nc
	id     watch.ID
	number uint64 // names the connection within this boot; never 0
	remote netip.AddrPort
	began  int64 // Server.nowNs

	in          inbox          // reader
	secure      bool           // reader: TLS, or about to be; written under mu, for those who look
	established bool           // reader: the handshake is over
	sasl        saslExchange   // reader
	view        *state.Machine // what a read-only session reads, nil: the node's machine; written under mu, by the reader

	ids      atomic.Pointer[[]wire.ID] // identities; the slice is never changed, only replaced
	lastSeen atomic.Int64              // when bytes were last read, Server.nowNs
	told     atomic.Int64              // when the client last got, or took, what it had waited for; written under mu
	reported atomic.Int64              // the lastSeen that the leader was told of
	mutual   atomic.Bool               // a client certificate was verified

	stats stats.ConnStats
	shard *stats.Shard // the server's counters, for this connection

	mu           sync.Mutex
	room         sync.Cond // on mu: whatever somebody may wait for has changed
	out          outbox
	pending      pendingQueue
	session      int64 // 0 before the handshake
	epoch        uint32
	timeoutMs    int32
	lastZxid     int64
	writes       uint64        // number of the last write of this epoch
	syncs        uint64        // tag of the last sync
	transfers    uint64        // tag of the last transfer of the leadership
	repeated     uint64        // the last write that was missing in the log and proposed again
	gen          uint64        // of the node's proposals, to which this connection was brought
	handshake    []byte        // its create or attach, while that is under way
	watchesAdded int           // at least the cost of its watches, see addWatch
	needDrain    bool          // the head of pending is a read that may be served
	parked       bool          // the reader reads nothing before the client has taken replies, see hearTaking
	inFlusher    bool          // queued at Server.flushers, or in Server.touched
	answered     bool          // the log has answered the create or attach of this connection …
	outcome      state.Outcome // … with this
	readOnlyAck  bool          // the connect request carried the readOnly flag
	readOnly     bool          // a session of read-only mode; the reader may look without mu
	finishing    bool          // the server stops: no further request is served
	dead         bool
	cutReason    string // why the server cut the connection, for the log
}

func newConn(s *Server, nc net.Conn, number uint64, id watch.ID, secure bool) *conn {
	c := &conn{s: s, sock: nc, nc: nc, remote: remoteAddr(nc), number: number, id: id, secure: secure, began: s.nowNs()}
	c.room.L = &c.mu
	c.in.readFn, c.out.writeFn = c.rawRead, c.rawWrite
	c.shard = s.stats.Shard(number)
	if sc, ok := nc.(*net.TCPConn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.ids.Store(&[]wire.ID{{Scheme: "ip", ID: c.remote.Addr().String()}})
	c.lastSeen.Store(c.began)
	c.stats.Init(time.Now().UnixMilli())
	return c
}

var (
	// errEnd ends a connection without fault: the client closed its session, a four-letter
	// word was answered, or the server stops. What is under way is still answered.
	errEnd = errors.New("end of the conversation")
	// errNoRoom puts a request off until the client has taken replies, or the server has
	// answered requests.
	errNoRoom = errors.New("too much is under way")
)

// run reads until the connection ends, and removes every trace of it.
func (c *conn) run() {
	defer c.s.connsDone.Done()
	err := c.converse()
	switch {
	case errors.Is(err, errEnd):
		c.linger()
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	default:
		if !c.established && errors.Is(err, os.ErrDeadlineExceeded) {
			c.s.stats.SessionlessExpired.Add(1)
		}
		c.s.log.Debug("connection ended", "remote", c.remote, "session", sessionText(c.sessionID()), "reason", err)
	}
	c.abort()
	c.reportCut()
	c.letGo()
	c.s.forget(c)
	_ = c.sock.Close()
}

// converse serves the client until it goes, or breaks the protocol.
func (c *conn) converse() error {
	c.setDeadline(time.Now().Add(c.s.handshakeTimeout()))
	if err := c.secureIfNeeded(); err != nil {
		return err
	}
	for putOff := false; ; {
		data, err := c.receive(putOff)
		if err != nil {
			if c.isFinishing() {
				return errEnd
			}
			return err
		}
		used, err := c.frames(data, putOff)
		c.keep(data, used)
		// A TLS write cannot be tried, so it is done here, not by a goroutine each time.
		c.flush(c.raw == nil)
		putOff = errors.Is(err, errNoRoom)
		if err != nil && !putOff {
			return err
		}
		c.waitForRoom(putOff)
	}
}

// frames serves the complete frames in data and says how many bytes they took. After
// errNoRoom it is called again with what was left; putOff says that it is.
func (c *conn) frames(data []byte, putOff bool) (used int, err error) {
	if !putOff {
		// Also for a part of a frame: a large one may take longer than the timeout, and no ping
		// can pass it on its way here.
		c.lastSeen.Store(c.s.nowNs())
	}
	served := 0
	defer func() { // once for all of them: they often come by the dozen
		if served > 0 {
			c.shard.Received(served, used)
			c.stats.Received(served)
		}
	}()
	for len(data)-used >= 4 {
		length := int(int32(binary.BigEndian.Uint32(data[used:])))
		if !c.established && isFourLetterWord(data[used:used+4]) {
			return used, c.fourLetterWord(data[used:])
		}
		if length < 0 || length > c.s.cfg.JuteMaxBuffer {
			return used, errFrameLength(length)
		}
		if len(data)-used-4 < length {
			break
		}
		err := c.frame(data[used+4 : used+4+length])
		if errors.Is(err, errNoRoom) {
			return used, err
		}
		used += 4 + length
		served++
		if err != nil {
			return used, err
		}
	}
	return used, nil
}

// frame serves one frame: the first is the connect request, the others are requests.
func (c *conn) frame(body []byte) error {
	if !c.established {
		return c.connect(body)
	}
	return c.request(body)
}

// admit says whether one more request may be served: errNoRoom puts it off. Called with mu
// held.
func (c *conn) admit() error {
	switch {
	case c.dead:
		return net.ErrClosed
	case c.finishing:
		return errEnd
	case c.outFull() || c.s.pendingFull(&c.pending):
		return errNoRoom
	}
	return nil
}

// waitForRoom holds the reader while the client does not take its replies and, if a request
// was put off, while too much is under way.
func (c *conn) waitForRoom(putOff bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.dead && !c.finishing && (c.outFull() || putOff && c.s.pendingFull(&c.pending)) {
		c.parked = true
		c.room.Wait()
	}
	c.parked = putOff // what was put off comes before what is to be read
}

// waitsForLog says whether the client waits for something that only the log can give. Then
// its silence proves nothing: the C client sends no pings while it waits for an answer.
func (c *conn) waitsForLog() bool {
	if c.stats.Outstanding() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waitsForLogLocked()
}

func (c *conn) waitsForLogLocked() bool {
	if c.dead || c.pending.len() == 0 {
		return false
	}
	return c.pending.front().kind.awaited()
}

// heardNs is when the client was heard last, for who judges its silence at now.
func (c *conn) heardNs(now int64) int64 {
	if c.waitsForLog() {
		return now
	}
	return c.signNs()
}

// signNs is the last sign of life. Who waits for an answer cannot be expected to give any, so the
// answer counts as one. Nor can one be seen of a client that is not read: see hearTaking.
func (c *conn) signNs() int64 { return max(c.lastSeen.Load(), c.told.Load()) }

// hearTaking notes that the kernel has taken bytes for the client. While the reader is parked the
// client's pings lie unread, for as long as a slow link needs for what it has asked for; but a socket
// that is full has room again only when somebody takes what is in it. While the reader reads it says
// nothing: events for a client that is dead find room until the socket is full, and must not prolong
// its session. Called with mu held.
func (c *conn) hearTaking() {
	if c.parked {
		c.told.Store(c.s.nowNs())
	}
}

// endSilence ends the connection if its client has been silent for the whole timeout of its
// session, and says so. It comes before anything that lets the leader end the session: a
// request that comes after it gets no answer, and none that came before is overlooked.
func (c *conn) endSilence(now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timeoutMs == 0 || now-c.signNs() < atLeast(c.timeoutMs) || c.waitsForLogLocked() {
		return false // without a timeout it is about to get the session
	}
	c.abortLocked()
	return true
}

// endUnanswered ends the connection if its client could be told nothing since then, and for so long
// that the leader may have ended its session. Who waits for an attach may have any timeout.
func (c *conn) endUnanswered(since, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	timeoutMs := int32(c.s.cfg.MinSessionTimeoutMs)
	if c.timeoutMs != 0 {
		timeoutMs = c.timeoutMs
	}
	if (c.session != 0 || c.handshake != nil) && !c.readOnly && now-max(since, c.began) >= atLeast(timeoutMs) {
		c.abortLocked()
	}
}

// atLeast is how long a timeout may be here: the leader's clock may run a thousandth faster.
func atLeast(timeoutMs int32) (ns int64) {
	ns = int64(timeoutMs) * int64(time.Millisecond)
	return ns - ns/1000
}

func (c *conn) sessionID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *conn) isFinishing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finishing
}

// patience is how long a client may take nothing of what it is sent: as long as it may be
// silent. Called with mu held.
func (c *conn) patience() time.Duration {
	if c.timeoutMs == 0 {
		return c.s.handshakeTimeout()
	}
	return time.Duration(c.timeoutMs) * time.Millisecond
}

// setDeadline bounds reading and writing, unless the connection has been told to end.
func (c *conn) setDeadline(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead && !c.finishing {
		_ = c.sock.SetDeadline(at)
	}
}

// abort ends the connection at once; what is queued is lost.
func (c *conn) abort() {
	c.mu.Lock()
	c.abortLocked()
	c.mu.Unlock()
}

// abortLocked wakes everybody who waits for the connection; the reader fails and cleans up.
func (c *conn) abortLocked() {
	c.dead = true
	c.out.queued, c.out.home = nil, nil
	c.weigh()
	c.room.Broadcast()
	// A past deadline, not Close: the reader closes the socket when forget has run.
	_ = c.sock.SetDeadline(time.Unix(1, 0))
}

// cut ends the connection for the sake of the others. The reader reports it: here locks
// are held. Called with mu held.
func (c *conn) cut(reason string) {
	if !c.dead {
		c.cutReason = reason
		c.abortLocked()
	}
}

// reportCut is called by the reader once the connection is dead.
func (c *conn) reportCut() {
	c.mu.Lock()
	reason, session := c.cutReason, c.session
	c.mu.Unlock()
	if reason != "" {
		c.s.stats.ConnectionsDropped.Add(1)
		c.s.log.Warn("a connection was cut", "remote", c.remote, "session", sessionText(session), "reason", reason)
	}
}

// finish ends the connection when what is under way has been answered.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		c.finishing = true
		c.room.Broadcast()
		_ = c.sock.SetReadDeadline(time.Unix(1, 0))
	}
}

// linger waits for the last reply to leave, tells the client that no more will come, and
// for a moment reads and drops what it still sends: closing a socket with unread bytes
// sends a reset, and that may overtake the reply.
func (c *conn) linger() {
	c.flush(true)
	c.mu.Lock()
	if c.finishing && c.pending.len() == 0 && !c.out.busy() {
		c.mu.Unlock()
		return // nothing that a reset could overtake
	}
	c.parked = true // the session lives on if it is the server that ends
	for !c.dead && (c.pending.len() > 0 || c.out.busy()) {
		c.room.Wait()
	}
	if c.dead {
		c.mu.Unlock()
		return
	}
	_ = c.sock.SetDeadline(time.Now().Add(lingerDeadline))
	c.mu.Unlock()
	if h, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
	var sink [512]byte
	for budget := 4 << 20; budget > 0; {
		n, err := c.nc.Read(sink[:])
		if err != nil {
			return
		}
		budget -= n
	}
}
