package watch

import (
	"math/rand/v2"
	"testing"
)

// TestSetIsASortedSet runs random additions and removals on a set that spans many chunks,
// beside a map.
func TestSetIsASortedSet(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s set
		want := map[ID]uint32{}
		for step := range 40_000 {
			id := ID(r.IntN(4000))
			w := s.get(id)
			link, there := want[id]
			if (w != nil) != there || w != nil && w.link != link {
				t.Fatalf("seed %d, step %d: get(%d) = %+v, want %v %v", seed, step, id, w, link, there)
			}
			// Grow for a while, then shrink: both ways through one watcher and none.
			grow := step/10_000%2 == 0
			switch {
			case there && (!grow || r.IntN(4) == 0):
				s.remove(id)
				delete(want, id)
			case !there && (grow || r.IntN(8) == 0):
				s.add(watcher{id: id, kind: Data, link: uint32(step)})
				want[id] = uint32(step)
			}
		}
		if err := s.check(); len(want) > 0 && err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for id := range want {
			s.remove(id)
		}
		if !s.empty() {
			t.Errorf("seed %d: not empty after removing all", seed)
		}
	}
}
