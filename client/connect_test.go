package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

func TestServerLists(t *testing.T) {
	for in, want := range map[string]struct {
		hosts []string
		root  string
	}{
		"a":                           {[]string{"a:2181"}, ""},
		"a:1,b:2/app":                 {[]string{"a:1", "b:2"}, "/app"},
		" a:1 , b ,,a:1/app/x":        {[]string{"a:1", "b:2181"}, "/app/x"},
		"[::1]:2182,::1,[fe80::1]":    {[]string{"[::1]:2182", "[::1]:2181", "[fe80::1]:2181"}, ""},
		"127.0.0.1:2181/":             {[]string{"127.0.0.1:2181"}, ""},
		"zk-0.zk.ns.svc.cluster:2181": {[]string{"zk-0.zk.ns.svc.cluster:2181"}, ""},
	} {
		hosts, root, err := parseServers(in)
		require.NoError(t, err, in)
		require.Equal(t, want.hosts, hosts, in)
		require.Equal(t, want.root, root, in)
	}
	for _, bad := range []string{"", ",", "a:1:2", ":2181", "a:", "a/b//c", "a/b/", "a/../b"} {
		_, _, err := parseServers(bad)
		require.Error(t, err, "%q", bad)
		require.Contains(t, err.Error(), "servers")
	}
}

// badServers behave in every way in which a server should not. Each is followed by a good one.
var badServers = map[string]func(*fakeConn){
	"never reads":                 func(c *fakeConn) { <-c.f.t.Context().Done() },
	"never answers":               script(func(c *fakeConn) { c.hello(); c.frame() }),
	"closes at once":              func(c *fakeConn) {},
	"closes after the request":    script(func(c *fakeConn) { c.hello() }),
	"says http":                   script(func(c *fakeConn) { c.hello(); c.raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }),
	"says tls":                    script(func(c *fakeConn) { c.hello(); c.raw([]byte{0x15, 3, 1, 0, 2, 2, 70}) }),
	"half a response":             script(func(c *fakeConn) { c.hello(); c.raw([]byte{0, 0, 0, 37, 0, 0, 0, 0, 0}) }),
	"a length and silence":        script(func(c *fakeConn) { c.hello(); c.raw([]byte{0, 0xff, 0xff, 0xff}); c.frame() }),
	"a negative length":           script(func(c *fakeConn) { c.hello(); c.raw([]byte{0xff, 0xff, 0xff, 0xff}) }),
	"an empty frame":              script(func(c *fakeConn) { c.hello(); c.raw([]byte{0, 0, 0, 0}) }),
	"a reply header":              script(func(c *fakeConn) { c.hello(); c.rawReply(0, 5, wire.NotReadOnly) }),
	"no session":                  script(func(c *fakeConn) { c.hello(); c.welcome(0, 10000) }),
	"refuses a session of no one": script(refused),
	"refuses a watch silently":    script(func(c *fakeConn) { c.accept(); panic(errEnded) }),
}

func TestBadServersAreLeftForGoodOnes(t *testing.T) {
	for name, bad := range badServers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, bad, bad, server(nil))
				c, err := Dial(testContext(t), "10.0.0.1:1,10.0.0.2:1", f.options()...)
				require.NoError(t, err)
				defer abandonClient(c)
				eventually(t, "reading works", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, _, err := c.Get(ctx, "/a")
					return err == nil
				})
				require.Equal(t, 3, f.dials())
			})
		})
	}
}

func TestDialSaysWhyItDidNotConnect(t *testing.T) {
	for name, tc := range map[string]struct {
		script func(*fakeConn)
		want   string
	}{
		"http":      {badServers["says http"], "this is no ZooKeeper port"},
		"tls":       {badServers["says tls"], "use WithTLS"},
		"not ready": {badServers["closes after the request"], "does not serve"},
		"silent":    {badServers["never answers"], "no answer to the connect request"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, tc.script)
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				_, err := Dial(ctx, "10.0.0.1:1", f.options()...)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Contains(t, err.Error(), tc.want)
			})
		})
	}
}

func TestDialRefusesNonsense(t *testing.T) {
	for _, o := range []Option{WithTimeout(0), WithMargin(1), WithMargin(-1), WithInFlight(0, 1), WithMaxFrame(0)} {
		_, err := Dial(t.Context(), "127.0.0.1:1", o)
		require.Error(t, err)
	}
	_, err := Dial(t.Context(), "")
	require.ErrorContains(t, err, "no server is named")
}

// A server that grants days and then says nothing is left as early as one that grants what was
// asked for.
func TestSilenceWhilePreparingIsBoundedByWhatWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, script(func(c *fakeConn) {
			c.hello()
			c.welcome(0x77, 1<<30)
			for {
				c.next()
			}
		}), server(func(c *fakeConn, r fakeRequest) bool { fullReply(c, r); return true }))
		start := time.Now()
		f.client(WithTimeout(9*time.Second), WithAuth("digest", []byte("a:b")))
		took := time.Since(start)
		require.True(t, took >= 6*time.Second && took < 7*time.Second, "two thirds of what was asked for, and a pause: %v", took)
	})
}

func TestDialStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, badServers["never reads"])
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("changed our mind")
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := Dial(ctx, "10.0.0.1:1", f.options()...)
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// Pods come back under other addresses: the name must be resolved before every attempt.
func TestNamesAreResolvedBeforeEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		var mu sync.Mutex
		addr, asked := "10.0.0.1", 0
		resolve := func(_ context.Context, host string) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			if host != "zk" {
				return nil, errors.New("no such host")
			}
			return []string{addr}, nil
		}
		f.scripts = []func(*fakeConn){script(func(c *fakeConn) {
			mu.Lock()
			moved := !strings.HasPrefix(c.addr, addr+":")
			mu.Unlock()
			if moved {
				return // nobody there any more
			}
			c.accept()
			c.serve(nil)
		})}
		c, err := Dial(testContext(t), "zk:2181", f.options(WithResolver(resolve))...)
		require.NoError(t, err)
		defer abandonClient(c)
		mu.Lock()
		addr = "10.0.0.99"
		mu.Unlock()
		f.cut()
		_, _, err = c.Get(testContext(t), "/a")
		require.NoError(t, err)
		require.Equal(t, []string{"10.0.0.1:2181", "10.0.0.99:2181"}, f.dialed)
		require.Equal(t, 2, asked)
	})
}

func TestAllAddressesOfANameAreTriedAndBadNamesSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, script(func(c *fakeConn) {
			if c.addr != "[2001:db8::7]:2181" {
				return
			}
			c.accept()
			c.serve(nil)
		}))
		resolve := func(_ context.Context, host string) ([]string, error) {
			switch host {
			case "zk":
				return []string{"10.0.0.1", "10.0.0.2", "2001:db8::7"}, nil
			case "empty":
				return nil, nil
			}
			return nil, errors.New("no such host")
		}
		c, err := Dial(testContext(t), "nowhere:1,empty:1,zk:2181", f.options(WithResolver(resolve))...)
		require.NoError(t, err)
		defer abandonClient(c)
		require.Equal(t, "zk:2181", c.Server())
	})
}

func TestAttemptsAreSpacedOutWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		dial := func(context.Context, string, string) (net.Conn, error) {
			at = append(at, time.Since(start))
			return nil, errors.New("refused")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := Dial(ctx, "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1", WithDialer(dial))
		require.ErrorContains(t, err, "refused")
		require.Equal(t, []time.Duration{0, 0, 0}, at[:3], "the first round does not wait")
		for i := 10; i < len(at); i++ {
			gap := at[i] - at[i-1]
			require.True(t, gap >= backoffMost/2 && gap <= backoffMost, "gap %v", gap)
		}
		require.Greater(t, len(at), 20)
		require.Less(t, len(at), 60)
	})
}

// A server that accepts and cuts must not be dialled in a tight loop.
func TestConnectionsThatDoNotLastAreSpacedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, script(func(c *fakeConn) { c.accept() }))
		f.client()
		time.Sleep(10 * time.Second)
		require.Less(t, f.dials(), 30)
	})
}

func TestServersAreTriedInRandomOrder(t *testing.T) {
	first := map[string]int{}
	for range 300 {
		l := newServerList([]string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"})
		var round []string
		for range 3 {
			t1, err := l.next(t.Context(), nil)
			require.NoError(t, err)
			round = append(round, t1.addr)
		}
		first[round[0]]++
		slices.Sort(round)
		require.Equal(t, []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}, round)
	}
	for s, n := range first {
		require.InDelta(t, 100, n, 50, s)
	}
}

func TestTheServerJustLostComesLast(t *testing.T) {
	l := newServerList([]string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"})
	for range 20 {
		l.avoid("10.0.0.2:1")
		var round []string
		for range 3 {
			t1, _ := l.next(t.Context(), nil)
			round = append(round, t1.addr)
		}
		require.Equal(t, "10.0.0.2:1", round[2])
	}
}

// UpdateServers spreads clients evenly, whatever the lists are.
func TestUpdatedServersGetEqualShares(t *testing.T) {
	names := func(s string) (list []string) {
		for _, c := range s {
			list = append(list, string(c)+":1")
		}
		return list
	}
	for _, tc := range [][2]string{{"abc", "abcde"}, {"abcde", "abc"}, {"abc", "def"}, {"abcd", "cdef"}, {"abcd", "cdx"}, {"ab", "bcdef"}, {"abc", "abc"}} {
		old, updated := names(tc[0]), names(tc[1])
		load := map[string]int{}
		const clients = 30000
		for i := range clients {
			current := old[i%len(old)]
			l := newServerList(old)
			random := float64(i/len(old)) / float64(clients/len(old))
			if l.update(updated, current, random) {
				current = l.order[0]
			}
			load[current]++
		}
		require.Len(t, load, len(updated), "%v", tc)
		for s, n := range load {
			require.InEpsilon(t, clients/len(updated), n, 0.1, "%v: %s of %v", tc, s, load)
		}
	}
}

func TestUpdateServersMovesWithoutUncertainty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpCreate2 && strings.HasPrefix(c.addr, "10.0.0.1") {
				<-release
			}
			return false
		}))
		c, err := Dial(testContext(t), "10.0.0.1:1", f.options()...)
		require.NoError(t, err)
		defer abandonClient(c)
		created := make(chan error, 1)
		go func() {
			_, _, err := c.Create(t.Context(), "/a", nil, ModePersistent, nil)
			created <- err
		}()
		synctest.Wait()
		require.NoError(t, c.UpdateServers("10.0.0.2:1"))
		synctest.Wait()
		read := make(chan error, 1)
		go func() {
			_, _, err := c.Get(t.Context(), "/a")
			read <- err
		}()
		synctest.Wait()
		require.Equal(t, 1, f.dials(), "the reply is awaited first")
		close(release)
		require.NoError(t, <-created)
		require.NoError(t, <-read)
		require.Equal(t, "10.0.0.2:1", c.Server())
		require.ErrorContains(t, c.UpdateServers("a:1/x"), "chroot")
		require.Error(t, c.UpdateServers(""))
	})
}

func TestLastZxidIsSentAndNeverFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hellos := make(chan int64, 10)
		f := newFake(t, script(func(c *fakeConn) {
			hellos <- c.accept().LastZxidSeen
			zxids := []int64{500, 300, -1, 0, 400}
			c.serve(func(r fakeRequest) bool {
				if r.Op == wire.OpSync {
					c.zxid, zxids = zxids[0]-1, zxids[1:]
				}
				return false
			})
		}))
		c := f.client()
		require.Equal(t, int64(0), <-hellos)
		for range 5 {
			require.NoError(t, c.Sync(testContext(t), "/"))
		}
		require.Equal(t, int64(500), c.LastZxid())
		f.cut()
		require.Equal(t, int64(500), <-hellos)
	})
}
