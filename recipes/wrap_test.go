package recipes

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// A shiftedConn lets a client see a server whose counter stands just below its end: numbers in
// names are moved by an offset on the way, around the circle of 32 bits. zkd itself refuses to
// go over the edge, ZooKeeper does.
type shiftedConn struct {
	net.Conn
	offset int32

	in      []byte
	greeted bool
	out     []byte
	sent    bool

	mu  sync.Mutex
	ops map[int32]wire.OpCode // guarded by mu; of requests without a reply
}

func shiftedBy(offset int32) client.Option {
	return client.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, network, addr)
		return &shiftedConn{Conn: nc, offset: offset, ops: map[int32]wire.OpCode{}}, err
	})
}

// shift moves the number at the end of a path.
func shift(path string, by int32) string {
	i := strings.LastIndex(path, "-lock-")
	if i < 0 {
		return path
	}
	i += len("-lock-")
	n, ok := parseNumber(path[i:])
	if !ok {
		return path
	}
	return fmt.Sprintf("%s%010d", path[:i], n+by)
}

// shiftString moves the number of the string at the front of b, and returns what follows it.
func shiftString(dst, b []byte, by int32) (out, rest []byte) {
	n := int32(binary.BigEndian.Uint32(b))
	if n < 0 {
		return append(dst, b[:4]...), b[4:]
	}
	return wire.AppendString(dst, shift(string(b[4:4+n]), by)), b[4+n:]
}

// frame puts the length before a body.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func (c *shiftedConn) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		var head [4]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c.Conn, body); err != nil {
			return 0, err
		}
		if c.greeted {
			body = c.reply(body)
		}
		c.greeted = true
		c.in = frame(body)
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

// reply is xid, zxid, code, and what the operation returns.
func (c *shiftedConn) reply(b []byte) []byte {
	xid, code := int32(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[12:])
	c.mu.Lock()
	op := c.ops[xid]
	delete(c.ops, xid)
	c.mu.Unlock()
	head, rest := b[:16:16], b[16:]
	switch {
	case code != 0:
	case xid == wire.XidNotification: // type, state, path
		head, rest = shiftString(b[:24:24], b[24:], c.offset)
	case op == wire.OpCreate2:
		head, rest = shiftString(head, rest, c.offset)
	case op == wire.OpGetChildren2:
		head, rest = b[:20:20], b[20:]
		for range binary.BigEndian.Uint32(b[16:]) {
			head, rest = shiftString(head, rest, c.offset)
		}
	}
	return append(head, rest...)
}

func (c *shiftedConn) Write(b []byte) (int, error) {
	c.out = append(c.out, b...)
	var send []byte
	for len(c.out) >= 4 && len(c.out) >= 4+int(binary.BigEndian.Uint32(c.out)) {
		n := 4 + int(binary.BigEndian.Uint32(c.out))
		body := c.out[4:n:n]
		if c.sent {
			body = c.request(body)
		}
		c.sent = true
		send = append(send, frame(body)...)
		c.out = c.out[n:]
	}
	_, err := c.Conn.Write(send)
	return len(b), err
}

// request is xid, opcode, and what the operation asks, which begins with the path.
func (c *shiftedConn) request(b []byte) []byte {
	op := wire.OpCode(binary.BigEndian.Uint32(b[4:]))
	c.mu.Lock()
	c.ops[int32(binary.BigEndian.Uint32(b))] = op
	c.mu.Unlock()
	switch op {
	case wire.OpGetData, wire.OpDelete, wire.OpExists, wire.OpRemoveWatches:
		head, rest := shiftString(b[:8:8], b[8:], -c.offset)
		return append(head, rest...)
	}
	return b
}

// T15: the counter goes over its end among those who wait. They keep their order, and one holds.
func TestQueueGoesOverTheEndOfTheCounter(t *testing.T) {
	r := newRig(t)
	c := r.dial(shiftedBy(math.MaxInt32 - 7))
	m := NewMutex(c, "/lock")
	first := mustLock(t, m.Lock)
	require.True(t, strings.HasSuffix(first.Path(), "lock-2147483640"), first.Path())
	var mu sync.Mutex
	var got []int
	holders := 0
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			l := mustLock(t, m.Lock)
			mu.Lock()
			got = append(got, i)
			if holders++; holders != 1 {
				t.Errorf("%d hold at once", holders)
			}
			if i > 8 && !strings.Contains(l.Path(), "lock--") {
				t.Errorf("%s has not gone over the end", l.Path())
			}
			mu.Unlock()
			_, err := m.TryLock(testContext(t))
			if err == nil {
				t.Error("two hold at once")
			}
			mu.Lock()
			holders--
			mu.Unlock()
			release(t, l)
		})
		r.queued(c, "/lock", i+2)
	}
	release(t, first)
	wg.Wait()
	require.IsIncreasing(t, got)
	require.Len(t, got, 20)
}
