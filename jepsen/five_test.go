package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/needs"
	"github.com/zkd-project/zkd/jepsen/cluster"
	"github.com/zkd-project/zkd/jepsen/disk"
)

// Five servers under faults that are aimed at one or two of them. The runs of this package draw
// what is to happen; here a certain thing happens.

// fiveDeadline bounds each wait: the machine may be busy with other tests.
const fiveDeadline = 2 * time.Minute

type five struct {
	t *testing.T
	*cluster.Cluster
	told []string // nodes below /told whose creation was acknowledged
	next int
}

func startFive(t *testing.T, o cluster.Options) *five {
	t.Helper()
	d, err := cluster.Loopback(5)
	require.NoError(t, err)
	o.Servers, o.Dir, o.Binary = 5, t.TempDir(), cmp.Or(o.Binary, built(t))
	o.Settings = append(o.Settings, "reconfigEnabled=true", "skipACL=yes")
	c, err := cluster.New(o, d)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	f := &five{t: t, Cluster: c}
	f.whole()
	conn := f.connect(1)
	f.until("/told is made", func() bool { // a stand-still of the machine costs connections
		_, err := conn.Create("/told", nil, 0, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	})
	return f
}

// whole starts those that do not run and returns when all serve.
func (f *five) whole() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), fiveDeadline)
	defer cancel()
	require.NoError(f.t, f.StartAll(ctx))
}

// connect opens a session at some of the servers, around the faults.
func (f *five) connect(servers ...int) *zk.Conn {
	f.t.Helper()
	conn, events, err := zk.Connect(f.addresses(servers), 20*time.Second, zk.WithLogInfo(false))
	require.NoError(f.t, err)
	f.t.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

func (f *five) addresses(servers []int) []string {
	var list []string
	for _, i := range servers {
		client, _ := f.Driver().Listen(i)
		list = append(list, client)
	}
	return list
}

func (f *five) until(what string, cond func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(fiveDeadline); !cond(); time.Sleep(10 * time.Millisecond) {
		require.True(f.t, time.Now().Before(deadline), "waited in vain: %s", what)
	}
}

// leads waits for a leader that is none of these.
func (f *five) leads(not ...int) (leader int) {
	f.t.Helper()
	f.until("another server leads", func() bool {
		for i := 1; i <= 5; i++ {
			if f.Mode(i) == "leader" && !slices.Contains(not, i) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// write goes on until so many writes were acknowledged.
func (f *five) write(conn *zk.Conn, n int) {
	f.t.Helper()
	enough := len(f.told) + n
	f.until("writes are acknowledged", func() bool {
		f.next++
		path := fmt.Sprintf("/told/%06d", f.next)
		if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err == nil {
			f.told = append(f.told, path)
		}
		return len(f.told) >= enough
	})
}

// complete checks that every server has all that was acknowledged.
func (f *five) complete() {
	f.t.Helper()
	f.whole()
	for i := 1; i <= 5; i++ {
		conn := f.connect(i)
		var children []string
		f.until("a list of what is there", func() bool {
			_, err := conn.Sync("/")
			if err == nil {
				children, _, err = conn.Children("/told")
			}
			return err == nil
		})
		found := map[string]bool{}
		for _, name := range children {
			found["/told/"+name] = true
		}
		for _, path := range f.told {
			require.True(f.t, found[path], "%s was acknowledged, and server %d lacks it", path, i)
		}
		conn.Close()
	}
}

// all but some, in order.
func allBut(not ...int) []int {
	var list []int
	for i := 1; i <= 5; i++ {
		if !slices.Contains(not, i) {
			list = append(list, i)
		}
	}
	return list
}

// A leader that the others do not hear, and one that does not hear them, is replaced; the clients
// of the others go on meanwhile.
func TestFiveServersBearALeaderThatIsCutOffInOneDirection(t *testing.T) {
	t.Parallel()
	f := startFive(t, cluster.Options{})
	table := f.Driver().Table()
	for name, cut := range map[string]func(leader, other int){
		"mute": table.OneWay,
		"deaf": func(leader, other int) { table.OneWay(other, leader) },
	} {
		leader := f.leads()
		conn := f.connect(allBut(leader)...)
		f.write(conn, 10)
		for _, other := range allBut(leader) {
			cut(leader, other)
		}
		next := f.leads(leader)
		f.write(conn, 10)
		t.Logf("server %d led and is %s: then server %d leads", leader, name, next)
		table.Heal()
		f.complete()
		conn.Close()
	}
}

// Neither a leader nor a follower without room on its disk keeps five servers from writing, and
// both come back when there is room.
func TestFiveServersBearTwoFullDisks(t *testing.T) {
	if why := disk.Unavailable(); why != "" {
		needs.Unavailable(t, why)
	}
	t.Parallel()
	images := map[int]*disk.Image{}
	for i := 1; i <= 2; i++ {
		image, err := disk.New(filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if image != nil {
			t.Cleanup(func() { require.NoError(t, errors.Join(image.Empty(), image.Close(), image.Remove())) })
		}
		if err != nil {
			needs.Unavailable(t, fmt.Sprintf("a file system of its own: %v", err))
		}
		images[i] = image
	}
	dir := t.TempDir()
	f := startFive(t, cluster.Options{DataDir: func(server int) string {
		if image := images[server]; image != nil {
			return filepath.Join(image.Dir(), "data")
		}
		return filepath.Join(dir, fmt.Sprint(server))
	}})
	f.until("server 1 leads", func() bool {
		out, err := exec.Command(built(t), "member", "transfer", "1", "--server", strings.Join(f.addresses(allBut()), ",")).CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return f.Mode(1) == "leader"
	})
	conn := f.connect(3, 4, 5)
	f.write(conn, 10)
	require.NoError(t, images[1].Fill())
	next := f.leads(1)
	f.write(conn, 10)
	require.NoError(t, images[2].Fill())
	t.Logf("the leader's disk is full: server %d leads; then that of server 2, and server %d leads", next, f.leads(1, 2))
	f.write(conn, 10)
	for _, image := range images {
		require.NoError(t, image.Empty())
	}
	f.complete()
}
