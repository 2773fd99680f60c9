package interop

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// The opcodes that the tests send; the numbers are ZooKeeper's (ZooDefs.OpCode). This file
// is a second, independent reading of the protocol: it shares nothing with package wire.
const (
	opClose          int32 = -11
	opCreateSession  int32 = -10
	opCreate         int32 = 1
	opDelete         int32 = 2
	opExists         int32 = 3
	opGetData        int32 = 4
	opSetData        int32 = 5
	opGetACL         int32 = 6
	opSetACL         int32 = 7
	opGetChildren    int32 = 8
	opSync           int32 = 9
	opPing           int32 = 11
	opGetChildren2   int32 = 12
	opCheck          int32 = 13
	opMulti          int32 = 14
	opCreate2        int32 = 15
	opReconfig       int32 = 16
	opCheckWatches   int32 = 17
	opRemoveWatches  int32 = 18
	opContainer      int32 = 19
	opDelContainer   int32 = 20
	opCreateTTL      int32 = 21
	opMultiRead      int32 = 22
	opAuth           int32 = 100
	opSetWatches     int32 = 101
	opSASL           int32 = 102
	opEphemerals     int32 = 103
	opAllChildrenNum int32 = 104
	opSetWatches2    int32 = 105
	opAddWatch       int32 = 106
	opWhoAmI         int32 = 107
)

const (
	xidEvent int32 = -1
	xidPing  int32 = -2
	xidAuth  int32 = -4
)

// patience is how long a test waits for what must come. Only a failure takes that long.
const patience = 2 * time.Minute

// body builds the bytes of a frame: body{}.str("/a").i32(-1).
type body []byte

func (b body) i32(v int32) body { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func (b body) i64(v int64) body { return binary.BigEndian.AppendUint64(b, uint64(v)) }
func (b body) str(s string) body {
	return append(b.i32(int32(len(s))), s...)
}

// null is a string, buffer or vector of length -1.
func (b body) null() body { return b.i32(-1) }

func (b body) boolean(v bool) body {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// buf appends a buffer; nil is null.
func (b body) buf(p []byte) body {
	if p == nil {
		return b.null()
	}
	return append(b.i32(int32(len(p))), p...)
}

func (b body) strs(list ...string) body {
	b = b.i32(int32(len(list)))
	for _, s := range list {
		b = b.str(s)
	}
	return b
}

// ace is one entry of an ACL.
type ace struct {
	perms      int32
	scheme, id string
}

var openACL = []ace{{31, "world", "anyone"}}

func (b body) acl(list []ace) body {
	b = b.i32(int32(len(list)))
	for _, e := range list {
		b = b.i32(e.perms).str(e.scheme).str(e.id)
	}
	return b
}

// cursor reads the fields of a received body; the first shortage sticks.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n int) []byte {
	if c.err != nil || n < 0 || n > len(c.b) {
		c.err = errors.Join(c.err, io.ErrUnexpectedEOF)
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) i32() int32 {
	p := c.take(4)
	if p == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(p))
}

func (c *cursor) i64() int64 {
	p := c.take(8)
	if p == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(p))
}

func (c *cursor) boolean() bool {
	p := c.take(1)
	return p != nil && p[0] != 0
}

// buf returns nil for a null buffer.
func (c *cursor) buf() []byte {
	n := c.i32()
	if n == -1 || c.err != nil {
		return nil
	}
	return c.take(int(n))
}

func (c *cursor) str() string { return string(c.buf()) }

func (c *cursor) strs() []string {
	var list []string
	for n := c.i32(); n > 0 && c.err == nil; n-- {
		list = append(list, c.str())
	}
	return list
}

func (c *cursor) acl() []ace {
	var list []ace
	for n := c.i32(); n > 0 && c.err == nil; n-- {
		list = append(list, ace{c.i32(), c.str(), c.str()})
	}
	return list
}

// stat is what a client sees of a znode.
type stat struct {
	czxid, mzxid, ctime, mtime  int64
	version, cversion, aversion int32
	owner                       int64
	dataLength, numChildren     int32
	pzxid                       int64
}

func (c *cursor) stat() stat {
	return stat{
		czxid: c.i64(), mzxid: c.i64(), ctime: c.i64(), mtime: c.i64(),
		version: c.i32(), cversion: c.i32(), aversion: c.i32(),
		owner: c.i64(), dataLength: c.i32(), numChildren: c.i32(), pzxid: c.i64(),
	}
}

// connectRequest is the first frame of a client. The zero value asks for a new session
// with the shortest timeout.
type connectRequest struct {
	protocol  int32
	lastZxid  int64
	timeoutMs int32
	session   int64
	password  []byte // nil is null
	noFlag    bool   // leave the read-only byte out, as clients before 3.4 and go-zookeeper do
	readOnly  bool
	extra     []byte // bytes behind the record
}

func (r connectRequest) encode() body {
	b := body{}.i32(r.protocol).i64(r.lastZxid).i32(r.timeoutMs).i64(r.session).buf(r.password)
	if !r.noFlag {
		b = b.boolean(r.readOnly)
	}
	return append(b, r.extra...)
}

// connectReply is the answer to it.
type connectReply struct {
	timeoutMs int32
	session   int64
	password  []byte
	length    int // of the body: 36 or 37
}

// reply is one received frame behind the handshake.
type reply struct {
	xid  int32
	zxid int64
	err  int32
	rest []byte
}

// rawConn is a connection that says exactly what a test wants. Not safe for concurrent use.
type rawConn struct {
	t    testing.TB
	conn net.Conn
	xid  int32
	info connectReply
}

// dialRaw connects without a handshake. The test's end closes the connection.
func dialRaw(t testing.TB, addr string) *rawConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &rawConn{t: t, conn: c}
}

// openSession connects and makes a new session with that timeout.
func openSession(t testing.TB, addr string, timeoutMs int32) *rawConn {
	t.Helper()
	c := dialRaw(t, addr)
	if err := c.handshake(connectRequest{timeoutMs: timeoutMs, password: make([]byte, 16)}); err != nil {
		t.Fatalf("new session: %v", err)
	}
	return c
}

// resume connects to the session of an earlier connection.
func resume(t testing.TB, addr string, timeoutMs int32, of connectReply) (*rawConn, error) {
	t.Helper()
	c := dialRaw(t, addr)
	return c, c.handshake(connectRequest{timeoutMs: timeoutMs, session: of.session, password: of.password})
}

// errRefused is returned for a handshake answered with zeros.
var errRefused = errors.New("session refused: expired, unknown or wrong password")

// handshake sends the connect request and reads the answer into c.info.
func (c *rawConn) handshake(r connectRequest) error {
	if err := c.sendFrame(r.encode()); err != nil {
		return err
	}
	return c.readHandshake()
}

func (c *rawConn) readHandshake() error {
	f, err := c.readFrame(patience)
	if err != nil {
		return err
	}
	in := cursor{b: f}
	in.i32()
	c.info = connectReply{timeoutMs: in.i32(), session: in.i64(), password: in.buf(), length: len(f)}
	if in.err != nil {
		return in.err
	}
	if c.info.timeoutMs <= 0 {
		return errRefused
	}
	return nil
}

// sendFrame writes the length and the bytes.
func (c *rawConn) sendFrame(b []byte) error { return c.sendBytes(body{}.buf(append([]byte{}, b...))) }

func (c *rawConn) sendBytes(b []byte) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.conn.Write(b)
	return err
}

// readFrame returns the body of the next frame.
func (c *rawConn) readFrame(limit time.Duration) ([]byte, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(limit))
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.conn, b)
	return b, err
}

// readReply returns the next frame, event or reply.
func (c *rawConn) readReply() (reply, error) {
	f, err := c.readFrame(patience)
	if err != nil {
		return reply{}, err
	}
	in := cursor{b: f}
	r := reply{xid: in.i32(), zxid: in.i64(), err: in.i32()}
	r.rest = in.b
	return r, in.err
}

// call sends a request and returns its reply; events on the way are dropped.
func (c *rawConn) call(op int32, b body) reply {
	c.t.Helper()
	r, err := c.try(op, b)
	if err != nil {
		c.t.Fatalf("opcode %d: no reply: %v", op, err)
	}
	return r
}

// try is call for a server that may close the connection.
func (c *rawConn) try(op int32, b body) (reply, error) {
	c.xid++
	if err := c.sendFrame(append(body{}.i32(c.xid).i32(op), b...)); err != nil {
		return reply{}, err
	}
	for {
		r, err := c.readReply()
		if err != nil || r.xid != xidEvent {
			return r, err
		}
	}
}

// must is call for a request that has to succeed.
func (c *rawConn) must(op int32, b body) reply {
	c.t.Helper()
	r := c.call(op, b)
	if r.err != 0 {
		c.t.Fatalf("opcode %d: error %d", op, r.err)
	}
	return r
}

// ping returns the zxid of the server's answer to a ping.
func (c *rawConn) ping() int64 {
	c.t.Helper()
	if err := c.sendFrame(body{}.i32(xidPing).i32(opPing)); err != nil {
		c.t.Fatalf("ping: %v", err)
	}
	for {
		r, err := c.readReply()
		if err != nil {
			c.t.Fatalf("ping: %v", err)
		}
		if r.xid == xidPing {
			return r.zxid
		}
	}
}

// closedWithin says whether the server closes the connection, whatever it sends before.
func (c *rawConn) closedWithin(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		_, err := c.readFrame(time.Until(deadline))
		if err == nil {
			continue
		}
		var timeout net.Error
		return !errors.As(err, &timeout) || !timeout.Timeout()
	}
}

// closeSession ends the session and waits for the server's word.
func (c *rawConn) closeSession() {
	c.t.Helper()
	c.must(opClose, nil)
	_ = c.conn.Close()
}

func createBody(path string, data []byte, flags int32) body {
	return body{}.str(path).buf(data).acl(openACL).i32(flags)
}

func setBody(path string, data []byte, version int32) body {
	return body{}.str(path).buf(data).i32(version)
}

func readBody(path string, watch bool) body { return body{}.str(path).boolean(watch) }
