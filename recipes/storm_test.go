package recipes

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/zkdtest"
)

// A storm is a cluster of three under a recipe, with everything going wrong in the background: the
// leader is killed, nodes are cut off and stand still, connections are cut and fall silent. What is
// asked of the recipe must hold all the same; every node is back in the end.
type storm struct {
	*rig
	cl *zkdtest.Cluster

	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	taps   []*tap // guarded by mu
	faults map[string]int
	pause  time.Duration // between two faults, about
}

func newStorm(t testing.TB) *storm {
	r := newRigOf(t, 3)
	return &storm{
		rig: r, cl: r.srv.(several).Cluster, stop: make(chan struct{}), done: make(chan struct{}),
		faults: map[string]int{}, pause: 60 * time.Millisecond,
	}
}

// join returns a client whose connections the storm hits.
func (s *storm) join(opts ...client.Option) *client.Client {
	p := &tap{}
	s.mu.Lock()
	s.taps = append(s.taps, p)
	s.mu.Unlock()
	return s.dial(append([]client.Option{p.option(), fastReconnect()}, opts...)...)
}

func fastReconnect() client.Option {
	return client.WithReconnect(client.BackoffFunc(func(int) (time.Duration, bool) { return 5 * time.Millisecond, true }))
}

// begin starts the faults; leaderEvery is how often the leader is killed.
func (s *storm) begin(leaderEvery time.Duration) {
	go func() {
		defer close(s.done)
		kill := time.Now().Add(leaderEvery / 2)
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(rand.N(2 * s.pause)): // the rhythm of the faults
			}
			if time.Now().After(kill) {
				s.killLeader()
				kill = time.Now().Add(leaderEvery)
				continue
			}
			s.fault()
		}
	}()
}

// end ends the faults, and returns when all is whole again.
func (s *storm) end() {
	close(s.stop)
	<-s.done
	s.cl.Heal()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Logf("faults: %v", s.faults)
}

func (s *storm) count(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[fault]++
}

func (s *storm) killLeader() {
	if l := s.cl.Leader(); l != 0 {
		s.count("leader killed")
		s.cl.Kill(l)
		s.cl.Restart(l)
	}
}

// fault does one small thing.
func (s *storm) fault() {
	s.mu.Lock()
	var p *tap
	if len(s.taps) > 0 {
		p = s.taps[rand.IntN(len(s.taps))]
	}
	s.mu.Unlock()
	node := 1 + rand.IntN(3)
	switch i := rand.IntN(12); {
	case i == 0:
		s.count("node cut off")
		s.cl.Isolate(node)
		s.rest(300 * time.Millisecond)
		s.cl.Heal()
	case i == 1:
		s.count("node paused")
		s.cl.Pause(node)
		s.rest(200 * time.Millisecond)
		s.cl.Heal()
	case i == 2 && p != nil:
		s.count("client silent")
		p.silent.Store(true)
		s.rest(1200 * time.Millisecond)
		p.silent.Store(false)
		p.cut()
	case p != nil:
		s.count("connection cut")
		p.cut()
	}
}

// rest waits a part of d, or until the storm ends.
func (s *storm) rest(d time.Duration) {
	select {
	case <-time.After(d/2 + rand.N(d/2)): // how long the fault lasts
	case <-s.stop:
	}
}
