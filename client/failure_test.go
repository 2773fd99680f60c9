package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// anyCall is one call of each kind, by the opcode that it sends first.
type anyCall struct {
	op   wire.OpCode
	kind string // read, write, or again: a write that can be repeated
	do   func(context.Context, *Client) error
}

var anyCalls = []anyCall{
	{wire.OpGetData, "read", func(ctx context.Context, c *Client) error { _, _, err := c.Get(ctx, "/a"); return err }},
	{wire.OpExists, "read", func(ctx context.Context, c *Client) error { _, _, err := c.Exists(ctx, "/a"); return err }},
	{wire.OpGetChildren2, "read", func(ctx context.Context, c *Client) error { _, _, err := c.Children(ctx, "/a"); return err }},
	{wire.OpGetACL, "read", func(ctx context.Context, c *Client) error { _, _, err := c.GetACL(ctx, "/a"); return err }},
	{wire.OpSync, "read", func(ctx context.Context, c *Client) error { return c.Sync(ctx, "/a") }},
	{wire.OpGetAllChildrenNumber, "read", func(ctx context.Context, c *Client) error { _, err := c.AllChildrenNumber(ctx, "/a"); return err }},
	{wire.OpGetEphemerals, "read", func(ctx context.Context, c *Client) error { _, err := c.Ephemerals(ctx, ""); return err }},
	{wire.OpWhoAmI, "read", func(ctx context.Context, c *Client) error { _, err := c.WhoAmI(ctx); return err }},
	{wire.OpMultiRead, "read", func(ctx context.Context, c *Client) error { _, err := c.MultiRead().Get("/a").Do(ctx); return err }},
	{wire.OpCreate2, "write", func(ctx context.Context, c *Client) error {
		_, _, err := c.Create(ctx, "/a", nil, ModePersistent, nil)
		return err
	}},
	{wire.OpCreateContainer, "write", func(ctx context.Context, c *Client) error {
		_, _, err := c.CreateContainer(ctx, "/a", nil, nil)
		return err
	}},
	{wire.OpCreateTTL, "write", func(ctx context.Context, c *Client) error {
		_, _, err := c.CreateTTL(ctx, "/a", nil, ModePersistent, time.Second, nil)
		return err
	}},
	{wire.OpSetData, "write", func(ctx context.Context, c *Client) error { _, err := c.Set(ctx, "/a", nil, AnyVersion); return err }},
	{wire.OpSetACL, "write", func(ctx context.Context, c *Client) error {
		_, err := c.SetACL(ctx, "/a", WorldACL(PermAll), AnyVersion)
		return err
	}},
	{wire.OpDelete, "write", func(ctx context.Context, c *Client) error { return c.Delete(ctx, "/a", AnyVersion) }},
	{wire.OpMulti, "write", func(ctx context.Context, c *Client) error {
		_, err := c.Multi().Delete("/a", 1).Commit(ctx)
		return err
	}},
	{wire.OpReconfig, "write", func(ctx context.Context, c *Client) error {
		_, _, err := c.Reconfig(ctx, ReconfigRequest{Leaving: "3", FromConfig: -1})
		return err
	}},
	{wire.OpAuth, "again", func(ctx context.Context, c *Client) error { return c.AddAuth(ctx, "digest", []byte("a:b")) }},
}

// fullReply answers any of anyCalls correctly.
func fullReply(c *fakeConn, r fakeRequest) {
	stat := statBytes(wire.Stat{Czxid: 1})
	switch r.Op {
	case wire.OpGetACL:
		c.reply(r, wire.OK, wire.AppendACLs(nil, nil), stat)
	case wire.OpGetAllChildrenNumber:
		c.reply(r, wire.OK, wire.AppendInt32(nil, 7))
	case wire.OpGetEphemerals:
		c.reply(r, wire.OK, wire.AppendStrings(nil, []string{"/a"}))
	case wire.OpWhoAmI:
		c.reply(r, wire.OK, wire.AppendClientInfos(nil, []ClientInfo{{Scheme: "ip", User: "::1"}}))
	case wire.OpMultiRead:
		c.reply(r, wire.OK, wire.AppendMultiResults(nil, []wire.MultiResult{{Op: wire.OpGetData, Data: []byte("x")}}))
	case wire.OpMulti:
		c.reply(r, wire.OK, wire.AppendMultiResults(nil, []wire.MultiResult{{Op: wire.OpDelete}}))
	case wire.OpReconfig:
		c.reply(r, wire.OK, wire.AppendBuffer(nil, []byte("server.1=...")), stat)
	default:
		c.usual(r)
	}
}

func forEachCall(t *testing.T, test func(t *testing.T, call anyCall)) {
	for _, call := range anyCalls {
		t.Run(call.op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, call) })
		})
	}
}

func TestEveryCallSucceedsWithASaneServer(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool { fullReply(c, r); return true }))
		c := f.client()
		require.NoError(t, call.do(testContext(t), c))
		require.Zero(t, c.Stats().InFlightBytes)
		require.Zero(t, c.Stats().InFlightRequests)
	})
}

// The server takes the request and dies. Reads go on elsewhere; a write is uncertain.
func TestServerDiesBeforeItsReply(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		died := false
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == call.op && !died {
				died = true
				_ = c.nc.Close()
				return true
			}
			fullReply(c, r)
			return true
		}))
		c := f.client()
		err := call.do(testContext(t), c)
		if call.kind != "write" {
			require.NoError(t, err)
			return
		}
		requireUncertain(t, err, call.op)
		require.ErrorIs(t, err, ErrConnectionLoss)
		require.ErrorIs(t, err, errClosedByServer)
	})
}

func requireUncertain(t *testing.T, err error, op wire.OpCode) {
	t.Helper()
	var u *UncertainError
	require.ErrorAs(t, err, &u)
	require.ErrorIs(t, err, ErrUncertain)
	require.Equal(t, op.String(), u.Op)
}

// Half of the reply, and then the end.
func TestServerDiesInTheMiddleOfItsReply(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		for n := 1; n < 20; n += 3 {
			died := false
			f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
				if r.Op == call.op && !died {
					died = true
					c.raw([]byte{0, 0, 0, 99, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0}[:n])
					_ = c.nc.Close()
					return true
				}
				fullReply(c, r)
				return true
			}))
			c := f.client()
			if err := call.do(testContext(t), c); call.kind != "write" {
				require.NoError(t, err)
			} else {
				requireUncertain(t, err, call.op)
			}
			abandonClient(c)
			f.stop()
		}
	})
}

// Whatever is wrong with a reply, the connection is given up: nothing behind it can be believed.
func TestGarbageInsteadOfAReply(t *testing.T) {
	stray := func(xid int32) func(*fakeConn, fakeRequest) {
		return func(c *fakeConn, _ fakeRequest) { c.rawReply(xid, 1, wire.OK) }
	}
	for name, garbage := range map[string]func(*fakeConn, fakeRequest){
		"wrong xid":        func(c *fakeConn, r fakeRequest) { c.rawReply(r.Xid+1, 1, wire.OK) },
		"an old xid":       stray(-77),
		"unasked auth":     stray(wire.XidAuth),
		"unasked ping":     stray(wire.XidPing),
		"no header":        func(c *fakeConn, _ fakeRequest) { c.raw([]byte{0, 0, 0, 4, 0, 0, 0, 1}) },
		"empty frame":      func(c *fakeConn, _ fakeRequest) { c.raw([]byte{0, 0, 0, 0}) },
		"huge frame":       func(c *fakeConn, _ fakeRequest) { c.raw([]byte{0x7f, 0xff, 0xff, 0xff, 1, 2, 3}) },
		"a broken event":   func(c *fakeConn, _ fakeRequest) { c.rawReply(wire.XidNotification, -1, wire.OK, []byte{1, 2, 3}) },
		"an unknown event": func(c *fakeConn, _ fakeRequest) { c.event(77, "/a") },
		"text":             func(c *fakeConn, _ fakeRequest) { c.raw([]byte("Hello. This is not ZooKeeper.")) },
	} {
		t.Run(name, func(t *testing.T) {
			forEachCall(t, func(t *testing.T, call anyCall) {
				if call.op == wire.OpAuth && name == "unasked auth" {
					t.Skip("it was asked for")
				}
				first := true
				f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
					if r.Op == call.op && first {
						first = false
						garbage(c, r)
						return true
					}
					fullReply(c, r)
					return true
				}))
				c := f.client()
				if err := call.do(testContext(t), c); call.kind != "write" {
					require.NoError(t, err)
				} else {
					requireUncertain(t, err, call.op)
				}
				require.NoError(t, call.do(testContext(t), c))
				require.Equal(t, 2, f.dials(), "the connection was given up")
			})
		})
	}
}

// The header is right and the record is not.
func TestReplyThatCannotBeDecoded(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		switch call.op {
		case wire.OpSync, wire.OpDelete, wire.OpAuth:
			t.Skip("its reply has no record that matters")
		}
		first := true
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == call.op && first {
				first = false
				c.reply(r, wire.OK, []byte{1, 2})
				return true
			}
			fullReply(c, r)
			return true
		}))
		c := f.client()
		err := call.do(testContext(t), c)
		require.ErrorIs(t, err, ErrMarshalling)
		require.ErrorContains(t, err, "malformed record")
		require.NoError(t, call.do(testContext(t), c), "on the next connection")
		require.Equal(t, 2, f.dials())
	})
}

func TestErrorsSayWhatWasAsked(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == call.op {
				c.reply(r, wire.NoAuth)
				return true
			}
			return false
		}))
		c := f.client()
		err := call.do(testContext(t), c)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, ErrNoAuth)
		require.Equal(t, wire.NoAuth, e.Code())
		require.Equal(t, call.op.String(), e.Op)
		if strings.HasPrefix(e.Path, "/") {
			require.ErrorContains(t, err, e.Path)
		}
	})
}

// Cancelled at every step: before a connection, in the queue, on the wire, after the reply.
func TestContextEndsAtEveryStep(t *testing.T) {
	why := errors.New("the user went away")
	forEachCall(t, func(t *testing.T, call anyCall) {
		for _, step := range []string{"at once", "no room", "disconnected", "sent", "answered"} {
			hold := make(chan struct{})
			var sent sync.WaitGroup
			f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
				if r.Op == call.op && step == "sent" {
					sent.Done()
					<-hold
				}
				if r.Op == wire.OpGetChildren && step == "no room" {
					<-hold
				}
				fullReply(c, r)
				return true
			}))
			c := f.client(WithInFlight(1000, 1))
			ctx, cancel := context.WithCancelCause(t.Context())
			switch step {
			case "at once":
				cancel(why)
			case "no room":
				r := c.k.newRequest(wire.OpGetChildren)
				r.frame = appendPathWatch(r.frame, r.op, "", "/a")
				require.NoError(t, c.k.submit(t.Context(), r))
				defer func() { <-r.ready }()
				go func() { synctest.Wait(); cancel(why) }()
			case "disconnected":
				f.setRefuse(errors.New("unreachable"))
				f.cut()
				eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
				time.AfterFunc(time.Second, func() { cancel(why) })
			case "sent":
				sent.Add(1)
				go func() { sent.Wait(); cancel(why) }()
			}
			err := call.do(ctx, c)
			cancel(nil)
			close(hold)
			switch {
			case step == "answered":
				require.NoError(t, err, step)
			case step == "sent" && call.kind != "read":
				requireUncertain(t, err, call.op)
				require.ErrorIs(t, err, why, step)
				require.ErrorIs(t, err, context.Canceled, step)
			default:
				require.NotErrorIs(t, err, ErrUncertain, step)
				require.ErrorIs(t, err, why, step)
				require.ErrorIs(t, err, context.Canceled, step)
			}
			if step == "disconnected" {
				require.ErrorContains(t, err, "unreachable", "the error says why it had to wait")
			}
			if step != "disconnected" {
				eventually(t, step+": nothing is left under way", func() bool { return c.Stats().InFlightRequests == 0 })
			}
			abandonClient(c)
			f.stop()
		}
	})
}

// A request that was given up before it was sent is never sent.
func TestCancelledInTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client()
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := c.Create(ctx, "/a", nil, ModePersistent, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, c.Stats().InFlightBytes)
		f.setRefuse(nil)
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.Equal(t, []wire.OpCode{wire.OpSync}, got.ops())
	})
}

func TestOneClientsRequestsStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client()
		var calls sync.WaitGroup
		for i := range 1000 {
			calls.Go(func() {
				_, _, err := c.Exists(t.Context(), fmt.Sprintf("/%03d", i))
				require.NoError(t, err)
			})
			if i%100 == 50 {
				synctest.Wait()
			}
		}
		calls.Wait()
		got.mu.Lock()
		defer got.mu.Unlock()
		for i, r := range got.all {
			require.Equal(t, int32(i+1), r.Xid, "numbers rise in the order of sending")
		}
	})
}

func TestXidsWrapAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client()
		c.k.mu.Lock()
		c.k.conn.xid = maxXid - 1
		c.k.mu.Unlock()
		for range 3 {
			require.NoError(t, c.Sync(testContext(t), "/"))
		}
		require.Equal(t, []int32{maxXid, 1, 2}, []int32{got.all[0].Xid, got.all[1].Xid, got.all[2].Xid})
	})
}

// ZooKeeper answers auth ahead of what was sent before it.
func TestAuthIsAnsweredOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []fakeRequest
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			switch r.Op {
			case wire.OpGetData:
				held = append(held, r)
				return true
			case wire.OpAuth:
				require.Equal(t, wire.XidAuth, r.Xid)
				c.reply(r, wire.OK)
				for _, h := range held {
					c.usual(h)
				}
				return true
			}
			return false
		}))
		c := f.client()
		var gets sync.WaitGroup
		for range 3 {
			gets.Go(func() {
				data, _, err := c.Get(t.Context(), "/a")
				require.NoError(t, err)
				require.Equal(t, "data", string(data))
			})
		}
		synctest.Wait()
		require.NoError(t, c.AddAuth(testContext(t), "digest", []byte("a:b")))
		gets.Wait()
	})
}

func TestBytesInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, size, callers = 10 << 10, 1 << 10, 50
		gate := make(chan struct{})
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetData {
				<-gate
			}
			return false
		}))
		c := f.client(WithInFlight(limit, 1000), WithTimeout(time.Minute))
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				_, err := c.Set(t.Context(), "/a", make([]byte, size), AnyVersion)
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		s := c.Stats()
		require.LessOrEqual(t, s.InFlightBytes, limit)
		require.Greater(t, s.InFlightBytes, limit-2*size)
		require.Equal(t, callers-s.InFlightRequests, s.Waiting)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := c.Get(ctx, "/a")
		require.ErrorIs(t, err, context.DeadlineExceeded, "it waits behind the others")
		require.NotErrorIs(t, err, ErrUncertain)
		close(gate)
		calls.Wait()
		_, err = c.Set(testContext(t), "/a", make([]byte, 10*limit), AnyVersion)
		require.NoError(t, err, "one that is larger than the limit passes alone")
		require.Zero(t, c.Stats().InFlightBytes)
	})
}

func TestRetriesEndAsThePolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpGetData {
				sent++
				panic(errEnded)
			}
			return false
		}))
		c := f.client(WithRetry(RetryTimes(3)))
		_, _, err := c.Get(testContext(t), "/a")
		require.ErrorIs(t, err, ErrConnectionLoss)
		require.NotErrorIs(t, err, ErrUncertain, "a read leaves no doubt")
		require.Equal(t, 4, sent)
	})
}

func TestThrottledRequestsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpCreate2 && n < 3 {
				n++
				c.reply(r, wire.ThrottledOp)
				return true
			}
			return false
		}))
		_, _, err := f.client().Create(testContext(t), "/a", nil, ModePersistentSequential, nil)
		require.NoError(t, err, "the server had not executed it, so even this may be sent again")
		require.Equal(t, 3, n)
	})
}

func TestCallsFailAfterClose(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		f := newFake(t, server(nil))
		c := f.client()
		require.NoError(t, c.Close(testContext(t)))
		require.ErrorIs(t, call.do(testContext(t), c), ErrClosed)
		require.Equal(t, StateClosed, c.State())
		require.NoError(t, c.Close(testContext(t)), "again")
	})
}

func TestCloseServesWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			time.Sleep(100 * time.Millisecond)
			return false
		}))
		c := f.client()
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				_, _, err := c.Create(t.Context(), "/a", nil, ModePersistent, nil)
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		require.NoError(t, c.Close(testContext(t)))
		calls.Wait()
		ops := got.ops()
		require.Len(t, ops, 11)
		require.Equal(t, wire.OpCloseSession, ops[10])
	})
}

func TestCloseWithinItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			return r.Op == wire.OpCloseSession // no answer
		}))
		c := f.client(WithTimeout(time.Hour))
		blocked := make(chan error, 1)
		f2 := func() { _, _, err := c.Get(t.Context(), "/late"); blocked <- err }
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := c.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "left to expire")
		require.Equal(t, 3*time.Second, time.Since(start))
		go f2()
		require.ErrorIs(t, <-blocked, ErrClosed)
	})
}

// The connection is lost while the session is being closed: it is asked again, and the refusal
// of the session means that it is closed.
func TestCloseIsRepeatedOverALostConnection(t *testing.T) {
	for name, second := range map[string]func(*fakeConn){"again": server(nil), "closed already": script(refused)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
					if r.Op == wire.OpCloseSession {
						panic(errEnded)
					}
					return false
				}), second)
				c := f.client()
				require.NoError(t, c.Close(testContext(t)))
				require.Equal(t, 2, f.dials())
			})
		})
	}
}
