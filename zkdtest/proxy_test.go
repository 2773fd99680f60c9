package zkdtest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// dial returns a client of the project; it is closed with the test.
func dial(t *testing.T, addr string, opts ...client.Option) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func node(t *testing.T, c *client.Client, path string) bool {
	t.Helper()
	_, ok, err := c.Exists(limited(t), path, client.Fresh())
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// What becomes of a create that meets each fault on its way there or back.
func TestProxyDoesToAFrameWhatItIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		dir       zkdtest.Direction
		what      zkdtest.Action
		made      bool // the node is there in the end
		uncertain bool // the client cannot know
	}{
		"passed":                  {zkdtest.ToServer, zkdtest.Pass(), true, false},
		"late request":            {zkdtest.ToServer, zkdtest.Delay(30 * time.Millisecond), true, false},
		"late reply":              {zkdtest.ToClient, zkdtest.Delay(30 * time.Millisecond), true, false},
		"request cut":             {zkdtest.ToServer, zkdtest.Cut(), false, true},
		"reply cut":               {zkdtest.ToClient, zkdtest.Cut(), true, true},
		"request, then cut":       {zkdtest.ToServer, zkdtest.CutAfter(), true, true},
		"reply, then cut":         {zkdtest.ToClient, zkdtest.CutAfter(), true, false},
		"request swallowed":       {zkdtest.ToServer, zkdtest.Swallow(), false, true},
		"reply swallowed":         {zkdtest.ToClient, zkdtest.Swallow(), true, true},
		"server that never hears": {zkdtest.ToServer, zkdtest.Mute(), false, true},
		"server that never says":  {zkdtest.ToClient, zkdtest.Mute(), true, true},
		"garbage to the client":   {zkdtest.ToClient, zkdtest.Garbage([]byte{0, 0, 0, 3, 1, 2, 3}), true, true},
		"garbage to the server":   {zkdtest.ToServer, zkdtest.Garbage([]byte{0xff, 0xff, 0xff, 0xff}), false, true},
	} {
		meets := func(t *testing.T, opts ...zkdtest.Option) {
			srv := zkdtest.Start(t, opts...)
			p := srv.Proxy()
			direct, c := dial(t, srv.Addr(), client.WithDialer(srv.Dial)), dial(t, p.Addr(), client.WithDialer(srv.Dial))
			path := "/" + strings.ReplaceAll(name, " ", "-")
			before := p.Frames(tc.dir)
			p.At(tc.dir, 1, tc.what)
			ctx, cancel := context.WithCancel(limited(t))
			defer cancel()
			if strings.HasSuffix(name, "swallowed") { // nothing else tells that it is lost
				go func() {
					for p.Frames(tc.dir) == before && ctx.Err() == nil {
						time.Sleep(time.Millisecond) // between two looks at the count
					}
					cancel()
				}()
			}
			_, _, err := c.Create(ctx, path, nil, client.ModePersistent, nil)
			if errors.Is(err, client.ErrUncertain) != tc.uncertain || err != nil && !tc.uncertain {
				t.Errorf("create: %v", err)
			}
			eventually(t, "what was to become of the node", func() bool { return node(t, direct, path) == tc.made })
			if !node(t, c, "/") {
				t.Error("the client does not work any more")
			}
		}
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "server that never") { // it takes long to be sure of that
				synctest.Test(t, func(t *testing.T) { meets(t, zkdtest.InMemory()) })
				return
			}
			meets(t)
		})
	}
}

func TestProxyKnowsFrames(t *testing.T) {
	srv := zkdtest.Start(t)
	p := srv.Proxy()
	var creates, replies, hellos atomic.Int32
	p.On(func(f zkdtest.Frame) zkdtest.Action {
		switch {
		case f.Hello:
			hellos.Add(1)
		case f.Op == wire.OpCreate2 && f.Direction == zkdtest.ToServer:
			creates.Add(1)
		case f.Op == wire.OpCreate2:
			replies.Add(1)
		}
		if f.Conn < 1 || f.String() == "" {
			t.Errorf("frame %v", f)
		}
		return zkdtest.Pass()
	})
	c := dial(t, p.Addr())
	if _, _, err := c.Create(limited(t), "/n", nil, client.ModePersistent, nil); err != nil {
		t.Fatal(err)
	}
	if creates.Load() != 1 || replies.Load() != 1 || hellos.Load() != 2 {
		t.Errorf("%d creates, %d replies, %d frames of the handshake", creates.Load(), replies.Load(), hellos.Load())
	}
	if to, back := p.Frames(zkdtest.ToServer), p.Frames(zkdtest.ToClient); to != 2 || back != 2 {
		t.Errorf("%d frames to the server, %d back", to, back)
	}
	if s := word(p.Addr(), "ruok"); s != "imok" {
		t.Errorf("a four-letter word through the proxy: %q", s)
	}
}

// A proxy outlives its node, and cuts, silences and refuses at will.
func TestProxyOutlivesItsNode(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	n := follower(t, cl)
	p := cl.Proxy(n)
	c := dial(t, p.Addr(), client.WithTimeout(time.Minute))
	session := c.SessionID()
	cl.Kill(n)
	cl.Restart(n)
	node(t, c, "/")
	p.Cut()
	node(t, c, "/")
	p.Refuse(true)
	p.Cut()
	eventually(t, "the client is refused", func() bool { return c.Stats().Failures > 0 && c.State() != client.StateConnected })
	p.Refuse(false)
	node(t, c, "/")
	p.Silence(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := c.Exists(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read in the silence: %v", err)
	}
	p.Silence(false)
	p.Cut()
	node(t, c, "/")
	if c.SessionID() != session {
		t.Error("the session was lost on the way")
	}
}

// In a bubble of synctest a session lives for an hour and dies in its time, at once.
func TestNodeUnderVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zkdtest.Start(t, zkdtest.InMemory())
		p := srv.Proxy()
		c := dial(t, p.Addr(), client.WithDialer(srv.Dial), client.WithTimeout(4*time.Second))
		other := dial(t, srv.Addr(), client.WithDialer(srv.Dial))
		if _, _, err := c.Create(t.Context(), "/alive", nil, client.ModeEphemeral, nil); err != nil {
			t.Fatal(err)
		}
		session := c.SessionID()
		time.Sleep(time.Hour)
		if c.SessionID() != session || !node(t, other, "/alive") {
			t.Errorf("the session did not live for an hour: 0x%x, was 0x%x", c.SessionID(), session)
		}
		p.Silence(true)
		silent := time.Now()
		<-c.Session().Done()
		known := time.Since(silent)
		for node(t, other, "/alive") {
			time.Sleep(time.Millisecond)
		}
		if gone := time.Since(silent); known >= gone || gone > 6*time.Second {
			t.Errorf("the client knew after %v, the node went after %v", known, gone)
		}
		p.Silence(false)
		srv.Restart()
		if !node(t, other, "/") {
			t.Error("the node did not come back")
		}
	})
}

// A whole cluster and the loss of its leader, under virtual time.
func TestClusterUnderVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := zkdtest.StartCluster(t, 3, zkdtest.InMemory())
		n := follower(t, cl)
		c := dial(t, cl.Addr(n), client.WithDialer(cl.Dial))
		cl.Kill(leader(t, cl))
		began := time.Now()
		if _, _, err := c.Create(t.Context(), "/after", nil, client.ModePersistent, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the leader was replaced after %v", took)
		}
		p := cl.Proxy(n)
		d := dial(t, p.Addr(), client.WithDialer(cl.Dial))
		time.Sleep(5 * time.Minute)
		if !node(t, d, "/after") {
			t.Error("the node is gone")
		}
	})
}
