package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nobody is an address where no server is: a command that gets there ends with exit code 3.
const nobody = "127.0.0.1:1"

// Wrong use of every command is told in one line, with exit code 2, and without a connection.
func TestWrongUseIsOneLineWithoutAConnection(t *testing.T) {
	for name, cmd := range newTable() {
		cases := [][]string{{name, "-Z"}}
		if cmd.min > 0 {
			cases = append(cases, []string{name})
		}
		if cmd.max >= 0 {
			cases = append(cases, append([]string{name}, slices.Repeat([]string{"/a"}, cmd.max+1)...))
		}
		for _, i := range cmd.paths {
			args := slices.Repeat([]string{"/a"}, max(cmd.min, i+1))
			args[i] = "no-path"
			cases = append(cases, append([]string{name}, args...))
		}
		for _, args := range cases {
			o := runWith("", append([]string{"-server", nobody}, args...)...)
			require.Equal(t, exitUsage, o.code, "%v: %s", args, o.err)
			require.Empty(t, o.out, "%v", args)
			require.Equal(t, 1, strings.Count(o.err, "\n"), "%v: %s", args, o.err)
			if args[len(args)-1] == "-Z" || !slices.Contains(args, "no-path") {
				require.Contains(t, o.err, cmd.usage(), "%v", args)
			}
		}
	}
}

func TestWrongOptionsBeforeTheCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown option -foo":          {"-foo", "ls", "/"},
		"-server needs a value":        {"-server"},
		"-timeout soon":                {"-timeout", "soon", "ls", "/"},
		"-o xml is no format":          {"-o", "xml", "ls", "/"},
		"Command not found: nonsense":  {"-server", nobody, "nonsense"},
		"-r takes no value":            {"-r=1"},
		"-server: servers \":1:2\"":    {"-server", ":1:2", "ls", "/"},
		"relative paths not allowed":   {"-server", nobody + "/../x", "ls", "/"},
		"-o yaml is no format; it is ": {"-server", nobody, "ls", "-o", "yaml", "/"},
	} {
		o := runWith("", args...)
		require.Equal(t, exitUsage, o.code, "%v: %s", args, o.err)
		require.Contains(t, o.err, want)
		require.Equal(t, 1, strings.Count(o.err, "\n"), o.err)
	}
}

func TestWrongValues(t *testing.T) {
	f := newFixture(t)
	f.create("/a")
	for want, line := range map[string]string{
		"-v x is no version":                  "delete -v x /a",
		"-b argument must be an int":          "deleteall -b x /a",
		"not base64":                          "set -b /a !",
		"-c cannot be combined":               "create -c -e /b",
		"-t argument must be":                 "create -t x /b",
		"-t 0":                                "create -t 0 /b",
		"TTLs cannot be used with Eph":        "create -e -t 5 /b",
		"TTLs cannot be used with Con":        "create -c -t 5 /b",
		"-n 0: it is a number, at least 1":    "setquota -n 0 /a",
		"one of -n, -b, -N and -B is needed":  "setquota /a",
		"cannot set a quota under the path":   "setquota -n 5 /zookeeper/quota/a",
		"only one of -n, -b":                  "delquota -n -b /zookeeper",
		"Unknown perm type: x":                "setAcl /a world:anyone:x",
		"the root cannot be deleted":          "deleteall /",
		"Can't use -file or -members":         "reconfig -add server.1=x -members y",
		"Can't use -file and":                 "reconfig -file x -members y",
		"-v must be followed by":              "reconfig -v x -add y",
		"it is on or off":                     "printwatches maybe",
		"no regular expression":               "grep ( /a",
		"-L 0":                                "tree -L 0 /a",
		"-n [: it is a pattern":               "find -n [ /a",
		"-O x":                                "find -O x /a",
		"find: -b x":                          "find -b x /a",
		"watch: -n x":                         "watch -n x /a",
		"/a/b is inside of /a":                "cp /a /a/b",
		"mv: /a/b is inside of /a":            "mv /a /a/b",
		"-F zip: it is json or tar":           "export -F zip /a",
		"the standard input holds commands":   "import - /b",
		"Command index out of range":          "redo 99",
		"addWatch [-m mode] path":             "addWatch -m x /a",
		"Command not found: x":                "help x",
		"reconfig [-s]":                       "reconfig",
		"it has no line server.N":             "reconfig -file /dev/null",
		"a word begins with \" and has no \"": `set /a "b`,
	} {
		if strings.HasPrefix(line, "delquota") {
			f.ok("setquota", "-n", "50", "/zookeeper")
		}
		o := f.script(line)
		require.Equal(t, exitUsage, o.code, "%s: %s", line, o.err)
		require.Contains(t, o.err, want, line)
		require.Equal(t, 1, strings.Count(o.err, "\n"), "%s: %s", line, o.err)
	}
}

func TestExitCodes(t *testing.T) {
	f := newFixture(t)
	f.create("/a=x")
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		code int
		err  string
	}{
		{[]string{"get", "/a"}, exitOK, ""},
		{[]string{"get", "/no"}, exitRefused, "Node does not exist: /no"},
		{[]string{"set", "-v", "7", "/a", "x"}, exitRefused, "version No is not valid : /a"},
		{[]string{"create", "/a"}, exitRefused, "Node already exists: /a"},
		{[]string{"delete", "/zookeeper"}, exitRefused, "Arguments are not valid : /zookeeper"},
		{[]string{"reconfig", "-remove", "1"}, exitRefused, "Reconfig"},
		{[]string{"addauth", "nonsense", "x"}, exitRefused, "AuthFailed"},
		{[]string{"removewatches", "/a"}, exitRefused, "KeeperErrorCode = No such watcher for /a"},
		{[]string{"get"}, exitUsage, "get [-s]"},
		{[]string{"diff", "/a", "/zookeeper"}, exitDiffers, ""},
		{[]string{"grep", "nothing", "/"}, exitDiffers, ""},
		{[]string{"import", missing}, exitLocal, missing},
		{[]string{"export", "/a", filepath.Join(missing, "x")}, exitLocal, missing},
	} {
		o := f.run(c.args...)
		require.Equal(t, c.code, o.code, "%v: %s", c.args, o.err)
		require.Contains(t, o.err, c.err, "%v", c.args)
	}
	o := runWith("", "-server", nobody, "ls", "/")
	require.Equal(t, exitNoConnection, o.code)
	require.Equal(t, "no connection to "+nobody+": every server refuses connections; the last attempt: dial tcp 127.0.0.1:1: connect: connection refused\n", o.err)
}

// A script goes on after a failure and ends with the code of the last command, as with zkCli; -e
// makes the first failure the last.
func TestScripts(t *testing.T) {
	f := newFixture(t)
	o := f.script("# a comment", "", "get /no", "create /a one", "get /a")
	require.Equal(t, outcome{exitOK, "one\n", "Node does not exist: /no\nCreated /a\n"}, o)
	o = f.script("create /b", "get /no")
	require.Equal(t, exitRefused, o.code)
	o = runWith("get /no\nget /a\n", "-server", f.srv.Addr(), "-e")
	require.Equal(t, outcome{exitRefused, "", "Node does not exist: /no\n"}, o)
	o = f.script("get /no", "quit", "get /a")
	require.Equal(t, outcome{exitRefused, "", "Node does not exist: /no\n"}, o, "quit keeps the code")
	o = f.script("close", "get /a")
	require.Equal(t, exitNoConnection, o.code)
	require.Contains(t, o.out, "WatchedEvent state:Closed type:None path:null")
	require.Equal(t, "Not connected\n", o.err)
	o = f.script("close", "connect "+f.srv.Addr()+"/a", "create /below x", "get /below")
	require.Equal(t, exitOK, o.code, o.err)
	require.Equal(t, "x", f.data("/a/below"))
}

func TestSessionEndsWithTheCommand(t *testing.T) {
	f := newFixture(t)
	f.ok("-timeout", "40000", "create", "-e", "/gone")
	require.Eventually(t, func() bool {
		_, found, err := f.c.Exists(t.Context(), "/gone")
		return err == nil && !found
	}, 30*time.Second, time.Millisecond, "the ephemeral node goes with its session, long before the timeout is over")
	o := f.script("create -e /e", "getEphemerals", "stat /e")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.out, "[/e]")
}

// Nothing of a credential may come out, wherever the line breaks.
func TestSecretsAreNotKept(t *testing.T) {
	f := newFixture(t)
	const secret = "hunter2"
	for _, line := range []string{
		"addauth digest bob:" + secret, "addauth nonsense " + secret, "addauth digest -" + secret,
		`addauth digest "` + secret, "  addauth digest " + secret, "addauth digest x " + secret,
		"addAuth digest " + secret, `"addauth" digest ` + secret, "addauth\tdigest\t" + secret,
	} {
		o := f.script(line, "history", "redo 0")
		require.NotContains(t, o.out+o.err, secret, line)
		require.Contains(t, o.out, "0 - "+secretLine, line)
		require.Contains(t, o.err, "may hold a secret", line)
	}
	file := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(file, []byte("# me\ndigest bob:pw\n\n"), 0o600))
	o := runWith("", "-server", f.srv.Addr(), "-auth-file", file, "whoami")
	require.Contains(t, o.out, "digest: bob")
	require.NoError(t, os.WriteFile(file, []byte("digest bob:pw\n"+secret+"\n"), 0o600))
	o = runWith("", "-server", f.srv.Addr(), "-auth-file", file, "whoami")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.err, file+":2:")
	require.NotContains(t, o.err, secret)
}

func TestRefusedCredentials(t *testing.T) {
	f := newFixture(t)
	file := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(file, []byte("nonsense x\n"), 0o600))
	o := runWith("", "-server", f.srv.Addr(), "-auth-file", file, "ls", "/")
	require.Equal(t, exitRefused, o.code)
	require.Contains(t, o.err, "refuses the credentials")
}

func TestChrootIsTheRoot(t *testing.T) {
	f := newFixture(t)
	f.create("/app", "/app/x=1")
	under := func(args ...string) outcome {
		return runWith("", append([]string{"-server", f.srv.Addr() + "/app"}, args...)...)
	}
	require.Equal(t, "[x]\n", under("ls", "/").out)
	require.Equal(t, "1\n", under("get", "/x").out)
	require.Equal(t, "Node does not exist: /no\n", under("get", "/no").err)
	require.Equal(t, exitOK, under("setquota", "-n", "5", "/x").code)
	require.Contains(t, f.ok("listquota", "/app/x"), "Output quota for /app/x count=5")
	require.Equal(t, exitOK, under("config").code, "it is outside of the chroot")
	require.Equal(t, exitOK, under("deleteall", "/").code)
	_, found, err := f.c.Exists(t.Context(), "/app")
	require.NoError(t, err)
	require.False(t, found)
}
