package cluster

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/zkd-project/zkd/wire"
)

const maxFrame = 4 << 20

// A Link is one connection of a client that has a session. It ends for good; the client makes
// another one.
type Link struct {
	c       *Client
	number  int
	session int64
	nc      net.Conn
	in      *bufio.Reader
	dead    chan struct{} // closed by read when all pending calls are settled

	// Guarded by c.mu.
	pending []*Call // in the order of the requests
	pings   []time.Duration
	heard   time.Duration // when the last frame came
	xid     int32
	zxid    int64 // of the last reply
	over    bool
}

// A Call is a request under way.
type Call struct {
	Seq    int // of its Sent
	id     int
	xid    int32
	op     Op
	since  int
	at     time.Duration // when it was sent
	done   chan struct{}
	lost   bool   // may be read when done is closed
	result Result // likewise
}

// Wait returns the result; ok is false if the outcome is unknown.
func (k *Call) Wait() (r Result, ok bool) {
	<-k.done
	return k.result, !k.lost
}

// shake hands: it asks for a session over a new connection.
func shake(nc net.Conn, in *bufio.Reader, req *wire.ConnectRequest) (wire.ConnectResponse, error) {
	var resp wire.ConnectResponse
	b, mark := wire.AppendFrame(nil)
	b = req.Append(b)
	wire.FinishFrame(b, mark)
	if _, err := nc.Write(b); err != nil {
		return resp, err
	}
	body, err := readFrame(in)
	if err != nil {
		return resp, err
	}
	d := wire.NewDecoder(body)
	resp.Decode(&d)
	return resp, d.Err()
}

func readFrame(in *bufio.Reader) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(in, prefix[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(prefix[:])
	if n > maxFrame {
		return nil, errors.New("a frame is too long")
	}
	b := make([]byte, n)
	_, err := io.ReadFull(in, b)
	return b, err
}

// Start sends a request. since is the Seq of a sync before it, or 0.
func (l *Link) Start(op Op, since int) *Call {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.startLocked(op, since, encode(op))
}

func (l *Link) startLocked(op Op, since int, body []byte) *Call {
	l.xid++
	k := &Call{xid: l.xid, op: op, since: since, at: l.c.w.History.now(), done: make(chan struct{})}
	if op.Code == wire.OpSetWatches2 {
		k.xid = wire.XidSetWatches
	}
	if l.over { // not sent: there is nothing to remember
		k.lost = true
		close(k.done)
		return k
	}
	k.Seq, k.id = l.c.w.History.send(l.entry(Entry{Op: op, Since: since}))
	l.pending = append(l.pending, k)
	l.write(k.xid, op.Code, body)
	return k
}

// write is called with c.mu held. It never waits: what is pending is far less than the network
// takes.
func (l *Link) write(xid int32, op wire.OpCode, body []byte) {
	b, mark := wire.AppendFrame(nil)
	h := wire.RequestHeader{Xid: xid, Op: op}
	b = append(h.Append(b), body...)
	wire.FinishFrame(b, mark)
	_, _ = l.nc.Write(b) // if it fails, so does reading
}

// ping sends one, if the answer to the last is not too late.
func (l *Link) ping() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if !l.over {
		l.pings = append(l.pings, l.c.w.History.now())
		l.write(wire.XidPing, wire.OpPing, nil)
	}
}

// entry fills in who the link belongs to.
func (l *Link) entry(e Entry) Entry {
	e.Client, e.Session, e.Link = l.c.Number, l.session, l.number
	return e
}

func (l *Link) lose(k *Call) {
	l.c.w.History.add(l.entry(Entry{Kind: Lost, Call: k.id, Op: k.op, Since: k.since}))
	k.lost = true
	close(k.done)
}

// Break ends the connection.
func (l *Link) Break() { _ = l.nc.Close() }

// read takes frames until the connection ends.
func (l *Link) read() {
	for {
		body, err := readFrame(l.in)
		if err == nil {
			err = l.take(body)
		}
		if err != nil {
			break
		}
	}
	l.Break()
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.over = true
	for _, k := range l.pending {
		l.lose(k)
	}
	l.pending = nil
	l.c.w.History.add(l.entry(Entry{Kind: Closed}))
	close(l.dead)
}

// take serves one frame.
func (l *Link) take(body []byte) error {
	d := wire.NewDecoder(body)
	var h wire.ReplyHeader
	h.Decode(&d)
	if d.Err() != nil {
		return l.broken("a reply header: " + d.Err().Error())
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.heard = l.c.w.History.now()
	switch h.Xid {
	case wire.XidNotification:
		var e wire.WatcherEvent
		e.Decode(&d)
		l.c.w.History.add(l.entry(Entry{Kind: Notified, Op: Op{Path: e.Path}, Event: e.Type, Result: Result{Zxid: h.Zxid}}))
		l.c.watches.fired(e.Type, e.Path)
		return d.Err()
	case wire.XidPing:
		if len(l.pings) == 0 {
			return l.broken("an answer to no ping")
		}
		l.c.w.History.add(l.entry(Entry{Kind: Alive, SentAt: l.pings[0], Result: Result{Zxid: h.Zxid}}))
		l.c.alive = l.pings[0]
		l.pings = l.pings[1:]
		if l.c.pingsCount {
			l.c.lastZxid = max(l.c.lastZxid, h.Zxid)
		}
		return nil
	}
	if len(l.pending) == 0 || l.pending[0].xid != h.Xid {
		return l.broken("a reply out of order")
	}
	k := l.pending[0]
	l.pending = l.pending[1:]
	return l.settle(k, &h, &d)
}

// settle is called with c.mu held.
func (l *Link) settle(k *Call, h *wire.ReplyHeader, d *wire.Decoder) error {
	k.result = Result{Err: h.Err, Zxid: h.Zxid}
	var err error
	if h.Err == wire.OK {
		err = decode(k.op, &k.result, d)
	}
	if h.Zxid > 0 {
		if h.Zxid < l.zxid {
			err = errors.Join(err, l.broken("the zxid of replies falls"))
		}
		l.zxid = h.Zxid
		l.c.lastZxid = max(l.c.lastZxid, h.Zxid)
	}
	l.c.w.History.add(l.entry(Entry{Kind: Replied, Call: k.id, Op: k.op, Result: k.result, Since: k.since}))
	l.c.watches.read(k.op, k.result.Err)
	close(k.done)
	return err
}

func (l *Link) broken(what string) error {
	l.c.w.History.add(l.entry(Entry{Kind: Broken, Note: what}))
	return errors.New(what)
}
