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

// A deletion of the background looks at the node behind a sync. When the connection ends between the
// two, the look must not go out alone: the next server may lag and not know the node yet.
func TestBackgroundLooksOnlyBehindItsSync(t *testing.T) {
	for name, begin := range map[string]func(c *Client){
		"deletion": func(c *Client) {
			c.k.deleteLater(&deletion{path: "/l/n", version: AnyVersion, before: 100})
		},
		"cleanup": func(c *Client) { c.k.cleanLater(&cleanup{parent: "/l", name: "n"}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParent()
				p.children["n"] = 0x77
				var got seen
				synced := true
				f := newFake(t, parentServer(p, &got, nil), script(func(c *fakeConn) {
					c.accept()
					synced = false // this server lags until it is asked to catch up
					c.serve(func(r fakeRequest) bool {
						got.add(r)
						synced = synced || r.Op == wire.OpSync
						if !synced && r.Op != wire.OpPing {
							c.reply(r, wire.NoNode)
							return true
						}
						code, body, ok := p.apply(r)
						if ok {
							c.reply(r, code, body...)
						}
						return ok
					})
				}))
				c := f.client()
				c.k.mu.Lock()
				conn := c.k.conn
				begin(c)
				b := conn.take(make([]byte, writeBatchBytes-1)) // there is room for the sync alone
				require.Greater(t, len(b), writeBatchBytes)
				require.Equal(t, wire.OpSync, conn.pending.head.op)
				require.Equal(t, 1, c.k.queue.n)
				conn.fail(errors.New("cut here"))
				c.k.mu.Unlock()
				eventually(t, "it is done", func() bool { return c.Stats().Background == 0 })
				require.Empty(t, p.names())
				require.Zero(t, c.Stats().InFlightRequests)
			})
		})
	}
}

// The session ends while a protected create waits; it is made in the next one, its reply is lost, and
// then the caller gives up: the node is of the new session, and goes all the same.
func TestCancelledProtectedCreateOfALaterSessionLeavesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent()
		var got seen
		ctx, cancel := context.WithCancel(testContext(t))
		work := parentServer(p, &got, func(r fakeRequest, executed bool) bool {
			if r.Op == wire.OpCreate2 && executed {
				cancel()
				return true
			}
			return false
		})
		f := newFake(t, work, script(refused), work)
		c := f.client()
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
		done := make(chan error)
		go func() {
			_, _, err := c.ProtectedCreate(ctx, "/l/n", nil, ModeEphemeralSequential, nil)
			done <- err
		}()
		eventually(t, "it waits", func() bool { return c.Stats().InFlightRequests == 1 })
		p.mu.Lock()
		p.session = 0x78
		p.mu.Unlock()
		f.setRefuse(nil)
		require.ErrorIs(t, <-done, context.Canceled)
		eventually(t, "it is cleaned up", func() bool { return c.Stats().Background == 0 })
		require.Equal(t, 1, p.made)
		require.Empty(t, p.names())
	})
}

// A server that says that the session has moved has deleted nothing.
func TestSureDeleteGoesOnWhenTheSessionHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent()
		p.children["n"] = 0x77
		moved := 2
		f := newFake(t, script(func(c *fakeConn) {
			c.accept()
			c.serve(func(r fakeRequest) bool {
				if r.Op == wire.OpDelete && moved > 0 {
					moved--
					c.reply(r, wire.SessionMoved)
					return true
				}
				code, body, ok := p.apply(r)
				if ok {
					c.reply(r, code, body...)
				}
				return ok
			})
		}))
		c := f.client()
		require.NoError(t, c.Sync(testContext(t), "/"))
		_ = c.SureDelete(testContext(t), "/l/n", AnyVersion)
		eventually(t, "deleted", func() bool { return len(p.names()) == 0 && c.Stats().Background == 0 })
		require.Zero(t, moved)
	})
}

// A server that answers a create with rubbish may have made the node.
func TestRubbishInReplyToAWriteIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent()
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			code, body, ok := p.apply(r)
			switch {
			case r.Op == wire.OpMulti, r.Op == wire.OpSetData, r.Op == wire.OpCreate2:
				c.reply(r, wire.OK, []byte{0, 0})
				return true
			case ok:
				c.reply(r, code, body...)
			}
			return ok
		}))
		c := f.client()
		ctx := testContext(t)
		_, _, err := c.Create(ctx, "/l/c", nil, ModePersistent, nil)
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, ErrMarshalling)
		_, err = c.Set(ctx, "/l/c", nil, AnyVersion)
		require.ErrorIs(t, err, ErrUncertain)
		_, err = c.Multi().Set("/l/c", nil, AnyVersion).Commit(ctx)
		require.ErrorIs(t, err, ErrUncertain)
		_, _, err = c.ProtectedCreate(ctx, "/l/n-", nil, ModeEphemeralSequential, nil)
		require.ErrorIs(t, err, ErrUncertain)
		eventually(t, "its node is gone", func() bool { return c.Stats().Background == 0 })
		require.Equal(t, []string{"c"}, p.names())
		_, _, err = c.GetACL(ctx, "/l")
		require.NotErrorIs(t, err, ErrUncertain, "a read")
	})
}

// A multi that may be repeated is done, its reply is lost, and the second copy is refused for what the
// first has done: nobody may be told that nothing was done.
func TestRefusedRepetitionOfAMultiIsUncertain(t *testing.T) {
	for name, tt := range map[string]struct {
		lost bool
		code wire.Code
		want bool
	}{
		"first copy":               {false, wire.NodeExists, false},
		"second copy":              {true, wire.NodeExists, true},
		"second copy, other cause": {true, wire.NoAuth, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := tt.lost
				f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
					if r.Op != wire.OpMulti {
						return false
					}
					if lost {
						lost = false
						panic(errEnded)
					}
					c.reply(r, wire.OK, wire.AppendMultiResults(nil, []wire.MultiResult{{Op: wire.OpError, Code: tt.code}}))
					return true
				}))
				c := f.client()
				_, err := c.Multi().Create("/a", nil, ModePersistent, nil).Commit(testContext(t), Idempotent())
				require.ErrorIs(t, err, tt.code)
				require.Equal(t, tt.want, errors.Is(err, ErrUncertain), "%v", err)
			})
		})
	}
}

func TestTTLOfAMultiIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t, server(nil)).client()
		_, err := c.Multi().Add(c.OpCreateTTL("/a", nil, ModeEphemeral, time.Hour, nil)).Commit(testContext(t))
		require.ErrorIs(t, err, ErrBadArguments)
	})
}

func TestNoTLSConfigurationIsTheZeroOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, script(func(c *fakeConn) { c.frame() }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Dial(ctx, "127.0.0.1:1", f.options(WithTLS(nil))...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
