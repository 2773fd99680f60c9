package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// disturbPace is how long a cluster is left in peace between two kills, from and to.
const (
	disturbPaceFrom = 1 * time.Second
	disturbPaceTo   = 4 * time.Second
)

// disturber ends the leader of a cluster with SIGKILL again and again, and starts it again.
// One member, whose address the test has, is never ended. When that one leads there is
// nobody to kill: it is stopped for as long as the others need to elect one of them, and
// every second time a follower is killed instead.
//
// While the test runs the disturber alone starts and ends the other members. It asks the
// spared one nothing, so that the connections counted there are the test's.
type disturber struct {
	c      *cluster
	spared *server
	kicked chan chan struct{} // asks for a kill now; closed behind the kill
	stop   chan struct{}
	done   chan struct{}
	deed   sync.Mutex // held from a kill until the cluster has recovered, and by who wants peace
	err    error      // why it gave up, after done

	leaders, followers, pauses int // what it did, after done
}

// disturb starts a disturber that the test's end stops, and returns the member that it
// spares: a follower at the beginning. The test fails if the cluster did not recover from
// every kill, or if its members do not agree in the end.
func (c *cluster) disturb(t *testing.T) *server {
	t.Helper()
	d := &disturber{c: c, kicked: make(chan chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
	d.spared = c.without(c.leader())[rand.IntN(clusterSize-1)]
	c.disturber = d
	t.Cleanup(func() {
		close(d.stop)
		<-d.done
		t.Logf("killed %d leaders and %d followers, stopped the leader %d times", d.leaders, d.followers, d.pauses)
		if d.err != nil {
			t.Errorf("the cluster was killed too often: %v", d.err)
			return
		}
		c.agree(t)
	})
	go d.run()
	return d.spared
}

// disturbed says whether the other members are killed now and then.
func (s *server) disturbed() bool { return s.cluster != nil && s.cluster.disturber != nil }

// inPeace waits until all members are there, and keeps them alive until release is called. It
// is for tests that wait for the end of a session: every new leader grants each session its
// whole time anew, and some more, so that none ends while leaders die faster than that.
func (s *server) inPeace() (release func()) {
	if !s.disturbed() {
		return func() {}
	}
	s.cluster.disturber.deed.Lock()
	return s.cluster.disturber.deed.Unlock
}

// waitInPeace is waitFor for what only a leader that lives for some seconds does.
func (s *server) waitInPeace(t *testing.T, what string, cond func() bool) {
	t.Helper()
	defer s.inPeace()()
	waitFor(t, patience, what, cond)
}

// run owns the members but the spared one until stop is closed.
func (d *disturber) run() {
	defer close(d.done)
	var waiting chan struct{}
	for d.err == nil {
		d.deed.Lock()
		d.err = d.once(waiting)
		d.deed.Unlock()
		waiting = nil
		pace := disturbPaceFrom + rand.N(disturbPaceTo-disturbPaceFrom)
		select {
		case <-time.After(pace):
		case waiting = <-d.kicked:
		case <-d.stop:
			return
		}
	}
}

// kick has the next kill happen now, and returns when the leader is gone and its successor
// is not yet known; for a spared leader, when it goes on.
func (d *disturber) kick() {
	killed := make(chan struct{})
	select {
	case d.kicked <- killed:
		select {
		case <-killed:
		case <-d.done:
		}
	case <-d.done:
	}
}

// once ends the leader, waits for the next one, and starts it again. It closes killed when
// the deed is done.
func (d *disturber) once(killed chan struct{}) error {
	report := func() {
		if killed != nil {
			close(killed)
			killed = nil
		}
	}
	defer report()
	victim, err := d.victim()
	if victim == nil || err != nil {
		return err
	}
	if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("a member ended by itself (%v):\n%s", err, victim.logTail(60))
	}
	report()
	<-victim.exited
	if err := victim.tryLaunch(); err != nil {
		return err
	}
	return victim.awaitServing()
}

// victim finds whom to kill; nobody when stop is closed meanwhile.
func (d *disturber) victim() (*server, error) {
	others := d.c.without(d.spared)
	deadline := time.Now().Add(time.Minute)
	for !d.stopped() {
		following := 0
		for _, s := range others {
			switch s.mode() {
			case "leader":
				d.leaders++
				return s, nil
			case "follower":
				following++
			}
		}
		if following == len(others) { // the spared one leads, or nobody yet
			if d.followers <= d.pauses {
				d.followers++
				return others[rand.IntN(len(others))], nil
			}
			if err := d.deposeSpared(); err != nil {
				return nil, err
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("nobody leads for a minute")
		}
		time.Sleep(5 * time.Millisecond) // between two looks at the condition
	}
	return nil, nil
}

func (d *disturber) stopped() bool {
	select {
	case <-d.stop:
		return true
	default:
		return false
	}
}

// deposeSpared stops the spared member until another leads.
func (d *disturber) deposeSpared() error {
	p := d.spared.cmd.Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("the member that is spared ended by itself (%v):\n%s", err, d.spared.logTail(60))
	}
	defer func() { _ = p.Signal(syscall.SIGCONT) }()
	d.pauses++
	_, err := d.c.awaitLeader(func() bool { return false }, d.spared)
	return err
}

// agree waits until all members serve the same state.
func (c *cluster) agree(t *testing.T) {
	t.Helper()
	state := func(s *server) string {
		var b strings.Builder
		out, _ := fourLetter(s.addr, "srvr", 300*time.Millisecond)
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "Zxid: ") || strings.HasPrefix(line, "Node count: ") {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	waitFor(t, patience, "all members have the same zxid and as many nodes", func() bool {
		first := state(c.members[0])
		return first != "" && state(c.members[1]) == first && state(c.members[2]) == first
	})
}
