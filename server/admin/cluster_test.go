package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	urls := map[int]string{}
	for number := 1; number <= 3; number++ {
		s := c.Server(number)
		urls[number] = startAdmin(t, Options{Config: load(t), Source: s.Face(), Stats: s.Stats()})
	}
	for situation, distance := range map[string]int{"leader": 0, "follower": 1} {
		t.Run(situation, func(t *testing.T) {
			for again := true; again; { // where the machine stands still the leader loses its place
				leader := 0
				require.Eventually(t, func() bool { leader = c.Leader(); return leader != 0 }, patience, time.Millisecond)
				number := (leader+distance-1)%3 + 1
				again = !compareMember(t, c, situation, number, leader, urls[number])
			}
		})
	}
}

// compareMember compares the answers of a member, or says that the leader has changed meanwhile.
func compareMember(t *testing.T, c *local.Cluster, situation string, number, leader int, url string) bool {
	t.Helper()
	changed := func() bool { return c.Leader() != leader }
	client := occupy(t, c.Addr(number))
	defer client.Close()
	awaitIdle(t, url)
	files, err := filepath.Glob(filepath.Join(recorded, situation, "*.json"))
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if name == "observers" || name == "voting_view" {
			continue
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		answer, ok := answers(t, url, name, string(want), changed)
		if !ok && changed() {
			return false
		}
		require.Equal(t, string(want), shape(t, answer), "%s: %s", name, answer)
	}
	_, answer := fetch(t, url+"/commands/leader")
	if changed() {
		return false
	}
	require.Contains(t, answer, `"leader_ip" : "node`+string(rune('0'+leader))+`"`)
	_, answer = fetch(t, url+"/commands/voting_view")
	require.Equal(t, 3, strings.Count(answer, `"learner_type" : "participant"`), "%s", answer)
	return true
}
