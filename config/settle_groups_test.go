package config

import (
	"slices"
	"strings"
	"testing"
)

// What raft cannot do is refused with the line that asks for it, and not left out in silence.
func TestGroupsAndWeights(t *testing.T) {
	five := []string{"server.1=a:1:2", "server.2=b:1:2", "server.3=c:1:2", "server.4=d:1:2", "server.5=e:1:2"}
	for _, test := range []struct {
		name    string
		servers []string
		lines   []string
		voters  []int
		problem string // "" if there is none
	}{
		{"one group", five[:3], []string{"group.1=1:2:3"}, []int{1, 2, 3}, ""},
		{"one group, weights of 1", five[:3], []string{"group.1=1:2:3", "weight.1=1", "weight.2=1"}, []int{1, 2, 3}, ""},
		{"one group, equal weights", five[:3], []string{"group.1=1:2:3", "weight.1=2", "weight.2=2", "weight.3=2"}, []int{1, 2, 3}, ""},
		{"three groups of one", five[:3], []string{"group.1=1", "group.2=2", "group.3=3"}, []int{1, 2, 3}, ""},
		{"weights that make the same quorums", five[:3], []string{"group.1=1:2:3", "weight.1=3", "weight.2=2", "weight.3=2"}, []int{1, 2, 3}, ""},
		{"weight 0", five, []string{"group.1=1:2:3:4:5", "weight.4=0", "weight.5=0"}, []int{1, 2, 3}, ""},
		{"a group of weight 0", five, []string{"group.1=1:2:3", "group.2=4:5", "weight.4=0", "weight.5=0"}, []int{1, 2, 3}, ""},
		{"an observer in no group", append(five[:3:3], "server.9=i:1:2:observer"), []string{"group.1=1:2:3"}, []int{1, 2, 3}, ""},

		{"another weight", five[:3], []string{"group.1=1:2:3", "weight.2=5"}, nil, "zoo.cfg:7: weight.2: groups and weights make quorums that are not the majorities"},
		{"two groups", five, []string{"group.1=1:2:3", "group.2=4:5"}, nil, "zoo.cfg:9: group.2: groups and weights make quorums"},
		{
			"three groups of three, as ZooKeeper's manual has it",
			append(five[:5:5], "server.6=f:1:2", "server.7=g:1:2", "server.8=h:1:2", "server.9=i:1:2"),
			[]string{"group.1=1:2:3", "group.2=4:5:6", "group.3=7:8:9"},
			nil, "zoo.cfg:14: group.3: groups and weights make quorums",
		},
		{"weights without groups", five[:3], []string{"weight.1=1"}, nil, "zoo.cfg:6: weight.1: there are no groups"},
		{"a server in no group", five[:3], []string{"group.1=1:2"}, nil, "zoo.cfg:5: server.3: is in no group"},
		{"a group of nobody", five[:3], []string{"group.1=1:2:3:7"}, nil, "zoo.cfg:6: group.1: there is no line server.7"},
		{"a weight of nobody", five[:3], []string{"group.1=1:2:3", "weight.7=0"}, nil, "zoo.cfg:7: weight.7: there is no line server.7"},
		{"in two groups", five[:3], []string{"group.1=1:2:3", "group.2=1"}, nil, "zoo.cfg:7: group.2: server 1 is in group 1 already"},
		{"nobody counts", five[:2], []string{"group.1=1:2", "weight.1=0", "weight.2=0", "standaloneEnabled=false"}, nil, "no server.N line is a participant"},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := node("1")
			text := "dataDir=/d\nclientPort=2181\n" + strings.Join(append(slices.Clone(test.servers), test.lines...), "\n") + "\nzkd.peerInsecure=true\n"
			src.ReadFile = files{"zoo.cfg": text, "/d/myid": "1"}.read
			c, warnings, err := Load(src)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("got %v, want %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var voters []int
			for _, m := range c.Cluster.Members {
				if m.Role == Participant {
					voters = append(voters, m.ID)
				}
			}
			if !slices.Equal(voters, test.voters) {
				t.Errorf("voters %v, want %v", voters, test.voters)
			}
			dropped := 0
			for _, w := range warnings {
				if strings.Contains(w.String(), "the server has no vote and is an observer") {
					dropped++
				}
			}
			if want := strings.Count(strings.Join(test.lines, "\n"), "=0"); dropped != want {
				t.Errorf("%d warnings about servers without a vote, want %d: %v", dropped, want, warnings)
			}
		})
	}
}
