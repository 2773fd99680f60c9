package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

func TestPingsAfterAThirdOfTheTimeoutInSilence(t *testing.T) {
	for _, tc := range []struct {
		timeout, want time.Duration
	}{
		{9 * time.Second, 3 * time.Second},
		{90 * time.Second, maxPingInterval},
	} {
		synctest.Test(t, func(t *testing.T) {
			var pings []time.Duration
			start := time.Now()
			f := newFake(t, server(func(_ *fakeConn, r fakeRequest) bool {
				if r.Op == wire.OpPing {
					pings = append(pings, time.Since(start))
				}
				return false
			}))
			f.client(WithTimeout(tc.timeout))
			time.Sleep(3*tc.want + time.Second)
			synctest.Wait()
			require.Equal(t, []time.Duration{tc.want, 2 * tc.want, 3 * tc.want}, pings)
		})
	}
}

func TestTrafficMakesPingsNeedless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client(WithTimeout(9 * time.Second))
		for range 20 {
			time.Sleep(2 * time.Second)
			_, _, err := c.Exists(testContext(t), "/a")
			require.NoError(t, err)
		}
		require.Empty(t, got.count(wire.OpPing))
		require.Equal(t, StateConnected, c.State())
	})
}

// The server stops answering, the socket stays open.
func TestSilentServerIsLeftAfterTwoThirdsOfTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := script(func(c *fakeConn) {
			c.accept()
			for {
				c.next()
			}
		})
		resumed := make(chan *wire.ConnectRequest, 1)
		f := newFake(t, silent, script(func(c *fakeConn) {
			resumed <- c.accept()
			c.serve(nil)
		}))
		c := f.client(WithTimeout(9 * time.Second))
		start, session := time.Now(), c.Session()
		next := collectStates(t, c)
		require.Equal(t, StateConnected, next().State)
		lost := next()
		require.Equal(t, StateDisconnected, lost.State)
		require.ErrorIs(t, lost.Err, errSilent)
		require.Equal(t, 6*time.Second, time.Since(start))
		req := <-resumed
		require.Equal(t, int64(0x77), req.SessionID)
		require.Equal(t, "0123456789abcdef", string(req.Password))
		require.Equal(t, StateConnected, next().State)
		require.Same(t, session, c.Session(), "resumed within the deadline: the same session goes on")
		require.NoError(t, session.Err())
	})
}

func TestDeadlineCountsFromTheSendingOfTheNewestAnsweredRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpExists {
				time.Sleep(2 * time.Second) // on its way back
			}
			return false
		}))
		c := f.client(WithTimeout(10 * time.Second))
		require.Equal(t, 9*time.Second, time.Until(c.Deadline()), "from the connect request, less a tenth")
		time.Sleep(time.Second)
		_, _, err := c.Exists(testContext(t), "/a")
		require.NoError(t, err)
		require.Equal(t, 7*time.Second, time.Until(c.Deadline()), "the reply took 2 s and proves nothing about them")
		require.True(t, c.Session().Valid())
	})
}

func TestAuthAndRefusalsDoNotExtendTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpGetData {
				c.reply(r, wire.SessionClosedRequireSASLAuth)
				return true
			}
			return false
		}))
		c := f.client(WithTimeout(30 * time.Second))
		deadline := c.Deadline()
		time.Sleep(time.Second)
		require.NoError(t, c.AddAuth(testContext(t), "digest", []byte("a:b")))
		_, _, err := c.Get(testContext(t), "/a")
		require.ErrorIs(t, err, ErrRequireSASL)
		require.Equal(t, deadline, c.Deadline())
	})
}

// lostHold is one run of T3: connection and server behave at random, then go silent. It returns
// when the client noticed, and when the server would have ended the session.
func lostHold(t *testing.T, seed uint64) (lost, expiry time.Time) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	timeout := time.Duration(1+rnd.IntN(30)) * time.Second
	// The server's clock runs up to 5 % faster: its timeout is over sooner.
	serverTimeout := time.Duration(float64(timeout) * (1 - 0.05*rnd.Float64()))
	var heard time.Time // when the server last read a request
	pause := time.Duration(1 + rnd.Int64N(int64(timeout)))
	quietAt := time.Now().Add(time.Duration(rnd.Int64N(int64(3 * timeout))))
	f := newFake(t, script(func(c *fakeConn) {
		if time.Now().After(quietAt) {
			for {
				c.frame() // a cut network swallows everything
			}
		}
		req := c.hello()
		heard = time.Now()
		time.Sleep(time.Duration(rnd.Int64N(int64(timeout / 8))))
		c.welcome(0x77, req.TimeoutMs)
		for {
			r := c.next()
			if time.Now().After(quietAt) {
				continue
			}
			heard = time.Now()
			time.Sleep(time.Duration(rnd.Int64N(int64(timeout / 8))))
			c.usual(r)
		}
	}))
	c := f.client(WithTimeout(timeout))
	s := c.Session()
	ctx, cancel := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	traffic.Go(func() {
		for {
			select {
			case <-time.After(pause):
				_, _, _ = c.Exists(ctx, "/a")
			case <-ctx.Done():
				return
			}
		}
	})
	<-s.Done()
	defer traffic.Wait()
	defer cancel()
	require.ErrorIs(t, s.Err(), ErrSessionLapsed)
	require.False(t, s.Valid())
	return time.Now(), heard.Add(serverTimeout)
}

// T3: a client that nobody answers takes its session for lost before the server can give it up.
func TestSessionIsLostHereBeforeItIsLostThere(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 50
	}
	for seed := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			lost, expiry := lostHold(t, seed)
			require.True(t, lost.Before(expiry), "seed %d: noticed %v after the server gave the session up", seed, lost.Sub(expiry))
		})
	}
}

func TestLapsedSessionThatIsResumedIsANewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		c := f.client(WithTimeout(10 * time.Second))
		next := collectStates(t, c)
		first := c.Session()
		pinned := make(chan error, 1)
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		go func() {
			_, err := c.Set(t.Context(), "/a", nil, 1, In(first))
			pinned <- err
		}()
		<-first.Done()
		require.ErrorIs(t, <-pinned, ErrSessionLapsed)
		require.ErrorIs(t, first.Err(), ErrSessionLapsed)
		f.setRefuse(nil)
		for _, want := range []State{StateConnected, StateDisconnected, StateLapsed, StateConnected} {
			require.Equal(t, want, next().State)
		}
		second := c.Session()
		require.NotSame(t, first, second)
		require.Equal(t, first.ID(), second.ID())
		require.True(t, second.Valid())
		require.False(t, first.Valid())
	})
}

// A smaller timeout than before, granted by another server, must move the deadline back.
func TestResumingWithAShorterTimeoutShortensTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil), script(func(c *fakeConn) {
			c.hello()
			c.welcome(0x77, 2000)
			c.serve(nil)
		}))
		c := f.client(WithTimeout(30 * time.Second))
		f.cut()
		synctest.Wait()
		eventually(t, "resumed", func() bool { return c.Stats().Connections == 2 })
		require.Equal(t, 2*time.Second, c.Session().Timeout())
		require.LessOrEqual(t, time.Until(c.Deadline()), 1800*time.Millisecond)
	})
}

// refused is the answer to a client whose session is over.
func refused(c *fakeConn) {
	c.hello()
	c.answer(&wire.ConnectResponse{Password: make([]byte, 16), HasReadOnly: true})
}

func TestExpiryRenewsTheSession(t *testing.T) {
	for name, over := range map[string]func(*fakeConn){
		"refused":         refused,
		"another session": func(c *fakeConn) { c.hello(); c.welcome(0x99, 10000) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fresh := make(chan *wire.ConnectRequest, 1)
				f := newFake(t, server(nil), script(over), script(func(c *fakeConn) {
					fresh <- c.hello()
					c.welcome(0x78, 10000)
					c.serve(nil)
				}))
				c := f.client()
				next := collectStates(t, c)
				old := c.Session()
				_, _, w, err := c.GetW(testContext(t), "/a")
				require.NoError(t, err)
				f.cut()
				require.Equal(t, int64(0), (<-fresh).SessionID)
				for _, want := range []State{StateConnected, StateDisconnected, StateExpired, StateConnecting, StateConnected} {
					require.Equal(t, want, next().State)
				}
				require.ErrorIs(t, old.Err(), ErrSessionExpired)
				require.Equal(t, int64(0x78), c.SessionID())
				_, err = w.Wait(testContext(t))
				require.ErrorIs(t, err, ErrSessionExpired)
				_, _, err = c.Exists(testContext(t), "/a", In(old))
				require.ErrorIs(t, err, ErrSessionExpired)
				_, _, err = c.Exists(testContext(t), "/a")
				require.NoError(t, err)
			})
		})
	}
}

func TestExpiryEndsTheClientIfToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil), script(refused))
		c := f.client(WithSessionPolicy(FailOnExpiry))
		next := collectStates(t, c)
		_, _, w, err := c.ChildrenW(testContext(t), "/a")
		require.NoError(t, err)
		s, err := c.Subscribe(testContext(t), "/a", Recursive)
		require.NoError(t, err)
		_, err = s.Next(testContext(t)) // EventReset
		require.NoError(t, err)
		f.cut()
		for _, want := range []State{StateConnected, StateDisconnected, StateExpired} {
			require.Equal(t, want, next().State)
		}
		_, err = w.Wait(testContext(t))
		require.ErrorIs(t, err, ErrSessionExpired)
		_, err = s.Next(testContext(t))
		require.ErrorIs(t, err, ErrSessionExpired)
		_, _, err = c.Get(testContext(t), "/a")
		require.ErrorIs(t, err, ErrSessionExpired)
		require.NoError(t, c.Close(testContext(t)))
	})
}

// A reader of events that sleeps misses none, and the latest is always in State.
func TestSessionEventsAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		c := f.client()
		var got []State
		cuts := 0
		for ev := range c.Events(testContext(t)) {
			got = append(got, ev.State)
			for cuts < 20 { // all happens before the second look
				n := c.Stats().Connections
				f.cut()
				eventually(t, "reconnected", func() bool { return c.Stats().Connections > n })
				cuts++
			}
			if len(got) == 41 {
				break
			}
		}
		for i, s := range got {
			require.Equal(t, []State{StateConnected, StateDisconnected}[i%2], s, "event %d", i)
		}
	})
}

func TestSessionOfAnotherProcessIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan *wire.ConnectRequest, 1)
		f := newFake(t, script(func(c *fakeConn) {
			asked <- c.accept()
			c.serve(nil)
		}))
		c := f.client(WithSession(0x1234, []byte("secretsecretsecr")))
		r := <-asked
		require.Equal(t, int64(0x1234), r.SessionID)
		require.Equal(t, "secretsecretsecr", string(r.Password))
		require.Equal(t, int64(0x1234), c.SessionID())
		require.True(t, c.Session().Valid())
	})
}

func TestStatesHaveNames(t *testing.T) {
	for s := StateConnecting; s <= StateClosed; s++ {
		require.NotContains(t, s.String(), "State(")
	}
	require.Equal(t, "State(99)", fmt.Sprint(State(99)))
}

// A session that was granted is used again also if the connection did not live to be used.
func TestSessionOfAFailedPreparationIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan int64, 10)
		n := 0
		f := newFake(t, script(func(c *fakeConn) {
			asked <- c.accept().SessionID
			if n++; n <= 2 {
				panic(errEnded) // before the credentials are answered
			}
			c.serve(nil)
		}))
		c := f.client(WithAuth("digest", []byte("a:b")))
		require.Equal(t, []int64{0, 0x77, 0x77}, []int64{<-asked, <-asked, <-asked})
		require.Equal(t, int64(0x77), c.SessionID())
	})
}

// The watches take so long that the session lapses before the connection can be used.
func TestSessionLapsesDuringPreparation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetWatches {
				time.Sleep(5 * time.Second)
			}
			return false
		}))
		c := f.client(WithMargin(0.6))
		s := c.Session()
		_, _, _, err := c.GetW(testContext(t), "/a")
		require.NoError(t, err)
		f.cut()
		<-s.Done()
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.NotSame(t, s, c.Session())
		require.True(t, c.Session().Valid())
	})
}

// A machine that slept has a monotonic clock that stood still; the wall clock knows.
func TestValidConsultsTheWallClockToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t, server(nil)).client().Session()
		require.True(t, s.Valid())
		s.wallDeadline.Store(time.Now().UnixNano() - 1)
		require.False(t, s.Valid())
	})
}

// The server reads no more: writing blocks, and the connection is given up all the same.
func TestServerThatStopsReadingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, script(func(c *fakeConn) {
			c.accept()
			<-c.f.t.Context().Done()
		}), server(nil))
		c := f.client()
		start := time.Now()
		_, _, err := c.Get(testContext(t), "/a")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 10*time.Second*2/3)
		require.Equal(t, 2, f.dials())
	})
}

// A server that says "expired" in a reply, instead of hanging up, is asked again at once, and
// what it said does not count as a sign of life.
func TestReplyThatSaysExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetData {
				c.reply(r, wire.SessionExpired)
				return true
			}
			return false
		}), script(refused), script(func(c *fakeConn) {
			c.hello()
			c.welcome(0x78, 10000)
			c.serve(nil)
		}))
		c := f.client()
		old, deadline := c.Session(), c.Deadline()
		time.Sleep(time.Second)
		_, err := c.Set(testContext(t), "/a", nil, AnyVersion)
		require.ErrorIs(t, err, ErrSessionExpired)
		require.NotErrorIs(t, err, ErrUncertain, "the server has not done it")
		<-old.Done()
		require.Equal(t, deadline, old.Deadline())
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.Equal(t, int64(0x78), c.SessionID())
	})
}

// The session is on another connection. The operation was not done, the session lives, and it is
// taken back; what the server said does not extend it.
func TestReplyThatSaysMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan *wire.ConnectRequest, 1)
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSetData {
				c.reply(r, wire.SessionMoved)
				return true
			}
			return false
		}), script(func(c *fakeConn) {
			back <- c.accept()
			c.serve(nil)
		}))
		c := f.client()
		session, deadline := c.Session(), c.Deadline()
		time.Sleep(time.Second)
		_, err := c.Set(testContext(t), "/a", nil, AnyVersion)
		require.ErrorIs(t, err, ErrSessionMoved)
		require.NotErrorIs(t, err, ErrUncertain, "the server has not done it")
		require.Equal(t, deadline, session.Deadline())
		require.Equal(t, session.ID(), (<-back).SessionID)
		_, err = c.Set(testContext(t), "/a", nil, AnyVersion)
		require.NoError(t, err)
		require.Same(t, session, c.Session())
		require.NoError(t, session.Err())
	})
}

func TestAwaitSessionWaitsForOneThatIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		c := f.client(WithTimeout(10 * time.Second))
		first, err := c.AwaitSession(t.Context())
		require.NoError(t, err)
		require.Same(t, c.Session(), first)
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		<-first.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.AwaitSession(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(time.Minute, func() { f.setRefuse(nil) })
		second, err := c.AwaitSession(t.Context())
		require.NoError(t, err)
		require.NotSame(t, first, second)
		require.True(t, second.Valid())
		closeClient(t, c)
		_, err = c.AwaitSession(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	})
}
