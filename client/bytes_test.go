package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// The server dies after its n-th byte, for n = 0, 1, 2, … until it lives long enough for all that
// the test does: in the handshake, in the answer to the credentials, in the reply, in an event.

// A mortal is what became of a server that dies after its n-th byte.
type mortal struct {
	got  bool // the request that the test is about
	died bool
}

// mortalServer is the script of such a server; whatever comes after it works.
func mortalServer(m *mortal, n int, op wire.OpCode, answer func(*fakeConn, fakeRequest)) func(*fakeConn) {
	return script(func(c *fakeConn) {
		c.mortal, c.life = true, n
		defer func() { m.died = c.died }()
		c.accept()
		c.serve(func(r fakeRequest) bool {
			m.got = m.got || r.Op == op
			answer(c, r)
			return true
		})
	})
}

func TestServerDiesAtEveryByte(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		for n, died := 0, true; died; n++ {
			var m mortal
			f := newFake(t, mortalServer(&m, n, call.op, fullReply),
				server(func(c *fakeConn, r fakeRequest) bool { fullReply(c, r); return true }))
			c := f.client(WithAuth("digest", []byte("me:secret")), fastRetry())
			err := call.do(testContext(t), c)
			require.NoError(t, c.Sync(testContext(t), "/"), "the next call works")
			require.Zero(t, c.Stats().InFlightBytes)
			require.Zero(t, c.Stats().InFlightRequests)
			abandonClient(c)
			f.stop()
			died = m.died
			switch {
			case call.kind == "write" && m.got && died && err != nil:
				requireUncertain(t, err, call.op)
				require.ErrorIs(t, err, ErrConnectionLoss)
			default:
				require.NoError(t, err, "byte %d", n)
			}
		}
	})
}

// A write that was answered in full is a success, also if that was the server's last byte; and
// one that was not is never taken for one.
func TestLastByteOfAReplyDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var uncertain, done int
		for n, died := 0, true; died; n++ {
			var m mortal
			f := newFake(t, mortalServer(&m, n, wire.OpSetData, func(c *fakeConn, r fakeRequest) {
				c.usual(r)
				if r.Op == wire.OpSetData {
					panic(errEnded)
				}
			}), server(nil))
			c := f.client(fastRetry())
			_, err := c.Set(testContext(t), "/a", nil, AnyVersion)
			abandonClient(c)
			f.stop()
			died = m.died
			switch {
			case !m.got: // it was done by the next server
				require.NoError(t, err)
			case died:
				requireUncertain(t, err, wire.OpSetData)
				uncertain++
			default:
				require.NoError(t, err)
				done++
			}
		}
		require.Equal(t, wire.FrameLengthSize+replyHeaderBytes+68, uncertain, "every byte of the reply but the last")
		require.Equal(t, 1, done)
	})
}

// A watch ends in its event, wherever the connection is lost: before it is set, after it, in the
// event.
func TestWatchSurvivesALossAtEveryByte(t *testing.T) {
	for name, watch := range map[string]func(context.Context, *Client) (Event, error){
		"once": func(ctx context.Context, c *Client) (Event, error) {
			_, _, w, err := c.GetW(ctx, "/a")
			if err != nil {
				return Event{}, err
			}
			return w.Wait(ctx)
		},
		"lasting": func(ctx context.Context, c *Client) (Event, error) {
			for ev, err := range c.Watch(ctx, "/a", Persistent) {
				if err != nil || ev.Type != EventReset {
					return ev, err
				}
			}
			return Event{}, errors.New("the watch ended")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deleted := func(c *fakeConn, r fakeRequest) {
					c.usual(r)
					switch r.Op {
					case wire.OpGetData, wire.OpAddWatch, wire.OpSetWatches, wire.OpSetWatches2:
						c.event(EventDeleted, "/a")
					}
				}
				for n, died := 0, true; died; n++ {
					var m mortal
					f := newFake(t, mortalServer(&m, n, wire.OpGetData, deleted),
						server(func(c *fakeConn, r fakeRequest) bool { deleted(c, r); return true }))
					c := f.client(fastRetry())
					ev, err := watch(testContext(t), c)
					require.NoError(t, err, "byte %d", n)
					require.Equal(t, EventDeleted, ev.Type, "byte %d", n)
					require.NoError(t, c.Sync(testContext(t), "/"))
					require.Zero(t, c.Stats().Watches)
					require.Zero(t, c.Stats().Subscriptions)
					abandonClient(c)
					f.stop()
					died = m.died
				}
			})
		})
	}
}
