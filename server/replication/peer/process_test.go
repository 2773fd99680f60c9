//go:build unix

package peer

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

const childVariable = "ZKD_TEST_PEER_CHILD"

// TestChildProcess is a member in a process of its own, for the tests below.
func TestChildProcess(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("run by other tests")
	}
	tr, err := New(Options{
		ID: serverID(2), Cluster: "processes", Listen: "127.0.0.1:0",
		Resolve: func(raft.ServerID) ([]string, error) { return nil, fmt.Errorf("unknown") },
	})
	require.NoError(t, err)
	tr.Handle(kindEcho, echo)
	fmt.Printf("listens %s %d\n", tr.Addr(), tr.Boot())
	select {} // until it is killed
}

type child struct {
	cmd     *exec.Cmd
	address string
	boot    uint64
}

func startChild(t *testing.T) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildProcess$")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{cmd: cmd}
	t.Cleanup(c.kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "listens" {
			c.address = f[1]
			c.boot, err = strconv.ParseUint(f[2], 10, 64)
			require.NoError(t, err)
			return c
		}
	}
	t.Fatal("the child did not start")
	return nil
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// watch returns a transport with several connections to the child, and where it says that
// the child's process is gone.
func (c *child) watch(t *testing.T) (*Transport, <-chan Down) {
	t.Helper()
	downs := make(chan Down, 10)
	tr, err := New(Options{
		ID: serverID(1), Cluster: "processes", Listen: "127.0.0.1:0",
		Resolve:  func(raft.ServerID) ([]string, error) { return []string{c.address}, nil },
		PeerDown: func(d Down) { downs <- d },
	})
	require.NoError(t, err)
	t.Cleanup(func() { tr.Close() })
	for range 5 {
		s, err := tr.Open(within(t, patience), serverID(2), kindEcho)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		require.NoError(t, s.Send([]byte("x")))
		_, err = s.Receive()
		require.NoError(t, err)
		go func() { _, _ = s.Receive() }()
	}
	return tr, downs
}

// The kernel closes the sockets of a process that is killed, in an order of its own.
func TestAKilledProcessIsSeenAtOnce(t *testing.T) {
	var took []time.Duration
	for range 5 {
		c := startChild(t)
		tr, downs := c.watch(t)
		began := time.Now()
		c.kill()
		select {
		case d := <-downs:
			took = append(took, time.Since(began))
			require.Equal(t, Down{ID: serverID(2), Boot: c.boot, Cause: ErrGone}, d)
		case <-time.After(patience):
			t.Fatal("nobody noticed")
		}
		tr.Close()
		require.Empty(t, downs, "once is enough")
	}
	t.Logf("from kill -9 to PeerDown: %v", took)
}

// A process that is stopped keeps its sockets: only timeouts can tell.
func TestAFrozenProcessIsNotTakenForDead(t *testing.T) {
	c := startChild(t)
	tr, downs := c.watch(t)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
	sight, err := tr.look(within(t, 500*time.Millisecond), serverID(2), c.boot)
	require.Error(t, err)
	require.Equal(t, Unknown, sight)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGCONT))
	sight, err = tr.look(within(t, patience), serverID(2), c.boot)
	require.NoError(t, err)
	require.Equal(t, Alive, sight)
	require.Empty(t, downs)
}
