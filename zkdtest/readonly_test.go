package zkdtest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// hello opens a connection with a connect request as it is given; an error is io.EOF if the
// server closes without a byte.
func hello(t *testing.T, addr string, req wire.ConnectRequest) (*rawClient, wire.ConnectResponse, error) {
	t.Helper()
	var resp wire.ConnectResponse
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, resp, err
	}
	t.Cleanup(func() { c.Close() })
	r := &rawClient{t: t, c: c, timeout: patience}
	_ = c.SetDeadline(time.Now().Add(patience))
	if req.TimeoutMs == 0 {
		req.TimeoutMs = 10000
	}
	if err := r.send(req.Append(nil)); err != nil {
		return nil, resp, err
	}
	frame, err := r.receive()
	if err != nil {
		return nil, resp, err
	}
	d := wire.NewDecoder(frame)
	resp.Decode(&d)
	return r, resp, d.Err()
}

// welcomed insists on a session: a server that has just stood still may send its clients away.
func welcomed(t *testing.T, addr string, req wire.ConnectRequest, good func(wire.ConnectResponse) bool) (r *rawClient, resp wire.ConnectResponse) {
	t.Helper()
	eventually(t, "a session", func() bool {
		var err error
		r, resp, err = hello(t, addr, req)
		return err == nil && good(resp)
	})
	return r, resp
}

func readOnly(resp wire.ConnectResponse) bool  { return resp.ReadOnly }
func readWrite(resp wire.ConnectResponse) bool { return !resp.ReadOnly && resp.SessionID != 0 }

// closed waits until the server has closed the connection without a word.
func (r *rawClient) closed() {
	r.t.Helper()
	frame, err := r.receive()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Errorf("the connection was kept: received %x, %v", frame, err)
	}
}

var wantsReadOnly = wire.ConnectRequest{HasReadOnly: true, ReadOnly: true}

// ask sends a request and returns the reply's zxid, code and body.
func (r *rawClient) ask(op wire.OpCode, body []byte) (zxid int64, code wire.Code, rest []byte, err error) {
	r.xid++
	if err := r.send(append((&wire.RequestHeader{Xid: r.xid, Op: op}).Append(nil), body...)); err != nil {
		return 0, 0, nil, err
	}
	frame, err := r.receive()
	if err != nil {
		return 0, 0, nil, err
	}
	d := wire.NewDecoder(frame)
	xid := d.Int32()
	zxid, code = d.Int64(), wire.Code(d.Int32())
	if xid != r.xid {
		r.t.Errorf("reply %d to request %d", xid, r.xid)
	}
	return zxid, code, d.Rest(), d.Err()
}

// expect asks and compares the code of the reply; with an error it must have no body.
func (r *rawClient) expect(op wire.OpCode, body []byte, want wire.Code) []byte {
	r.t.Helper()
	_, code, rest, err := r.ask(op, body)
	if err != nil || code != want {
		r.t.Fatalf("%v: %v %v, want %v", op, code, err, want)
	}
	if code != wire.OK && len(rest) > 0 {
		r.t.Errorf("%v: %d bytes behind the error", op, len(rest))
	}
	return rest
}

func pathWatch(path string, watched bool) []byte {
	return wire.AppendBool(wire.AppendString(nil, path), watched)
}

// loseQuorum returns a cluster of which one node is left, and that is read-only. /a exists.
func loseQuorum(t *testing.T) (cl *zkdtest.Cluster, left int) {
	t.Helper()
	cl = zkdtest.StartCluster(t, 3, zkdtest.Set("readonlymode.enabled", "true"), zkdtest.Set("syncLimit", "2"))
	c, _ := connectTo(t, strings.Split(cl.Addrs(), ",")...)
	create(t, c, "/a", 0)
	c.Close()
	left = leader(t, cl)
	old, _ := welcomed(t, cl.Addr(left), wire.ConnectRequest{}, readWrite)
	cl.Kill(left%3 + 1)
	cl.Kill((left+1)%3 + 1)
	eventually(t, "read-only mode", func() bool { return word(cl.Addr(left), "isro") == "ro" })
	old.closed() // it is from before the loss of the quorum
	return cl, left
}

func TestNodeWithoutQuorumServesReadOnlyClients(t *testing.T) {
	cl, left := loseQuorum(t)
	addr := cl.Addr(left)
	text := word(addr, "srvr")
	if !strings.Contains(text, "\nREAD-ONLY mode; serving only read-only clients\n") || !strings.Contains(text, "\nMode: read-only\n") {
		t.Errorf("srvr says\n%s", text)
	}
	c, resp, err := hello(t, addr, wantsReadOnly)
	if err != nil || !resp.ReadOnly || resp.TimeoutMs != 10000 || resp.SessionID == 0 {
		t.Fatalf("%+v %v", resp, err)
	}

	if data := c.expect(wire.OpGetData, pathWatch("/a", true), wire.OK); !strings.Contains(string(data), "/a") {
		t.Errorf("getData: %q", data)
	}
	c.expect(wire.OpExists, pathWatch("/none", true), wire.NoNode)
	c.expect(wire.OpGetChildren2, pathWatch("/", false), wire.OK)
	c.expect(wire.OpGetACL, wire.AppendString(nil, "/a"), wire.OK)
	c.expect(wire.OpWhoAmI, nil, wire.OK)
	c.expect(wire.OpGetEphemerals, wire.AppendString(nil, "/"), wire.OK)
	c.expect(wire.OpSetWatches, (&wire.SetWatches2{DataWatches: []string{"/a"}, RelativeZxid: 1 << 40}).AppendSetWatches(nil), wire.OK)
	c.expect(wire.OpCheckWatches, (&wire.WatchesRequest{Path: "/a", Type: wire.WatcherData}).Append(nil), wire.OK)
	c.expect(wire.OpAuth, (&wire.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}).Append(nil), wire.OK)
	read := wire.AppendMulti(nil, []wire.MultiOp{{Op: wire.OpGetChildren, Path: wire.PathWatchRequest{Path: "/"}}})
	c.expect(wire.OpMultiRead, read, wire.OK)

	set := (&wire.SetDataRequest{Path: "/a", Version: -1}).Append(nil)
	for op, body := range map[wire.OpCode][]byte{
		wire.OpSetData: set, wire.OpSync: wire.AppendString(nil, "/a"), wire.OpCreate: nil, wire.OpCreate2: nil,
		wire.OpCreateContainer: nil, wire.OpCreateTTL: nil, wire.OpDelete: nil, wire.OpSetACL: nil, wire.OpMulti: nil,
		wire.OpCheck: nil, wire.OpReconfig: nil, wire.OpDeleteContainer: nil,
	} {
		c.expect(op, body, wire.NotReadOnly)
	}
	if _, ok := c.ping(); !ok {
		t.Error("the connection was not kept")
	}
	if zxid, code, _, err := c.ask(99, nil); err != nil || zxid != -1 || code != wire.Unimplemented {
		t.Errorf("an unknown operation: %v %v %v", zxid, code, err)
	}
	c.closed() // after an unknown operation
}

// Who has sent its connect request and waits for the log is not left waiting.
func TestHandshakeUnderWayIsClosedWithoutALeader(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("readonlymode.enabled", "true"), zkdtest.Set("syncLimit", "5"))
	left := leader(t, cl)
	cl.Kill(left%3 + 1)
	cl.Kill((left+1)%3 + 1)
	start := time.Now()
	_, resp, err := hello(t, cl.Addr(left), wantsReadOnly)
	if took := time.Since(start); took > patience/2 {
		t.Fatalf("it took %v: %+v %v", took, resp, err)
	}
	if err == nil && !resp.ReadOnly {
		t.Errorf("a session without a quorum: %+v", resp)
	}
	eventually(t, "a read-only session", func() bool {
		_, resp, err := hello(t, cl.Addr(left), wantsReadOnly)
		return err == nil && resp.ReadOnly
	})
}

func TestReadOnlyNodeClosesWhoItCannotServe(t *testing.T) {
	cl, left := loseQuorum(t)
	addr := cl.Addr(left)
	_, mine, err := hello(t, addr, wantsReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	other := wantsReadOnly
	other.SessionID, other.Password = 0x100000000000001, make([]byte, 16)
	ahead := wantsReadOnly
	ahead.LastZxidSeen = 1 << 50
	wrong := other
	wrong.SessionID = mine.SessionID
	for name, req := range map[string]wire.ConnectRequest{
		"no flag": {}, "flag 0": {HasReadOnly: true}, "a session of the cluster": other, "seen more": ahead, "wrong password": wrong,
	} {
		if _, _, err := hello(t, addr, req); err == nil {
			t.Errorf("%s: let in", name)
		}
	}
	back := wantsReadOnly
	back.SessionID, back.Password = mine.SessionID, mine.Password
	c, resp, err := hello(t, addr, back)
	if err != nil || resp.SessionID != mine.SessionID {
		t.Fatalf("a read-only session comes back: %+v %v", resp, err)
	}
	c.expect(wire.OpCloseSession, nil, wire.OK)
	if _, err := c.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after closeSession: %v", err)
	}
}

func TestSilentReadOnlySessionEnds(t *testing.T) {
	cl, left := loseQuorum(t)
	req := wantsReadOnly
	req.TimeoutMs = 500
	var c *rawClient
	eventually(t, "a session that is heard of all the time", func() bool {
		c, _ = welcomed(t, cl.Addr(left), req, readOnly)
		var heard time.Time
		for start := time.Now(); time.Since(start) < time.Second; {
			last := heard
			var ok bool
			if heard, ok = c.ping(); ok {
				continue
			}
			if silent := time.Since(last); silent < 250*time.Millisecond {
				t.Fatal("a session that was heard of was ended")
			}
			return false // the machine stood still
		}
		return true
	})
	c.closed()
}

func TestReadOnlyConnectionsAreClosedWhenTheQuorumIsBack(t *testing.T) {
	cl, left := loseQuorum(t)
	addr := cl.Addr(left)
	c, resp := welcomed(t, addr, wantsReadOnly, readOnly)
	cl.Restart(left%3 + 1)
	c.closed()
	eventually(t, "the node is read-write", func() bool { return word(addr, "isro") == "rw" })
	welcomed(t, addr, wantsReadOnly, readWrite)
	// The cluster has never heard of the session.
	back := wantsReadOnly
	back.SessionID, back.Password = resp.SessionID, resp.Password
	welcomed(t, addr, back, func(resp wire.ConnectResponse) bool { return resp.TimeoutMs == 0 })
	cl.Restart((left+1)%3 + 1)
}

func TestClientGoesOnReadOnlyAndComesBack(t *testing.T) {
	cl, left := loseQuorum(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, cl.Addrs(), client.WithReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if data, _, err := c.Get(ctx, "/a"); err != nil || string(data) != "/a" {
		t.Errorf("%q %v", data, err)
	}
	if _, err := c.Set(ctx, "/a", nil, -1); !errors.Is(err, client.ErrNotReadOnly) {
		t.Errorf("a write: %v", err)
	}
	cl.Restart(left%3 + 1)
	eventually(t, "a write goes through", func() bool {
		_, err := c.Set(ctx, "/a", []byte("new"), -1)
		return err == nil
	})
	cl.Restart((left+1)%3 + 1)
}

// A node that finds nobody shows what it has, its log included.
func TestNodeThatStartsAloneIsReadOnly(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("readonlymode.enabled", "true"), zkdtest.Set("syncLimit", "2"))
	c, _ := connectTo(t, strings.Split(cl.Addrs(), ",")...)
	for _, path := range []string{"/a", "/b"} {
		create(t, c, path, 0)
	}
	_, stat := get(t, c, "/b")
	alone := leader(t, cl)
	for i := range 3 {
		cl.Kill(i + 1)
	}
	eventually(t, "the client is disconnected", func() bool { return c.State() != zk.StateHasSession })
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		cl.Restart(alone)
	}()
	eventually(t, "it listens", func() bool {
		c, err := net.Dial("tcp", cl.Addr(alone))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	eventually(t, "read-only mode", func() bool { return word(cl.Addr(alone), "isro") == "ro" })
	seen := wantsReadOnly
	seen.LastZxidSeen = stat.Czxid
	r, resp, err := hello(t, cl.Addr(alone), seen)
	if err != nil || !resp.ReadOnly {
		t.Fatalf("%+v %v", resp, err)
	}
	r.expect(wire.OpGetData, pathWatch("/b", true), wire.OK)
	r.expect(wire.OpCreate, nil, wire.NotReadOnly)
	cl.Restart(alone%3 + 1)
	<-restarted
	r.closed()
	eventually(t, "the node is read-write", func() bool { return word(cl.Addr(alone), "isro") == "rw" })
	if !exists(t, c, "/b") {
		t.Error("an acknowledged write is gone")
	}
	cl.Restart((alone+1)%3 + 1)
}

// Without the setting nothing changes.
func TestNodeWithoutQuorumIsSilentUnlessReadOnlyModeIsEnabled(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("syncLimit", "2"))
	left := leader(t, cl)
	cl.Kill(left%3 + 1)
	cl.Kill((left+1)%3 + 1)
	eventually(t, "it serves nobody", func() bool { return word(cl.Addr(left), "isro") == "null" })
	if _, _, err := hello(t, cl.Addr(left), wantsReadOnly); err == nil {
		t.Error("a read-only client was let in")
	}
}
