package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// The context ends at the n-th step, for n = 1, 2, 3, … until the operation is over before it. A
// step is a frame that the server has received, or the reply that it has sent.

// A canceller counts steps and cancels at one of them.
type canceller struct {
	mu     sync.Mutex
	at     int // 0: not yet armed
	steps  int
	cancel context.CancelCauseFunc
	when   time.Time // of the end; zero: not reached
}

var errWentAway = errors.New("the user went away")

// step lets virtual time pass, so that the end of the context is noticed before what comes next.
func (s *canceller) step() {
	s.mu.Lock()
	s.steps++
	hit := s.at > 0 && s.steps == s.at
	if hit {
		s.when = time.Now()
		s.cancel(errWentAway)
	}
	s.mu.Unlock()
	if hit {
		time.Sleep(time.Millisecond)
	}
}

func (s *canceller) arm(at int, cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.steps, s.cancel, s.when = at, 0, cancel, time.Time{}
}

// reached says whether the context was ended, and disarms.
func (s *canceller) reached() (when time.Time, reached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = 0
	return s.when, !s.when.IsZero()
}

// around puts a step before and behind every answer.
func (s *canceller) around(answer func(*fakeConn, fakeRequest)) func(*fakeConn) {
	return server(func(c *fakeConn, r fakeRequest) bool {
		if r.Op == wire.OpPing {
			return false
		}
		s.step()
		answer(c, r)
		s.step()
		return true
	})
}

// smallTree answers as a server on which /a has two children.
func smallTree(c *fakeConn, r fakeRequest) {
	if r.Op == wire.OpGetChildren2 && r.path == "/a" {
		c.reply(r, wire.OK, wire.AppendStrings(nil, []string{"x", "y"}), statBytes(wire.Stat{Czxid: 1, NumChildren: 2}))
		return
	}
	fullReply(c, r)
}

// oldTree is smallTree without what came after ZooKeeper 3.4.
func oldTree(c *fakeConn, r fakeRequest) {
	for _, op := range newOps {
		if r.Op == op && op != wire.OpCreate2 {
			c.reply(r, wire.Unimplemented)
			panic(errEnded)
		}
	}
	smallTree(c, r)
}

// losing is smallTree, and loses the first reply to every kind of write with its connection.
func losing() func(*fakeConn, fakeRequest) {
	lost := map[wire.OpCode]bool{}
	return func(c *fakeConn, r fakeRequest) {
		switch r.Op {
		case wire.OpCreate2, wire.OpSetData, wire.OpDelete:
			if !lost[r.Op] {
				lost[r.Op] = true
				panic(errEnded)
			}
		}
		smallTree(c, r)
	}
}

// A longCall takes several frames. end ends what it has left on purpose.
type longCall struct {
	server func() func(*fakeConn, fakeRequest)
	do     func(ctx context.Context, c *Client) (end func(), err error)
}

func healthy() func(*fakeConn, fakeRequest) { return smallTree }
func old() func(*fakeConn, fakeRequest)     { return oldTree }

func watching(w *Watch, err error) (func(), error) {
	return func() { _ = w.Remove(context.Background()) }, err
}

func noEnd() {}

var longCalls = map[string]longCall{
	"fresh read": {healthy, func(ctx context.Context, c *Client) (func(), error) {
		_, _, err := c.Get(ctx, "/a", Fresh())
		return noEnd, err
	}},
	"read with a watch": {healthy, func(ctx context.Context, c *Client) (func(), error) {
		_, _, w, err := c.ChildrenW(ctx, "/a")
		return watching(w, err)
	}},
	"fresh read with a watch": {healthy, func(ctx context.Context, c *Client) (func(), error) {
		_, _, w, err := c.GetW(ctx, "/a", Fresh())
		return watching(w, err)
	}},
	"subscription": {healthy, func(ctx context.Context, c *Client) (func(), error) {
		s, err := c.Subscribe(ctx, "/a", Recursive)
		return func() { s.Close() }, err
	}},
	"imitated subscription": {old, func(ctx context.Context, c *Client) (func(), error) {
		s, err := c.Subscribe(ctx, "/a", Recursive)
		return func() { s.Close() }, err
	}},
	"reads one by one": {old, func(ctx context.Context, c *Client) (func(), error) {
		_, err := c.MultiRead().Get("/a").Children("/a").Do(ctx)
		return noEnd, err
	}},
	"versioned set over a loss": {losing, func(ctx context.Context, c *Client) (func(), error) {
		_, err := c.Set(ctx, "/a", nil, 7)
		return noEnd, err
	}},
	"protected create over a loss": {losing, func(ctx context.Context, c *Client) (func(), error) {
		_, _, err := c.ProtectedCreate(ctx, "/a/n-", nil, ModeEphemeralSequential, nil)
		return noEnd, err
	}},
	"sure deletion over a loss": {losing, func(ctx context.Context, c *Client) (func(), error) {
		return noEnd, c.SureDelete(ctx, "/a", AnyVersion)
	}},
	"identity": {healthy, func(ctx context.Context, c *Client) (func(), error) {
		return noEnd, c.AddAuth(ctx, "digest", []byte("me:secret"))
	}},
}

func TestContextEndsAtEveryFrame(t *testing.T) {
	for name, call := range longCalls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for n, reached := 1, true; reached; n++ {
					reached = endAtFrame(t, call, n)
				}
			})
		})
	}
}

// endAtFrame says whether the call was still going on at the n-th step.
func endAtFrame(t *testing.T, call longCall, n int) bool {
	steps := &canceller{}
	f := newFake(t, steps.around(call.server()))
	c := f.client(fastRetry())
	defer f.stop()
	defer abandonClient(c)
	require.NoError(t, c.Sync(testContext(t), "/"))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	steps.arm(n, cancel)
	end, err := call.do(ctx, c)
	returned := time.Now()
	when, reached := steps.reached()
	if err != nil {
		require.True(t, reached, "step %d: %v", n, err)
		require.ErrorIs(t, err, errWentAway, "step %d", n)
		require.ErrorIs(t, err, context.Canceled, "step %d", n)
		require.Equal(t, when, returned, "step %d: it returns at once", n)
	} else {
		end()
	}
	eventually(t, "nothing is left under way", func() bool {
		s := c.Stats()
		return s.InFlightRequests == 0 && s.InFlightBytes == 0 && s.Background == 0 && s.Waiting == 0
	})
	require.NoError(t, c.Sync(testContext(t), "/"), "the next call works")
	eventually(t, fmt.Sprintf("nothing is watched: step %d", n), func() bool { // the server may be asked to forget it just now
		s := c.Stats()
		return s.Watches == 0 && s.Subscriptions == 0 && entries(c) == 0
	})
	return reached
}

// A lateContext runs something when it is first asked why it has ended.
type lateContext struct {
	context.Context
	late func()
}

func (c *lateContext) Err() error {
	err := c.Context.Err()
	if late := c.late; err != nil && late != nil {
		c.late = nil
		late()
	}
	return err
}

// The context ends while a fresh read waits for its sync. Before the read is given up, too, both are
// answered: the caller gets no Watch, and so there must be none.
func TestFreshReadThatIsAnsweredWhileItIsGivenUpLeavesNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		f := newFake(t, server(func(_ *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSync {
				<-answer
			}
			return false
		}))
		c := f.client()
		ctx, cancel := context.WithCancel(testContext(t))
		late := &lateContext{ctx, func() { close(answer); synctest.Wait() }}
		done := make(chan error, 1)
		go func() {
			_, _, _, err := c.GetW(late, "/a", Fresh())
			done <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		eventually(t, "nothing is watched", func() bool { return c.Stats().Watches == 0 && entries(c) == 0 })
	})
}

// Dial leaves noEnd, wherever its context ends: goleak and the bubble find what is left.
func TestDialEndsAtEveryFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n, reached := 1, true; reached; n++ {
			steps := &canceller{}
			ctx, cancel := context.WithCancelCause(t.Context())
			steps.arm(n, cancel)
			f := newFake(t, script(func(c *fakeConn) {
				steps.step() // dialled
				r := c.hello()
				steps.step()
				c.welcome(max(r.SessionID, 0x77), r.TimeoutMs)
				steps.step()
				c.serve(func(r fakeRequest) bool {
					steps.step()
					fullReply(c, r)
					steps.step()
					return true
				})
			}))
			c, err := Dial(ctx, "127.0.0.1:1", f.options(WithAuth("digest", []byte("a:b")), WithAuth("digest", []byte("c:d")))...)
			_, reached = steps.reached()
			if err == nil {
				abandonClient(c)
			} else {
				require.True(t, reached)
				require.ErrorIs(t, err, errWentAway, "step %d", n)
			}
			cancel(nil)
			f.stop()
		}
	})
}

// A reply that comes when nobody waits any more is counted and forgotten; the next ones find
// their requests.
func TestRepliesAfterCancelDisturbNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []fakeRequest
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			switch r.Op {
			case wire.OpGetData:
				held = append(held, r)
				return true
			case wire.OpExists:
				for _, h := range held {
					c.usual(h)
				}
				held = nil
			}
			return false
		}))
		c := f.client()
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			var calls sync.WaitGroup
			for range 20 {
				calls.Go(func() {
					_, _, err := c.Get(ctx, "/a")
					require.ErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			calls.Wait()
			cancel()
			require.Equal(t, 20, c.Stats().InFlightRequests, "the server still owes the replies")
			_, ok, err := c.Exists(testContext(t), "/a")
			require.NoError(t, err)
			require.True(t, ok)
			require.Zero(t, c.Stats().InFlightRequests)
		}
		require.Equal(t, 1, f.dials())
	})
}
