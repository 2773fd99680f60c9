package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// The leadership goes to whom it is given, whichever server is asked, and needs no
// reconfigEnabled; a client in the middle of it notices nothing.
func TestMemberTransferSaysWhoLeads(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("skipACL", "yes"))
	servers := &cluster{t: t, clients: strings.Split(cl.Addrs(), ",")}
	c := connect(t, cl.Addr(1))
	for _, to := range []int{1, 2, 3, 3} {
		// It may not have caught up with the last change yet, and lose the lead at once where the
		// machine stands still.
		servers.until(fmt.Sprintf("server %d leads, and says so itself", to), func() bool {
			code, out := runCommand(t, "member", "transfer", fmt.Sprint(to), "--server", cl.Addr(to%3+1))
			if code == exitOK {
				require.Equal(t, fmt.Sprintf("server %d leads\n", to), out)
			}
			return code == exitOK && servers.mode(to) == "leader"
		})
		_, err := c.Create("/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	servers.until("another one leads", func() bool {
		before := leaderOf(t, cl)
		code, out := runCommand(t, "member", "transfer", "-o", "json", "--server", cl.Addr(1))
		if code == exitOK {
			require.Regexp(t, `^{"leader":[123]}\n$`, out)
		}
		return code == exitOK && out != fmt.Sprintf("{\"leader\":%d}\n", before)
	})
}

func TestMemberTransferSaysWhyItChangesNothing(t *testing.T) {
	digest := "x1nq8J5GOJVPY6zgzhtTtA9izLc=" // of admin:admin
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"),
		zkdtest.Set("DigestAuthenticationProvider.superDigest", "admin:"+digest))
	lone := zkdtest.Start(t)
	admin := []string{"--auth", "digest:admin:admin"}
	four := cl.Add()
	observer := strings.TrimPrefix(strings.Replace(cl.Line(four), "participant", "observer", 1), "server.")
	change(t, cl.Addr(1), "is a member already", append([]string{"add", observer}, admin...)...)
	leader := leaderOf(t, cl)
	dead, alive := leader%3+1, cl.Addr(leader)
	cl.Kill(dead)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no right", []string{"2", "--server", alive}, "--auth-file"},
		{"no member", append([]string{"9", "--server", alive}, admin...), "server 9 is no member"},
		{"no number", append([]string{"x", "--server", alive}, admin...), `"x" is not the number of a server`},
		{"an observer", append([]string{"4", "--server", alive}, admin...), "server 4 is an observer"},
		{"two", append([]string{"1", "2", "--server", alive}, admin...), "accepts at most 1 arg"},
		{"alone", []string{"--server", lone.Addr()}, "the server runs alone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out := runCommand(t, append([]string{"member", "transfer"}, tt.args...)...)
			require.Equal(t, exitUsage, code, out)
			require.Contains(t, out, tt.want)
			require.Equal(t, 1, strings.Count(out, "\n"), out)
		})
	}
	(&cluster{t: t}).until("the death is noticed, and the leader stays", func() bool { // the machine may take it its place
		leader := leaderOf(t, cl)
		code, out := runCommand(t, append([]string{"member", "transfer", fmt.Sprint(dead), "--server", alive}, admin...)...)
		return code == exitUsage && strings.Contains(out, "is not there, is being repaired, or has not caught up") && cl.Leader() == leader
	})
}

func TestMemberTransferExplainsEveryAnswer(t *testing.T) {
	for code, want := range map[wire.Code]string{
		client.ErrNoAuth:            "--auth",
		client.ErrNewConfigNoQuorum: "server 3 is not there",
		client.ErrBadArguments:      "no member with a vote",
		client.ErrUnimplemented:     "runs alone",
		wire.OperationTimeout:       "no leader at the moment",
		client.ErrThrottled:         client.ErrThrottled.Error(),
	} {
		require.ErrorContains(t, transferError("3", &client.Error{Op: "reconfig", Err: code}), want)
	}
	require.ErrorContains(t, transferError("any", &client.Error{Op: "reconfig", Err: client.ErrNewConfigNoQuorum}), "no other server with a vote")
}

// A reconfig that other servers than ours would refuse as malformed is no transfer.
func TestOtherReconfigsAreNoTransfer(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	c := connect(t, cl.Addr(1))
	for _, tt := range []struct {
		joining, leaving []string
		want             error
	}{
		{[]string{"leader=0"}, nil, zk.ErrBadArguments},
		{[]string{"leader=256"}, nil, zk.ErrBadArguments},
		{[]string{"leader=x"}, nil, zk.ErrBadArguments},
		{[]string{"leader="}, nil, zk.ErrBadArguments},
		{[]string{"leader=9"}, nil, zk.ErrBadArguments},
		{[]string{"leader=2"}, []string{"3"}, zk.ErrBadArguments},
		{[]string{"Leader=2"}, nil, zk.ErrBadArguments},
	} {
		(&cluster{t: t}).until("the leader stays", func() bool { // the machine may take it its place
			leader := leaderOf(t, cl)
			_, err := c.IncrementalReconfig(tt.joining, tt.leaving, -1)
			if cl.Leader() != leader {
				return false
			}
			require.ErrorIs(t, err, tt.want, "%v %v", tt.joining, tt.leaving)
			return true
		})
	}
}
