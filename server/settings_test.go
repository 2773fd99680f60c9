package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
)

// All addresses of a server line count: this server listens at its own, and dials those of the
// others.
func TestEveryAddressOfAServerLineIsUsed(t *testing.T) {
	line := func(id int, text string) config.Member {
		m, err := config.ParseMember(id, text)
		require.NoError(t, err)
		return m
	}
	s := &Server{clustered: true, cfg: &config.Config{Cluster: config.Cluster{ServerID: 2, MultiAddress: true, Members: []config.Member{
		line(1, "a:1:2"), line(2, "b:1:2|[::1]:1:3|b2:7:8"), line(3, "c:1:2|c2:1:2:observer"),
	}}}}
	o := s.clusterOptions()
	require.Equal(t, "b:1", o.Listen)
	require.Equal(t, []string{"[::1]:1", "b2:7"}, o.AlsoListen)
	require.Equal(t, "a:1", o.Members[0].Address)
	require.Empty(t, o.Members[0].More)
	require.Equal(t, "c:1", o.Members[2].Address)
	require.Equal(t, []string{"c2:1"}, o.Members[2].More)
	require.True(t, o.Members[2].Observer)

	s.cfg.Cluster.ListenOnAllIPs = true
	o = s.clusterOptions()
	require.Equal(t, ":1", o.Listen)
	require.Equal(t, []string{":7"}, o.AlsoListen, "each port once")
}

func TestASlowDiskOfZeroIsNone(t *testing.T) {
	require.Negative(t, slowDisk(&config.Config{SlowDiskMs: 0, SlowDiskForMs: 5000}).Sync)
	require.Positive(t, slowDisk(&config.Config{SlowDiskMs: 500, SlowDiskForMs: 5000}).Sync)
}
