package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// A node is what the fake of this file knows of the only one that there is.
type node struct {
	exists  bool
	data    string
	stat    wire.Stat
	aclSeen []ACL
}

// versionedServer executes writes on n; the first one of op is cut after it was executed, or
// before, and then between changes the node as another client would.
func versionedServer(n *node, op wire.OpCode, executed bool, between func()) func(*fakeConn) {
	first := true
	return script(func(c *fakeConn) {
		c.zxid = 100
		c.accept()
		c.serve(func(r fakeRequest) bool {
			c.zxid = 100
			mine := r.Op == op && first
			var code wire.Code
			var body [][]byte
			if !mine || executed {
				code, body = n.apply(r)
			}
			if mine {
				first = false
				if between != nil {
					between()
				}
				panic(errEnded)
			}
			if body == nil && code == wire.OK && r.Op != wire.OpDelete {
				return false
			}
			c.reply(r, code, body...)
			return true
		})
	})
}

// apply executes a request.
func (n *node) apply(r fakeRequest) (wire.Code, [][]byte) {
	d := wire.NewDecoder(r.body)
	switch r.Op {
	case wire.OpGetData, wire.OpExists, wire.OpGetACL:
		if !n.exists {
			return wire.NoNode, nil
		}
		stat := statBytes(n.stat)
		switch r.Op {
		case wire.OpGetData:
			return wire.OK, [][]byte{wire.AppendBuffer(nil, []byte(n.data)), stat}
		case wire.OpGetACL:
			return wire.OK, [][]byte{wire.AppendACLs(nil, n.aclSeen), stat}
		}
		return wire.OK, [][]byte{stat}
	case wire.OpSetData:
		var req wire.SetDataRequest
		req.Decode(&d)
		return n.set(req.Version, &n.stat.Version, func() { n.data = string(req.Data) })
	case wire.OpSetACL:
		var req wire.SetACLRequest
		req.Decode(&d)
		return n.set(req.Version, &n.stat.Aversion, func() { n.aclSeen = req.ACL })
	case wire.OpDelete:
		var req wire.DeleteRequest
		req.Decode(&d)
		if code, _ := n.set(req.Version, new(n.stat.Version), func() { n.exists = false }); code != wire.OK {
			return code, nil
		}
	case wire.OpCreate2:
		if n.exists {
			return wire.NodeExists, nil
		}
		var req wire.CreateRequest
		req.Decode(&d)
		n.exists, n.data, n.stat = true, string(req.Data), wire.Stat{Czxid: 200}
		if req.Flags == wire.FlagEphemeral {
			n.stat.EphemeralOwner = 0x77
		}
		return wire.OK, [][]byte{wire.AppendString(nil, req.Path), statBytes(n.stat)}
	}
	return wire.OK, nil
}

func (n *node) set(want int32, version *int32, change func()) (wire.Code, [][]byte) {
	switch {
	case !n.exists:
		return wire.NoNode, nil
	case want != AnyVersion && want != *version:
		return wire.BadVersion, nil
	}
	*version++
	change()
	return wire.OK, [][]byte{statBytes(n.stat)}
}

// What a call with an expected version returns when its first copy was lost, by what had
// happened to it and what another client did in the meantime.
func TestVersionedWritesOverALostConnection(t *testing.T) {
	set := func(ctx context.Context, c *Client) error { _, err := c.Set(ctx, "/a", []byte("new"), 3); return err }
	setACL := func(ctx context.Context, c *Client) error { _, err := c.SetACL(ctx, "/a", nil, 5); return err }
	del := func(ctx context.Context, c *Client) error { return c.Delete(ctx, "/a", 3) }
	for name, tc := range map[string]struct {
		op       wire.OpCode
		do       func(context.Context, *Client) error
		executed bool
		between  func(*node)
		want     error // nil: success
		sure     bool
	}{
		"set, not executed":                       {op: wire.OpSetData, do: set},
		"set, executed":                           {op: wire.OpSetData, do: set, executed: true, want: ErrUncertain},
		"set, overtaken by other data":            {op: wire.OpSetData, do: set, between: func(n *node) { n.data, n.stat.Version = "theirs", 4 }, want: ErrBadVersion, sure: true},
		"set, overtaken by the same data":         {op: wire.OpSetData, do: set, between: func(n *node) { n.data, n.stat.Version = "new", 4 }, want: ErrUncertain},
		"set, executed and overwritten":           {op: wire.OpSetData, do: set, executed: true, between: func(n *node) { n.data, n.stat.Version = "theirs", 5 }, want: ErrUncertain},
		"set, the node is gone":                   {op: wire.OpSetData, do: set, between: func(n *node) { n.exists = false }, want: ErrUncertain},
		"set, the node was made again":            {op: wire.OpSetData, do: set, executed: true, between: func(n *node) { n.stat = wire.Stat{Czxid: 300, Version: 3} }, want: ErrUncertain},
		"setACL, not executed":                    {op: wire.OpSetACL, do: setACL},
		"setACL, executed":                        {op: wire.OpSetACL, do: setACL, executed: true, want: ErrUncertain},
		"delete, not executed":                    {op: wire.OpDelete, do: del},
		"delete, executed":                        {op: wire.OpDelete, do: del, executed: true, want: ErrUncertain},
		"delete, executed and another's in place": {op: wire.OpDelete, do: del, executed: true, between: func(n *node) { n.exists, n.stat = true, wire.Stat{Czxid: 300, Version: 3} }, want: ErrUncertain},
		"delete, changed in the meantime":         {op: wire.OpDelete, do: del, between: func(n *node) { n.stat.Version = 4 }, want: ErrBadVersion, sure: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{exists: true, data: "old", stat: wire.Stat{Czxid: 50, Version: 3, Aversion: 5}}
				var between func()
				if tc.between != nil {
					between = func() { tc.between(n) }
				}
				f := newFake(t, versionedServer(n, tc.op, tc.executed, between))
				c := f.client()
				require.NoError(t, c.Sync(testContext(t), "/")) // has seen zxid 100
				after := *n
				err := tc.do(testContext(t), c)
				if tc.want == nil {
					require.NoError(t, err)
					require.NotEqual(t, after, *n, "executed in the end")
					return
				}
				require.ErrorIs(t, err, tc.want)
				require.Equal(t, !tc.sure, errors.Is(err, ErrUncertain), "%v", err)
				if n.stat.Czxid == 300 {
					require.True(t, n.exists, "the other client's node was left alone")
				}
			})
		})
	}
}

func TestIdempotentWritesOverALostConnection(t *testing.T) {
	set := func(ctx context.Context, c *Client) error {
		_, err := c.Set(ctx, "/a", []byte("new"), 3, Idempotent())
		return err
	}
	create := func(mode CreateMode) func(ctx context.Context, c *Client) error {
		return func(ctx context.Context, c *Client) error {
			p, _, err := c.Create(ctx, "/a", []byte("new"), mode, nil, Idempotent())
			if err == nil && p != "/a" {
				return errors.New("wrong path " + p)
			}
			return err
		}
	}
	del := func(ctx context.Context, c *Client) error { return c.Delete(ctx, "/a", AnyVersion, Idempotent()) }
	there := node{exists: true, data: "old", stat: wire.Stat{Czxid: 50, Version: 3}}
	for name, tc := range map[string]struct {
		op      wire.OpCode
		do      func(context.Context, *Client) error
		start   node
		between func(*node)
		want    error
	}{
		"set":                        {op: wire.OpSetData, do: set, start: there},
		"set, overwritten":           {op: wire.OpSetData, do: set, start: there, between: func(n *node) { n.data, n.stat.Version = "x", 5 }, want: ErrUncertain},
		"create":                     {op: wire.OpCreate2, do: create(ModePersistent)},
		"create ephemeral":           {op: wire.OpCreate2, do: create(ModeEphemeral)},
		"create, another's in place": {op: wire.OpCreate2, do: create(ModePersistent), between: func(n *node) { n.data = "theirs" }, want: ErrNodeExists},
		"delete":                     {op: wire.OpDelete, do: del, start: there},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := tc.start
				var between func()
				if tc.between != nil {
					between = func() { tc.between(&n) }
				}
				f := newFake(t, versionedServer(&n, tc.op, true, between))
				err := tc.do(testContext(t), f.client())
				if tc.want == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tc.want)
				}
			})
		})
	}
}

// A sequential create is never repeated by itself: it would make a second node.
func TestSequentialCreateIsNotIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpCreate2 {
				n++
				panic(errEnded)
			}
			return false
		}))
		_, _, err := f.client().Create(testContext(t), "/a-", nil, ModeEphemeralSequential, nil, Idempotent())
		require.ErrorIs(t, err, ErrUncertain)
		require.Equal(t, 1, n)
	})
}

func TestFreshReadSendsASyncInFrontOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		cuts := 2 // once after the sync, once after the read was taken
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			switch {
			case r.Op == wire.OpSync && cuts == 2, r.Op == wire.OpGetData && cuts == 1:
				cuts--
				panic(errEnded)
			}
			return false
		}))
		c := f.client()
		data, _, err := c.Get(testContext(t), "/a", Fresh())
		require.NoError(t, err)
		require.Equal(t, "data", string(data))
		ops := got.ops()
		require.Equal(t, []wire.OpCode{wire.OpSync, wire.OpGetData}, ops[len(ops)-2:], "both again after each cut: %v", ops)
		require.Zero(t, c.Stats().InFlightRequests)
	})
}

func TestFreshReadFailsWithItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSync {
				time.Sleep(time.Second)
				c.reply(r, wire.NotReadOnly)
				return true
			}
			return false
		}))
		c := f.client()
		_, _, err := c.Exists(testContext(t), "/a", Fresh())
		require.ErrorIs(t, err, ErrNotReadOnly)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _, w, err := c.GetW(ctx, "/a", Fresh())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Nil(t, w)
		eventually(t, "nothing is left", func() bool { return c.Stats().InFlightRequests == 0 })
		synctest.Wait()
		require.Zero(t, c.Stats().Watches)
	})
}

// The sync was answered, and then the connection ends before the read goes out: the read must
// not go out alone on the next one.
func TestFreshReadIsNotSentWithoutItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client()
		// A sync that fills the writer's batch, so that the read stays in the queue.
		c.k.mu.Lock()
		sync := c.k.newRequest(wire.OpSync)
		sync.frame = appendPathOnly(sync.frame, wire.OpSync, "/"+string(make([]byte, writeBatchBytes)), "/")
		read := c.k.newRequest(wire.OpGetData)
		read.frame = appendPathWatch(read.frame, wire.OpGetData, "", "/a")
		read.after = sync
		conn := c.k.conn
		c.k.enqueue(sync)
		c.k.enqueue(read)
		b := conn.take(nil)
		require.Equal(t, 1, c.k.queue.n)
		require.Greater(t, len(b), writeBatchBytes)
		conn.fail(errors.New("cut here"))
		c.k.mu.Unlock()
		<-sync.ready
		<-read.ready
		require.ErrorIs(t, sync.err, ErrConnectionLoss)
		require.ErrorIs(t, read.err, errSeparated)
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.Zero(t, got.count(wire.OpGetData))
	})
}
