package nemesis

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/netem"
)

func TestNemesesAreFoundByName(t *testing.T) {
	for _, n := range All() {
		found, err := Find([]string{n.Name})
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.NotEmpty(t, n.Doc)
		require.NotEmpty(t, n.group)
		require.Positive(t, n.longest)
	}
	_, err := Find([]string{"meteor"})
	require.ErrorContains(t, err, "meteor")
}

func TestDurationsStayWithinTheirBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		d := between(r, 50*time.Millisecond, 6*time.Second)
		require.GreaterOrEqual(t, d, 50*time.Millisecond)
		require.Less(t, d, 6*time.Second)
	}
	require.Equal(t, time.Second, between(r, time.Second, time.Second))
}

// In a ring every server sees its neighbours, and no other.
func TestRing(t *testing.T) {
	for _, all := range [][]int{{1, 2, 3}, {2, 4, 1, 5, 3}} {
		table := netem.NewTable()
		ring(table, all)
		blocked := 0
		for _, a := range all {
			for _, b := range all {
				there, _ := table.Get(a, b)
				back, _ := table.Get(b, a)
				require.Equal(t, there.Blocked, back.Blocked)
				if there.Blocked {
					blocked++
				}
			}
		}
		want := map[int]int{3: 2, 5: 10}[len(all)]
		require.Equal(t, want, blocked)
	}
}
