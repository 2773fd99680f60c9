package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// pause stops a process where it stands, and returns when it does.
func (e *cluster) pause(i int) {
	e.t.Helper()
	e.signal(i, syscall.SIGSTOP)
	stat := fmt.Sprintf("/proc/%d/stat", e.procs[i-1].Process.Pid)
	e.until(fmt.Sprintf("server %d stands still", i), func() bool {
		b, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(b), ") T ") // elsewhere than on Linux: at once
	})
}

// The leader and a follower of five stand still: the other three go on, and the two do no harm
// when they go on, too.
func TestFiveServersBearTwoThatStandStill(t *testing.T) {
	e := startEnsemble(t, 5)
	old := e.leader()
	follower, witness := old%5+1, (old+1)%5+1
	stop := make(chan struct{})
	c := connect(t, e.clients[witness-1])
	_, err := c.Create("/still", nil, 0, openToAll)
	require.NoError(t, err)
	p := dialPipeliner(t, e.clients[witness-1], "/still")
	var told []string
	over := make(chan error, 1)
	go func() {
		var err error
		told, err = p.run(stop, 16)
		over <- err
	}()
	goOn := func() {
		t.Helper()
		from := p.done.Load()
		e.until("writes go on", func() bool { return p.done.Load() >= from+100 })
	}
	goOn()
	e.pause(old)
	e.pause(follower)
	goOn()
	e.signal(old, syscall.SIGCONT)
	e.signal(follower, syscall.SIGCONT)
	e.until("all serve, under one leader", e.oneLeads)
	goOn()
	close(stop)
	require.NoError(t, <-over, "a client of a server that did not stand still lost its connection")
	for i := 1; i <= 5; i++ {
		e.there(i, p, told)
	}
}
