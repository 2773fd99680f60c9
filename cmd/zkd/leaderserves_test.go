package main

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zkdtest"
)

// sessionLine is a line of cons with a session.
var sessionLine = regexp.MustCompile(`sid=0x[1-9a-f]`)

// With leaderServes=no the clients of a server that is elected move, and keep their sessions.
func TestLeaderThatDoesNotServeSendsItsClientsElsewhere(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("leaderServes", "no"), zkdtest.Set("skipACL", "yes"),
		zkdtest.Set("4lw.commands.whitelist", "*"))
	e := &cluster{t: t}
	for i := 1; i <= 3; i++ {
		e.clients = append(e.clients, cl.Addr(i))
	}
	sessions := func(i int) int { // connections that are no four-letter word
		return len(sessionLine.FindAllString(e.word(i, "cons"), -1))
	}
	heir := cl.Leader()%3 + 1
	var conns []*zk.Conn
	for range 40 { // all of them at the server that will lead
		c, events, err := zk.Connect([]string{cl.Addr(heir)}, 20*time.Second, zk.WithLogInfo(false))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		for ev := range events {
			if ev.State == zk.StateHasSession {
				break
			}
		}
		conns = append(conns, c)
	}
	require.Equal(t, 40, sessions(heir))
	_, err := conns[0].Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	id := conns[0].SessionID()

	e.until("it leads", func() bool {
		code, _ := runCommand(t, "member", "transfer", strconv.Itoa(heir), "--server", cl.Addr(heir%3+1)+","+cl.Addr((heir+1)%3+1))
		return code == exitOK
	})
	e.until("its clients are gone", func() bool { return cl.Leader() == heir && sessions(heir) == 0 })
	require.Equal(t, "leader", e.mode(heir), "four-letter words are answered")
	follower := connect(t, cl.Addr(heir%3+1))
	found, stat, err := follower.Exists("/mine")
	require.NoError(t, err)
	require.True(t, found, "the sessions stay")
	require.Equal(t, id, stat.EphemeralOwner)
	refused, _, err := zk.Connect([]string{cl.Addr(heir)}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer refused.Close()

	// When it leads no more they are let in again.
	e.until("another one leads", func() bool {
		code, _ := runCommand(t, "member", "transfer", "--server", cl.Addr(heir%3+1)+","+cl.Addr((heir+1)%3+1))
		return code == exitOK
	})
	e.until("its clients are back, with their sessions", func() bool { return sessions(heir) == 41 })
	require.Equal(t, id, conns[0].SessionID())
}
