package zkdtest_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/internal/leak"
	"github.com/zkd-project/zkd/zkdtest"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience bounds what a test waits for, so that it fails with a reason. It is long: the machine may
// stand still for a while, again and again.
const patience = 2 * time.Minute

// sessionTimeout is that of sessions which must not end.
const sessionTimeout = 30 * time.Second

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a client that has a session.
func connect(t *testing.T, srv *zkdtest.Server) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	return connectTo(t, srv.Addr())
}

// insist tries again when the connection was lost: a server that stood still for longer than syncLimit
// sends its clients away, and go-zookeeper tells whoever waits for a reply.
func insist(do func(again bool) error) error {
	for again, limit := false, time.Now().Add(patience); ; again = true {
		err := do(again)
		if !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) || time.Now().After(limit) {
			return err
		}
		time.Sleep(2 * time.Millisecond) // between two tries
	}
}

func waitState(t *testing.T, events <-chan zk.Event, want zk.State) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.State == want {
				return
			}
		case <-limit:
			t.Fatalf("the client did not get to %v", want)
		}
	}
}

func create(t *testing.T, c *zk.Conn, path string, flags int32) {
	t.Helper()
	err := insist(func(again bool) error {
		_, err := c.Create(path, []byte(path), flags, zk.WorldACL(zk.PermAll))
		if again && errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, c *zk.Conn, path string) bool {
	t.Helper()
	var ok bool
	err := insist(func(bool) (err error) { ok, _, err = c.Exists(path); return err })
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func get(t *testing.T, c *zk.Conn, path string) (data []byte, stat *zk.Stat) {
	t.Helper()
	err := insist(func(bool) (err error) { data, stat, err = c.Get(path); return err })
	if err != nil {
		t.Fatal(err)
	}
	return data, stat
}

func syncs(t *testing.T, c *zk.Conn, path string) {
	t.Helper()
	if err := insist(func(bool) error { _, err := c.Sync(path); return err }); err != nil {
		t.Fatal(err)
	}
}

func TestRestartKeepsDataAndSessions(t *testing.T) {
	srv := zkdtest.Start(t)
	addr := srv.Addr()
	c, events := connect(t, srv)
	create(t, c, "/persistent", 0)
	create(t, c, "/ephemeral", zk.FlagEphemeral)
	_, before := get(t, c, "/persistent")
	session := c.SessionID()
	for range 3 {
		srv.Restart()
		waitState(t, events, zk.StateHasSession)
		if srv.Addr() != addr {
			t.Errorf("address %s, was %s", srv.Addr(), addr)
		}
		data, st := get(t, c, "/persistent")
		if string(data) != "/persistent" || *st != *before {
			t.Errorf("data %q, stat %+v", data, st)
		}
		if c.SessionID() != session || !exists(t, c, "/ephemeral") {
			t.Errorf("session 0x%x, was 0x%x, or its ephemeral node is gone", c.SessionID(), session)
		}
	}
	create(t, c, "/later", 0)
	if _, st := get(t, c, "/later"); st.Czxid <= before.Czxid {
		t.Errorf("czxid 0x%x behind 0x%x", st.Czxid, before.Czxid)
	}
}

func TestExpiredSessionLosesItsEphemeralsAndHearsOfIt(t *testing.T) {
	srv := zkdtest.Start(t)
	c, events := connect(t, srv)
	other, _ := connect(t, srv)
	create(t, c, "/ephemeral", zk.FlagEphemeral)
	srv.ExpireSession(c.SessionID())
	if exists(t, other, "/ephemeral") {
		t.Error("the ephemeral node is still there")
	}
	waitState(t, events, zk.StateExpired)
	srv.ExpireSession(1) // nobody's
}

func TestStoppedServerIsGone(t *testing.T) {
	srv := zkdtest.Start(t)
	srv.Stop()
	srv.Stop()
	if c, err := net.Dial("tcp", srv.Addr()); err == nil {
		_ = c.Close()
		t.Error("the port is open")
	}
	srv.Restart()
	c, _ := connect(t, srv)
	create(t, c, "/n", 0)
}

func TestServersDoNotShareData(t *testing.T) {
	a, b := zkdtest.Start(t), zkdtest.Start(t)
	ca, _ := connect(t, a)
	cb, _ := connect(t, b)
	create(t, ca, "/n", 0)
	if exists(t, cb, "/n") {
		t.Error("the other server has the node")
	}
}

func TestSettingsCount(t *testing.T) {
	srv := zkdtest.Start(t, zkdtest.Set("jute.maxbuffer", "2048"))
	c, _ := connect(t, srv)
	if _, err := c.Create("/big", make([]byte, 4096), 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("a frame beyond the limit: %v", err)
	}
}
