package cli

import (
	"bytes"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/needs"
)

// zkCli is ZooKeeper's, as Debian installs it.
const zkCli = "/usr/share/zookeeper/bin/zkCli.sh"

// needZkCli skips the test where zkCli is not installed, or fails it where all clients are
// required (see package interop).
func needZkCli(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Java: left out of -short")
	}
	for _, name := range []string{zkCli, "/usr/bin/java"} {
		if _, err := os.Stat(name); err == nil {
			continue
		}
		needs.Unavailable(t, name+" is not here; on Debian: apt-get install zookeeper default-jre-headless")
	}
}

// original runs zkCli and takes off what is not the answer: the greeting, and Java's log.
func original(t *testing.T, addr, stdin string, args ...string) outcome {
	t.Helper()
	cmd := exec.Command(zkCli, append([]string{"-server", addr}, args...)...)
	cmd.Env = append(os.Environ(), "ZOO_LOG_DIR="+t.TempDir(), "JVMFLAGS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &err
	_ = cmd.Run()
	o := outcome{code: cmd.ProcessState.ExitCode()}
	o.out = out.String()
	for _, line := range []string{
		// Printed by another thread, with an empty line before each; the answer may come in between.
		"\nWATCHER::", "\nWatchedEvent state:SyncConnected type:None path:null",
		"Connecting to " + addr, "Welcome to ZooKeeper!", "JLine support is disabled",
	} {
		o.out = strings.Replace(o.out, line+"\n", "", 1)
	}
	for line := range strings.Lines(err.String()) {
		if !strings.HasPrefix(line, "SLF4J: ") {
			o.err += line
		}
	}
	return o
}

var anyZxid = regexp.MustCompile(`(?m)^([cmp]Zxid = )0x[0-9a-f]+$`)

// masked masks every line, the zxids as well: both programs write to one server.
func masked(text string) []string {
	var out []string
	for line := range strings.Lines(anyZxid.ReplaceAllString(text, "${1}<zxid>")) {
		out = append(out, mask(strings.TrimRight(line, "\n")))
	}
	return out
}

// The roots below which each program works.
const (
	theirRoot = "/their-root"
	ourRoot   = "/ours"
)

// compare checks that both programs have said the same.
func compare(t *testing.T, theirs, ours outcome, hint string) {
	t.Helper()
	back := strings.NewReplacer(theirRoot, "/R", ourRoot, "/R",
		"addauth digest bob:pw", secretLine, // the one line that is not the same: a secret
		"; history lists the numbers", "", "out of range: 99", "out of range")
	require.Equal(t, masked(back.Replace(theirs.out)), masked(back.Replace(ours.out)), hint)
	require.Equal(t, masked(back.Replace(theirs.err)), masked(back.Replace(ours.err)), hint)
}

// TestAnswersAreZkClis runs each command by both programs, one shot each, on one server. Both
// streams must be the same, and the exit code, but for wrong use: 2 instead of 1.
func TestAnswersAreZkClis(t *testing.T) {
	needZkCli(t)
	f := newFixture(t)
	f.create(theirRoot, ourRoot)
	for line, code := range ordered(
		"create /R/a one", exitOK,
		"create /R/a one", exitRefused,
		"get -s /R/a", exitOK,
		"get -w /R/a", exitOK,
		"get /R/no", exitRefused,
		"ls -s /R", exitOK,
		"ls -R /R", exitOK,
		"set -s -v 0 /R/a zwei", exitOK,
		"getAcl -s /R/a", exitOK,
		"stat /R/a", exitOK,
		"setquota -n 1 /R/a", exitOK,
		"setquota -b 1 /R/a/b", exitRefused,
		"sync /R/a", exitOK,
		"deleteall /R/a", exitOK,
		"delete relative", exitUsage,
		"ls", exitUsage,
	) {
		theirs := original(t, f.srv.Addr(), "", strings.Fields(strings.ReplaceAll(line, "/R", theirRoot))...)
		ours := f.run(strings.Fields(strings.ReplaceAll(line, "/R", ourRoot))...)
		compare(t, theirs, ours, line)
		require.Equal(t, code, ours.code, line)
		if code == exitUsage {
			code = exitRefused
		}
		require.Equal(t, code, theirs.code, line)
	}
}

// ordered yields pairs of its arguments.
func ordered(pairs ...any) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield(pairs[i].(string), pairs[i+1].(int)) {
				return
			}
		}
	}
}

// Both programs read the same script from standard input.
func TestScriptIsReadAsByZkCli(t *testing.T) {
	needZkCli(t)
	f := newFixture(t)
	f.create(theirRoot, ourRoot)
	script := strings.Join([]string{
		`create /R/q "a b"`, "get /R/q", "set /R/q 'it'", "get /R/q", "set /R/q it's", "get /R/q", `set /R/q ""`, "get /R/q",
		"set /R/q -- -5", "get -sw /R/q", "", "  ls   /R ", "get /R/no", "create -e /R/e", "getEphemerals /R/e",
		"create -s /R/s- x", "create /R/q/b", "create /R/acl x world:anyone:cdra,ip:10.0.0.0/8:r", "get /R/q watch",
		"get /R/q/b", "ls /R/q/b", "set /R/acl x", "stat /R/no", "getAcl -s /R/acl", "setAcl -s /R/q world:anyone:cdrwa",
		"setAcl -R /R/q world:anyone:cdrwa", "setquota -n 1 /R/q", "setquota -B 500 /R/q", "listquota /R/q",
		"setquota -b 1 /R/q/b", "setquota -n 1 /R", "setquota -n 1 /R/no", "delquota -n /R/q", "listquota /R/q",
		"delquota /R/q", "delquota /R/q", "listquota /R/q", "getAllChildrenNumber /R", "config -s", "config -c",
		"delete /R/q", "delete -v 9 /R/q/b", "deleteall /R/no", "create /R/e/x", "create -c /R/c", "create -t 100000 /R/t x",
		"addauth digest bob:pw", "create /R/bobs x auth::cdrwa", "getAcl /R/bobs", "history", "redo 1", "redo 99",
		"printwatches off", "printwatches", "get /R/no",
	}, "\n") + "\n"
	theirs := original(t, f.srv.Addr(), strings.ReplaceAll(script, "/R", theirRoot))
	ours := runWith(strings.ReplaceAll(script, "/R", ourRoot), "-server", f.srv.Addr())
	compare(t, theirs, ours, "script")
	require.Equal(t, theirs.code, ours.code)
}
