package interop

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestSeveralAddresses gives clients the addresses of all members of a cluster, and kills
// its leader while they work. Those whose connection is to another member must not notice;
// those of the killed one see their connection lost, go elsewhere, and keep their session.
// ZooKeeper is not asked: its members cut all their clients when their leader is gone.
func TestSeveralAddresses(t *testing.T) {
	leaveOutOfShort(t)
	if !slices.Contains(serversUnderTest(t), zkdCluster) {
		t.Skip(serversVariable + " does not name " + zkdCluster)
	}
	c := startCluster(t, zkd, settings{})
	t.Cleanup(func() { c.agree(t) })
	t.Run("java-and-curator", func(t *testing.T) {
		runProgram(t, nil, javaProgram(t, "ClusterChecks", "-Dinterop.server="+c.addrs(), "-Dinterop.control="+startKiller(t, c)))
	})
	t.Run("kazoo", func(t *testing.T) {
		needFiles(t, "python3-kazoo", systemPython, "/usr/lib/python3/dist-packages/kazoo/client.py")
		runProgram(t, nil, exec.Command(systemPython, "-B", "python/cluster_checks.py", c.addrs(), startKiller(t, c)))
	})
	t.Run("go-zookeeper", func(t *testing.T) { goSeveralAddresses(t, c) })
	t.Run("zkcli", func(t *testing.T) { cliSeveralAddresses(t, c) })
}

// killLeader ends the leader and returns it.
func (c *cluster) killLeader() (*server, error) {
	s, err := c.awaitLeader(func() bool { return false })
	if err != nil {
		return nil, err
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.exited
	return s, nil
}

// revive starts a member again.
func revive(s *server) error {
	if err := s.tryLaunch(); err != nil {
		return err
	}
	return s.awaitServing()
}

// startKiller lets a client program kill the leader when it is ready for it. A connection
// to the returned address gives its orders, one line each: "kill" is answered by the address
// of the member that was ended, "restart" starts that one again and is answered by "ok".
func startKiller(t *testing.T, c *cluster) string {
	t.Helper()
	l := listenLoopback(t)
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.takeKills(conn)
		}
	})
	return l.Addr().String()
}

// takeKills serves one program until it hangs up, and leaves no member dead.
func (c *cluster) takeKills(conn net.Conn) {
	defer conn.Close()
	var dead *server
	restart := func() (err error) {
		if dead != nil {
			err = revive(dead)
			dead = nil
		}
		return err
	}
	for in := bufio.NewScanner(conn); in.Scan(); {
		err := errors.New("orders are kill and restart")
		answer := "ok"
		switch in.Text() {
		case "kill":
			if err = restart(); err == nil {
				if dead, err = c.killLeader(); err == nil {
					answer = dead.addr
				}
			}
		case "restart":
			err = restart()
		}
		if err != nil {
			answer = "failed: " + strings.ReplaceAll(err.Error(), "\n", " | ")
		}
		_, _ = fmt.Fprintln(conn, answer)
	}
	if err := restart(); err != nil {
		c.t.Error(err)
	}
}

// killRounds is how often the leader is killed under one kind of client.
const killRounds = 4

// goSeveralAddresses drives go-zookeeper.
func goSeveralAddresses(t *testing.T, c *cluster) {
	var workers []*goWorker
	for i := range 6 {
		w := &goWorker{path: fmt.Sprintf("/go-several-%d", i)}
		conn, _, err := zk.Connect(strings.Split(c.addrs(), ","), 20*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		w.conn = conn
		waitFor(t, patience, "a session", func() bool { return conn.State() == zk.StateHasSession })
		if _, err := conn.Create(w.path, nil, zk.FlagEphemeral, goOpen); err != nil {
			t.Fatal(err)
		}
		workers = append(workers, w)
	}
	lost := 0
	for range killRounds {
		at := map[*goWorker]string{}
		stopped := make(chan struct{})
		stop := sync.OnceFunc(func() { close(stopped) })
		t.Cleanup(stop) // of a test that failed
		var running sync.WaitGroup
		for _, w := range workers {
			at[w] = w.conn.Server()
			running.Go(func() { w.write(stopped) })
		}
		more := func() {
			for _, w := range workers {
				from := w.done.Load()
				waitFor(t, patience, "writes go on", func() bool { return w.done.Load() > from+20 })
			}
		}
		more()
		dead, err := c.killLeader()
		if err == nil {
			more()
			err = revive(dead)
		}
		if err != nil {
			t.Fatal(err)
		}
		stop()
		running.Wait()
		for _, w := range workers {
			for _, err := range w.failures {
				if !errors.Is(err, zk.ErrConnectionClosed) || at[w] != dead.addr {
					t.Errorf("%s was killed, and a client of %s got: %v", dead.addr, at[w], err)
				}
				lost++
			}
			w.failures = nil
		}
	}
	t.Logf("%d requests lost with their connection", lost)
}

// goWorker writes on one connection.
type goWorker struct {
	conn     *zk.Conn
	path     string
	done     atomic.Int64
	failures []error
}

// write sets the data of the worker's ephemeral until stop.
func (w *goWorker) write(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if _, err := w.conn.Set(w.path, []byte("x"), -1); err != nil {
			w.failures = append(w.failures, err)
		} else {
			w.done.Add(1)
		}
	}
}

// cliSeveralAddresses drives one zkCli through changes of leader.
func cliSeveralAddresses(t *testing.T, c *cluster) {
	waitFor(t, patience, "the sessions of other tests are gone", func() bool { return len(c.withSessions()) == 0 })
	cmd := javaProgram(t, "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", c.addrs())
	cli := startCli(t, cmd)
	cli.do("create -e /cli x", "")
	for round := range killRounds {
		at := c.withSessions()
		dead, err := c.killLeader()
		if err != nil {
			t.Fatal(err)
		}
		cut := slices.Equal(at, []*server{dead})
		set := fmt.Sprintf("set /cli %d", round)
		waitFor(t, patience, set+" succeeds", func() bool {
			lines := cli.do(set, "")
			for _, line := range lines {
				if !cut || !strings.Contains(line, "ConnectionLoss") && !strings.Contains(line, "WatchedEvent state:") {
					t.Fatalf("zkCli is connected to %v, %v was killed, and %s gives:\n%s", at, dead.addr, set, strings.Join(lines, "\n"))
				}
			}
			got := cli.do("get /cli", "")
			return slices.Contains(got, fmt.Sprintf("  %d", round))
		})
		if err := revive(dead); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: connected to the killed member: %t", round, cut)
	}
}

// withSessions are the members that have a session on a connection.
func (c *cluster) withSessions() []*server {
	var found []*server
	for _, s := range c.members {
		if out, err := fourLetter(s.addr, "cons", patience); err == nil && strings.Contains(out, "sid=0x") {
			found = append(found, s)
		}
	}
	return found
}
