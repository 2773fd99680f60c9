package zkdtest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// bystander pings until the end and returns the longest time that a ping took.
func bystander(t *testing.T, addr string, stop <-chan struct{}) (longest func() time.Duration) {
	t.Helper()
	r := silentSession(t, addr, 4000)
	done := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for {
			select {
			case <-stop:
				done <- most
				return
			default:
			}
			sent, ok := r.ping()
			if !ok {
				t.Error("a healthy session lost its connection")
				done <- most
				return
			}
			most = max(most, time.Since(sent)-5*time.Millisecond)
		}
	}()
	return func() time.Duration { return <-done }
}

// Thousands of sessions that end, or come back, at once must not cost a healthy one its life.
func TestCrowdThatDiesOrComesBackAtOnce(t *testing.T) {
	crowd := 10_000
	if testing.Short() {
		crowd = 1_000
	}
	cl := zkdtest.StartCluster(t, 3)
	stop := make(chan struct{})
	var longest []func() time.Duration
	for i := range 3 {
		longest = append(longest, bystander(t, cl.Addr(i+1), stop))
	}
	watcher, _ := connectTo(t, []string{cl.Addr(1)}, patience)
	create(t, watcher, "/crowd", 0)

	// Each makes a session with an ephemeral node, and is gone without a word.
	var members sync.WaitGroup
	ids := make([]int64, crowd)
	passwords := make([][]byte, crowd)
	const hands = 16
	for h := range hands {
		members.Go(func() {
			for i := h; i < crowd; i += hands {
				r, resp, err := rawSession(cl.Addr(i%3+1), &wire.ConnectRequest{TimeoutMs: 20000, Password: make([]byte, 16)})
				if err != nil {
					t.Error(err)
					return
				}
				r.t = t
				r.createEphemeral(fmt.Sprintf("/crowd/%05d", i))
				ids[i], passwords[i] = resp.SessionID, resp.Password
				r.close()
			}
		})
	}
	members.Wait()
	if _, err := watcher.Sync("/crowd"); err != nil { // others may have answered before this node
		t.Fatal(err)
	}
	if _, stat, err := watcher.Get("/crowd"); err != nil || int(stat.NumChildren) != crowd {
		t.Fatalf("%v, %+v", err, stat)
	}
	// All come back at once, to other nodes, with a short timeout this time, and go again.
	start := time.Now()
	for h := range hands {
		members.Go(func() {
			for i := h; i < crowd; i += hands {
				r, resp, err := rawSession(cl.Addr((i+1)%3+1), &wire.ConnectRequest{
					TimeoutMs: 2000, SessionID: ids[i], Password: passwords[i],
				})
				if err != nil || resp.SessionID != ids[i] {
					t.Errorf("session %d did not move: %v", i, err)
					return
				}
				r.close()
			}
		})
	}
	members.Wait()
	t.Logf("%d sessions moved in %v", crowd, time.Since(start))
	eventually(t, "the crowd is expired", func() bool {
		_, stat, err := watcher.Get("/crowd")
		return err == nil && stat.NumChildren == 0
	})
	t.Logf("all expired after %v", time.Since(start))
	close(stop)
	for i, l := range longest {
		t.Logf("node %d: the longest ping took %v", i+1, l())
	}
	for i := range 3 {
		c, _ := connectTo(t, []string{cl.Addr(i + 1)}, patience)
		if _, err := c.Sync("/"); err != nil {
			t.Error(err)
		}
		if _, stat, err := c.Get("/crowd"); err != nil || stat.NumChildren != 0 {
			t.Errorf("node %d: %v, %+v", i+1, err, stat)
		}
	}
}
