package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

func leaderships() []Nemesis {
	return []Nemesis{
		{Name: "storm", Doc: "whoever leads is not heard any more, again and again", group: groupNetwork, longest: 100 * time.Millisecond, inject: storm},
		{Name: "handover", Doc: "whoever leads is asked to end, gives its leadership away and comes back, again and again", group: groupProcess, longest: 100 * time.Millisecond, inject: handover},
	}
}

// storm has one election after the other.
func storm(w *World, r *rand.Rand) (fault, error) {
	t := w.Cluster.Driver().Table()
	_, all := victims(w, r, "all")
	rounds := 2 + r.IntN(5)
	var hit []int
	for range rounds {
		length := between(r, 200*time.Millisecond, 1500*time.Millisecond)
		leader := w.Cluster.Leader()
		if leader != 0 {
			hit = append(hit, leader)
			for _, i := range slices.Clone(all) {
				t.OneWay(leader, i)
			}
		}
		time.Sleep(length)
		t.Heal()
	}
	return fault{fmt.Sprintf("%d times", rounds), hit, heal(w)}, nil
}

func handover(w *World, r *rand.Rand) (fault, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	rounds := 1 + r.IntN(3)
	var hit []int
	for range rounds {
		leader := w.Cluster.Leader()
		if leader == 0 {
			continue
		}
		hit = append(hit, leader)
		if err := w.Cluster.Stop(leader); err != nil {
			return fault{"", hit, nil}, err
		}
		if err := w.Cluster.Start(leader); err != nil {
			return fault{"", hit, nil}, err
		}
		if w.Cluster.AwaitAll(ctx) != nil {
			break // with other faults at work this is no finding: the end of the run judges
		}
	}
	return fault{fmt.Sprintf("%d times", rounds), hit, func() error { return nil }}, nil
}
