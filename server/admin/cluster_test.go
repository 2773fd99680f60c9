package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/local"
)

// The members of a cluster answer as those of a ZooKeeper ensemble. Left out is what differs
// because the recorded ensemble has two voters and an observer: voting_view and observers.
func TestClusterAnswersHaveTheFieldsOfZooKeepers(t *testing.T) {
	c, err := local.Start(t.Context(), local.Options{Nodes: 3, Settings: []config.Override{
		{Key: "tickTime", Value: "500"}, {Key: "minSessionTimeout", Value: "1000"},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	leader := c.Leader()
	for situation, number := range map[string]int{"leader": leader, "follower": leader%3 + 1} {
		t.Run(situation, func(t *testing.T) {
			s := c.Server(number)
			url := startAdmin(t, Options{Config: load(t), Source: s.Face(), Stats: s.Stats()})
			client := occupy(t, c.Addr(number))
			defer client.Close()
			awaitIdle(t, url)
			files, err := filepath.Glob(filepath.Join(recorded, situation, "*.json"))
			require.NoError(t, err)
			require.Greater(t, len(files), 20)
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".json")
				_, answer := fetch(t, url+"/commands/"+name)
				if name == "observers" || name == "voting_view" {
					continue
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, string(want), shape(t, answer), "%s: %s", name, answer)
			}
			_, answer := fetch(t, url+"/commands/leader")
			require.Contains(t, answer, `"leader_ip" : "node`+string(rune('0'+leader))+`"`)
			_, answer = fetch(t, url+"/commands/voting_view")
			require.Equal(t, 3, strings.Count(answer, `"learner_type" : "participant"`), "%s", answer)
		})
	}
}
