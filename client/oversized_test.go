package client

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// A reply that is longer than what is accepted fails its call, and no other: to ask again would
// bring the same reply again, and to hang up would make others' writes uncertain.
func TestOversizedReplyFailsItsCallAlone(t *testing.T) {
	forEachCall(t, func(t *testing.T, call anyCall) {
		const limit = 1000
		big := make([]byte, 100_000)
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == call.op {
				c.reply(r, wire.OK, big)
				return true
			}
			fullReply(c, r)
			return true
		}))
		c := f.client(WithMaxFrame(limit))
		var others sync.WaitGroup
		for range 5 {
			others.Go(func() {
				_, _, err := c.Create(t.Context(), "/other", nil, ModePersistent, nil, Idempotent())
				if call.op != wire.OpCreate2 {
					require.NoError(t, err)
				}
			})
		}
		err := call.do(testContext(t), c)
		others.Wait()
		if call.kind == "read" {
			require.ErrorIs(t, err, ErrMarshalling)
			require.NotErrorIs(t, err, ErrUncertain)
		} else {
			requireUncertain(t, err, call.op)
		}
		require.ErrorContains(t, err, "the reply has 100016 bytes, and 1000 are accepted")
		require.Equal(t, 1, f.dials(), "the connection goes on")
		require.LessOrEqual(t, len(c.k.conn.in.buf), readBufferBytes, "nothing of it was kept")
		require.Zero(t, c.Stats().InFlightRequests)
	})
}

// Nobody waits in a watch whose read has failed.
func TestOversizedReplyLeavesNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpGetChildren2 {
				c.reply(r, wire.OK, make([]byte, 5000))
				return true
			}
			return false
		}))
		c := f.client(WithMaxFrame(1000))
		_, _, w, err := c.ChildrenW(testContext(t), "/a")
		require.ErrorIs(t, err, ErrMarshalling)
		require.Nil(t, w)
		eventually(t, "the server's watch is removed", func() bool { return got.count(wire.OpRemoveWatches) == 1 })
		require.Zero(t, c.Stats().Watches)
	})
}

// What a length promises is not allocated before it comes.
func TestPromisedLengthIsNotAllocated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpGetData {
				c.raw([]byte{3, 0xff, 0xff, 0xff, 0, 0, 0, 1, 1, 2, 3}) // nearly 64 MiB, and then silence
				for {
					c.next()
				}
			}
			return false
		}), server(nil))
		c := f.client()
		first := c.k.conn
		_, _, err := c.Get(testContext(t), "/a")
		require.NoError(t, err, "from the next server")
		require.ErrorIs(t, first.err, errSilent)
		require.Len(t, first.in.buf, readBufferBytes)
	})
}

// A multi's reply with more results than operations is not even decoded: a result takes far more
// room than the few bytes that announce it.
func TestMoreResultsThanOperationsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := wire.AppendMultiResults(nil, make([]wire.MultiResult, 0))
		for range 1000 {
			one := wire.MultiResult{Op: wire.OpDelete}
			many = append(one.Append(nil), many...)
		}
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpMulti || r.Op == wire.OpMultiRead {
				c.reply(r, wire.OK, many)
				return true
			}
			return false
		}))
		c := f.client()
		_, err := c.Multi().Delete("/a", 1).Delete("/b", 1).Commit(testContext(t))
		require.ErrorIs(t, err, ErrMarshalling)
		require.ErrorContains(t, err, "more than 2 results")
		_, err = c.MultiRead().Get("/a").Do(testContext(t))
		require.ErrorContains(t, err, "more than 1 results")
	})
}

// A server hangs up on a request beyond its jute.maxbuffer. It must not be sent for ever, and the
// error says what is likely.
func TestOversizedRequestIsGivenUp(t *testing.T) {
	huge := make([]byte, 2<<20)
	for name, tc := range map[string]struct {
		call  func(*testing.T, *Client) error
		times int
	}{
		"set": {times: 1, call: func(t *testing.T, c *Client) error {
			_, err := c.Set(testContext(t), "/a", huge, AnyVersion)
			return err
		}},
		"versioned set": {times: largeTries, call: func(t *testing.T, c *Client) error {
			_, err := c.Set(testContext(t), "/a", huge, 7)
			return err
		}},
		"idempotent set": {times: largeTries, call: func(t *testing.T, c *Client) error {
			_, err := c.Set(testContext(t), "/a", huge, AnyVersion, Idempotent())
			return err
		}},
		"protected create": {times: largeTries, call: func(t *testing.T, c *Client) error {
			_, _, err := c.ProtectedCreate(testContext(t), "/a", huge, ModePersistent, nil)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				times := 0
				strict := script(func(c *fakeConn) {
					c.accept()
					c.serve(func(r fakeRequest) bool {
						if len(r.body) > wire.DefaultMaxFrame {
							times++
							panic(errEnded)
						}
						return false
					})
				})
				f := newFake(t, strict)
				c := f.client()
				require.NoError(t, c.Sync(testContext(t), "/"), "the node is older than the set")
				err := tc.call(t, c)
				require.Equal(t, tc.times, times)
				require.ErrorIs(t, err, ErrUncertain)
				require.ErrorIs(t, err, ErrConnectionLoss)
				require.ErrorContains(t, err, "jute.maxbuffer")
				require.NoError(t, c.Sync(testContext(t), "/"))
			})
		})
	}
}

// The connection of a request that large may be lost for another reason: it goes on then.
func TestLargeRequestSurvivesALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := false
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetData && !lost {
				lost = true
				panic(errEnded)
			}
			return false
		}))
		_, err := f.client().Set(testContext(t), "/a", make([]byte, 2<<20), AnyVersion, Idempotent())
		require.NoError(t, err)
	})
}

// A background task that cannot read its reply ends, and does not ask for ever.
func TestCleanupOfAnEndlessListEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpGetChildren {
				lists++
				c.reply(r, wire.OK, make([]byte, 5000))
				return true
			}
			return false
		}))
		c := f.client(WithMaxFrame(1000))
		c.cleanUp("/parent", "x", ModeEphemeral, c.Session())
		eventually(t, "the cleanup has ended", func() bool { return c.Stats().Background == 0 })
		require.Equal(t, 1, lists)
	})
}

// Frames that are left out do not disturb those behind them, whatever the pieces in which they
// come; and a stream that ends within one ends the connection.
func TestFramesCanBeSkipped(t *testing.T) {
	frame := func(n int, b byte) []byte {
		out, mark := wire.AppendFrame(nil)
		for range n {
			out = append(out, b)
		}
		wire.FinishFrame(out, mark)
		return out
	}
	stream := append(append(frame(10, 1), frame(200_000, 2)...), frame(20, 3)...)
	for _, piece := range []int{1, 7, 4096, 1 << 20} {
		r := newFrameReader(&pieces{stream, piece}, 1000)
		body, err := r.next()
		require.NoError(t, err)
		require.Len(t, body, 10)
		_, err = r.next()
		var long *frameLengthError
		require.ErrorAs(t, err, &long)
		require.Equal(t, 200_000, long.bytes)
		head, err := r.beginning(replyHeaderBytes)
		require.NoError(t, err)
		require.Equal(t, byte(2), head[15])
		require.NoError(t, r.skip())
		require.LessOrEqual(t, len(r.buf), readBufferBytes)
		body, err = r.next()
		require.NoError(t, err)
		require.Equal(t, frame(20, 3)[4:], body)
		require.Error(t, r.skip())
	}
	r := newFrameReader(&pieces{stream[:5000], 100}, 1000)
	_, err := r.next()
	require.NoError(t, err)
	require.Error(t, r.skip())
}
