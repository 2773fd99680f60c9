package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/needs"
	"github.com/zkd-project/zkd/jepsen/netem"
)

var openToAll = zk.WorldACL(zk.PermAll)

// Servers with two addresses each, on two networks. The first network is a proxy in front of
// each server, so that it can go down for all others at once.
func TestServersWithTwoAddressesBearTheLossOfOne(t *testing.T) {
	second := "127.0.0.2"
	if l, err := net.Listen("tcp", net.JoinHostPort(second, "0")); err != nil {
		needs.Unavailable(t, fmt.Sprintf("this machine has no second loopback address: %v", err))
	} else {
		l.Close()
	}
	e := &cluster{}
	e.prepare(t, 3)
	own, others, first := make([]string, 3), make([]string, 3), make([]*netem.Proxy, 3)
	table := netem.NewTable()
	for i := range 3 {
		one := e.peerPort(i + 1)
		port, err := freeport.Find(second, 1)
		require.NoError(t, err)
		first[i], err = netem.NewProxy(table, 0, i+1, "127.0.0.1:"+strconv.Itoa(freeport.Row(t, 1)), one)
		require.NoError(t, err)
		t.Cleanup(first[i].Close)
		more := fmt.Sprintf(":1|%s:%d:2", second, port)
		own[i] = fmt.Sprintf("server.%d=%s%s", i+1, one, more)
		others[i] = fmt.Sprintf("server.%d=%s%s", i+1, first[i].Addr(), more)
	}
	for i := range 3 {
		lines := append([]string{"multiAddress.enabled=true", "reconfigEnabled=true", "skipACL=yes"}, others...)
		lines[3+i] = own[i]
		e.configure(i+1, lines...)
	}

	// When they form a cluster nobody is behind the first address of server 3.
	first[2].Down()
	for i := 1; i <= 3; i++ {
		e.start(i)
	}
	for i := 1; i <= 3; i++ {
		e.ready(i)
	}
	require.NoError(t, first[2].Up())

	stop := make(chan struct{})
	var running sync.WaitGroup
	var clients []*pipeliner
	told := make([][]string, 3)
	for i := range 3 {
		path := fmt.Sprintf("/two-%d", i)
		_, err := connect(t, e.clients[i]).Create(path, nil, 0, openToAll)
		require.NoError(t, err)
		clients = append(clients, dialPipeliner(t, e.clients[i], path))
	}
	for i, p := range clients {
		running.Go(func() {
			var err error
			if told[i], err = p.run(stop, 16); err != nil {
				t.Errorf("a client of server %d lost its connection, after %d replies: %v", i+1, len(told[i]), err)
			}
		})
	}
	goOn := func() {
		t.Helper()
		for _, p := range clients {
			from := p.done.Load()
			e.until("writes go on", func() bool { return p.done.Load() >= from+100 || t.Failed() })
		}
	}
	goOn()

	// The leader is to be one that is dialed through its proxy: whose line in the configuration,
	// which is that of the first leader, is as the others have it.
	victim := 1
	config, _, err := connect(t, e.clients[0]).Get(configNode)
	require.NoError(t, err)
	if !strings.Contains(string(config), first[0].Addr()) {
		victim = 2
	}
	require.Contains(t, string(config), first[victim-1].Addr())
	e.lead(victim, 1, 2, 3)
	goOn()
	require.NotZero(t, first[victim-1].Carried(), "nobody uses its first address")
	first[victim-1].Down()
	first[victim-1].Cut()
	e.until("nothing passes its first address", func() bool {
		first[victim-1].Cut()
		carried := first[victim-1].Carried()
		goOn()
		return carried == first[victim-1].Carried()
	})
	require.NoError(t, first[victim-1].Up())
	goOn()
	close(stop)
	running.Wait()
	for i, p := range clients {
		e.there(i%3+1, p, told[i])
	}
}
