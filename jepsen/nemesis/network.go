package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jepsen/netem"
)

func networks() []Nemesis {
	return []Nemesis{
		{Name: "partition", Doc: "halves, one alone, one deaf or mute, a bridge, a ring, one without clients", group: groupNetwork, longest: 8 * time.Second, inject: partition},
		{Name: "flap", Doc: "a partition that comes and goes 20 times a second", group: groupNetwork, longest: 4 * time.Second, inject: flap},
		{Name: "delay", Doc: "1 to 300 ms more on all ways, or on those of one server", group: groupNetwork, longest: 6 * time.Second, inject: delay},
		{Name: "narrow", Doc: "8 KiB to 1 MiB a second, and no more, on all ways, or on those of one server", group: groupNetwork, longest: 6 * time.Second, inject: narrow},
		{Name: "cut", Doc: "connections are reset", group: groupNetwork, longest: 200 * time.Millisecond, inject: cut},
		{
			Name: "loss", Doc: "1 to 30 % of packets are lost, some come twice or late", group: groupNetwork, longest: 5 * time.Second, inject: loss,
			needs: func(w *World) string {
				if !w.Cluster.Driver().Lossy() {
					return "packets can be lost only in network namespaces (--driver netns)"
				}
				return ""
			},
		},
	}
}

// shape draws a partition and applies it.
func shape(w *World, r *rand.Rand) (what string, targets []int) {
	t := w.Cluster.Driver().Table()
	_, all := victims(w, r, "all")
	role, one := victims(w, r, "one", "leader", "leader")
	others := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return i == one[0] })
	switch r.IntN(7) {
	case 0:
		half := len(all) / 2
		t.Part(all[:half], all[half:])
		what, targets = "halves", all[:half]
	case 1:
		t.Part(one, others)
		what, targets = role+" alone", one
	case 2: // hears nothing from the others
		for _, i := range others {
			t.OneWay(i, one[0])
		}
		what, targets = role+" deaf", one
	case 3: // is not heard
		for _, i := range others {
			t.OneWay(one[0], i)
		}
		what, targets = role+" mute", one
	case 4: // two groups that only one server reaches both of
		half := len(others) / 2
		t.Part(others[:half], others[half:])
		what, targets = role+" is the bridge", one
	case 5: // each sees only its neighbours
		ring(t, all)
		what, targets = "ring", all
	default:
		t.Part(one, []int{netem.Clients})
		return role + " without clients", one
	}
	if r.IntN(3) == 0 { // whoever is cut off has lost its clients, too
		t.Part(targets, []int{netem.Clients})
		what += ", without clients"
	}
	return what, targets
}

// ring cuts all ways but those between neighbours; in three servers, one way.
func ring(t *netem.Table, all []int) {
	n := len(all)
	if n == 3 {
		t.Part(all[:1], all[2:])
		return
	}
	for i := range n {
		for j := range n {
			if d := (i - j + n) % n; d > 1 && d < n-1 {
				t.OneWay(all[i], all[j])
			}
		}
	}
}

func partition(w *World, r *rand.Rand) (fault, error) {
	what, targets := shape(w, r)
	return fault{what, targets, heal(w)}, nil
}

func heal(w *World) func() error {
	return func() error {
		w.Cluster.Driver().Table().Heal()
		return nil
	}
}

func flap(w *World, r *rand.Rand) (fault, error) {
	t := w.Cluster.Driver().Table()
	stop, over := make(chan struct{}), make(chan struct{})
	seed := [2]uint64{r.Uint64(), r.Uint64()}
	what, targets := shape(w, rand.New(rand.NewPCG(seed[0], seed[1])))
	go func() {
		defer close(over)
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for on := false; ; on = !on {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if on {
				shape(w, rand.New(rand.NewPCG(seed[0], seed[1])))
			} else {
				t.Heal()
			}
		}
	}()
	return fault{"flapping: " + what, targets, func() error {
		close(stop)
		<-over
		t.Heal()
		return nil
	}}, nil
}

func delay(w *World, r *rand.Rand) (fault, error) {
	d := time.Duration(1+r.IntN(1<<r.IntN(9))) * time.Millisecond
	l := netem.Link{Delay: d, Jitter: d}
	what, targets := everywhere(w, r, l)
	return fault{fmt.Sprintf("%s: %v to %v", what, d, 2*d), targets, heal(w)}, nil
}

func narrow(w *World, r *rand.Rand) (fault, error) {
	l := netem.Link{Rate: 8 << (10 + r.IntN(8))}
	what, targets := everywhere(w, r, l)
	return fault{fmt.Sprintf("%s: %d KiB/s", what, l.Rate>>10), targets, heal(w)}, nil
}

func loss(w *World, r *rand.Rand) (fault, error) {
	l := netem.Link{Loss: 0.01 + 0.29*r.Float64()*r.Float64(), Double: 0.05, Jitter: 5 * time.Millisecond}
	what, targets := everywhere(w, r, l)
	return fault{fmt.Sprintf("%s: %.0f %%", what, 100*l.Loss), targets, heal(w)}, nil
}

// everywhere sets a link for all ways, or for all of one server.
func everywhere(w *World, r *rand.Rand, l netem.Link) (what string, targets []int) {
	t := w.Cluster.Driver().Table()
	role, targets := victims(w, r, "all", "one", "leader")
	for _, i := range targets {
		for j := range w.Cluster.Size() + 1 {
			if i != j {
				t.Set(i, j, l)
				t.Set(j, i, l)
			}
		}
	}
	return role, targets
}

func cut(w *World, r *rand.Rand) (fault, error) {
	role, targets := victims(w, r, "all", "one", "leader")
	for _, i := range targets {
		for j := range w.Cluster.Size() + 1 {
			if i != j {
				w.Cluster.Driver().Cut(i, j)
			}
		}
	}
	return fault{role, targets, func() error { return nil }}, nil
}
