package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// All servers are killed under load, one shortly after the other. What a client was told is there
// when they are back, once and in order, and behind it at most what was under way.
func TestAllServersAreKilledUnderLoad(t *testing.T) {
	const window = 32
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	e := startEnsemble(t, 3)
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		var clients []*pipeliner
		for i := range e.clients {
			path := fmt.Sprintf("/all%d-%d", round, i)
			_, err := connect(t, e.clients[i]).Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			clients = append(clients, dialPipeliner(t, e.clients[i], path))
		}
		stop := make(chan struct{})
		told := make([][]string, len(clients))
		var running sync.WaitGroup
		for i, p := range clients {
			running.Go(func() { told[i], _ = p.run(stop, window) }) // until its server is dead
		}
		enough := int64(50 + rng.IntN(500))
		e.until("some writes", func() bool { return clients[0].done.Load() >= enough })
		for _, i := range rng.Perm(3) {
			e.kill(i + 1)
			time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond) // chance, nothing is waited for
		}
		close(stop)
		running.Wait()
		for i := 1; i <= 3; i++ {
			e.start(i)
		}
		for i := 1; i <= 3; i++ {
			e.ready(i)
		}
		c := connect(t, e.clients[round%3])
		_, err := c.Sync("/")
		require.NoError(t, err)
		for i, p := range clients {
			children, _, err := c.Children(p.path)
			require.NoError(t, err)
			there := map[string]bool{}
			for _, name := range children {
				there[p.path+"/"+name] = true
			}
			for n, name := range told[i] {
				require.Equal(t, fmt.Sprintf("%s/n-%010d", p.path, n), name)
				require.True(t, there[name], "round %d: %s was acknowledged and is gone", round, name)
			}
			require.LessOrEqual(t, len(children), len(told[i])+window+1, "more than was asked for")
		}
	}
}
