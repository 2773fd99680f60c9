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
		zkdtest.Set("4lw.commands.whitelist", "*"), zkdtest.Set("maxSessionTimeout", "120000"))
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
		c, events, err := zk.Connect([]string{cl.Addr(heir)}, 2*time.Minute, zk.WithLogInfo(false))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		for ev := range events {
			if ev.State == zk.StateHasSession {
				break
			}
		}
		conns = append(conns, c)
	}
	e.until("all are there", func() bool { return sessions(heir) == 40 })
	_, err := conns[0].Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	id := conns[0].SessionID()

	// On a machine that stands still for a moment it may lose the lead again: then it is asked once more.
	e.until("it leads, without clients, and answers four-letter words", func() bool {
		if cl.Leader() != heir {
			_, _ = runCommand(t, "member", "transfer", strconv.Itoa(heir), "--server", cl.Addr(heir%3+1)+","+cl.Addr((heir+1)%3+1))
		}
		return sessions(heir) == 0 && e.mode(heir) == "leader"
	})
	follower := connect(t, cl.Addr(heir%3+1))
	found, stat, err := follower.Exists("/mine")
	require.NoError(t, err)
	require.True(t, found, "the sessions stay")
	require.Equal(t, id, stat.EphemeralOwner)
	refused, _, err := zk.Connect([]string{cl.Addr(heir)}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer refused.Close()

	// When it leads no more they are let in again.
	e.until("another one leads, and its clients are back, with their sessions", func() bool {
		if cl.Leader() == heir {
			_, _ = runCommand(t, "member", "transfer", "--server", cl.Addr(heir%3+1)+","+cl.Addr((heir+1)%3+1))
		}
		return sessions(heir) == 41
	})
	require.Equal(t, id, conns[0].SessionID())
}
