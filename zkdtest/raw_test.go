package zkdtest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// A rawClient speaks the protocol without a client's own heartbeats.
type rawClient struct {
	t       *testing.T
	c       net.Conn
	xid     int32
	timeout time.Duration
}

var errSession = errors.New("the session was refused")

func rawConnect(addr string, zxidSeen int64, timeoutMs int32) (*rawClient, error) {
	r, _, err := rawSession(addr, &wire.ConnectRequest{LastZxidSeen: zxidSeen, TimeoutMs: timeoutMs, Password: make([]byte, 16)})
	return r, err
}

func rawSession(addr string, req *wire.ConnectRequest) (*rawClient, *wire.ConnectResponse, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, nil, err
	}
	r := &rawClient{c: c}
	_ = c.SetDeadline(time.Now().Add(patience / 4))
	err = r.send(req.Append(nil))
	var frame []byte
	if err == nil {
		frame, err = r.receive()
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	var resp wire.ConnectResponse
	d := wire.NewDecoder(frame)
	resp.Decode(&d)
	if d.Err() != nil || resp.TimeoutMs == 0 {
		c.Close()
		return nil, nil, errors.Join(errSession, d.Err())
	}
	r.timeout = time.Duration(resp.TimeoutMs) * time.Millisecond
	return r, &resp, nil
}

// silentSession opens a session with an ephemeral node of which nothing is heard unless the test says
// so. It begins anew when that takes so long that the session, or the connection, has ended.
func silentSession(t *testing.T, addr string, timeoutMs int32, path string) (r *rawClient) {
	t.Helper()
	eventually(t, "a session with "+path, func() bool {
		var err error
		if r, err = rawConnect(addr, 0, timeoutMs); err != nil {
			return false
		}
		r.t = t
		t.Cleanup(r.close)
		return r.createEphemeral(path) == nil
	})
	return r
}

func (r *rawClient) close() { r.c.Close() }

func (r *rawClient) send(body []byte) error {
	_, err := r.c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func (r *rawClient) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r.c, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(r.c, b)
	return b, err
}

func (r *rawClient) createEphemeral(path string) error {
	r.xid++
	b := (&wire.RequestHeader{Xid: r.xid, Op: wire.OpCreate}).Append(nil)
	b = (&wire.CreateRequest{
		Path: path, Flags: 1, ACL: []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}},
	}).Append(b)
	if err := r.send(b); err != nil {
		return err
	}
	frame, err := r.receive()
	if err != nil {
		return err
	}
	d := wire.NewDecoder(frame)
	if xid, _, code := d.Int32(), d.Int64(), wire.Code(d.Int32()); xid != r.xid || code != wire.OK {
		return fmt.Errorf("create %s: reply %d, %w", path, xid, code)
	}
	return nil
}

// ping returns when it was sent, if it was answered within the session's timeout.
func (r *rawClient) ping() (sent time.Time, ok bool) {
	sent = time.Now()
	_ = r.c.SetDeadline(sent.Add(r.timeout))
	if r.send((&wire.RequestHeader{Xid: wire.XidPing, Op: wire.OpPing}).Append(nil)) != nil {
		return sent, false
	}
	_, err := r.receive()
	time.Sleep(5 * time.Millisecond)
	return sent, err == nil
}

// word asks a four-letter word; the answer is empty if there is none.
func word(addr, text string) string {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, text)
	b, _ := io.ReadAll(c)
	return string(b)
}
