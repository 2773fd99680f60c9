package recipes

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// A tap sits between a client and its connections: it counts, loses replies, cuts and silences.
type tap struct {
	// reply says whether a reply or event is passed on; if not, it is lost and the connection cut.
	// op is that of the request, 0 for what is no reply. nil: all are passed on.
	reply func(op wire.OpCode, frame []byte) bool

	// request is told of each request before it is sent; nil: nobody is.
	request func(op wire.OpCode)

	silent atomic.Bool // swallow everything, in both directions
	down   atomic.Bool // refuse to dial

	mu     sync.Mutex
	conns  map[*tapConn]bool
	counts map[wire.OpCode]int
	events int
}

func (p *tap) option() client.Option {
	return client.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p.down.Load() {
			return nil, errors.New("the tap is closed")
		}
		var d net.Dialer
		nc, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &tapConn{Conn: nc, tap: p, ops: map[int32]wire.OpCode{}}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.conns == nil {
			p.conns, p.counts = map[*tapConn]bool{}, map[wire.OpCode]int{}
		}
		p.conns[c] = true
		return c, nil
	})
}

// cut closes the connections that are open.
func (p *tap) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Conn.Close()
		delete(p.conns, c)
	}
}

// reset forgets the counts; look returns them, without pings.
func (p *tap) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = 0
	clear(p.counts)
}

func (p *tap) look() (ops map[wire.OpCode]int, events int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ops = maps.Clone(p.counts)
	delete(ops, wire.OpPing)
	return ops, p.events
}

// sent is how many requests have gone, without pings.
func (p *tap) sent() (n int) {
	ops, _ := p.look()
	for _, k := range ops {
		n += k
	}
	return n
}

type tapConn struct {
	net.Conn
	tap *tap

	in      []byte // of a frame that is being handed out
	greeted bool   // the connect response has been read

	out  []byte // an incomplete frame of ours
	sent int    // frames

	mu  sync.Mutex
	ops map[int32]wire.OpCode // guarded by mu; of requests without a reply
}

// Read hands out whole frames, as the tap allows.
func (c *tapConn) Read(b []byte) (int, error) {
	for len(c.in) == 0 {
		var head [4]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		frame := make([]byte, 4+binary.BigEndian.Uint32(head[:]))
		copy(frame, head[:])
		if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
			return 0, err
		}
		if c.tap.silent.Load() {
			continue
		}
		if !c.pass(frame) {
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
		c.in = frame
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *tapConn) pass(frame []byte) bool {
	if !c.greeted {
		c.greeted = true
		return true
	}
	xid := int32(binary.BigEndian.Uint32(frame[4:]))
	c.mu.Lock()
	op := c.ops[xid]
	delete(c.ops, xid)
	c.mu.Unlock()
	if xid == wire.XidNotification {
		c.tap.mu.Lock()
		c.tap.events++
		c.tap.mu.Unlock()
	}
	return c.tap.reply == nil || c.tap.reply(op, frame)
}

// Write counts the frames and sends them on.
func (c *tapConn) Write(b []byte) (int, error) {
	if c.tap.silent.Load() {
		return len(b), nil
	}
	c.out = append(c.out, b...)
	for len(c.out) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.out))
		if len(c.out) < n {
			break
		}
		if c.sent++; c.sent > 1 {
			xid, op := int32(binary.BigEndian.Uint32(c.out[4:])), wire.OpCode(binary.BigEndian.Uint32(c.out[8:]))
			c.mu.Lock()
			c.ops[xid] = op
			c.mu.Unlock()
			c.tap.mu.Lock()
			c.tap.counts[op]++
			c.tap.mu.Unlock()
			if c.tap.request != nil {
				c.tap.request(op)
			}
		}
		c.out = c.out[n:]
	}
	return c.Conn.Write(b)
}
