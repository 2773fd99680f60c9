package zkdtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/zkdtest"
)

// connectTo returns a client of these nodes that has a session.
func connectTo(t *testing.T, addrs ...string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	c, events, err := zk.Connect(addrs, sessionTimeout, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	waitState(t, events, zk.StateHasSession)
	return c, events
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// leader waits until a node leads: one that has just stood still may lead no more.
func leader(t *testing.T, c *zkdtest.Cluster) (node int) {
	t.Helper()
	eventually(t, "somebody leads", func() bool { node = c.Leader(); return node != 0 })
	return node
}

func follower(t *testing.T, c *zkdtest.Cluster) int { t.Helper(); return leader(t, c)%3 + 1 }

func TestEveryNodeTakesWritesAndShowsAll(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	var conns []*zk.Conn
	for i := range 3 {
		c, _ := connectTo(t, cl.Addr(i+1))
		conns = append(conns, c)
		create(t, c, fmt.Sprintf("/from%d", i+1), 0)
	}
	for _, c := range conns {
		syncs(t, c, "/")
		for i := range 3 {
			if !exists(t, c, fmt.Sprintf("/from%d", i+1)) {
				t.Errorf("after a sync /from%d is missing", i+1)
			}
		}
	}
}

func TestSessionMovesWithItsEphemeralsAndWatches(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	c, _ := connectTo(t, strings.Split(cl.Addrs(), ",")...)
	from := 1 + slices.Index(strings.Split(cl.Addrs(), ","), c.Server()) // the client chooses
	other, _ := connectTo(t, cl.Addr(from%3+1))
	create(t, c, "/mine", zk.FlagEphemeral)
	var watch <-chan zk.Event
	err := insist(func(bool) (err error) { _, _, watch, err = c.ExistsW("/awaited"); return err })
	if err != nil {
		t.Fatal(err)
	}
	session := c.SessionID()
	cl.Kill(from)
	eventually(t, "the client is elsewhere", func() bool { return c.Server() != cl.Addr(from) && c.State() == zk.StateHasSession })
	if c.SessionID() != session {
		t.Fatalf("the session is 0x%x, it was 0x%x", c.SessionID(), session)
	}
	syncs(t, other, "/mine")
	if !exists(t, other, "/mine") {
		t.Error("the ephemeral node is gone though its session lives")
	}
	create(t, other, "/awaited", 0)
	select {
	case e := <-watch:
		if e.Type != zk.EventNodeCreated {
			t.Errorf("event %v", e)
		}
	case <-time.After(patience):
		t.Error("the watch did not move with the session")
	}
}

// Signs of life that reach a follower count.
func TestIdleSessionOfAFollowerLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := zkdtest.StartCluster(t, 3, zkdtest.InMemory())
		c := dial(t, cl.Addr(follower(t, cl)), client.WithDialer(cl.Dial), client.WithTimeout(600*time.Millisecond))
		other := dial(t, cl.Addr(leader(t, cl)), client.WithDialer(cl.Dial))
		if _, _, err := c.Create(limited(t), "/alive", nil, client.ModeEphemeral, nil); err != nil {
			t.Fatal(err)
		}
		session := c.Session()
		for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
			if !node(t, other, "/alive") {
				t.Fatalf("the session was expired after %v", time.Since(start))
			}
		}
		if err := session.Err(); err != nil {
			t.Fatalf("the client was told that its session has ended: %v", err)
		}
	})
}

// A client that dies is expired, whichever node it was connected to, and every node shows it.
func TestSilentSessionOfAFollowerIsExpiredEverywhere(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	path := func(node int) string { return fmt.Sprintf("/dies%d", node) }
	for node := range 3 {
		silentSession(t, cl.Addr(node+1), 1000, path(node))
	}
	for i := range 3 {
		other, _ := connectTo(t, cl.Addr(i+1))
		for node := range 3 {
			eventually(t, "the ephemeral node goes", func() bool { return !exists(t, other, path(node)) })
		}
	}
}

// The new leader gives every session its full timeout.
func TestSessionsSurviveTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := zkdtest.StartCluster(t, 3, zkdtest.InMemory())
		at := follower(t, cl)
		c := dial(t, cl.Addr(at), client.WithDialer(cl.Dial), client.WithTimeout(800*time.Millisecond))
		creates := func(path string, mode client.CreateMode) {
			t.Helper()
			if _, _, err := c.Create(limited(t), path, nil, mode, nil); err != nil {
				t.Fatal(err)
			}
		}
		creates("/kept", client.ModeEphemeral)
		session := c.Session()
		for range 3 {
			dead := leader(t, cl)
			if dead == at {
				cl.HandOver()
				eventually(t, "another leader", func() bool { dead = cl.Leader(); return dead != 0 && dead != at })
			}
			cl.Kill(dead)
			eventually(t, "a new leader", func() bool { return cl.Leader() != 0 })
			after := fmt.Sprintf("/after%d", dead)
			creates(after, client.ModePersistent)
			cl.Restart(dead)
			if err := c.Delete(limited(t), after, client.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		if !node(t, c, "/kept") {
			t.Error("the session was lost with a leader")
		}
		if n := c.Stats().Connections; session.Err() != nil || n != 1 {
			t.Errorf("the client had %d connections, and its session: %v", n, session.Err())
		}
	})
}

// A node that is cut off must not tell its clients that all is well: the leader expires their
// sessions, and another client may hold what they held.
func TestNodeThatIsCutOffAnswersNothing(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	node := follower(t, cl)
	c := silentSession(t, cl.Addr(node), 2000, "/lock")
	other, _ := connectTo(t, cl.Addr(leader(t, cl)))
	cl.Isolate(node)
	var answered time.Time
	gone := make(chan time.Time, 1)
	go func() {
		for {
			var ok bool
			err := insist(func(bool) (err error) { ok, _, err = other.Exists("/lock"); return err })
			if err != nil {
				t.Errorf("%v", err)
			}
			if err != nil || !ok {
				gone <- time.Now()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	for {
		at, ok := c.ping()
		if !ok {
			break
		}
		answered = at
	}
	at := <-gone
	// The client trusts its lock until the timeout after the last ping that was answered.
	if trusted := answered.Add(2 * time.Second); at.Before(trusted) {
		t.Errorf("the lock was given away %v before its holder could know", trusted.Sub(at))
	}
}

func TestLeaderThatIsCutOffStepsDownAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := zkdtest.StartCluster(t, 3, zkdtest.InMemory())
		old := leader(t, cl)
		c := dial(t, cl.Addr(old%3+1), client.WithDialer(cl.Dial))
		if _, _, err := c.Create(limited(t), "/before", nil, client.ModePersistent, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		cl.Isolate(old)
		if _, _, err := c.Create(limited(t), "/after", nil, client.ModePersistent, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("a cable that is cut cost %v", took)
		}
		cl.Heal()
		back := dial(t, cl.Addr(old), client.WithDialer(cl.Dial))
		if !node(t, back, "/after") {
			t.Error("the old leader does not show what was written without it")
		}
	})
}

// A client never sees a state older than it has seen, on any node.
func TestClientThatHasSeenMoreWaitsOrIsRefused(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	leads := leader(t, cl)
	behind := leads%3 + 1
	c, _ := connectTo(t, cl.Addr(leads))
	cl.Isolate(behind)
	for i := range 50 {
		create(t, c, fmt.Sprintf("/n%d", i), 0)
	}
	_, stat := get(t, c, "/n49")
	if _, err := rawConnect(cl.Addr(behind), stat.Czxid, 5000); err == nil {
		t.Error("a node that is behind took a client that had seen more")
	}
	cl.Heal()
	eventually(t, "the node catches up", func() bool {
		r, err := rawConnect(cl.Addr(behind), stat.Czxid, 5000)
		if err == nil {
			r.close()
		}
		return err == nil
	})
}

func TestRolesAreToldInZooKeepersWords(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	var said []string
	defer func() {
		if t.Failed() {
			t.Logf("the nodes say\n%s", strings.Join(said, "\n"))
		}
	}()
	eventually(t, "one leads and two follow", func() bool { // one that has stood still says neither for a moment
		said = nil
		for i := range 3 {
			said = append(said, word(cl.Addr(i+1), "srvr"))
		}
		all := strings.Join(said, "")
		return strings.Count(all, "Mode: leader\n") == 1 && strings.Count(all, "Mode: follower\n") == 2
	})
}

// Without a majority nothing is written, and service comes back by itself.
func TestMajorityLostAndBack(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("syncLimit", "2"))
	survivor := leader(t, cl)
	c, _ := connectTo(t, cl.Addr(survivor))
	create(t, c, "/before", 0)
	for i := range 3 {
		if i+1 != survivor {
			cl.Kill(i + 1)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Create("/without", nil, 0, zk.WorldACL(zk.PermAll))
		done <- err
	}()
	eventually(t, "clients are sent away", func() bool {
		_, err := rawConnect(cl.Addr(survivor), 0, 5000)
		return err != nil
	})
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		cl.Restart(survivor%3 + 1)
	}()
	<-restarted
	if err := <-done; err != nil && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) {
		t.Errorf("the write that was under way: %v", err)
	}
	eventually(t, "writes go on", func() bool {
		_, err := c.Create("/again", nil, 0, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	})
	if !exists(t, c, "/before") {
		t.Error("an acknowledged write is gone")
	}
	cl.Restart((survivor+1)%3 + 1)
}

// writer writes until stop, through reconnects, counts what was acknowledged, and returns that.
func writer(t *testing.T, addr string, path string, stop <-chan struct{}) (count *atomic.Int32, acknowledged func() []string) {
	t.Helper()
	c, _ := connectTo(t, addr)
	count = &atomic.Int32{}
	done := make(chan []string)
	go func() {
		var names []string
		for {
			select {
			case <-stop:
				done <- names
				return
			default:
			}
			if name, err := c.Create(path+"-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err == nil {
				names = append(names, name)
				count.Add(1)
			}
		}
	}()
	return count, func() []string { return <-done }
}

// reconfigures changes the members. It tries again what may be refused for a moment, since a node has
// just stood still, and what was done although its reply was lost.
func reconfigures(t *testing.T, c *zk.Conn, join, leave []string) {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // between two tries
		_, err := c.IncrementalReconfig(join, leave, -1)
		if err == nil {
			return
		}
		data, _ := get(t, c, "/zookeeper/config")
		done := true
		for _, line := range join {
			line, _, _ = strings.Cut(line, ";")
			done = done && strings.Contains(string(data), line)
		}
		for _, n := range leave {
			done = done && !strings.Contains(string(data), "server."+n+"=")
		}
		if done {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%v join, %v leave: %v", join, leave, err)
		}
	}
}

// 1 -> 3 -> 5 -> 3 -> 1 under load, and nothing that was acknowledged is lost.
func TestClusterGrowsAndShrinksUnderLoad(t *testing.T) {
	cl := zkdtest.StartCluster(t, 1, zkdtest.Set("standaloneEnabled", "false"),
		zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	admin, _ := connectTo(t, cl.Addr(1))
	stop := make(chan struct{})
	count, acknowledged := writer(t, cl.Addr(1), "/load", stop)
	join := func(nodes ...int) {
		t.Helper()
		for _, n := range nodes {
			reconfigures(t, admin, []string{cl.Line(n)}, nil)
			eventually(t, "the new node serves", func() bool { return strings.Contains(word(cl.Addr(n), "srvr"), "Mode: ") })
		}
	}
	for range 4 {
		cl.Add()
	}
	join(2, 3)
	join(4, 5)
	data, stat := get(t, admin, "/zookeeper/config")
	for i := range 5 {
		if line, _, _ := strings.Cut(cl.Line(i+1), ";"); !strings.Contains(string(data), line) {
			t.Errorf("server %d is not in\n%s", i+1, data)
		}
	}
	if want := fmt.Sprintf("version=%x", stat.Mzxid); !strings.HasSuffix(string(data), want) {
		t.Errorf("the configuration does not end with %s:\n%s", want, data)
	}
	for _, n := range []string{"5", "4", "3", "2"} {
		reconfigures(t, admin, nil, []string{n})
	}
	eventually(t, "many writes are acknowledged", func() bool { return count.Load() >= 100 })
	close(stop)
	for _, name := range acknowledged() {
		if !exists(t, admin, name) {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
}

func TestReconfigMayRemoveTheLeader(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	old := leader(t, cl)
	admin, _ := connectTo(t, cl.Addr(old%3+1))
	reconfigures(t, admin, nil, []string{fmt.Sprint(old)})
	eventually(t, "another leads", func() bool { l := cl.Leader(); return l != 0 && l != old })
	create(t, admin, "/after", 0)
	if data, _ := get(t, admin, "/zookeeper/config"); strings.Contains(string(data), fmt.Sprintf("server.%d=", old)) {
		t.Errorf("it is still in\n%s", data)
	}
}

func TestReconfigIsRefusedInZooKeepersWords(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	c, _ := connectTo(t, cl.Addr(2))
	for name, try := range map[string]struct {
		join, leave []string
		version     int64
		want        error
	}{
		"wrong version": {nil, []string{"3"}, 99, zk.ErrBadVersion},
		"bad syntax":    {[]string{"server.4=nonsense"}, nil, -1, zk.ErrBadArguments},
		"too few":       {nil, []string{"2", "3"}, -1, zk.ErrBadArguments},
	} {
		err := insist(func(bool) error {
			_, err := c.IncrementalReconfig(try.join, try.leave, try.version)
			return err
		})
		if !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", name, err, try.want)
		}
	}
}
