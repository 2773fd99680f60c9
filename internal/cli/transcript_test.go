package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zkdtest"
)

// recording is a session of ZooKeeper's zkCli with ZooKeeper; see interop/zkcli_test.go.
const recording = "../../interop/testdata/raw/zkcli.txt"

// The mark ends the answer to the command before; in the recording it was sent as well.
const mark = "printwatches is on"

// byDesign lists what zkd cli answers otherwise than zkCli 3.8, with the reason.
var byDesign = map[string]struct {
	want []string
	why  string
}{
	"create /bad x nonsense": {
		[]string{"  nonsense does not have the form scheme:id:perm"},
		"a list that cannot be read is wrong use: nothing is sent, and one line says why",
	},
	"version": {
		[]string{"  ZooKeeper CLI version: <version>"},
		"it is another program",
	},
}

// TestSessionIsZkClis plays the recorded commands on a fresh server: the same answers, in the
// same words, with the same zxids.
func TestSessionIsZkClis(t *testing.T) {
	t.Setenv("TZ", "UTC")
	steps := readRecording(t)
	srv := zkdtest.Start(t, zkdtest.Set("enforceQuota", "false"))
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	done := make(chan int)
	go func() {
		code := Main(Process{Args: []string{"-server", srv.Addr()}, Stdin: in, Stdout: out, Stderr: out})
		_ = out.Close()
		done <- code
	}()
	lines := bufio.NewScanner(stdout)
	send := func(command string) {
		_, err := io.WriteString(stdin, command+"\nprintwatches\n")
		require.NoError(t, err)
	}
	send("")
	collect(t, lines, nil)
	for _, s := range steps {
		send(s.command)
		got := collect(t, lines, s.want)
		want := s.want
		if d, ok := byDesign[s.command]; ok {
			want = d.want
		}
		if isUnordered(s) {
			slices.Sort(got)
			want = slices.Sorted(slices.Values(want))
		}
		require.Equal(t, want, got, "$ %s", s.command)
	}
	_, err := io.WriteString(stdin, "quit\n")
	require.NoError(t, err)
	require.Equal(t, exitOK, <-done)
}

type step struct {
	command string
	want    []string
}

func readRecording(t *testing.T) []step {
	t.Helper()
	b, err := os.ReadFile(recording)
	require.NoError(t, err)
	var steps []step
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{command: c})
		} else if strings.HasPrefix(line, "  ") && len(steps) > 0 {
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	require.Greater(t, len(steps), 80)
	return steps
}

// isUnordered says that an event, printed by another goroutine, may stand anywhere in the
// answer, or that it is a set.
func isUnordered(s step) bool {
	return s.command == "whoami" || slices.ContainsFunc(s.want, func(l string) bool { return strings.Contains(l, "WatchedEvent") })
}

// collect reads the answer up to the mark, and until the events that are expected have come.
func collect(t *testing.T, in *bufio.Scanner, want []string) []string {
	t.Helper()
	awaited := 0
	for _, l := range want {
		if strings.Contains(l, "WatchedEvent") {
			awaited++
		}
	}
	var got []string
	for marked := false; !marked || awaited > 0; {
		require.True(t, in.Scan(), "the shell ended after %q", got)
		switch line := strings.TrimRight(in.Text(), " "); line {
		case mark:
			marked = true
		case "", "WATCHER::":
		default:
			if strings.Contains(line, "WatchedEvent") {
				awaited--
			}
			got = append(got, "  "+mask(line))
		}
	}
	return got
}

var (
	zxidLine  = regexp.MustCompile(`^([cmp]Zxid = )0x([0-9a-f]+)$`)
	dateLine  = regexp.MustCompile(`^([cm]time = )\w{3} \w{3} \d\d [\d:]{8} \w+ (\d{4})$`)
	eventZxid = regexp.MustCompile(`^(WatchedEvent .*) zxid: -?\d+$`) // since 3.9
	longID    = regexp.MustCompile(`0x[0-9a-f]{12,16}`)
)

// mask hides what differs from run to run: the epoch, times, session ids, the order of sets.
func mask(line string) string {
	if m := zxidLine.FindStringSubmatch(line); m != nil {
		zxid, _ := strconv.ParseInt(m[2], 16, 64)
		line = fmt.Sprintf("%s0x%x", m[1], zxid&0xffffffff)
	}
	if m := dateLine.FindStringSubmatch(line); m != nil && m[2] != "1970" {
		return m[1] + "<now>"
	}
	if m := eventZxid.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	if strings.HasPrefix(line, "ZooKeeper CLI version: ") {
		return "ZooKeeper CLI version: <version>"
	}
	if list, ok := strings.CutPrefix(line, "["); ok && strings.HasSuffix(list, "]") {
		names := strings.Split(strings.TrimSuffix(list, "]"), ", ")
		slices.Sort(names)
		line = "[" + strings.Join(names, ", ") + "]"
	}
	return longID.ReplaceAllString(line, "<session>")
}
