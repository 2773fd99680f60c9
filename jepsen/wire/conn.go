package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	proto "github.com/zkd-project/zkd/wire"
)

// Why a request has no reply.
var (
	// ErrNotSent is returned when the request never reached the socket: it is not done.
	ErrNotSent = errors.New("not sent")
	// ErrLost is returned when the connection ended before the reply: done or not.
	ErrLost = errors.New("connection lost")
	// ErrRefused is returned when the server says that the session is over.
	ErrRefused = errors.New("the session is over")
)

const maxFrame = 16 << 20

// A Session is what a client needs to come back.
type Session struct {
	ID        int64
	Password  []byte
	TimeoutMs int32
	LastZxid  int64
}

// A Reply is a frame that answers a request.
type Reply struct {
	proto.ReplyHeader
	Body  []byte
	Frame int64 // place among the frames of the connection
}

// A Call is a request under way. Its results may be read when Done is closed.
type Call struct {
	Xid   int32
	Op    proto.OpCode
	Sent  time.Time
	Ended time.Time
	Reply Reply
	Err   error
	Done  chan struct{}
}

// An Event is a frame with a watch event.
type Event struct {
	proto.WatcherEvent
	Zxid  int64
	Conn  int64 // number of the connection
	Frame int64
}

// connNumbers numbers connections over all clients.
var connNumbers atomic.Int64

// A Conn is one connection with a session.
type Conn struct {
	Number  int64
	Node    int
	Session Session // as of the handshake
	on      Hooks
	tape    *tape // nil: nothing is kept

	nc   net.Conn
	gone chan struct{} // closed when the reader has ended

	mu    sync.Mutex
	xid   int32   // guarded by mu
	calls []*Call // guarded by mu: under way, in the order of sending
	pings []*Call // guarded by mu: replies to pings may overtake others
	auths []*Call // guarded by mu: those to identities have an xid of their own
	err   error   // guarded by mu: why no more can be sent

	lastZxid atomic.Int64
	alive    atomic.Pointer[time.Time] // the sending of the newest request that was answered
}

// Hooks are called by the goroutine that reads a connection.
type Hooks struct {
	Event func(*Conn, Event) // required
	// Broken is called for replies out of order and frames that nobody asked for; required.
	Broken func(*Conn, string)
	// Frame sees every frame before anything is made of it, and must not keep it; may be nil.
	Frame func(c *Conn, b []byte)
	// Tapes keep the frames; nil: nothing does.
	Tapes *Tapes
}

// Open makes or takes up a session on nc, within the timeout. nc is closed if that fails.
func Open(nc net.Conn, node int, s Session, timeout time.Duration, on Hooks) (*Conn, error) {
	c := &Conn{Number: connNumbers.Add(1), Node: node, nc: nc, gone: make(chan struct{}), on: on}
	c.tape = on.Tapes.begin(c)
	in := bufio.NewReader(nc)
	if err := c.handshake(in, s, timeout); err != nil {
		nc.Close()
		close(c.gone)
		return nil, err
	}
	go c.read(in)
	return c, nil
}

func (c *Conn) handshake(in *bufio.Reader, s Session, timeout time.Duration) error {
	sent := time.Now()
	if err := c.nc.SetDeadline(sent.Add(timeout)); err != nil {
		return err
	}
	pw := s.Password
	if pw == nil {
		pw = make([]byte, 16)
	}
	b, mark := proto.AppendFrame(nil)
	b = (&proto.ConnectRequest{LastZxidSeen: s.LastZxid, TimeoutMs: s.TimeoutMs, SessionID: s.ID, Password: pw}).Append(b)
	proto.FinishFrame(b, mark)
	c.tape.add(true, b[mark+proto.FrameLengthSize:])
	if _, err := c.nc.Write(b); err != nil {
		return err
	}
	frame, err := readFrame(in)
	if err != nil {
		return err
	}
	c.tape.add(false, frame)
	var r proto.ConnectResponse
	d := proto.NewDecoder(frame)
	r.Decode(&d)
	switch {
	case d.Err() != nil:
		return d.Err()
	case r.SessionID == 0:
		return ErrRefused
	case s.ID != 0 && r.SessionID != s.ID:
		err := fmt.Errorf("asked for session 0x%x and got 0x%x", s.ID, r.SessionID)
		c.Session = s
		c.on.Broken(c, err.Error())
		return err
	}
	c.Session = Session{ID: r.SessionID, Password: append([]byte(nil), r.Password...), TimeoutMs: r.TimeoutMs, LastZxid: s.LastZxid}
	c.lastZxid.Store(s.LastZxid)
	c.alive.Store(&sent)
	return c.nc.SetDeadline(time.Time{})
}

func readFrame(in *bufio.Reader) ([]byte, error) {
	var head [proto.FrameLengthSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(in, frame)
	return frame, err
}

// Send hands a request to the socket. The Call is finished in any case.
func (c *Conn) Send(op proto.OpCode, body []byte) *Call {
	call := &Call{Op: op, Done: make(chan struct{}), Sent: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		call.finish(fmt.Errorf("%w: %w", ErrNotSent, c.err))
		return call
	}
	switch op {
	case proto.OpPing:
		call.Xid = proto.XidPing
		c.pings = append(c.pings, call)
	case proto.OpAuth:
		call.Xid = proto.XidAuth
		c.auths = append(c.auths, call)
	default:
		c.xid++
		call.Xid = c.xid
		c.calls = append(c.calls, call)
	}
	b, mark := proto.AppendFrame(nil)
	b = (&proto.RequestHeader{Xid: call.Xid, Op: op}).Append(b)
	b = append(b, body...)
	proto.FinishFrame(b, mark)
	c.tape.add(true, b[mark+proto.FrameLengthSize:])
	// A write that fails may have got through in part, so its request counts as sent. The
	// deadline keeps a server that does not read from holding the lock.
	_ = c.nc.SetWriteDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.nc.Write(b); err != nil {
		c.err = err
		c.nc.Close()
	}
	return call
}

func (call *Call) finish(err error) {
	call.Err, call.Ended = err, time.Now()
	close(call.Done)
}

// read is the only reader; it ends with the connection.
func (c *Conn) read(in *bufio.Reader) {
	defer close(c.gone)
	var err error
	for frame := int64(1); ; frame++ {
		var b []byte
		if b, err = readFrame(in); err != nil {
			break
		}
		c.tape.add(false, b)
		if err = c.take(b, frame); err != nil {
			c.on.Broken(c, err.Error())
			break
		}
	}
	c.nc.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	for _, call := range slices.Concat(c.calls, c.pings, c.auths) {
		call.finish(fmt.Errorf("%w: %w", ErrLost, err))
	}
	c.calls, c.pings, c.auths = nil, nil, nil
}

func (c *Conn) take(b []byte, frame int64) error {
	if c.on.Frame != nil {
		c.on.Frame(c, b)
	}
	var h proto.ReplyHeader
	d := proto.NewDecoder(b)
	h.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("a reply that cannot be decoded: %w", d.Err())
	}
	if h.Xid == proto.XidNotification {
		e := Event{Zxid: h.Zxid, Conn: c.Number, Frame: frame}
		e.Decode(&d)
		if d.Err() != nil {
			return fmt.Errorf("an event that cannot be decoded: %w", d.Err())
		}
		c.on.Event(c, e)
		return nil
	}
	call, err := c.due(h.Xid)
	if err != nil {
		return err
	}
	if h.Zxid > 0 {
		if last := c.lastZxid.Load(); h.Zxid < last {
			c.on.Broken(c, fmt.Sprintf("the zxid of replies fell from 0x%x to 0x%x", last, h.Zxid))
		} else {
			c.lastZxid.Store(h.Zxid)
		}
	}
	if call.Sent.After(*c.alive.Load()) {
		c.alive.Store(&call.Sent)
	}
	call.Reply = Reply{ReplyHeader: h, Body: d.Rest(), Frame: frame}
	call.finish(nil)
	return nil
}

// due takes the call that the reply must belong to.
func (c *Conn) due(xid int32) (*Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := &c.calls
	switch xid {
	case proto.XidPing:
		q = &c.pings
	case proto.XidAuth:
		q = &c.auths
	}
	if len(*q) == 0 {
		return nil, fmt.Errorf("a reply to xid %d, which nobody has sent", xid)
	}
	call := (*q)[0]
	if call.Xid != xid {
		return nil, fmt.Errorf("the reply to xid %d came before that to xid %d", xid, call.Xid)
	}
	*q = (*q)[1:]
	return call, nil
}

// LastZxid is the greatest zxid that the session has seen.
func (c *Conn) LastZxid() int64 { return c.lastZxid.Load() }

// Alive is when the newest request that was answered had been sent: the server cannot have
// heard of the session earlier than that, so it must not expire it within a timeout from then.
func (c *Conn) Alive() time.Time { return *c.alive.Load() }

// Gone is closed when nothing more can come.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Cut ends the connection without a word, and waits for its reader.
func (c *Conn) Cut() {
	c.nc.Close()
	<-c.gone
}
