package client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// A fake is a group of servers of which a test has every frame under control. Connections are
// pipes, so it works in a synctest bubble too. Each connection is given to a script; the last
// script serves all that follow.
type fake struct {
	t testing.TB

	mu      sync.Mutex
	scripts []func(*fakeConn)
	dialed  []string // addresses, in order
	open    map[net.Conn]bool
	running sync.WaitGroup
	refuse  error // what a dial fails with; nil: it works
}

func newFake(t testing.TB, scripts ...func(*fakeConn)) *fake {
	f := &fake{t: t, scripts: scripts, open: map[net.Conn]bool{}}
	t.Cleanup(f.stop)
	return f
}

// stop cuts all connections and waits for the scripts.
func (f *fake) stop() {
	f.mu.Lock()
	f.refuse = errors.New("the fake has stopped")
	for c := range f.open {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

func (f *fake) setRefuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fake) dial(_ context.Context, _, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialed = append(f.dialed, addr)
	if f.refuse != nil {
		return nil, f.refuse
	}
	script := f.scripts[0]
	if len(f.scripts) > 1 {
		f.scripts = f.scripts[1:]
	}
	near, far := net.Pipe()
	f.open[far] = true
	f.running.Go(func() {
		defer f.closed(far)
		script(&fakeConn{f: f, nc: far, addr: addr})
	})
	return near, nil
}

func (f *fake) closed(c net.Conn) {
	_ = c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// cut closes the connections that are open.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.open {
		_ = c.Close()
	}
}

func (f *fake) dials() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.dialed)
}

// options makes a client use the fake.
func (f *fake) options(more ...Option) []Option {
	return append([]Option{WithDialer(f.dial)}, more...)
}

// client dials the fake and closes the client when the test ends.
func (f *fake) client(more ...Option) *Client {
	f.t.Helper()
	c, err := Dial(testContext(f.t), "127.0.0.1:1", f.options(more...)...)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { abandonClient(c) })
	return c
}

// A fakeConn is the server's end of one connection.
type fakeConn struct {
	f    *fake
	nc   net.Conn
	addr string
	zxid int64

	writing sync.Mutex // replies and events of different goroutines
	mortal  bool       // the server dies after life bytes
	life    int        // that it still writes
	died    bool
}

// errEnded is the panic of a script whose connection has ended; serve and run catch it.
var errEnded = errors.New("the connection has ended")

// frame reads one frame; the script ends when there is none.
func (c *fakeConn) frame() []byte {
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		panic(errEnded)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c.nc, body); err != nil {
		panic(errEnded)
	}
	return body
}

// raw writes bytes as they are.
func (c *fakeConn) raw(b []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.mortal && c.life < len(b) {
		b, c.died = b[:c.life], true
	}
	if _, err := c.nc.Write(b); err != nil || c.died {
		panic(errEnded)
	}
	c.life -= len(b)
}

// script turns a function that may meet the end of its connection at any point into a script.
func script(f func(*fakeConn)) func(*fakeConn) {
	return func(c *fakeConn) {
		defer func() {
			if p := recover(); p != nil && p != any(errEnded) {
				panic(p)
			}
		}()
		f(c)
	}
}

// hello reads the connect request.
func (c *fakeConn) hello() *wire.ConnectRequest {
	var r wire.ConnectRequest
	d := wire.NewDecoder(c.frame())
	r.Decode(&d)
	return &r
}

// welcome answers it.
func (c *fakeConn) welcome(session int64, timeoutMs int32) {
	c.answer(&wire.ConnectResponse{TimeoutMs: timeoutMs, SessionID: session, Password: []byte("0123456789abcdef"), HasReadOnly: true})
}

func (c *fakeConn) answer(r *wire.ConnectResponse) {
	b, mark := wire.AppendFrame(nil)
	b = r.Append(b)
	wire.FinishFrame(b, mark)
	c.raw(b)
}

// accept does the handshake: a new session gets the id 0x77 and 10 s, an old one stays.
func (c *fakeConn) accept() *wire.ConnectRequest {
	r := c.hello()
	id := r.SessionID
	if id == 0 {
		id = 0x77
	}
	c.welcome(id, r.TimeoutMs)
	return r
}

// A fakeRequest is one request as the server sees it.
type fakeRequest struct {
	wire.RequestHeader
	body []byte
	path string // of the requests that begin with one
}

func (c *fakeConn) next() fakeRequest {
	b := c.frame()
	var r fakeRequest
	d := wire.NewDecoder(b)
	r.Decode(&d)
	r.body = b[8:]
	switch r.Op {
	case wire.OpPing, wire.OpCloseSession, wire.OpWhoAmI, wire.OpMulti, wire.OpMultiRead, wire.OpAuth, wire.OpSASL, wire.OpSetWatches, wire.OpSetWatches2:
	default:
		r.path = d.String()
	}
	return r
}

// watched says whether the request asks for a watch.
func (r *fakeRequest) watched() bool { return r.body[len(r.body)-1] == 1 }

// number is the last field of addWatch and removeWatches.
func (r *fakeRequest) number() int32 {
	return int32(binary.BigEndian.Uint32(r.body[len(r.body)-4:]))
}

func (c *fakeConn) reply(r fakeRequest, code wire.Code, body ...[]byte) {
	xid := r.Xid
	if r.Op == wire.OpPing {
		xid = wire.XidPing
	}
	zxid := c.zxid
	if r.Op == wire.OpAuth || r.Op == wire.OpSASL {
		zxid = 0
	}
	c.rawReply(xid, zxid, code, body...)
}

func (c *fakeConn) rawReply(xid int32, zxid int64, code wire.Code, body ...[]byte) {
	b, mark := wire.AppendFrame(nil)
	b = wire.AppendReply(b, xid, zxid, code)
	for _, p := range body {
		b = append(b, p...)
	}
	wire.FinishFrame(b, mark)
	c.raw(b)
}

func (c *fakeConn) event(t EventType, path string) {
	c.raw(wire.AppendEvent(nil, -1, wire.EventType(t), path))
}

// serve answers whatever comes; first asks the test. It ends with the connection, or after
// closeSession.
func (c *fakeConn) serve(first func(fakeRequest) (done bool)) {
	for {
		r := c.next()
		if first != nil && first(r) {
			continue
		}
		c.usual(r)
		if r.Op == wire.OpCloseSession {
			return
		}
	}
}

// usual answers as a server does on which every node exists and holds "data".
func (c *fakeConn) usual(r fakeRequest) {
	c.zxid++
	stat := statBytes(wire.Stat{Czxid: 1, Mzxid: 1, DataLength: 4})
	switch r.Op {
	case wire.OpGetData:
		c.reply(r, wire.OK, wire.AppendBuffer(nil, []byte("data")), stat)
	case wire.OpExists, wire.OpSetData, wire.OpSetACL:
		c.reply(r, wire.OK, stat)
	case wire.OpCreate:
		c.reply(r, wire.OK, wire.AppendString(nil, r.path))
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		c.reply(r, wire.OK, wire.AppendString(nil, r.path), stat)
	case wire.OpGetChildren2:
		c.reply(r, wire.OK, wire.AppendStrings(nil, nil), stat)
	case wire.OpGetChildren:
		c.reply(r, wire.OK, wire.AppendStrings(nil, nil))
	case wire.OpSync:
		c.reply(r, wire.OK, wire.AppendString(nil, r.path))
	case wire.OpAddWatch:
		c.reply(r, wire.OK, wire.AppendInt32(nil, 0))
	default:
		c.reply(r, wire.OK)
	}
}

func statBytes(s wire.Stat) []byte { return s.Append(nil) }

// server is the script of one that just works.
func server(first func(*fakeConn, fakeRequest) bool) func(*fakeConn) {
	return script(func(c *fakeConn) {
		c.accept()
		c.serve(func(r fakeRequest) bool { return first != nil && first(c, r) })
	})
}

// A seen list is what a fake received, for the test to look at.
type seen struct {
	mu  sync.Mutex
	all []fakeRequest
}

func (s *seen) add(r fakeRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

// ops lists the opcodes, without pings.
func (s *seen) ops() []wire.OpCode {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ops []wire.OpCode
	for _, r := range s.all {
		if r.Op != wire.OpPing {
			ops = append(ops, r.Op)
		}
	}
	return ops
}

func (s *seen) count(op wire.OpCode) int {
	n := 0
	for _, o := range s.ops() {
		if o == op {
			n++
		}
	}
	return n
}

func (s *seen) last(op wire.OpCode) fakeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.all) - 1; i >= 0; i-- {
		if s.all[i].Op == op {
			return s.all[i]
		}
	}
	return fakeRequest{}
}

// recorded is server, and remembers every request.
func recorded(s *seen, first func(*fakeConn, fakeRequest) bool) func(*fakeConn) {
	return server(func(c *fakeConn, r fakeRequest) bool {
		s.add(r)
		return first != nil && first(c, r)
	})
}
