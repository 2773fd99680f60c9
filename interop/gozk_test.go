package interop

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestGoZookeeper drives github.com/go-zookeeper/zk.
func TestGoZookeeper(t *testing.T) {
	forEachServer(t, settings{jvm: quickReaping}, func(t *testing.T, s *server) {
		g := &goClients{server: s}
		g.conn = g.connect(t, s.addr, 20*time.Second)
		expiry := g.beginExpiry(t)
		t.Run("nodes", g.nodes)
		t.Run("errors", g.errors)
		t.Run("acl-and-auth", g.aclAndAuth)
		t.Run("multi", g.multi)
		t.Run("watches", g.watches)
		t.Run("protected-create", g.protectedCreate)
		t.Run("lock", g.lock)
		t.Run("reconnect", g.reconnect)
		t.Run("expiry", expiry)
		t.Run("pipelined", g.pipelined)
		t.Run("four-letter-words", g.fourLetterWords)
	})
}

// goClients makes connections of go-zookeeper to one server.
type goClients struct {
	server *server
	conn   *zk.Conn
}

var goOpen = zk.WorldACL(zk.PermAll)

// connect waits until a session is there. The test's end closes it.
func (g *goClients) connect(t *testing.T, addr string, timeout time.Duration, options ...zk.EventCallback) *zk.Conn {
	t.Helper()
	callback := func(zk.Event) {}
	if len(options) > 0 {
		callback = options[0]
	}
	c, _, err := zk.Connect([]string{addr}, timeout, zk.WithLogInfo(false), zk.WithLogger(quiet{}), zk.WithEventCallback(callback))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	waitFor(t, patience, "a session", func() bool { return c.State() == zk.StateHasSession })
	return c
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func (g *goClients) make(t *testing.T, path string) string {
	t.Helper()
	p, err := g.conn.Create(path, []byte("x"), 0, goOpen)
	if err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
	return p
}

func (g *goClients) nodes(t *testing.T) {
	c := g.conn
	g.make(t, "/go")
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	name, err := c.Create("/go/s-", nil, zk.FlagSequence|zk.FlagEphemeral, goOpen)
	check("create", err)
	if name != "/go/s-0000000000" {
		t.Errorf("sequential name %s", name)
	}
	_, err = c.CreateContainer("/go/c", nil, zk.FlagContainer, goOpen)
	check("create a container", err)
	_, err = c.CreateTTL("/go/t", nil, zk.FlagTTL, goOpen, time.Hour)
	check("create a TTL node", err)
	st, err := c.Set("/go", []byte("two"), 0)
	check("set", err)
	data, got, err := c.Get("/go")
	check("get", err)
	if !bytes.Equal(data, []byte("two")) || *got != *st && got.NumChildren != 3 || st.Version != 1 {
		t.Errorf("data %q, stat %+v after set %+v", data, got, st)
	}
	names, st, err := c.Children("/go")
	check("children", err)
	slices.Sort(names)
	if !slices.Equal(names, []string{"c", "s-0000000000", "t"}) || st.NumChildren != 3 {
		t.Errorf("children %q", names)
	}
	ok, st, err := c.Exists(name)
	check("exists", err)
	if !ok || st.EphemeralOwner != c.SessionID() {
		t.Errorf("owner %#x, session %#x", st.EphemeralOwner, c.SessionID())
	}
	path, err := c.Sync("/go")
	check("sync", err)
	if path != "/go" {
		t.Errorf("sync gives %q", path)
	}
	_, err = c.CreateTTL("/go/short", nil, zk.FlagTTL, goOpen, 200*time.Millisecond)
	check("create a TTL node", err)
	g.server.waitInPeace(t, "the TTL node is removed", func() bool {
		ok, _, err := c.Exists("/go/short")
		return err == nil && !ok
	})
	ok, _, err = c.Exists("/go/t")
	check("exists", err)
	if !ok {
		t.Error("the TTL node is removed before its time")
	}
	check("delete", c.Delete(name, -1))
}

func (g *goClients) errors(t *testing.T) {
	c := g.conn
	g.make(t, "/go-errors")
	for _, v := range []struct {
		want error
		do   func() error
	}{
		{zk.ErrNodeExists, func() error { _, err := c.Create("/go-errors", nil, 0, goOpen); return err }},
		{zk.ErrNoNode, func() error { _, err := c.Create("/go-errors/a/b", nil, 0, goOpen); return err }},
		{zk.ErrNoNode, func() error { _, _, err := c.Get("/go-errors/no"); return err }},
		{zk.ErrBadVersion, func() error { _, err := c.Set("/go-errors", nil, 9); return err }},
		{zk.ErrBadVersion, func() error { return c.Delete("/go-errors", 9) }},
		{zk.ErrNotEmpty, func() error { g.make(t, "/go-errors/a"); return c.Delete("/go-errors", -1) }},
		{zk.ErrInvalidACL, func() error { _, err := c.Create("/go-errors/b", nil, 0, []zk.ACL{}); return err }},
		{zk.ErrBadArguments, func() error { return c.Delete("/zookeeper", -1) }},
	} {
		if err := v.do(); !errors.Is(err, v.want) {
			t.Errorf("got %v, want %v", err, v.want)
		}
	}
}

func (g *goClients) aclAndAuth(t *testing.T) {
	bob := g.connect(t, g.server.addr, 20*time.Second)
	if err := bob.AddAuth("digest", []byte("bob:pw")); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Create("/go-acl", nil, 0, zk.AuthACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if acl, _, err := bob.GetACL("/go-acl"); err != nil || len(acl) != 1 || acl[0] != zk.DigestACL(zk.PermAll, "bob", "pw")[0] {
		t.Errorf("acl %v, %v", acl, err)
	}
	if _, _, err := g.conn.Get("/go-acl"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger's get: %v", err)
	}
	if _, err := bob.SetACL("/go-acl", goOpen, 0); err != nil {
		t.Error(err)
	}
	if _, _, err := g.conn.Get("/go-acl"); err != nil {
		t.Error(err)
	}
}

func (g *goClients) multi(t *testing.T) {
	g.make(t, "/go-multi")
	r, err := g.conn.Multi(
		&zk.CheckVersionRequest{Path: "/go-multi", Version: 0},
		&zk.CreateRequest{Path: "/go-multi/a", Acl: goOpen, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: "/go-multi", Data: []byte("y"), Version: 0},
		&zk.DeleteRequest{Path: "/go-multi/a0000000000", Version: -1},
	)
	if err != nil || len(r) != 4 || r[1].String != "/go-multi/a0000000000" || r[2].Stat.Version != 1 {
		t.Fatalf("results %+v, %v", r, err)
	}
	_, err = g.conn.Multi(&zk.SetDataRequest{Path: "/go-multi", Version: -1}, &zk.CheckVersionRequest{Path: "/go-multi", Version: 77})
	if !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("a failing multi: %v", err)
	}
	if _, st, _ := g.conn.Exists("/go-multi"); st.Version != 1 {
		t.Errorf("version %d after a failed multi", st.Version)
	}
}

func (g *goClients) watches(t *testing.T) {
	g.make(t, "/go-watch")
	_, _, data, err := g.conn.GetW("/go-watch")
	_, _, children, err2 := g.conn.ChildrenW("/go-watch")
	_, _, exists, err3 := g.conn.ExistsW("/go-watch/a")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	g.make(t, "/go-watch/a")
	if _, err := g.conn.Set("/go-watch", nil, -1); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		ch   <-chan zk.Event
		kind zk.EventType
	}{{exists, zk.EventNodeCreated}, {children, zk.EventNodeChildrenChanged}, {data, zk.EventNodeDataChanged}} {
		awaitEvent(t, v.ch, v.kind)
	}
}

func awaitEvent(t *testing.T, ch <-chan zk.Event, want zk.EventType) {
	t.Helper()
	select {
	case e := <-ch:
		if e.Type != want || e.Err != nil {
			t.Errorf("event %v (%v), want %v", e.Type, e.Err, want)
		}
	case <-time.After(patience):
		t.Errorf("no event %v", want)
	}
}

// protectedCreate loses the reply: the retry must find the node and not make a second.
func (g *goClients) protectedCreate(t *testing.T) {
	p := startProxy(t, g.server.addr)
	c := g.connect(t, p.addr, 20*time.Second)
	g.make(t, "/go-protected")
	p.order("hold")
	made := make(chan string, 1)
	go func() {
		path, err := c.CreateProtectedEphemeralSequential("/go-protected/n-", nil, goOpen)
		made <- fmt.Sprint(path, err)
	}()
	waitFor(t, patience, "the create is applied", func() bool {
		names, _, err := g.conn.Children("/go-protected")
		return err == nil && len(names) == 1
	})
	p.order("cut")
	got := <-made
	names, _, err := g.conn.Children("/go-protected")
	if err != nil || len(names) != 1 || got != "/go-protected/"+names[0]+"<nil>" {
		t.Errorf("got %s, children %q, %v", got, names, err)
	}
}

func (g *goClients) lock(t *testing.T) {
	other := g.connect(t, g.server.addr, 20*time.Second)
	var inside, worst, total atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		c := g.conn
		if i%2 == 1 {
			c = other
		}
		wg.Go(func() {
			for range 10 {
				l := zk.NewLock(c, "/go-lock", goOpen)
				if err := l.Lock(); err != nil {
					t.Error(err)
					return
				}
				worst.Store(max(worst.Load(), inside.Add(1)))
				total.Add(1)
				inside.Add(-1)
				if err := l.Unlock(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if worst.Load() != 1 || total.Load() != 60 {
		t.Errorf("%d holders at once, %d holds", worst.Load(), total.Load())
	}
}

// reconnect cuts the connection: the session, its ephemerals, its auth and its watches go on.
func (g *goClients) reconnect(t *testing.T) {
	p := startProxy(t, g.server.addr)
	c := g.connect(t, p.addr, 20*time.Second)
	if err := c.AddAuth("digest", []byte("cut:pw")); err != nil {
		t.Fatal(err)
	}
	g.make(t, "/go-cut")
	g.make(t, "/go-cut/kept")
	if _, err := c.Create("/go-cut/mine", nil, zk.FlagEphemeral, zk.AuthACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, _, missed, err := c.GetW("/go-cut")
	_, _, kept, err2 := c.GetW("/go-cut/kept")
	_, _, created, err3 := c.ExistsW("/go-cut/created")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	session := c.SessionID()
	p.order("refuse")
	waitFor(t, patience, "disconnected", func() bool { return c.State() != zk.StateHasSession })
	if _, err := g.conn.Set("/go-cut", nil, -1); err != nil {
		t.Fatal(err)
	}
	g.make(t, "/go-cut/created")
	p.order("pass")
	waitFor(t, patience, "connected again", func() bool { return c.State() == zk.StateHasSession })
	awaitEvent(t, missed, zk.EventNodeDataChanged)
	awaitEvent(t, created, zk.EventNodeCreated)
	if _, err := g.conn.Set("/go-cut/kept", nil, -1); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, kept, zk.EventNodeDataChanged)
	if _, err := c.Set("/go-cut/mine", nil, 0); err != nil || c.SessionID() != session {
		t.Errorf("session %#x, then %#x; set: %v", session, c.SessionID(), err)
	}
}

// beginExpiry makes a session that is cut off at once. Its end is looked at by the subtest that it
// returns, when most of the timeout has passed beside others: it is long enough for a machine
// that stands still for a moment.
func (g *goClients) beginExpiry(t *testing.T) func(*testing.T) {
	p := startProxy(t, g.server.addr)
	var expired atomic.Bool
	c := g.connect(t, p.addr, 5*time.Second, func(e zk.Event) {
		if e.State == zk.StateExpired {
			expired.Store(true)
		}
	})
	if _, err := c.Create("/go-expiry", nil, zk.FlagEphemeral, goOpen); err != nil {
		t.Fatal(err)
	}
	p.order("refuse")
	return func(t *testing.T) {
		g.server.waitInPeace(t, "the ephemeral goes", func() bool {
			ok, _, err := g.conn.Exists("/go-expiry")
			return err == nil && !ok
		})
		p.order("pass")
		waitFor(t, patience, "the client is told", expired.Load)
		waitFor(t, patience, "a new session", func() bool { return c.State() == zk.StateHasSession })
	}
}

func (g *goClients) pipelined(t *testing.T) {
	g.make(t, "/go-many")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				if _, err := g.conn.Create("/go-many/n-", nil, zk.FlagSequence, goOpen); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if names, _, err := g.conn.Children("/go-many"); err != nil || len(names) != 1000 {
		t.Errorf("%d children, %v", len(names), err)
	}
}

func (g *goClients) fourLetterWords(t *testing.T) {
	addrs := []string{g.server.addr}
	if ok := zk.FLWRuok(addrs, patience); !ok[0] {
		t.Error("ruok is not understood")
	}
	clients, _ := zk.FLWCons(addrs, patience) // never ok: cons also lists its own connection, without a session
	found := false
	for _, c := range clients[0].Clients {
		if c.SessionID == g.conn.SessionID() {
			found = true
			if c.Timeout != 20000 || c.LastOperation == "" || c.Received == 0 {
				t.Errorf("our line of cons: %+v", c)
			}
			if host, _, err := net.SplitHostPort(c.Addr); err != nil || host != "127.0.0.1" {
				t.Errorf("our address in cons: %q", c.Addr)
			}
		}
	}
	if !found {
		t.Errorf("session %#x is not in cons", g.conn.SessionID())
	}
	// Its srvr parser wants the build date of ZooKeeper before 3.7: neither server has it.
	if _, ok := zk.FLWSrvr(addrs, patience); ok {
		t.Error("go-zookeeper understands srvr: the date has lost the form that ZooKeeper has had since 3.7")
	}
}
