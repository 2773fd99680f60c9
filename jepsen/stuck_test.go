package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/cluster"
)

// A leader whose disk takes nothing any more, and does not fail either, can neither write nor hand
// over. The others must not wait for it for ever; and when its disk answers it follows.
func TestFiveServersLeaveALeaderWhoseDiskStandsStill(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a server with failpoints: left out of -short")
	}
	t.Parallel()
	points := &pointSockets{t.TempDir()}
	o := cluster.Options{Binary: builtWithPoints(t), Settings: []string{"zkd.slowDiskForMs=2000"}}
	o.AddEnv(func(server int) string { return "ZKD_FAILPOINTS=" + points.path(server) })
	f := startFive(t, o)
	for _, op := range []string{"write", "sync"} {
		leader := f.leads()
		conn := f.connect(allBut(leader)...)
		f.write(conn, 10)
		require.NoError(t, points.tell(leader, "set disk.log."+op+" sleep 10m"))
		f.write(conn, 10)
		next := f.leads(leader)
		require.NoError(t, points.tell(leader, "clear"))
		f.Kill(leader) // the one operation sleeps on
		f.complete()
		t.Logf("server %d led, and its disk lets no %s come back: then server %d leads", leader, op, next)
		conn.Close()
	}
}
