package zkdtest_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// bystander pings until the end and returns the longest time that a ping took.
func bystander(t *testing.T, addr, path string, stop <-chan struct{}) (longest func() time.Duration) {
	t.Helper()
	r := silentSession(t, addr, 15_000, path)
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

// visit connects, makes a session or takes up the one of the request, which is that of req then, and goes
// without a word when do has done its part. It comes again if it is sent away, as servers do that have
// no leader for a moment; a session that has ended since it was taken up is no error.
func visit(addr string, req *wire.ConnectRequest, do func(r *rawClient, again bool) error) error {
	for again, limit := false, time.Now().Add(patience); ; again = true {
		r, resp, err := rawSession(addr, req)
		if err == nil {
			req.SessionID, req.Password = resp.SessionID, resp.Password
			err = do(r, again)
			r.close()
		}
		switch {
		case err == nil, again && errors.Is(err, errSession):
			return nil
		case errors.Is(err, errSession), time.Now().After(limit):
			return err
		}
		time.Sleep(2 * time.Millisecond) // between two tries
	}
}

// Thousands of sessions that end, or come back, at once must not cost a healthy one its life.
func TestCrowdThatDiesOrComesBackAtOnce(t *testing.T) {
	crowd := 10_000
	if testing.Short() {
		crowd = 1_000
	}
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("syncLimit", "100")) // a machine that stands still keeps its clients
	stop := make(chan struct{})
	var watching sync.WaitGroup // bystanders
	var over sync.Once
	end := func() { over.Do(func() { close(stop) }); watching.Wait() }
	defer end()
	var longest [3]time.Duration
	for i := range longest {
		wait := bystander(t, cl.Addr(i+1), fmt.Sprint("/bystander", i), stop)
		watching.Go(func() { longest[i] = wait() })
	}
	watcher, _ := connectTo(t, cl.Addr(1))
	create(t, watcher, "/crowd", 0)

	// Each makes a session with an ephemeral node, and is gone without a word.
	var members sync.WaitGroup
	ids := make([]int64, crowd)
	passwords := make([][]byte, crowd)
	const hands = 16
	for h := range hands {
		members.Go(func() {
			for i := h; i < crowd; i += hands {
				req := &wire.ConnectRequest{TimeoutMs: 60000, Password: make([]byte, 16)}
				err := visit(cl.Addr(i%3+1), req, func(r *rawClient, again bool) error {
					err := r.createEphemeral(fmt.Sprintf("/crowd/%05d", i))
					if again && errors.Is(err, wire.NodeExists) {
						return nil
					}
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				ids[i], passwords[i] = req.SessionID, req.Password
			}
		})
	}
	members.Wait()
	syncs(t, watcher, "/crowd") // others may have answered before this node
	if _, stat := get(t, watcher, "/crowd"); int(stat.NumChildren) != crowd {
		t.Fatalf("%+v", stat)
	}
	// All come back at once, to other nodes, with a short timeout this time, and go again.
	start := time.Now()
	for h := range hands {
		members.Go(func() {
			for i := h; i < crowd; i += hands {
				req := &wire.ConnectRequest{TimeoutMs: 2000, SessionID: ids[i], Password: passwords[i]}
				err := visit(cl.Addr((i+1)%3+1), req, func(*rawClient, bool) error { return nil })
				if err != nil || req.SessionID != ids[i] {
					t.Errorf("session %d did not move: %v", i, err)
					return
				}
			}
		})
	}
	members.Wait()
	t.Logf("%d sessions moved in %v", crowd, time.Since(start))
	eventually(t, "the crowd is expired", func() bool {
		_, stat := get(t, watcher, "/crowd")
		return stat.NumChildren == 0
	})
	t.Logf("all expired after %v", time.Since(start))
	end()
	for i, l := range longest {
		t.Logf("node %d: the longest ping took %v", i+1, l)
	}
	for i := range 3 {
		c, _ := connectTo(t, cl.Addr(i+1))
		syncs(t, c, "/")
		if _, stat := get(t, c, "/crowd"); stat.NumChildren != 0 {
			t.Errorf("node %d: %+v", i+1, stat)
		}
	}
}
