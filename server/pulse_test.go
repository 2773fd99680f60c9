package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/wire"
)

// pulse asks for a sign of life; soon says how long that may take.
func (s *testServer) pulse(soon time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return s.Pulse(ctx)
}

func TestPulseOfALoopThatStands(t *testing.T) {
	require.NoError(t, newServer(t).pulse(patience), "before the start")
	g := &gate{}
	srv := startServer(t, withGate(g))
	c := open(t, srv.addr, 60_000)
	require.NoError(t, srv.pulse(patience))
	for range 3 {
		c.call(wire.OpCreate, createBody("/n-", nil, wire.FlagPersistentSequential), wire.OK)
		require.NoError(t, srv.pulse(patience))
	}

	// A reader that never ends keeps the applier out, and that keeps further readers out.
	srv.node.RLock()
	c.send(wire.OpCreate, createBody("/stuck", nil, persistent))
	eventually(t, "a stuck applier", func() bool {
		err := srv.pulse(50 * time.Millisecond)
		return err != nil && strings.Contains(err.Error(), "appl")
	})
	srv.node.RUnlock()
	require.NoError(t, srv.pulse(patience))

	// A log that nothing is written to is no loop that stands.
	g.block(t, srv)
	c.send(wire.OpCreate, createBody("/waits", nil, persistent))
	require.NoError(t, srv.pulse(patience))
	g.open()
	require.NoError(t, srv.Close())
	require.NoError(t, srv.pulse(patience), "after the end")
}
