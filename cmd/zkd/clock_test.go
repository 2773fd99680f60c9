package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/wire"
)

// clockShift makes the test program a server whose wall clock is wrong by so much.
const clockShift = "ZKD_TEST_CLOCK_SHIFT"

// serveWithClock runs until it is killed.
func serveWithClock(shift string) {
	by, err := time.ParseDuration(shift)
	if err == nil {
		var cfg *config.Config
		if cfg, _, err = config.Load(config.Sources{File: os.Args[1]}); err == nil {
			var srv *server.Server
			srv, err = server.New(server.Options{Config: cfg, Now: func() time.Time { return time.Now().Add(by) }})
			if err == nil {
				if _, err = srv.Start(context.Background()); err == nil {
					select {}
				}
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(exitUsage)
}

// Three processes whose clocks are hours apart: sessions live and die by the time that passes,
// not by what the clocks say, whoever leads; and times in the tree never go back.
func TestClocksOfServersDifferByHours(t *testing.T) {
	e := &cluster{}
	e.command = func(i int) *exec.Cmd {
		cmd := exec.Command(os.Args[0], e.config(i))
		cmd.Env = append(os.Environ(), clockShift+"="+[]string{"-7h", "0s", "5h"}[i-1])
		return cmd
	}
	startEnsembleWith(t, 3, e)
	living := make([]*zk.Conn, 3)
	for i := range living {
		living[i] = connect(t, e.clients[i])
		_, err := living[i].Create(fmt.Sprintf("/alive-%d", i), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	var last int64
	seen := map[int]bool{}
	for len(seen) < 3 { // with each of the clocks in the lead
		leader := e.leader()
		seen[leader] = true
		for i, c := range living {
			path, err := c.Create("/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err, "server %d", i+1)
			_, stat, err := c.Exists(path)
			require.NoError(t, err)
			require.GreaterOrEqual(t, stat.Ctime, last, "the times in the tree go back")
			last = stat.Ctime
		}
		// A client that says nothing dies; its node goes when its time is over, and the others stay.
		start := time.Now()
		silent := dialSilent(t, e.clients[leader%3])
		_, err := living[0].Sync("/")
		require.NoError(t, err)
		found, _, err := living[0].Exists(silent)
		require.NoError(t, err)
		if took := time.Since(start); !found && took < silentTimeout {
			t.Errorf("server %d leads: the session is expired after %v", leader, took)
		}
		e.until("its session ends", func() bool {
			found, _, err := living[0].Exists(silent)
			return err == nil && !found
		})
		for i := range living {
			found, _, err := living[0].Exists(fmt.Sprintf("/alive-%d", i))
			require.NoError(t, err)
			require.True(t, found, "server %d leads: the session at server %d is expired", leader, i+1)
		}
		for next := 1; next <= 3; next++ {
			if !seen[next] {
				e.until("the next one leads", func() bool {
					code, _ := runCommand(t, "member", "transfer", fmt.Sprint(next), "--server", e.clients[0], "--auth", "digest:admin:admin")
					return code == exitOK
				})
				break
			}
		}
	}
}

const silentTimeout = 3 * time.Second

// dialSilent opens a session with an ephemeral node, and then says nothing any more. It returns
// the node's path.
func dialSilent(t *testing.T, addr string) string {
	t.Helper()
	p := dialPipelinerFor(t, addr, "", int32(silentTimeout.Milliseconds()))
	path := fmt.Sprintf("/dies-%d", time.Now().UnixNano())
	b, mark := wire.AppendFrame(nil)
	b = (&wire.RequestHeader{Xid: 1, Op: wire.OpCreate}).Append(b)
	b = (&wire.CreateRequest{Path: path, Flags: 1, ACL: []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}}}).Append(b)
	wire.FinishFrame(b, mark)
	_, err := p.conn.Write(b)
	require.NoError(t, err)
	frame, err := p.read()
	require.NoError(t, err)
	d := wire.NewDecoder(frame)
	d.Int32() // xid
	d.Int64() // zxid
	require.Equal(t, wire.OK, wire.Code(d.Int32()))
	return path
}
