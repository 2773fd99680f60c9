package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// members is what zkd member list -o json prints.
type members struct {
	Version string
	Members []struct {
		ID           int
		Role, Client string
		Peers        []string
	}
}

func listMembers(t *testing.T, servers string) members {
	t.Helper()
	code, out := runCommand(t, "member", "list", "-o", "json", "--server", servers)
	require.Zero(t, code, out)
	var m members
	require.NoError(t, json.Unmarshal([]byte(out), &m), out)
	return m
}

func roles(m members) string {
	var list []string
	for _, s := range m.Members {
		list = append(list, fmt.Sprintf("%d %s", s.ID, s.Role))
	}
	return strings.Join(list, ", ")
}

// leaderOf waits until somebody leads.
func leaderOf(t *testing.T, cl *zkdtest.Cluster) (leader int) {
	t.Helper()
	(&cluster{t: t}).until("somebody leads", func() bool {
		leader = cl.Leader()
		return leader != 0
	})
	return leader
}

// change runs zkd member until the change is made, and returns what it prints: where the machine
// stands still for a moment the leader loses its place, and gives up a change that was under way,
// or what became of it is not known. Then already is a part of what is said of one that was made.
func change(t *testing.T, servers, already string, args ...string) (out string) {
	t.Helper()
	(&cluster{t: t}).until(fmt.Sprintf("zkd member %v", args), func() bool {
		var code int
		code, out = runCommand(t, append(append([]string{"member"}, args...), "--server", servers)...)
		if code != exitOK && strings.Contains(out, already) {
			out = must(t, "member", "list", "--server", servers)
			return true
		}
		if code != exitOK {
			t.Logf("zkd member %v: %s", args, out)
		}
		return code == exitOK
	})
	return out
}

func TestMembersAreAddedPromotedAndRemoved(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	servers := cl.Addrs()
	require.Equal(t, "1 participant, 2 participant, 3 participant", roles(listMembers(t, servers)))

	four := cl.Add()
	observer := strings.TrimPrefix(strings.Replace(cl.Line(four), "participant", "observer", 1), "server.")
	out := change(t, servers, "is a member already", "add", observer)
	require.Regexp(t, `(?m)^4 +observer +node4:2888:3888 +`+cl.Addr(four)+` +-$`, out)
	require.Regexp(t, `(?m)^version [0-9a-f]+$`, out)
	e := &cluster{t: t, clients: []string{cl.Addr(four)}}
	e.ready(1)

	before := listMembers(t, servers)
	change(t, servers, "has version", "promote", "4", "--config-version", before.Version)
	after := listMembers(t, servers)
	require.Equal(t, "1 participant, 2 participant, 3 participant, 4 participant", roles(after))
	require.NotEqual(t, before.Version, after.Version)
	require.Equal(t, before.Members[3].Client, after.Members[3].Client, "a promotion changes the role alone")

	code, out := runCommand(t, "member", "remove", "1", "4", "--server", servers, "--config-version", before.Version)
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "has version "+after.Version+" and not "+before.Version)
	change(t, servers, "is no member", "remove", "4")
	require.Equal(t, "1 participant, 2 participant, 3 participant", roles(listMembers(t, servers)))
}

func TestMembersAreChangedOnlyByWhoMay(t *testing.T) {
	digest := "x1nq8J5GOJVPY6zgzhtTtA9izLc=" // of admin:admin
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"),
		zkdtest.Set("DigestAuthenticationProvider.superDigest", "admin:"+digest))
	code, out := runCommand(t, "member", "remove", "3", "--server", cl.Addrs())
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "--auth-file")
	file := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(file, []byte("# of the super user\ndigest admin:admin\n"), 0o600))
	change(t, cl.Addrs(), "is no member", "remove", "3", "--auth-file", file)
	require.Equal(t, "1 participant, 2 participant", roles(listMembers(t, cl.Addr(1))))
}

func TestMemberSaysWhatIsWrongInOneLine(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	fixed := zkdtest.StartCluster(t, 2)
	lone := zkdtest.Start(t)
	for _, tt := range []struct {
		name, args, want string
	}{
		{"no such command", "member grow", `unknown command "grow"`},
		{"add nothing", "member add", "name the server to add, for example: '4=zk4:2888:3888;2181'"},
		{"remove nothing", "member remove", "name the number of the server to remove"},
		{"no line", "member add 4", "write a server as N=HOST:PORT:PORT"},
		{"no number", "member add x=h:1:2;3", `"x" is not the number of a server`},
		{"no client port", "member add 4=h:1:2", "has no client address"},
		{"election port left out", "member add 4=h:1;2", "is not host:port:electionPort"},
		{"a member already", "member add 3=h:1:2;3", "server 3 is a member already: node3:2888:3888:participant"},
		{"an address that is taken", "member add 4=node3:2888:3889;2181", "address of server.3"},
		{"no member", "member remove 9", "server 9 is no member"},
		{"too few are left", "member remove 2 3", "fewer than two participants would be left"},
		{"nobody is left", "member remove 1 2 3", "no participant would be left"},
		{"a vote already", "member promote 2", "server 2 is no observer"},
		{"promote no member", "member promote 8", "server 8 is no member"},
		{"no version", "member remove 3 --config-version x", "--config-version x: a hexadecimal number"},
		{"no format", "member list -o xml", "--output xml: allowed: table or json"},
		{"a path", "member list --server " + cl.Addr(1) + "/app", "without a path"},
		{"no server", "member list --server 127.0.0.1:x", "--server"},
		{"credentials without scheme", "member list --auth s3cr3t", "--auth: write it as SCHEME:CREDENTIALS"},
		{"a file of credentials that is not there", "member list --auth-file /no/such", "--auth-file: "},
		{"a TLS file that is not there", "member list --tls-ca /no/such.pem", "TLS: "},
		{"changes are off", "member remove 2 --server " + fixed.Addrs(), "set reconfigEnabled=true"},
		{"a server alone", "member add 2=h:1:2;3 --server " + lone.Addr(), "standaloneEnabled=false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := strings.Fields(tt.args)
			if !strings.Contains(tt.args, "--server") && tt.name != "no such command" {
				args = append(args, "--server", cl.Addrs())
			}
			code, out := runCommand(t, args...)
			require.Equal(t, exitUsage, code, out)
			require.Contains(t, out, tt.want)
			require.Equal(t, 1, strings.Count(out, "\n"), out)
			require.True(t, strings.HasPrefix(out, "zkd: "), out)
			require.NotContains(t, out, "s3cr3t", "a credential is printed")
		})
	}
	require.Equal(t, "1 participant, 2 participant, 3 participant", roles(listMembers(t, cl.Addrs())))
}

// The server that is asked may be the one that leaves, and then has no answer to give.
func TestMemberMayRemoveTheServerThatItAsks(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"),
		zkdtest.Set("syncLimit", "2"))
	e := &cluster{t: t, clients: strings.Split(cl.Addrs(), ",")}
	var leaving int
	var out string
	e.until("the leader is removed", func() bool { // again where it loses its place while it is
		leaving = leaderOf(t, cl)
		_, out = runCommand(t, "member", "remove", fmt.Sprint(leaving), "--server", cl.Addr(leaving), "--timeout", "5s")
		return len(listMembers(t, cl.Addr(leaving%3+1)).Members) == 2
	})
	require.Contains(t, out, "not known whether the change was made", "it has nobody else to ask")
	e.until("its clients are sent away", func() bool { return e.mode(leaving) == "" })
}

// With others to ask it looks what became of the change.
func TestMemberLooksWhatBecameOfAChange(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	conn, err := client.Dial(t.Context(), cl.Addr(1))
	require.NoError(t, err)
	defer conn.Close(context.Background())
	data, _, err := conn.Get(t.Context(), configNode)
	require.NoError(t, err)
	config, err := ensemble.Parse(string(data))
	require.NoError(t, err)
	g := &group{config, conn}
	lost := errors.New("lost")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, g.settle(short, client.ReconfigRequest{Leaving: "3"}, lost), lost, "nothing has happened")
	change(t, cl.Addr(2), "is no member", "remove", "3")
	require.ErrorIs(t, g.settle(t.Context(), client.ReconfigRequest{Leaving: "2"}, lost), lost, "another change was made")
	require.NoError(t, g.settle(t.Context(), client.ReconfigRequest{Leaving: "3"}, lost))
	require.Len(t, g.Members, 2)
}

// A change waits for the server that is to join; who does not wait so long is told that it may
// still come, and nothing else is changed meanwhile.
func TestMemberThatDoesNotRunIsWaitedFor(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	e := &cluster{t: t}
	var code int
	var out string
	wait := 100 * time.Millisecond
	e.until("the change is asked for", func() bool { // a busy machine may need more time for that alone
		code, out = runCommand(t, "member", "add", "4=127.0.0.1:1:2;3", "--timeout", wait.String(), "--server", cl.Addrs())
		wait *= 2
		return !strings.Contains(out, "cannot read the members")
	})
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "it is not known whether the change was made")
	// Until it is given up no other change is taken. How long that is the machine decides.
	e.until("it is given up", func() bool {
		code, out = runCommand(t, "member", "remove", "3", "--server", cl.Addrs())
		if code != exitOK {
			require.Contains(t, out, "another change is under way")
		}
		return code == exitOK
	})
	require.Equal(t, "1 participant, 2 participant", roles(listMembers(t, cl.Addr(1))))
}

func TestMemberExplainsEveryAnswer(t *testing.T) {
	for code, want := range map[wire.Code]string{
		client.ErrReconfigDisabled:   "reconfigEnabled=true",
		client.ErrNoAuth:             "--auth",
		client.ErrBadVersion:         "has changed meanwhile",
		client.ErrReconfigInProgress: "another change is under way",
		client.ErrNewConfigNoQuorum:  "nothing was changed: a server that is to join does not run",
		client.ErrUnimplemented:      "standaloneEnabled=false",
		client.ErrBadArguments:       "fewer than two participants",
		client.ErrThrottled:          client.ErrThrottled.Error(),
	} {
		require.ErrorContains(t, changeError(&client.Error{Op: "reconfig", Err: code}), want)
	}
}

// A reconfig whose servers are not all there changes nothing, also where some of them are.
func TestMemberThatIsDeadIsRefusedAndNothingIsChanged(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"),
		zkdtest.Set("4lw.commands.whitelist", "*"))
	before := listMembers(t, cl.Addrs())
	four := strings.TrimPrefix(cl.Line(cl.Add()), "server.")
	code, out := runCommand(t, "member", "add", four, "5=127.0.0.1:1:2;3", "--server", cl.Addrs())
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "nothing was changed")
	require.Equal(t, before, listMembers(t, cl.Addrs()), "the version, too")
	e := &cluster{t: t, clients: strings.Split(cl.Addrs(), ",")}
	var mntr string
	e.until("the leader is asked", func() bool {
		mntr = e.answer(leaderOf(t, cl), "mntr")
		return strings.Contains(mntr, "zk_quorum_size")
	})
	require.Regexp(t, `zk_quorum_size\t3\n`, mntr, "nobody was let in, not even as a learner")
	change(t, cl.Addrs(), "is a member already", "add", four)
}

// Nothing may have come between what was looked at and what is asked for.
func TestMemberIsBoundToTheVersionThatItRead(t *testing.T) {
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("reconfigEnabled", "true"), zkdtest.Set("skipACL", "yes"))
	before := listMembers(t, cl.Addrs())
	change(t, cl.Addrs(), "is no member", "remove", "3")
	code, out := runCommand(t, "member", "add", "4=h:1:2;3", "--server", cl.Addrs(), "--config-version", before.Version)
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "look at it again")
}
