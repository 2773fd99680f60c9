package replication

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Whoever reads the logs of several servers must see who led when, at the level that servers log at.
func TestServersLogWhoLeadsAndInWhichTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		logs := map[*voice]*lines{}
		for _, v := range c.members {
			log := &lines{}
			logs[v] = log
			v.tuned(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(log, testLog()), nil)) })
		}
		c.start(1, 2, 3)
		last := uint64(0)
		for range 2 {
			leader := c.leader()
			id, term := leader.node.Leader(), leader.node.raft().CurrentTerm()
			require.Greater(t, term, last)
			last = term
			for v, log := range logs {
				want := fmt.Sprintf(`msg="another server leads" leader=%s term=%d`, id, term)
				if v == leader {
					want = fmt.Sprintf(`msg="this server leads" term=%d`, term)
				}
				awaitCondition(t, want, func() bool { return strings.Contains(log.String(), want) })
			}
			leader.stop()
			delete(logs, leader)
		}
	})
}
