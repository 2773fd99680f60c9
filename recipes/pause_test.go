//go:build unix

package recipes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// pausedHolder is the process that TestPausedHolder stops: it holds a lock, says so, and when it
// is told to go on writes what it had in mind, first thing.
func pausedHolder(addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*testLimit)
	defer cancel()
	c, err := client.Dial(ctx, addr, client.WithTimeout(500*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := NewMutex(c, "/lock").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holds", l.Token())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	valid := l.Valid()
	_, err = c.Multi().Add(l.Guard()...).Set("/data", []byte("late"), client.AnyVersion).Commit(ctx)
	late := "written"
	switch {
	case errors.Is(err, client.ErrNoNode), errors.Is(err, ErrUnknownOutcome):
		late = "not acknowledged" // refused, or sent into a connection that the server had closed
	case err != nil:
		late = err.Error()
	}
	<-l.Done()
	fmt.Println("valid", valid, "late write", late, "end", errors.Is(l.Err(), ErrSessionLost) || errors.Is(l.Err(), ErrRevoked))
	_ = c.Close(ctx)
}

// T4: a process that is stopped for longer than its session lives, and then goes on as if nothing
// had been, can write nothing and knows that it does not hold.
func TestPausedHolder(t *testing.T) {
	r := newRig(t)
	r.stays("/data")
	c := r.dial()
	_, _, err := c.Create(testContext(t), "/data", nil, client.ModePersistent, nil)
	require.NoError(t, err)

	cmd := exec.CommandContext(testContext(t), os.Args[0])
	cmd.Env = append(os.Environ(), "ZKD_PAUSED_HOLDER="+r.srv.Addr())
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewReader(out)
	said, err := lines.ReadString('\n')
	require.NoError(t, err)
	token, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(said, "holds ")), 10, 64)
	require.NoError(t, err, said)

	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	l := mustLock(t, NewMutex(c, "/lock").Lock)
	require.Greater(t, l.Token(), token)
	_, err = in.Write([]byte("\n")) // it is the first thing that it will see
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	said, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "valid false late write not acknowledged end true\n", said)
	data, _, err := c.Get(testContext(t), "/data")
	require.NoError(t, err)
	require.Empty(t, data)
	release(t, l)
}
