package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// peerPort is where a server is dialed by the others.
func (e *cluster) peerPort(i int) string {
	_, line, _ := strings.Cut(e.lines[i-1], "=")
	parts := strings.Split(line, ":")
	return net.JoinHostPort(parts[0], parts[1])
}

// listens waits until a server can be found by the others.
func (e *cluster) listens(i int) {
	e.t.Helper()
	e.until(fmt.Sprintf("server %d listens", i), func() bool {
		c, err := net.Dial("tcp", e.peerPort(i))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// member runs zkd member at the servers that are named, until what it asks for is so: where the
// machine stands still for a moment the leader loses its place, and gives up a change that was
// under way; or what became of it is not known.
func (e *cluster) member(args []string, servers ...int) {
	e.t.Helper()
	var at []string
	for _, i := range servers {
		at = append(at, e.clients[i-1])
	}
	e.until(fmt.Sprintf("zkd member %v", args), func() bool {
		code, out := runCommand(e.t, append(append([]string{"member"}, args...), "--timeout", "50s", "--server", strings.Join(at, ","))...)
		done := code == exitOK || strings.Contains(out, "is a member already") || strings.Contains(out, "is no member")
		if !done {
			e.t.Logf("zkd member %v: %s", args, out)
		}
		return done
	})
}

// lead makes a server the leader.
func (e *cluster) lead(i int, servers ...int) {
	e.t.Helper()
	e.until(fmt.Sprintf("server %d leads", i), func() bool {
		e.member([]string{"transfer", fmt.Sprint(i)}, servers...)
		return e.mode(i) == "leader"
	})
}

// there checks that a server has all that a client was told.
func (e *cluster) there(i int, p *pipeliner, told []string) {
	e.t.Helper()
	c := connect(e.t, e.clients[i-1])
	_, err := c.Sync("/")
	require.NoError(e.t, err)
	children, _, err := c.Children(p.path)
	require.NoError(e.t, err)
	found := map[string]bool{}
	for _, name := range children {
		found[p.path+"/"+name] = true
	}
	for n, name := range told {
		require.Equal(e.t, fmt.Sprintf("%s/n-%010d", p.path, n), name, "a write was lost, doubled or overtaken")
		require.True(e.t, found[name], "%s was acknowledged, and server %d lacks it", name, i)
	}
	c.Close()
}

// From one server to three and to five, and back to three, by the command, while clients write:
// those of the servers that stay notice nothing, and of those that go nothing is lost that was
// acknowledged.
func TestProcessesGrowAndShrinkUnderLoad(t *testing.T) {
	const window = 16
	e := &cluster{}
	e.prepare(t, 5)
	for i := range e.lines {
		e.lines[i] += ":participant;" + e.clients[i]
	}
	for i := 1; i <= 5; i++ { // each knows those that are there when it comes, and itself
		known := append(slices.Clone(e.lines[:[]int{0, 1, 1, 3, 3}[i-1]]), e.lines[i-1])
		e.configure(i, append(known, "standaloneEnabled=false", "reconfigEnabled=true", "skipACL=yes")...)
	}
	e.start(1)
	e.ready(1)
	stop := make(chan struct{})
	var running sync.WaitGroup
	clients, told, ended := map[int]*pipeliner{}, map[int][]string{}, map[int]error{}
	var mu sync.Mutex // guards told and ended
	write := func(i int) {
		path := fmt.Sprintf("/at-%d", i)
		admin := connect(t, e.clients[i-1])
		_, err := admin.Create(path, nil, 0, openToAll)
		require.NoError(t, err)
		admin.Close()
		p := dialPipeliner(t, e.clients[i-1], path)
		clients[i] = p
		running.Go(func() {
			names, err := p.run(stop, window)
			mu.Lock()
			defer mu.Unlock()
			told[i], ended[i] = names, err
		})
	}
	goOn := func(servers ...int) {
		t.Helper()
		for _, i := range servers {
			from := clients[i].done.Load()
			e.until(fmt.Sprintf("writes at server %d", i), func() bool { return clients[i].done.Load() >= from+100 })
		}
	}
	write(1)
	goOn(1)
	for _, pair := range [][]int{{2, 3}, {4, 5}} {
		add := []string{"add"}
		for _, i := range pair {
			e.start(i)
			e.listens(i)
			_, line, _ := strings.Cut(e.lines[i-1], ".")
			add = append(add, line)
		}
		e.member(add, 1)
		for _, i := range pair {
			e.ready(i)
			write(i)
		}
		goOn(append(pair, 1)...)
	}
	require.Equal(t, "1 participant, 2 participant, 3 participant, 4 participant, 5 participant", roles(listMembers(t, e.clients[0])))

	e.lead(5, 1)
	goOn(1, 2, 3, 4, 5)
	e.member([]string{"remove", "4", "5"}, 1, 2, 3) // one of which leads
	for _, i := range []int{4, 5} {
		e.signal(i, syscall.SIGTERM)
		require.NoError(t, e.procs[i-1].Wait(), "SIGTERM must end with exit code 0")
		e.procs[i-1] = nil
	}
	goOn(1, 2, 3)
	close(stop)
	running.Wait()
	require.Equal(t, "1 participant, 2 participant, 3 participant", roles(listMembers(t, e.clients[0])))
	for i := 1; i <= 5; i++ {
		if i <= 3 {
			require.NoError(t, ended[i], "a client of a server that stays, after %d replies", len(told[i]))
			require.Len(t, told[i], int(clients[i].sent.Load()))
		}
		for at := 1; at <= 3; at++ {
			e.there(at, clients[i], told[i])
		}
	}
}
