package server_test

import (
	"context"
	"errors"
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
		go func() { created <- createUntil(t, c.Addr(i+1), stop) }()
	}
	for range handOvers {
		awaitLines(t, file, "operation=create\t", 50)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := c.Server(c.Leader()).HandOver(ctx); err != nil {
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
	ended := countLines(t, file, seen, "operation=create\t")
	for path, n := range seen {
		require.Equal(t, 1, n, "%s", path)
	}
	// The sessions have ended by now, each at its server.
	require.Equal(t, clients, ended, "ephemeral nodes of sessions that were closed")
	require.Equal(t, 3, strings.Count(read(t, file), "operation=serverStart\tresult=success"))
}

// createUntil creates nodes one after the other and returns those that were acknowledged. Its
// session, which owns one more, is closed then.
func createUntil(t *testing.T, addr string, stop chan struct{}) []string {
	conn, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Error(err)
		return nil
	}
	if _, err := conn.Create("/own-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
		t.Error(err)
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
		} else if !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) {
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
	require.Eventually(t, func() bool { return strings.Count(read(t, file), text) >= before+n }, time.Minute, 5*time.Millisecond)
}

// countLines counts the lines for each path, and returns how many ephemeral nodes went with
// their sessions, once those of all clients have.
func countLines(t *testing.T, file string, paths map[string]int, text string) int {
	t.Helper()
	const ephemeral = "operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/own-"
	require.Eventually(t, func() bool { return strings.Count(read(t, file), ephemeral) >= 3 }, time.Minute, 5*time.Millisecond)
	all := read(t, file)
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return srv.Pulse(ctx)
	}
	leader := c.Server(c.Leader())
	for i := range 3 {
		require.NoError(t, pulse(c.Server(i+1)))
	}
	left := c.Leader()
	for i := range 3 {
		if i+1 != left {
			require.NoError(t, c.Kill(i+1))
		}
	}
	require.NoError(t, pulse(leader), "it may still believe that it leads")
	require.Eventually(t, func() bool { return !leader.Leads() }, time.Minute, 5*time.Millisecond)
	require.NoError(t, pulse(leader))
}
