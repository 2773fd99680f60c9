package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// recoverWith runs zkd recover with something on its standard input.
func recoverWith(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, zkdBinary, append([]string{"recover"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Two of three are lost with their disks; the third goes on, with data and sessions, and the
// two come back empty.
func TestRecoverAfterTheLossOfAMajority(t *testing.T) {
	e := startEnsemble(t, 3)
	survivor := e.leader()
	c, events, err := zk.Connect(e.clients, 40*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for ev := range events {
		if ev.State == zk.StateHasSession {
			break
		}
	}
	const writes = 200
	for i := range writes {
		_, err := c.Create(fmt.Sprintf("/kept%03d", i), []byte("x"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	_, err = c.Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	session := c.SessionID()

	out, err := recoverWith(t, "", "--config", e.config(survivor), "--yes")
	require.Error(t, err, "while the server runs")
	require.Contains(t, out, "in use by another process")
	for i := range e.procs {
		e.kill(i + 1)
	}
	for i := range e.procs {
		if i+1 != survivor {
			require.NoError(t, os.RemoveAll(e.data(i+1)))
			require.NoError(t, os.MkdirAll(e.data(i+1), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(e.data(i+1), "myid"), fmt.Appendf(nil, "%d\n", i+1), 0o600))
		}
	}
	lost := survivor%3 + 1
	out, err = recoverWith(t, "", "--config", e.config(lost), "--yes")
	require.Error(t, err)
	require.Contains(t, out, "there is no data in "+e.data(lost))

	out, err = recoverWith(t, "yes\n", "--config", e.config(survivor))
	require.Error(t, err)
	require.Contains(t, out, "nothing was changed")
	out, err = recoverWith(t, fmt.Sprintf("recover %d\n", survivor), "--config", e.config(survivor))
	require.NoError(t, err, out)
	require.Contains(t, out, "voters 1, 2, 3\n")
	require.Contains(t, out, "Lost for sure")
	out, err = recoverWith(t, "", "--data-dir", e.data(survivor), "--yes")
	require.Error(t, err)
	require.Contains(t, out, "only voter of its cluster already")
	code, out := runCommand(t, "check", e.data(survivor))
	require.Zero(t, code, out)

	for i := range e.procs {
		e.start(i + 1)
	}
	for i := range e.procs {
		e.ready(i + 1)
	}
	e.until("the session is back", func() bool { return c.State() == zk.StateHasSession })
	require.Equal(t, session, c.SessionID(), "the session was lost")
	e.until("a write goes through", func() bool {
		_, err := c.Create("/after", nil, 0, zk.WorldACL(zk.PermAll))
		return err == nil || err == zk.ErrNodeExists
	})
	_, after, err := c.Exists("/after")
	require.NoError(t, err)
	_, mine, err := c.Exists("/mine")
	require.NoError(t, err)
	require.Equal(t, session, mine.EphemeralOwner)
	require.Greater(t, after.Czxid>>32, mine.Czxid>>32+1000, "the lost servers can have used these zxids")

	// All three count again: without the survivor the two others are a majority with all data.
	e.until("all vote", func() bool { return strings.Contains(e.word(survivor, "mntr"), "zk_synced_followers\t2\n") })
	e.until("a write behind the last vote", func() bool {
		_, err := c.Set("/after", nil, -1)
		return err == nil
	})
	zxid := func(i int) string {
		_, rest, _ := strings.Cut(e.word(i, "srvr"), "\nZxid: ")
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	for i := range e.procs {
		e.until("all have it", func() bool { return zxid(i+1) != "" && zxid(i+1) == zxid(survivor) })
	}
	e.kill(survivor)
	require.NotEqual(t, survivor, e.leader())
	e.until("the two serve", func() bool {
		_, err := c.Set("/after", nil, -1)
		return err == nil
	})
	for i := range writes {
		found, _, err := c.Exists(fmt.Sprintf("/kept%03d", i))
		require.NoError(t, err)
		require.True(t, found, "node %d is gone", i)
	}
	require.Equal(t, session, c.SessionID())
}

func TestRecoverSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	cfg := filepath.Join(dir, "zoo.cfg")
	require.NoError(t, os.WriteFile(cfg, []byte("dataDir="+dir+"/none\nclientPort=1\n"), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "name the server by its configuration"},
		{[]string{"--config", cfg, "--data-dir", dir}, "leave --data-dir and --log-dir out"},
		{[]string{"--config", dir + "/no.cfg"}, "no.cfg"},
		{[]string{"--config", cfg}, "there is no data in " + dir + "/none"},
		{[]string{"--data-dir", dir, "--yes"}, "there is no data in " + dir},
		{[]string{"here"}, "unknown command"},
	} {
		out, err := recoverWith(t, "", tt.args...)
		require.Error(t, err)
		require.Contains(t, out, tt.want)
		require.Equal(t, 1, strings.Count(out, "\n"), out)
	}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 1, "files were left where no data are")
}
