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
//	C2  a read is served when all earlier writes of the session are applied, and before any
//	    later one is: while pending holds an entry no later read is served, a read at its head
//	    is served before a later write is proposed, or in the apply loop if one is under way;
//	C3  numbers of writes are consecutive within an epoch: they are given in the order in
//	    which the entries are appended and proposed;
//	C4  lastZxid, the zxid of the newest reply, never falls.
//
// The reader goroutine (readLoop) owns the fields marked "reader". Fields below mu are
// guarded by it. The rest is immutable after newConn.
type conn struct {
	s      *Server
	sock   net.Conn        // the socket itself: for deadlines and the end
	nc     net.Conn        // what is read and written: sock, or TLS over it; set before the first reply
	raw    syscall.RawConn // sock's, nil for TLS
	id     watch.ID
	number uint64 // names the connection within this boot; never 0
	remote netip.AddrPort
	secure bool

	in         []byte // reader: bytes of a frame that is not complete yet
	readBuf    *[]byte
	readN      int
	readErr    error
	readFn     func(uintptr) bool // bound once: a closure per read would be garbage
	writeFn    func(uintptr) bool
	writeWait  bool // writer
	writeAgain bool
	writeErr   error

	established bool         // reader: the handshake is over
	sasl        saslExchange // reader

	ids      atomic.Pointer[[]wire.ID] // identities; the slice is never changed, only replaced
	lastSeen atomic.Int64              // when the last complete frame was read, Server.nowNs
	mutual   atomic.Bool               // a client certificate was verified
	stalled  atomic.Bool               // the reader waits for the server, not for the client

	// handshake carries the outcome of the session's create or attach from the apply loop
	// to the reader.
	handshake chan handshakeResult

	stats stats.ConnStats
	shard *stats.Shard // the server's counters, for this connection

	mu          sync.Mutex
	room        sync.Cond // on mu: pending or out has shrunk, or the connection is dead
	out         outbox
	pending     pendingQueue
	session     int64 // 0 before the handshake
	epoch       uint32
	timeoutMs   int32
	lastZxid    int64
	writes      uint64 // number of the last write of this epoch
	syncs       uint64 // tag of the last sync
	needDrain   bool   // the head of pending is a read that may be served
	inFlusher   bool   // queued at Server.flushers
	dead        bool   // nothing is sent any more
	readOnlyAck bool   // the connect request carried the readOnly flag
}

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readBufferSize); return &b }}

func newConn(s *Server, nc net.Conn, number uint64, id watch.ID, secure bool) *conn {
	c := &conn{s: s, sock: nc, nc: nc, number: number, id: id, secure: secure, handshake: make(chan handshakeResult, 1)}
	c.room.L = &c.mu
	c.readFn, c.writeFn = c.rawRead, c.rawWrite
	c.shard = s.stats.Shard(number)
	if sc, ok := nc.(*net.TCPConn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		c.remote = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	c.ids.Store(&[]wire.ID{{Scheme: "ip", ID: c.remote.Addr().String()}})
	c.lastSeen.Store(s.nowNs())
	c.stats.Init(s.now().UnixMilli())
	return c
}

// errEnd ends a connection without fault: the client closed its session, or a four-letter
// word was answered.
var errEnd = errors.New("end of the conversation")

// run reads until the connection ends, and removes every trace of it.
func (c *conn) run() {
	err := c.converse()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errEnd) && !errors.Is(err, net.ErrClosed) {
		c.s.log.Debug("connection ended", "remote", c.remote, "session", sessionText(c.sessionID()), "reason", err)
	}
	if errors.Is(err, errEnd) {
		c.linger()
	}
	c.abort()
	c.s.forget(c)
	_ = c.sock.Close()
}

// converse serves the client until it goes, or breaks the protocol.
func (c *conn) converse() error {
	if err := c.sock.SetReadDeadline(time.Now().Add(c.s.handshakeTimeout())); err != nil {
		return err
	}
	if err := c.secureIfNeeded(); err != nil {
		return err
	}
	for {
		data, err := c.read()
		if err != nil {
			return err
		}
		used, err := c.frames(data)
		if err == nil {
			c.keep(data[used:])
		}
		c.release()
		c.flush(true)
		if err != nil {
			return err
		}
		c.waitForRoom()
	}
}

// frames serves all complete frames in data and says how many bytes they took.
func (c *conn) frames(data []byte) (int, error) {
	used := 0
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
		body := data[used+4 : used+4+length]
		used += 4 + length
		c.lastSeen.Store(c.s.nowNs())
		c.shard.Received(4 + length)
		c.stats.Received()
		if err := c.frame(body); err != nil {
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

func (c *conn) sessionID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// read returns what the client sent, after what is left of an incomplete frame. The bytes
// are valid until release.
func (c *conn) read() ([]byte, error) {
	if len(c.in) > 0 {
		return c.readMore()
	}
	if c.raw == nil {
		c.readBuf = readBuffers.Get().(*[]byte)
		n, err := c.nc.Read(*c.readBuf)
		return c.readResult(n, err)
	}
	if err := c.raw.Read(c.readFn); err != nil {
		return nil, err
	}
	return c.readResult(c.readN, c.readErr)
}

func (c *conn) readResult(n int, err error) ([]byte, error) {
	if n > 0 {
		return (*c.readBuf)[:n], nil
	}
	c.release()
	if err == nil {
		err = io.EOF
	}
	return nil, err
}

// rawRead is the callback of the raw connection: it takes a buffer only when there is
// something to read, so that an idle connection holds none.
func (c *conn) rawRead(fd uintptr) bool {
	if c.readBuf == nil {
		c.readBuf = readBuffers.Get().(*[]byte)
	}
	for {
		n, err := syscall.Read(int(fd), *c.readBuf)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			c.release()
			return false
		}
		c.readN, c.readErr = n, nil
		if err != nil {
			c.readN, c.readErr = 0, os.NewSyscallError("read", err)
		}
		return true
	}
}

// readMore completes the frame in c.in. The buffer grows with what has arrived, not with
// what the length promises.
func (c *conn) readMore() ([]byte, error) {
	if cap(c.in)-len(c.in) < 4<<10 {
		grown := make([]byte, len(c.in), 2*len(c.in)+4<<10)
		copy(grown, c.in)
		c.in = grown
	}
	n, err := c.nc.Read(c.in[len(c.in):cap(c.in)])
	if n > 0 {
		c.in = c.in[:len(c.in)+n]
		return c.in, nil
	}
	if err == nil {
		err = io.EOF
	}
	return nil, err
}

// keep saves the beginning of a frame that is not complete.
func (c *conn) keep(rest []byte) {
	if len(rest) == 0 {
		c.in = nil
		return
	}
	c.in = append(c.in[:0], rest...) // rest may lie in c.in: append moves it down
}

func (c *conn) release() {
	if c.readBuf != nil {
		readBuffers.Put(c.readBuf)
		c.readBuf = nil
	}
}

// waitForRoom holds the reader while the client has too much under way, or does not take
// its replies.
func (c *conn) waitForRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.dead {
		if len(c.out.queued) > outSoftLimit {
			c.room.Wait()
			continue
		}
		if !c.s.pendingFull(&c.pending) {
			return
		}
		// The server is the slow one: its own delay must not cost the client its session.
		c.stalled.Store(true)
		c.room.Wait()
		c.stalled.Store(false)
		c.lastSeen.Store(c.s.nowNs())
	}
}

// abort ends the connection at once; what is queued is lost.
func (c *conn) abort() {
	c.mu.Lock()
	c.dead = true
	c.abortLocked()
	c.mu.Unlock()
}

// abortLocked wakes everybody who waits for the connection; the reader fails and cleans up.
func (c *conn) abortLocked() {
	c.dead = true
	c.room.Broadcast()
	// A past deadline, not Close: the descriptor must stay ours until forget has run.
	_ = c.sock.SetDeadline(time.Unix(1, 0))
}

// linger waits for the last reply to leave, tells the client that no more will come, and
// for a moment reads and drops what it still sends: closing a socket with unread bytes
// sends a reset, and that may overtake the reply.
func (c *conn) linger() {
	c.flush(true)
	c.mu.Lock()
	for !c.dead && (c.pending.len() > 0 || c.out.flushing || len(c.out.queued) > 0) {
		c.room.Wait()
	}
	dead := c.dead
	c.mu.Unlock()
	if dead {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(lingerDeadline))
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
