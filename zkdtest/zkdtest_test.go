package zkdtest_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/zkdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a client that has a session.
func connect(t *testing.T, srv *zkdtest.Server) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	c, events, err := zk.Connect([]string{srv.Addr()}, patience, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	waitState(t, events, zk.StateHasSession)
	return c, events
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
	if _, err := c.Create(path, []byte(path), flags, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, c *zk.Conn, path string) bool {
	t.Helper()
	ok, _, err := c.Exists(path)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestRestartKeepsDataAndSessions(t *testing.T) {
	srv := zkdtest.Start(t)
	addr := srv.Addr()
	c, events := connect(t, srv)
	create(t, c, "/persistent", 0)
	create(t, c, "/ephemeral", zk.FlagEphemeral)
	_, before, err := c.Get("/persistent")
	if err != nil {
		t.Fatal(err)
	}
	session := c.SessionID()
	for range 3 {
		srv.Restart()
		waitState(t, events, zk.StateHasSession)
		if srv.Addr() != addr {
			t.Errorf("address %s, was %s", srv.Addr(), addr)
		}
		data, st, err := c.Get("/persistent")
		if err != nil || string(data) != "/persistent" || *st != *before {
			t.Errorf("data %q, stat %+v, error %v", data, st, err)
		}
		if c.SessionID() != session || !exists(t, c, "/ephemeral") {
			t.Errorf("session 0x%x, was 0x%x, or its ephemeral node is gone", c.SessionID(), session)
		}
	}
	create(t, c, "/later", 0)
	_, st, err := c.Get("/later")
	if err != nil || st.Czxid <= before.Czxid {
		t.Errorf("czxid 0x%x behind 0x%x, error %v", st.Czxid, before.Czxid, err)
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
