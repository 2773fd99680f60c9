package zkdtest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/zkdtest"
)

// connectTo returns a client of one node that has a session.
func connectTo(t *testing.T, addrs []string, timeout time.Duration) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	c, events, err := zk.Connect(addrs, timeout, zk.WithLogger(quiet{}))
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

func follower(c *zkdtest.Cluster) int { return c.Leader()%3 + 1 }

func TestEveryNodeTakesWritesAndShowsAll(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	var conns []*zk.Conn
	for i := range 3 {
		c, _ := connectTo(t, []string{cl.Addr(i + 1)}, patience)
		conns = append(conns, c)
		create(t, c, fmt.Sprintf("/from%d", i+1), 0)
	}
	for _, c := range conns {
		if _, err := c.Sync("/"); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if !exists(t, c, fmt.Sprintf("/from%d", i+1)) {
				t.Errorf("after a sync /from%d is missing", i+1)
			}
		}
	}
}

func TestSessionMovesWithItsEphemeralsAndWatches(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	c, events := connectTo(t, strings.Split(cl.Addrs(), ","), patience)
	from := 1
	for cl.Addr(from) != c.Server() { // the client chooses
		from++
	}
	other, _ := connectTo(t, []string{cl.Addr(from%3 + 1)}, patience)
	create(t, c, "/mine", zk.FlagEphemeral)
	_, _, watch, err := c.ExistsW("/awaited")
	if err != nil {
		t.Fatal(err)
	}
	session := c.SessionID()
	cl.Kill(from)
	waitState(t, events, zk.StateHasSession)
	if c.SessionID() != session {
		t.Fatalf("the session is 0x%x, it was 0x%x", c.SessionID(), session)
	}
	if _, err := other.Sync("/mine"); err != nil {
		t.Fatal(err)
	}
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
	cl := zkdtest.StartCluster(t, 3)
	c, events := connectTo(t, []string{cl.Addr(follower(cl))}, 600*time.Millisecond)
	create(t, c, "/alive", zk.FlagEphemeral)
	other, _ := connectTo(t, []string{cl.Addr(cl.Leader())}, patience)
	for start := time.Now(); time.Since(start) < 3*time.Second; {
		if !exists(t, other, "/alive") {
			t.Fatalf("the session was expired after %v", time.Since(start))
		}
		select {
		case e := <-events:
			if e.State == zk.StateExpired {
				t.Fatal("the client was told that its session has expired")
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A client that dies is expired, whichever node it was connected to, and every node shows it.
func TestSilentSessionOfAFollowerIsExpiredEverywhere(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	for node := range 3 {
		path := fmt.Sprintf("/dies%d", node)
		c := silentSession(t, cl.Addr(node+1), 500)
		c.createEphemeral(path)
		for i := range 3 {
			other, _ := connectTo(t, []string{cl.Addr(i + 1)}, patience)
			eventually(t, "the ephemeral node goes", func() bool { return !exists(t, other, path) })
		}
	}
}

// The new leader gives every session its full timeout.
func TestSessionsSurviveTheLeader(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	node := follower(cl)
	c, events := connectTo(t, []string{cl.Addr(node)}, 800*time.Millisecond)
	create(t, c, "/kept", zk.FlagEphemeral)
	for range 3 {
		dead := cl.Leader()
		if dead == node {
			cl.HandOver()
			eventually(t, "another leader", func() bool { l := cl.Leader(); return l != 0 && l != node })
			dead = cl.Leader()
		}
		cl.Kill(dead)
		eventually(t, "a new leader", func() bool { return cl.Leader() != 0 })
		create(t, c, fmt.Sprintf("/after%d", dead), 0)
		cl.Restart(dead)
		if err := c.Delete(fmt.Sprintf("/after%d", dead), -1); err != nil {
			t.Fatal(err)
		}
	}
	if !exists(t, c, "/kept") {
		t.Error("the session was lost with a leader")
	}
	for len(events) > 0 {
		if e := <-events; e.State == zk.StateExpired || e.State == zk.StateDisconnected {
			t.Errorf("the client saw %v", e)
		}
	}
}

// A node that is cut off must not tell its clients that all is well: the leader expires their
// sessions, and another client may hold what they held.
func TestNodeThatIsCutOffAnswersNothing(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	node := follower(cl)
	c := silentSession(t, cl.Addr(node), 2000)
	c.createEphemeral("/lock")
	other, _ := connectTo(t, []string{cl.Addr(cl.Leader())}, patience)
	cl.Isolate(node)
	var answered time.Time
	gone := make(chan time.Time, 1)
	go func() {
		for {
			ok, _, err := other.Exists("/lock")
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
	cl := zkdtest.StartCluster(t, 3)
	old := cl.Leader()
	c, _ := connectTo(t, []string{cl.Addr(old%3 + 1)}, patience)
	create(t, c, "/before", 0)
	start := time.Now()
	cl.Isolate(old)
	create(t, c, "/after", 0)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a cable that is cut cost %v", took)
	}
	cl.Heal()
	back, _ := connectTo(t, []string{cl.Addr(old)}, patience)
	if _, err := back.Sync("/"); err != nil {
		t.Fatal(err)
	}
	if !exists(t, back, "/after") {
		t.Error("the old leader does not show what was written without it")
	}
}

// A client never sees a state older than it has seen, on any node.
func TestClientThatHasSeenMoreWaitsOrIsRefused(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3)
	behind := follower(cl)
	c, _ := connectTo(t, []string{cl.Addr(cl.Leader())}, patience)
	cl.Isolate(behind)
	for i := range 50 {
		create(t, c, fmt.Sprintf("/n%d", i), 0)
	}
	_, stat, err := c.Get("/n49")
	if err != nil {
		t.Fatal(err)
	}
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
	leaders := 0
	for i := range 3 {
		text := word(t, cl.Addr(i+1), "srvr")
		switch {
		case strings.Contains(text, "Mode: leader\n"):
			leaders++
		case !strings.Contains(text, "Mode: follower\n"):
			t.Errorf("node %d says\n%s", i+1, text)
		}
	}
	if leaders != 1 {
		t.Errorf("%d leaders", leaders)
	}
}

// Without a majority nothing is written, and service comes back by itself.
func TestMajorityLostAndBack(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("syncLimit", "2"))
	survivor := cl.Leader()
	c, _ := connectTo(t, []string{cl.Addr(survivor)}, patience)
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
	if err := <-done; err != nil && !errors.Is(err, zk.ErrConnectionClosed) {
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

// writer writes until stop, through reconnects, and returns what was acknowledged.
func writer(t *testing.T, addrs string, path string, stop <-chan struct{}) (acknowledged func() []string) {
	t.Helper()
	c, _ := connectTo(t, strings.Split(addrs, ","), patience)
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
			}
		}
	}()
	return func() []string { return <-done }
}

// 1 -> 3 -> 5 -> 3 -> 1 under load, and nothing that was acknowledged is lost.
func TestClusterGrowsAndShrinksUnderLoad(t *testing.T) {
	cl := zkdtest.StartCluster(t, 1, zkdtest.Set("standaloneEnabled", "false"),
		zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	admin, _ := connectTo(t, []string{cl.Addr(1)}, patience)
	stop := make(chan struct{})
	acknowledged := writer(t, cl.Addr(1), "/load", stop)
	join := func(nodes ...int) {
		t.Helper()
		for _, n := range nodes {
			if _, err := admin.IncrementalReconfig([]string{cl.Line(n)}, nil, -1); err != nil {
				t.Fatalf("node %d joins: %v", n, err)
			}
			eventually(t, "the new node serves", func() bool { return strings.Contains(word(t, cl.Addr(n), "srvr"), "Mode: ") })
		}
	}
	leave := func(nodes ...string) {
		t.Helper()
		for _, n := range nodes {
			if _, err := admin.IncrementalReconfig(nil, []string{n}, -1); err != nil {
				t.Fatalf("node %s leaves: %v", n, err)
			}
		}
	}
	for range 4 {
		cl.Add()
	}
	join(2, 3)
	join(4, 5)
	data, stat, err := admin.Get("/zookeeper/config")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if line, _, _ := strings.Cut(cl.Line(i+1), ";"); !strings.Contains(string(data), line) {
			t.Errorf("server %d is not in\n%s", i+1, data)
		}
	}
	if want := fmt.Sprintf("version=%x", stat.Mzxid); !strings.HasSuffix(string(data), want) {
		t.Errorf("the configuration does not end with %s:\n%s", want, data)
	}
	leave("5", "4")
	leave("3", "2")
	close(stop)
	names := acknowledged()
	if len(names) < 100 {
		t.Errorf("%d writes were acknowledged", len(names))
	}
	for _, name := range names {
		if !exists(t, admin, name) {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
}

func TestReconfigMayRemoveTheLeader(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	leader := cl.Leader()
	admin, _ := connectTo(t, []string{cl.Addr(leader%3 + 1)}, patience)
	if _, err := admin.IncrementalReconfig(nil, []string{fmt.Sprint(leader)}, -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another leads", func() bool { l := cl.Leader(); return l != 0 && l != leader })
	create(t, admin, "/after", 0)
	data, _, err := admin.Get("/zookeeper/config")
	if err != nil || strings.Contains(string(data), fmt.Sprintf("server.%d=", leader)) {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestReconfigIsRefusedInZooKeepersWords(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	c, _ := connectTo(t, []string{cl.Addr(2)}, patience)
	for name, try := range map[string]struct {
		join, leave []string
		version     int64
		want        error
	}{
		"wrong version": {nil, []string{"3"}, 99, zk.ErrBadVersion},
		"bad syntax":    {[]string{"server.4=nonsense"}, nil, -1, zk.ErrBadArguments},
		"too few":       {nil, []string{"2", "3"}, -1, zk.ErrBadArguments},
	} {
		if _, err := c.IncrementalReconfig(try.join, try.leave, try.version); !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", name, err, try.want)
		}
	}
}
