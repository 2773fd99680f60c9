package server

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// patience is how long a test waits for something that must come. It is never waited out
// when all is well, on however busy a machine.
const patience = 2 * time.Minute

// A rawClient speaks the protocol frame by frame, so that a test sees what is sent, and in
// which order. It belongs to the test's goroutine.
type rawClient struct {
	t   testing.TB
	nc  net.Conn
	in  *bufio.Reader
	xid int32

	session  int64
	password []byte
	timeout  int32
	lastZxid int64 // of the replies so far
}

// A reply is a frame from the server after the handshake.
type reply struct {
	wire.ReplyHeader
	body []byte
}

// dial opens a connection and sends nothing.
func dial(t testing.TB, addr string) *rawClient {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	return newRawClient(t, nc)
}

func newRawClient(t testing.TB, nc net.Conn) *rawClient {
	t.Helper()
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	return &rawClient{t: t, nc: nc, in: bufio.NewReader(nc)}
}

// dialTLS is dial for a TLS port.
func dialTLS(t testing.TB, addr string, cfg *tls.Config) *rawClient {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	return newRawClient(t, tls.Client(nc, cfg))
}

// open makes a session of the timeout.
func open(t testing.TB, addr string, timeoutMs int32) *rawClient {
	t.Helper()
	return dial(t, addr).create(timeoutMs)
}

// create makes a session on the connection.
func (c *rawClient) create(timeoutMs int32) *rawClient {
	c.t.Helper()
	r := c.handshake(&wire.ConnectRequest{TimeoutMs: timeoutMs, Password: make([]byte, 16), HasReadOnly: true})
	if r.SessionID == 0 || r.TimeoutMs <= 0 || len(r.Password) != 16 {
		c.t.Fatalf("connect response %+v", r)
	}
	return c
}

// attach opens a connection for the session of old.
func attach(t testing.TB, addr string, old *rawClient) *rawClient {
	t.Helper()
	c := dial(t, addr)
	r := c.handshake(old.reconnect())
	if r.SessionID != old.session {
		t.Fatalf("attached to 0x%x instead of 0x%x", r.SessionID, old.session)
	}
	return c
}

// reconnect is the request that takes the session up again.
func (c *rawClient) reconnect() *wire.ConnectRequest {
	return &wire.ConnectRequest{
		LastZxidSeen: c.lastZxid, TimeoutMs: c.timeout, SessionID: c.session, Password: c.password, HasReadOnly: true,
	}
}

// handshake sends a connect request and returns the answer.
func (c *rawClient) handshake(r *wire.ConnectRequest) wire.ConnectResponse {
	c.t.Helper()
	c.write(frame(r.Append(nil)))
	body := c.frame()
	var resp wire.ConnectResponse
	d := wire.NewDecoder(body)
	resp.Decode(&d)
	if d.Err() != nil {
		c.t.Fatal(d.Err())
	}
	c.session, c.password, c.timeout = resp.SessionID, slices.Clone(resp.Password), resp.TimeoutMs
	return resp
}

// frame makes a frame of the parts.
func frame(parts ...[]byte) []byte {
	b, mark := wire.AppendFrame(nil)
	for _, p := range parts {
		b = append(b, p...)
	}
	wire.FinishFrame(b, mark)
	return b
}

// request is the frame of a request.
func request(xid int32, op wire.OpCode, body []byte) []byte {
	h := wire.RequestHeader{Xid: xid, Op: op}
	return frame(h.Append(nil), body)
}

// write sends bytes as they are, in one segment if they are few.
func (c *rawClient) write(b ...[]byte) {
	c.t.Helper()
	if _, err := c.nc.Write(slices.Concat(b...)); err != nil {
		c.t.Fatal(err)
	}
}

// send sends a request with the next xid, which it returns.
func (c *rawClient) send(op wire.OpCode, body []byte) int32 {
	c.t.Helper()
	c.xid++
	c.write(request(c.xid, op, body))
	return c.xid
}

// frame returns the body of the next frame.
func (c *rawClient) frame() []byte {
	c.t.Helper()
	b, err := c.readFrame()
	if err != nil {
		c.t.Fatalf("no frame: %v", err)
	}
	return b
}

func (c *rawClient) readFrame() ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(c.in, prefix[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(c.in, b)
	return b, err
}

// next returns the next reply or event.
func (c *rawClient) next() reply {
	c.t.Helper()
	var r reply
	d := wire.NewDecoder(c.frame())
	r.Decode(&d)
	if d.Err() != nil {
		c.t.Fatal(d.Err())
	}
	r.body = d.Rest()
	if r.Zxid > 0 && r.Xid != wire.XidNotification {
		if r.Zxid < c.lastZxid {
			c.t.Fatalf("zxid fell from 0x%x to 0x%x", c.lastZxid, r.Zxid)
		}
		c.lastZxid = r.Zxid
	}
	return r
}

// expect takes the next frame, which must be the reply to xid with that code.
func (c *rawClient) expect(xid int32, code wire.Code) reply {
	c.t.Helper()
	r := c.next()
	if r.Xid != xid || r.Err != code {
		c.t.Fatalf("reply to xid %d with %v, want xid %d with %v (body %x)", r.Xid, r.Err, xid, code, r.body)
	}
	return r
}

// expectEvent takes the next frame, which must be that event.
func (c *rawClient) expectEvent(typ wire.EventType, path string) reply {
	c.t.Helper()
	r := c.expect(wire.XidNotification, wire.OK)
	var e wire.WatcherEvent
	d := wire.NewDecoder(r.body)
	e.Decode(&d)
	if d.Err() != nil || e.Type != typ || e.Path != path || e.State != wire.KeeperStateSyncConnected {
		c.t.Fatalf("event %+v, want %v of %s", e, typ, path)
	}
	return r
}

// call sends a request and returns its reply, which must be the next frame.
func (c *rawClient) call(op wire.OpCode, body []byte, code wire.Code) reply {
	c.t.Helper()
	return c.expect(c.send(op, body), code)
}

// ping sends a ping and takes its answer, which must be the next frame.
func (c *rawClient) ping() reply {
	c.t.Helper()
	c.write(request(wire.XidPing, wire.OpPing, nil))
	return c.expect(wire.XidPing, wire.OK)
}

// expectClosed waits for the end of the connection; nothing may come before it.
func (c *rawClient) expectClosed() {
	c.t.Helper()
	n, err := io.Copy(io.Discard, c.in)
	if n > 0 {
		c.t.Fatalf("%d bytes before the end of the connection", n)
	}
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("the connection is not closed: %v", err)
	}
}

// Bodies of requests.

func createBody(path string, data []byte, flags int32) []byte {
	r := wire.CreateRequest{Path: path, Data: data, ACL: openACL, Flags: flags}
	return r.Append(nil)
}

var openACL = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}}

const (
	persistent int32 = 0
	ephemeral  int32 = 1
)

func setBody(path, data string) []byte {
	r := wire.SetDataRequest{Path: path, Data: []byte(data), Version: -1}
	return r.Append(nil)
}

func deleteBody(path string) []byte {
	r := wire.DeleteRequest{Path: path, Version: -1}
	return r.Append(nil)
}

func readBody(path string, watched bool) []byte {
	r := wire.PathWatchRequest{Path: path, Watch: watched}
	return r.Append(nil)
}

func pathBody(path string) []byte {
	r := wire.PathRequest{Path: path}
	return r.Append(nil)
}

func authBody(scheme, proof string) []byte {
	r := wire.AuthPacket{Scheme: scheme, Auth: []byte(proof)}
	return r.Append(nil)
}

// dataOf is the data in the reply to a getData.
func dataOf(t testing.TB, r reply) (string, wire.Stat) {
	t.Helper()
	d := wire.NewDecoder(r.body)
	data := d.Buffer()
	st := d.Stat()
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return string(data), st
}

// namesOf are the strings in the reply to a getChildren.
func namesOf(t testing.TB, r reply) []string {
	t.Helper()
	d := wire.NewDecoder(r.body)
	names := d.Strings()
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return names
}

// skipFrame takes a frame without looking at it.
func (c *rawClient) skipFrame() {
	prefix, err := c.in.Peek(4)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Discard(4 + int(binary.BigEndian.Uint32(prefix))); err != nil {
		c.t.Fatal(err)
	}
}
