package interop

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSessionExpiry watches a session die: not before its time, not much later, with its
// ephemerals, and without a word to its connection.
func TestSessionExpiry(t *testing.T) {
	t.Parallel()
	forEachServer(t, settings{parallel: true}, func(t *testing.T, s *server) {
		observer := openSession(t, s.addr, 60000)
		c := openSession(t, s.addr, 1500)
		last := time.Now() // the server hears of the session for the last time after this
		c.must(opCreate, createBody("/e", nil, 1))
		defer s.inPeace()()
		if !c.closedWithin(patience) {
			t.Fatal("the connection of a silent session stays open")
		}
		// The tick is 500 ms: expiry comes within timeout and timeout + tick, if the machine has time.
		// How late it may be is a matter of virtual time, see internal/sim.
		if took := time.Since(last); took < 1500*time.Millisecond {
			t.Errorf("expired after %v, want 1.5 s at least", took)
		}
		// zkd cuts the connection before it decides: no answer may leave in between.
		waitFor(t, patience, "the ephemeral of the silent session is gone", func() bool {
			return observer.call(opExists, readBody("/e", false)).err == -101
		})
		if _, err := resume(t, s.addr, 1500, c.info); !errors.Is(err, errRefused) {
			t.Errorf("resuming an expired session: %v", err)
		}
	})
}

// TestSessionKeptAlive keeps sessions alive by each of the ways that count, side by side
// with one that does nothing and dies.
func TestSessionKeptAlive(t *testing.T) {
	t.Parallel()
	forEachServer(t, settings{parallel: true}, func(t *testing.T, s *server) {
		const timeoutMs = 3000
		ways := map[string]func(c *rawConn) (reply, error){
			"ping":       func(c *rawConn) (reply, error) { return c.try(opPing, nil) },
			"read":       func(c *rawConn) (reply, error) { return c.try(opExists, readBody("/", false)) },
			"write":      func(c *rawConn) (reply, error) { return c.try(opSetData, setBody("/no", nil, -1)) },
			"bad-record": func(c *rawConn) (reply, error) { return c.try(opGetData, nil) },
		}
		idle := openSession(t, s.addr, timeoutMs)
		idle.must(opCreate, createBody("/idle", nil, 1))
		over := make(chan struct{})
		var busy sync.WaitGroup
		defer busy.Wait()
		defer close(over)
		for name, do := range ways {
			c := openSession(t, s.addr, timeoutMs)
			c.must(opCreate, createBody("/"+name, nil, 1))
			busy.Go(func() { // each by itself: one that waits must not keep the others from being heard
				for {
					select {
					case <-over:
						return
					case <-time.After(10 * time.Millisecond): // so that it is not all that the server does
					}
					if _, err := do(c); err != nil {
						t.Errorf("the session kept busy by %s has lost its connection: %v", name, err)
						return
					}
				}
			})
		}
		observer := openSession(t, s.addr, 60000)
		gone := func(path string) bool { return observer.call(opExists, readBody(path, false)).err == -101 }
		s.waitInPeace(t, "the idle session expires", func() bool { return gone("/idle") })
		for name := range ways {
			if gone("/" + name) {
				t.Errorf("a session kept busy by %s has expired", name)
			}
		}
	})
}

// TestSessionSurvivesKill kills the server hard: the sessions, their passwords and their
// ephemerals are still there, and one that nobody resumes expires.
func TestSessionSurvivesKill(t *testing.T) {
	t.Parallel()
	forEachServer(t, settings{parallel: true, alone: "stops the one server and looks at what it finds at its start"}, func(t *testing.T, s *server) {
		kept, left := openSession(t, s.addr, 30000), openSession(t, s.addr, 2000)
		kept.must(opCreate, createBody("/kept", []byte("x"), 1))
		left.must(opCreate, createBody("/left", nil, 1))
		closed := openSession(t, s.addr, 30000)
		closed.must(opCreate, createBody("/closed", nil, 1))
		closed.closeSession()
		zxid := kept.must(opPing, nil).zxid
		s.kill()
		s.restart()
		c, err := resume(t, s.addr, 30000, kept.info)
		if err != nil || c.info.session != kept.info.session || string(c.info.password) != string(kept.info.password) {
			t.Fatalf("resuming after a kill: %v", err)
		}
		r := c.must(opExists, readBody("/kept", false))
		if owner := (&cursor{b: r.rest}).stat().owner; owner != kept.info.session {
			t.Errorf("owner %#x, want %#x", owner, kept.info.session)
		}
		if r.zxid < zxid {
			t.Errorf("zxid %#x after the restart, %#x before", r.zxid, zxid)
		}
		if r := c.call(opExists, readBody("/closed", false)); r.err != -101 {
			t.Errorf("the ephemeral of a closed session: error %d", r.err)
		}
		if _, err := resume(t, s.addr, 30000, closed.info); !errors.Is(err, errRefused) {
			t.Errorf("resuming a closed session after a kill: %v", err)
		}
		waitFor(t, patience, "the session that nobody resumes expires", func() bool {
			return c.call(opExists, readBody("/left", false)).err == -101
		})
		c.must(opSetData, setBody("/kept", []byte("y"), 0))
	})
}

// TestContainersAndTTL lets the server reap: a container that was used and is empty, a TTL
// node past its time without children; and nothing else.
func TestContainersAndTTL(t *testing.T) {
	t.Parallel()
	forEachServer(t, settings{jvm: quickReaping, parallel: true}, func(t *testing.T, s *server) {
		c, w := openSession(t, s.addr, 60000), openSession(t, s.addr, 60000)
		ttl := func(path string, ms int64) {
			c.must(opCreateTTL, createBody(path, nil, 5).i64(ms))
		}
		gone := func(path string) bool { return c.call(opExists, readBody(path, false)).err == -101 }
		for _, path := range []string{"/unused", "/used", "/inuse"} {
			c.must(opContainer, createBody(path, nil, 4))
		}
		c.must(opCreate, createBody("/inuse/child", nil, 0))
		ttl("/long", 600000)
		ttl("/parent", 300)
		c.must(opCreate, createBody("/parent/child", nil, 0))
		ttl("/touched", 1500)
		ttl("/short", 300)
		w.must(opAddWatch, body{}.str("/used").i32(0))
		c.must(opCreate, createBody("/used/child", nil, 0))
		c.must(opDelete, body{}.str("/used/child").i32(-1))
		waitFor(t, patience, "the used container is removed", func() bool {
			c.must(opSetData, setBody("/touched", nil, -1)) // which starts its clock anew
			return gone("/used")
		})
		waitFor(t, patience, "the TTL node is removed", func() bool {
			c.must(opSetData, setBody("/touched", nil, -1))
			return gone("/short")
		})
		for _, path := range []string{"/unused", "/inuse", "/long", "/parent", "/touched"} {
			if gone(path) {
				t.Errorf("%s is gone", path)
			}
		}
		var events []string
		for len(events) < 3 {
			r, err := w.readReply()
			if err != nil {
				t.Fatalf("events %q, then %v", events, err)
			}
			in := cursor{b: r.rest}
			events = append(events, eventNames[in.i32()])
		}
		if got := strings.Join(events, ", "); got != "children, children, deleted" {
			t.Errorf("events of the container: %s", got)
		}
		c.must(opDelete, body{}.str("/parent/child").i32(-1))
		waitFor(t, patience, "the TTL node goes when its child has gone", func() bool { return gone("/parent") })
		waitFor(t, patience, "the touched TTL node goes in the end", func() bool { return gone("/touched") })
	})
}

// TestRestartKeepsEverything stops the server in order and starts it again: data, ACLs,
// versions, counters, containers, TTLs and quotas are as they were.
func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	forEachServer(t, settings{parallel: true, alone: "stops the one server and looks at what it finds at its start"}, func(t *testing.T, s *server) {
		c := openSession(t, s.addr, 60000)
		c.must(opCreate, createBody("/a", []byte("one"), 0))
		c.must(opCreate, createBody("/a/s-", nil, 2))
		c.must(opCreate, createBody("/a/s-", nil, 2))
		c.must(opDelete, body{}.str("/a/s-0000000001").i32(-1))
		c.must(opSetData, setBody("/a", []byte("two"), 0))
		c.must(opSetACL, body{}.str("/a").acl([]ace{{31, "world", "anyone"}, {1, "ip", "10.0.0.1"}}).i32(0))
		c.must(opCreate, createBody("/null", nil, 0))
		c.must(opContainer, createBody("/c", nil, 4))
		c.must(opCreateTTL, createBody("/t", nil, 5).i64(600000))
		read := func(c *rawConn) string {
			var b strings.Builder
			for _, path := range []string{"/", "/a", "/a/s-0000000000", "/null", "/c", "/t"} {
				d, a, k := c.must(opGetData, readBody(path, false)), c.must(opGetACL, body{}.str(path)), c.must(opGetChildren, readBody(path, false))
				fmt.Fprintf(&b, "%s %x %x %q\n", path, d.rest, a.rest, sorted((&cursor{b: k.rest}).strs()))
			}
			return b.String()
		}
		before := read(c)
		s.stop()
		s.restart()
		again, err := resume(t, s.addr, 60000, c.info)
		if err != nil {
			t.Fatal(err)
		}
		if after := read(again); after != before {
			t.Errorf("after the restart:\n%s\nbefore:\n%s", after, before)
		}
		if r := again.must(opCreate, createBody("/a/s-", nil, 2)); (&cursor{b: r.rest}).str() != "/a/s-0000000002" {
			t.Errorf("the sequence number after a restart: %q", r.rest)
		}
	})
}
