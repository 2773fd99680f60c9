package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/local"
)

// Every change is told once, by one server: also what was under way when the leadership changed
// hands, and was proposed again. All servers write to one file here.
func TestClusterTellsEachChangeOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	c, err := local.Start(t.Context(), local.Options{Nodes: 3, Settings: []config.Override{
		{Key: "audit.enable", Value: "true", Origin: "test"}, {Key: "zkd.auditFile", Value: file, Origin: "test"},
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()

	const clients, handOvers = 3, 4
	stop, created := make(chan struct{}), make(chan []string, clients)
	for i := range clients {
		go func() { created <- createUntil(t, c.Addr(i+1), fmt.Sprintf("/own-%d", i+1), stop) }()
	}
	for range handOvers {
		awaitLines(t, file, "operation=create\t", 50)
		ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
		if err := c.HandOver(ctx); err != nil {
			t.Logf("not handed over: %v", err)
		}
		cancel()
	}
	close(stop)
	seen := map[string]int{}
	for range clients {
		for _, path := range <-created {
			seen[path] = 0
		}
	}
	require.NotEmpty(t, seen)
	var ended int
	awaitTrue(t, "the lines of what was acknowledged", func() bool {
		ended = countLines(t, file, seen, "operation=create\t")
		for _, n := range seen {
			if n == 0 {
				return false
			}
		}
		return ended >= clients
	})
	for path, n := range seen {
		require.Equal(t, 1, n, "%s", path)
	}
	// The sessions have ended by now, each at its server.
	require.Equal(t, clients, ended, "ephemeral nodes of sessions that were closed")
	require.Equal(t, 3, strings.Count(read(t, file), "operation=serverStart\tresult=success"))
}

// clusterPatience is for what must happen on a machine that may be busy, or stand still, for long.
const clusterPatience = 2 * time.Minute

// awaitTrue asks until it holds, in the goroutine of the test.
func awaitTrue(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(clusterPatience); !cond(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited in vain for %s", what)
	}
}

// createUntil creates nodes one after the other and returns those that were acknowledged. Its
// session, which owns one more, is closed then.
func createUntil(t *testing.T, addr, own string, stop chan struct{}) []string {
	conn, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Error(err)
		return nil
	}
	lost := func(err error) bool { return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) }
	for {
		_, err := conn.Create(own, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err == nil || errors.Is(err, zk.ErrNodeExists) { // by a try whose answer was lost
			break
		}
		if !lost(err) {
			t.Error(err)
			return nil
		}
	}
	var all []string
	for {
		select {
		case <-stop:
			conn.Close() // returns when it is answered, or a second later
			return all
		default:
		}
		path, err := conn.Create("/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err == nil {
			all = append(all, path)
		} else if !lost(err) {
			t.Error(err)
			return all
		}
	}
}

func read(t *testing.T, file string) string {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

// awaitLines waits until the file has so many lines more with a text.
func awaitLines(t *testing.T, file, text string, n int) {
	t.Helper()
	before := strings.Count(read(t, file), text)
	awaitTrue(t, text, func() bool { return strings.Count(read(t, file), text) >= before+n })
}

// countLines counts the lines for each path, and returns how many ephemeral nodes went with
// their sessions.
func countLines(t *testing.T, file string, paths map[string]int, text string) int {
	t.Helper()
	const ephemeral = "operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/own-"
	all := read(t, file)
	for path := range paths {
		paths[path] = 0
	}
	for line := range strings.Lines(all) {
		_, rest, ok := strings.Cut(line, text+"znode=")
		if path, _, _ := strings.Cut(rest, "\t"); ok && strings.HasSuffix(line, "result=success\n") {
			if _, asked := paths[path]; asked {
				paths[path]++
			}
		}
	}
	return strings.Count(all, ephemeral)
}

// Without a quorum a server is alive: to restart it helps nobody.
func TestPulseNeedsNoQuorum(t *testing.T) {
	c, err := local.Start(t.Context(), local.Options{Nodes: 3})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	pulse := func(srv interface{ Pulse(context.Context) error }) error {
		ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
		defer cancel()
		return srv.Pulse(ctx)
	}
	left := 0
	awaitTrue(t, "a leader", func() bool { left = c.Leader(); return left != 0 })
	leader := c.Server(left)
	for i := range 3 {
		require.NoError(t, pulse(c.Server(i+1)))
	}
	for i := range 3 {
		if i+1 != left {
			require.NoError(t, c.Kill(i+1))
		}
	}
	require.NoError(t, pulse(leader), "it may still believe that it leads")
	awaitTrue(t, "the end of its leadership", func() bool { return !leader.Leads() })
	require.NoError(t, pulse(leader))
}
