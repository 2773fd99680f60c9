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
		var out string
		servers.until(fmt.Sprintf("server %d leads", to), func() bool { // it may not have caught up with the last change yet
			var code int
			code, out = runCommand(t, "member", "transfer", fmt.Sprint(to), "--server", cl.Addr(to%3+1))
			return code == exitOK
		})
		require.Equal(t, fmt.Sprintf("server %d leads\n", to), out)
		servers.until("it says so itself", func() bool { return servers.mode(to) == "leader" })
		_, err := c.Create("/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	var out string
	servers.until("another one leads", func() bool {
		var code int
		code, out = runCommand(t, "member", "transfer", "-o", "json", "--server", cl.Addr(1))
		return code == exitOK
	})
	require.Regexp(t, `^{"leader":[12]}\n$`, out)
}

func TestMemberTransferSaysWhyItChangesNothing(t *testing.T) {
	digest := "x1nq8J5GOJVPY6zgzhtTtA9izLc=" // of admin:admin
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"),
		zkdtest.Set("DigestAuthenticationProvider.superDigest", "admin:"+digest))
	lone := zkdtest.Start(t)
	admin := []string{"--auth", "digest:admin:admin"}
	four := cl.Add()
	observer := strings.TrimPrefix(strings.Replace(cl.Line(four), "participant", "observer", 1), "server.")
	code, out := runCommand(t, append([]string{"member", "add", observer, "--server", cl.Addr(1)}, admin...)...)
	require.Zero(t, code, out)
	dead := cl.Leader()%3 + 1
	alive := cl.Addr(cl.Leader())
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
	leader := cl.Leader()
	(&cluster{t: t}).until("the death is noticed", func() bool {
		code, out = runCommand(t, append([]string{"member", "transfer", fmt.Sprint(dead), "--server", alive}, admin...)...)
		return code == exitUsage && strings.Contains(out, "is not there, is being repaired, or has not caught up")
	})
	require.Equal(t, leader, cl.Leader())
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
	leader := cl.Leader()
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
		_, err := c.IncrementalReconfig(tt.joining, tt.leaving, -1)
		require.ErrorIs(t, err, tt.want, "%v %v", tt.joining, tt.leaving)
	}
	require.Equal(t, leader, cl.Leader())
}
