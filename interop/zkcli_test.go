package interop

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cliStep is one command for zkCli. The step is over when the next command has answered,
// and with a text to await when that has been printed too: watch events come by a thread
// of their own.
type cliStep struct{ command, await string }

// cliSteps go through all commands of zkCli.
var cliSteps = []cliStep{
	{"create /a one", ""},
	{"create /a", ""},
	{"create -s /s- x", ""},
	{"create -e /e x", ""},
	{"create -e -s /es- x", ""},
	{"create -c /c x", ""},
	{"create -t 600000 /t x", ""},
	{"create -s -t 600000 /ts- x", ""},
	{"create /a/b two", ""},
	{"create /a/b/c", ""},
	{"create /no/x y", ""},
	{"create relative x", ""},
	{"create /e/child x", ""},
	{"create /acl x world:anyone:cdra", ""},
	{"create /bad x nonsense", ""},
	{"get /a", ""},
	{"get -s /a", ""},
	{"get /no", ""},
	{"get /a/b/c", ""},
	{"set /a uno", ""},
	{"set -s /a dos", ""},
	{"set -v 2 /a tres", ""},
	{"set -v 2 /a cuatro", ""},
	{"set /no x", ""},
	{"ls /", ""},
	{"ls -s /a", ""},
	{"ls -R /a", ""},
	{"ls -R /", ""},
	{"ls /no", ""},
	{"stat /a", ""},
	{"stat /no", ""},
	{"stat /e", ""},
	{"getAcl /a", ""},
	{"getAcl -s /acl", ""},
	{"setAcl /a world:anyone:crwda", ""},
	{"setAcl -v 9 /a world:anyone:r", ""},
	{"setAcl -s /a/b world:anyone:cdrwa,ip:10.0.0.0/8:r", ""},
	{"setAcl -R /a world:anyone:cdrwa", ""},
	{"getAcl /a/b/c", ""},
	{"getAcl /no", ""},
	{"set /acl x", ""},
	{"addauth digest bob:pw", ""},
	{"whoami", ""},
	{"create /bobs x auth::cdrwa", ""},
	{"getAcl /bobs", ""},
	{"get /bobs", ""},
	{"setquota -n 5 /a", ""},
	{"listquota /a", ""},
	{"setquota -b 100 /a", ""},
	{"setquota -N 6 /a", ""},
	{"setquota -B 200 /a", ""},
	{"listquota /a", ""},
	{"setquota -n 5 /a/b", ""},
	{"delquota -n /a", ""},
	{"listquota /a", ""},
	{"delquota /a", ""},
	{"listquota /a", ""},
	{"listquota /no", ""},
	{"sync /a", ""},
	{"getEphemerals /", ""},
	{"getEphemerals /es", ""},
	{"getEphemerals /no", ""},
	{"getAllChildrenNumber /", ""},
	{"getAllChildrenNumber /a", ""},
	{"getAllChildrenNumber /no", ""},
	{"get -w /a", ""},
	{"set /a watched", "NodeDataChanged path:/a"},
	{"ls -w /a", ""},
	{"create /a/new", "NodeChildrenChanged path:/a"},
	{"stat -w /a", ""},
	{"set /a again", "NodeDataChanged path:/a"},
	{"addWatch /a", ""},
	{"set /a/b x", "NodeDataChanged path:/a/b"},
	{"create /a/b/d", "NodeCreated path:/a/b/d"},
	{"removewatches /a", "PersistentWatchRemoved path:/a"},
	{"removewatches /a", ""},
	{"addWatch -m PERSISTENT /a", ""},
	{"set /a 1", "NodeDataChanged path:/a"},
	{"removewatches /a -a", "PersistentWatchRemoved path:/a"},
	{"addWatch -m nonsense /a", ""},
	{"get -w /a", ""},
	{"removewatches /a -d", "DataWatchRemoved path:/a"},
	{"config", ""},
	{"config -s", ""},
	{"reconfig -add server.5=127.0.0.1:1:2;3", ""},
	{"version", ""},
	{"delete /a", ""},
	{"delete -v 7 /s-0000000001", ""},
	{"delete -v 0 /s-0000000001", ""},
	{"delete /no", ""},
	{"deleteall /a", ""},
	{"deleteall /no", ""},
	{"delete /zookeeper", ""},
	{"ls /", ""},
	{"history", ""},
	{"redo 1", ""},
	{"ls /", ""},
	{"close", "state:Closed"},
}

// zkCli's answer to printwatches, which ends the answer to the command before.
const cliMark = "printwatches is on"

// TestZkCli compares the transcript of a zkCli session with the recorded one of ZooKeeper.
// Both run on a fresh server, so that even the zxids have to be equal.
func TestZkCli(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		cli := startCli(t, javaProgram(t, "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", s.addr))
		lines := playCli(cli)
		if s.cluster != nil {
			want := expectedOfZkd(t, s, "zkcli", "session", readSections(t, "testdata/raw/zkcli.txt")["session"])
			diffLines(t, withoutCluster(want), withoutCluster(lines))
			return
		}
		compareRecording(t, s, "zkcli", "session", lines)
	})
}

// withoutCluster takes from a transcript what is otherwise on a cluster: the zxids, since
// every new leader begins an epoch, and the names of the members.
func withoutCluster(lines []string) []string {
	var out []string
	config := false
	for _, line := range lines {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			config = strings.HasPrefix(command, "config")
		} else if config {
			continue
		}
		if key, _, ok := strings.Cut(line, "Zxid = "); ok {
			line = key + "Zxid = ?"
		}
		out = append(out, line)
	}
	return out
}

// cli is a running zkCli.
type cli struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// startCli starts zkCli and waits for its greeting.
func startCli(t *testing.T, cmd *exec.Cmd) *cli {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// One pipe for both, so that the order of what is printed to either is kept.
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.Env = append(cmd.Environ(), "TZ=UTC")
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(programLimit, func() { _ = cmd.Process.Kill() })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
		_ = w.Close()
	}()
	t.Cleanup(func() {
		_, _ = io.WriteString(in, "quit\n")
		_ = in.Close()
		_, _ = io.Copy(io.Discard, r)
		<-ended
		limit.Stop()
	})
	c := &cli{t: t, in: in, out: bufio.NewScanner(r)}
	c.do("", "")
	return c
}

// do sends a command and returns the masked lines that it prints, and those up to the text
// to await if there is one.
func (c *cli) do(command, await string) []string {
	c.t.Helper()
	if _, err := io.WriteString(c.in, command+"\nprintwatches\n"); err != nil {
		c.t.Fatalf("zkCli takes no more: %v", err)
	}
	var lines []string
	marked, seen := false, await == ""
	for !(marked && seen) {
		if !c.out.Scan() {
			c.t.Fatalf("zkCli ended in its answer to %s:\n%s", command, strings.Join(lines, "\n"))
		}
		line := strings.TrimRight(c.out.Text(), " ")
		if line == cliMark {
			marked = true
			continue
		}
		seen = seen || strings.Contains(line, await)
		if line != "" && line != "WATCHER::" && line != "Not connected" { // the last: printwatches after close
			lines = append(lines, "  "+maskCli(line))
		}
	}
	return lines
}

// playCli sends the steps and returns the masked transcript.
func playCli(c *cli) []string {
	c.t.Helper()
	var lines []string
	for _, step := range cliSteps {
		answer := c.do(step.command, step.await)
		if step.await != "" || step.command == "whoami" {
			slices.Sort(answer) // events by another thread, identities from a set
		}
		lines = append(append(lines, "$ "+step.command), answer...)
	}
	return lines
}

var (
	cliDate    = regexp.MustCompile(`^([cm]time = )\w{3} \w{3} \d\d [\d:]{8} \w+ (\d{4})$`)
	cliZxid    = regexp.MustCompile(`^([cmp]Zxid = )0x([0-9a-f]+)$`)
	cliSession = regexp.MustCompile(`0x[0-9a-f]{12,16}`)
)

func maskCli(line string) string {
	if m := cliZxid.FindStringSubmatch(line); m != nil { // the epoch of a standalone ZooKeeper is 0
		zxid, _ := strconv.ParseInt(m[2], 16, 64)
		line = fmt.Sprintf("%s0x%x", m[1], zxid&0xffffffff)
	}
	if m := cliDate.FindStringSubmatch(line); m != nil && m[2] != "1970" {
		return m[1] + "<now>"
	}
	if list, ok := strings.CutPrefix(line, "["); ok { // names, in no order that counts
		names := strings.Split(strings.TrimSuffix(list, "]"), ", ")
		slices.Sort(names)
		line = "[" + strings.Join(names, ", ") + "]"
	}
	return cliSession.ReplaceAllString(line, "<session>")
}

// TestZkCliScript runs Debian's zkCli.sh as an administrator would.
func TestZkCliScript(t *testing.T) {
	const script = "/usr/share/zookeeper/bin/zkCli.sh"
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		needFiles(t, "zookeeper", script)
		for _, args := range [][]string{{"create", "/script", "x"}, {"ls", "/"}} {
			cmd := exec.Command(script, append([]string{"-server", s.addr}, args...)...)
			cmd.Env = append(cmd.Environ(), "ZOO_LOG_DIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("zkCli.sh %v: %v\n%s", args, err, out)
			}
			// Another thread tells of the connection, now and then in the middle of the answer.
			answer := strings.Replace(string(out), "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n", "", 1)
			if args[0] == "ls" && !strings.Contains(answer, "[script, zookeeper]") {
				t.Errorf("zkCli.sh ls /:\n%s", out)
			}
		}
	})
}
